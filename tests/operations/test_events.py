"""The log of events: what each may see of it, and what becomes of an event that is sent again."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from deployment import fetch_all
from event_rows import insert_events
from payaccept.adapters.postgres.numbering import PostgresNumbering
from payaccept.domain import identifiers
from payaccept.domain.errors import EventNotFound, MerchantNotFound, SendingRefused
from payaccept.domain.event import EventStatus, InFlight, Resend
from payaccept.domain.payment import lane_of
from payaccept.operations.events import Operator, Owner, ReplayProgress, Span

URL = "https://shop.example/now"
OLD_URL = "https://shop.example/hook"
NOW = datetime.now(UTC)  # payloads go to today's partition
HOUR = timedelta(hours=1)


@pytest.fixture
def url(settings):
    return settings.database_url


@pytest.fixture
def events(administration):
    return administration.events


@pytest.fixture
async def shop(register):
    return await register("Shop", webhook_url=URL)


async def number(url: str) -> None:
    numbering = PostgresNumbering(url, process="test")
    while await numbering.number_waiting(NOW):
        pass
    await numbering.close()


def delivery(url: str, event_id: str) -> dict[str, Any]:
    columns = "state, url, lane, attempts, attempts_before, next_at, claim_id, final_at"
    [row] = fetch_all(url, f"SELECT {columns} FROM deliveries WHERE event_id = %s", event_id)  # noqa: S608
    return dict(zip(columns.split(", "), row, strict=True))


def lease(url: str, event_id: str, seconds: float) -> None:
    """As a worker leaves it that takes the delivery."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE deliveries SET claim_id = gen_random_uuid(), leased_until = %s WHERE event_id = %s",
            [datetime.now(UTC) + timedelta(seconds=seconds), event_id],
        )


def lose_body(url: str, event_id: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM payloads WHERE event_id = %s", [event_id])


def end(url: str, client_id: str, state: str) -> None:
    """As a worker leaves them that has sent what is pending of a merchant's."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE deliveries SET state = %s, next_at = NULL, final_at = now()"
            " WHERE client_id = %s AND state = 'PENDING'",
            [state, client_id],
        )


def times(count: int, *, before: timedelta = HOUR) -> list[datetime]:
    return [NOW - before + timedelta(milliseconds=number) for number in range(count)]


def body_of(url: str, event_id: str) -> bytes:
    [row] = fetch_all(url, "SELECT body FROM payloads WHERE event_id = %s", event_id)
    return bytes(row[0])


# Listing and showing


async def test_events_are_listed_by_number_from_a_number_on_or_the_last_ones(url, events, shop):
    made = insert_events(url, shop.client_id, times(7))
    await number(url)
    everything = await events.list_events(shop.client_id, after=0)
    assert [(event.event_id, event.sequence) for event in everything.events] == list(
        zip(made, range(1, 8), strict=True)
    )
    assert (everything.last_sequence, everything.unnumbered) == (7, 0)
    assert [e.sequence for e in (await events.list_events(shop.client_id, after=2, limit=3)).events] == [
        3,
        4,
        5,
    ]
    assert [e.sequence for e in (await events.list_events(shop.client_id, limit=3)).events] == [5, 6, 7]
    assert (await events.list_events(shop.client_id, after=7)).events == []


async def test_a_merchant_that_is_spread_over_buckets_has_one_list(url, events, register):
    spread = await register("Spread", spread=4)
    [base] = fetch_all(url, "SELECT base_bucket FROM merchants WHERE client_id = %s", spread.client_id)
    for step in (3, 0, 2, 1):
        insert_events(
            url, spread.client_id, times(5, before=HOUR * (step + 1)), bucket=(base[0] + step) % 256
        )
    await number(url)
    listed = await events.list_events(spread.client_id, after=0)
    assert [event.sequence for event in listed.events] == list(range(1, 21))
    assert len({event.bucket for event in listed.events}) == 4
    assert [e.sequence for e in (await events.list_events(spread.client_id, limit=6)).events] == list(
        range(15, 21)
    )


async def test_events_are_listed_by_status(url, events, shop):
    made = {
        EventStatus.ACKNOWLEDGED: insert_events(url, shop.client_id, times(3)),
        EventStatus.DEAD: insert_events(url, shop.client_id, times(3), state="DEAD"),
        EventStatus.PENDING: insert_events(url, shop.client_id, times(3), state="PENDING"),
        EventStatus.UNSENT: insert_events(url, shop.client_id, times(3), state=None),
    }
    await number(url)
    for status, ids in made.items():
        for after in (0, None):
            listed = await events.list_events(shop.client_id, after=after, statuses={status})
            assert sorted(event.event_id for event in listed.events) == sorted(ids)
            assert {event.status for event in listed.events} == {status}
            assert [e.sequence for e in listed.events] == sorted(e.sequence for e in listed.events)
    some = await events.list_events(shop.client_id, after=0, statuses={EventStatus.DEAD, EventStatus.UNSENT})
    assert len(some.events) == 6


async def test_events_that_wait_for_their_number_are_told_of(url, events, shop):
    insert_events(url, shop.client_id, times(2))
    listed = await events.list_events(shop.client_id)
    assert (listed.events, listed.last_sequence, listed.unnumbered) == ([], 0, 2)


async def test_of_nobody_nothing_is_listed(events):
    with pytest.raises(MerchantNotFound):
        await events.list_events("sandbox_nobody")


async def test_an_event_is_shown_with_its_attempts_and_the_answers_to_the_operator_alone(url, events, shop):
    [event_id] = insert_events(url, shop.client_id, times(1), state="DEAD")
    with psycopg.connect(url) as connection:
        for attempt, outcome, status, answer in (
            (2, "REFUSED", 500, b"<h1>secret"),
            (1, "UNREACHABLE", None, b""),
        ):
            connection.execute(
                "INSERT INTO attempts (bucket, event_id, attempt, client_id, url, started_at, key_version, outcome,"
                " status, reason, connect_us, total_us, answer)"
                " VALUES (%s, %s, %s, %s, %s, %s, 3, %s, %s, 'why', 5, 9, %s)",
                [
                    identifiers.bucket_of(event_id),
                    event_id,
                    attempt,
                    shop.client_id,
                    OLD_URL,
                    NOW,
                    outcome,
                    status,
                    answer,
                ],
            )
    for asker, answers in ((Operator(), [b"", b"<h1>secret"]), (Owner(shop.client_id), [None, None])):
        shown = await events.get_event(asker, event_id)
        assert (shown.event.event_id, shown.event.status, shown.body_kept) == (
            event_id,
            EventStatus.DEAD,
            True,
        )
        assert [attempt.attempt for attempt in shown.attempts] == [1, 2]
        assert [attempt.answer for attempt in shown.attempts] == answers
        assert [attempt.answer_bytes for attempt in shown.attempts] == [0, 10]
        assert [attempt.status for attempt in shown.attempts] == [None, 500]
        assert shown.attempts[0].timing.connect_us == 5
        assert shown.attempts[0].timing.resolve_us is None


@pytest.mark.parametrize("verb", ["get_event", "resend"])
async def test_another_merchants_event_does_not_exist(url, events, shop, register, verb):
    other = await register("Other", webhook_url=URL)
    [event_id] = insert_events(url, shop.client_id, times(1))
    for asker, named in (
        (Owner(other.client_id), event_id),
        (Operator(), "evt_" + 36 * "0"),
        (Operator(), "evt_1"),
        (Operator(), event_id.replace("evt_", "pay_")),
        (Operator(), event_id + "'"),
    ):
        with pytest.raises(EventNotFound):
            await getattr(events, verb)(asker, named)
    assert delivery(url, event_id)["state"] == "ACKNOWLEDGED"


# Sending one again


@pytest.mark.parametrize("state", ["ACKNOWLEDGED", "DEAD"])
async def test_a_delivery_that_has_ended_starts_its_schedule_anew(url, events, shop, state):
    [event_id] = insert_events(url, shop.client_id, times(1), state=state)
    before = body_of(url, event_id)
    begun = datetime.now(UTC)
    assert await events.resend(Owner(shop.client_id), event_id) == Resend(URL, lane_of(shop.client_id, URL))
    after = delivery(url, event_id)
    assert begun <= after.pop("next_at") <= datetime.now(UTC)
    assert after == {
        "state": "PENDING",
        "url": URL,
        "lane": lane_of(shop.client_id, URL),
        "attempts": 3,
        "attempts_before": 3,
        "claim_id": None,
        "final_at": None,
    }
    assert body_of(url, event_id) == before


async def test_a_waiting_retry_is_made_now_instead_and_not_besides(url, events, shop):
    [event_id] = insert_events(url, shop.client_id, [NOW + HOUR], state="PENDING")
    assert delivery(url, event_id)["next_at"] > datetime.now(UTC) + HOUR / 2
    assert isinstance(await events.resend(Operator(), event_id), Resend)
    after = delivery(url, event_id)
    assert after["next_at"] <= datetime.now(UTC)
    assert (after["attempts"], after["attempts_before"], after["url"]) == (3, 0, URL)
    assert len(fetch_all(url, "SELECT FROM deliveries WHERE event_id = %s", event_id)) == 1


async def test_an_event_that_was_never_sent_gets_its_delivery(url, events, shop):
    [event_id] = insert_events(url, shop.client_id, times(1), state=None)
    assert isinstance(await events.resend(Operator(), event_id), Resend)
    after = delivery(url, event_id)
    assert (after["state"], after["attempts"], after["attempts_before"], after["url"]) == (
        "PENDING",
        0,
        0,
        URL,
    )


async def test_the_payments_own_endpoint_goes_before_the_merchants(url, events, shop):
    own = "https://till.example/hook"
    [event_id] = insert_events(url, shop.client_id, times(1), notify_url=own)
    assert await events.resend(Operator(), event_id) == Resend(own, lane_of(shop.client_id, own))


async def test_an_event_that_a_worker_is_sending_is_left_alone(url, events, shop):
    [event_id] = insert_events(url, shop.client_id, times(1), state="PENDING")
    lease(url, event_id, 20)
    before = delivery(url, event_id)
    outcome = await events.resend(Operator(), event_id)
    assert isinstance(outcome, InFlight)
    assert timedelta(seconds=10) < outcome.until - datetime.now(UTC) < timedelta(seconds=21)
    assert delivery(url, event_id) == before
    lease(url, event_id, -1)
    assert isinstance(await events.resend(Operator(), event_id), Resend)
    after = delivery(url, event_id)
    assert after["claim_id"] is not None, "its outcome, should it still come, is written"
    assert after["next_at"] > before["next_at"]


async def test_one_without_anywhere_to_go_is_refused(url, events, register):
    homeless = await register("Homeless")
    [event_id] = insert_events(url, homeless.client_id, times(1), state=None)
    with pytest.raises(SendingRefused, match="no endpoint configured"):
        await events.resend(Operator(), event_id)


async def test_one_whose_body_is_not_kept_any_more_is_refused(url, events, shop):
    [event_id] = insert_events(url, shop.client_id, times(1), state="DEAD")
    lose_body(url, event_id)
    with pytest.raises(SendingRefused, match="too old"):
        await events.resend(Operator(), event_id)
    assert delivery(url, event_id)["state"] == "DEAD"
    assert not (await events.get_event(Operator(), event_id)).body_kept


async def test_many_who_ask_at_once_have_it_sent_once(url, events, shop):
    for state in ("DEAD", None):
        [event_id] = insert_events(url, shop.client_id, times(1), state=state)
        await asyncio.gather(*(events.resend(Operator(), event_id) for _ in range(8)))
        after = delivery(url, event_id)
        attempts = 3 if state else 0
        assert (after["state"], after["attempts"], after["attempts_before"]) == (
            "PENDING",
            attempts,
            attempts,
        )


async def test_an_outcome_that_is_just_being_written_is_waited_for(url, events, shop):
    [event_id] = insert_events(url, shop.client_id, times(1), state="PENDING")
    lease(url, event_id, 20)
    with psycopg.connect(url) as worker:
        worker.execute(
            "UPDATE deliveries SET state = 'DEAD', next_at = NULL, claim_id = NULL, leased_until = NULL,"
            " final_at = now(), attempts = 9 WHERE event_id = %s",
            [event_id],
        )
        resent = asyncio.create_task(events.resend(Operator(), event_id))
        await asyncio.sleep(0.2)
        assert not resent.done()
        worker.commit()
    assert isinstance(await resent, Resend)
    assert delivery(url, event_id)["attempts_before"] == 9


# Replaying


async def replayed(events, client_id: str, span: Span, **options: Any) -> list[ReplayProgress]:
    options = {"rate_per_s": 1000.0} | options
    return [progress async for progress in events.replay(client_id, span, **options)]


def span(**changes: Any) -> Span:
    return Span(**{"beginning": NOW - 2 * HOUR, "end": NOW + 2 * HOUR} | changes)


async def test_a_span_of_time_is_sent_again_from_its_beginning_to_before_its_end(url, events, shop, register):
    other = await register("Other", webhook_url=URL)
    [kept] = insert_events(url, other.client_id, times(1), state="DEAD")
    made = insert_events(url, shop.client_id, times(6), state="DEAD")
    told = await replayed(events, shop.client_id, span(beginning=times(6)[1], end=times(6)[5]))
    assert told[0] == ReplayProgress(total=4)
    assert told[-1] == ReplayProgress(total=4, looked_at=4, resent=4, last_event_id=made[4])
    states = [delivery(url, event_id)["state"] for event_id in made]
    assert states == ["DEAD", "PENDING", "PENDING", "PENDING", "PENDING", "DEAD"]
    assert delivery(url, kept)["state"] == "DEAD"


async def test_only_the_wanted_ones_are_sent_again_and_the_others_are_counted(url, events, register):
    shop = await register("Shop", webhook_url=URL)
    dead = insert_events(url, shop.client_id, times(4), state="DEAD")
    acknowledged = insert_events(url, shop.client_id, times(4))
    pending = insert_events(url, shop.client_id, times(4), state="PENDING")
    insert_events(url, shop.client_id, times(4), state=None)
    told = await replayed(events, shop.client_id, span(statuses=frozenset({EventStatus.DEAD})))
    assert (told[-1].total, told[-1].resent) == (4, 4)
    assert delivery(url, acknowledged[0])["state"] == "ACKNOWLEDGED"
    lease(url, pending[0], 20)
    lose_body(url, acknowledged[0])
    told = await replayed(events, shop.client_id, span())
    assert (told[-1].total, told[-1].looked_at, told[-1].resent) == (16, 16, 14)
    assert (told[-1].in_flight, told[-1].body_gone, told[-1].nowhere, told[-1].changed) == (1, 1, 0, 0)
    assert delivery(url, dead[0])["attempts_before"] == 3


async def test_events_without_an_endpoint_are_counted(url, events, register):
    homeless = await register("Homeless")
    insert_events(url, homeless.client_id, times(3), state=None)
    assert (await replayed(events, homeless.client_id, span()))[-1].nowhere == 3


async def test_an_interrupted_replay_goes_on_behind_the_last_one(url, events, register):
    shop = await register("Shop", webhook_url=URL)
    made = insert_events(url, shop.client_id, times(30), state="DEAD")
    async for progress in events.replay(shop.client_id, span(), rate_per_s=50.0):
        if progress.looked_at >= 10:
            break
    assert progress.last_event_id == made[9]
    end(url, shop.client_id, "ACKNOWLEDGED")
    told = await replayed(events, shop.client_id, span(behind=progress.last_event_id))
    assert (told[0].total, told[-1].resent) == (20, 20)
    assert {delivery(url, event_id)["state"] for event_id in made[:10]} == {"ACKNOWLEDGED"}
    assert {delivery(url, event_id)["state"] for event_id in made[10:]} == {"PENDING"}


async def test_a_replay_keeps_to_its_rate(url, events, register):
    shop = await register("Shop", webhook_url=URL)
    insert_events(url, shop.client_id, times(20), state="DEAD")
    loop = asyncio.get_running_loop()
    begun = loop.time()
    told = await replayed(events, shop.client_id, span(), rate_per_s=40.0)
    assert told[-1].resent == 20
    assert max(b.looked_at - a.looked_at for a, b in pairwise(told)) == 8
    assert 0.4 < loop.time() - begun < 2


async def test_a_delivery_that_is_written_meanwhile_is_not_passed_over(url, events, register):
    shop = await register("Shop", webhook_url=URL)
    made = insert_events(url, shop.client_id, times(5), state="DEAD")
    with psycopg.connect(url) as worker:
        worker.execute("UPDATE deliveries SET last_reason = 'x' WHERE event_id = %s", [made[2]])
        replaying = asyncio.create_task(replayed(events, shop.client_id, span()))
        await asyncio.sleep(0.2)
        assert not replaying.done()
        worker.commit()
    assert (await replaying)[-1].resent == 5


@pytest.mark.parametrize(
    ("changes", "rate"),
    [
        ({}, 0.0),
        ({}, 1001.0),
        ({}, float("nan")),
        ({"end": NOW - 3 * HOUR}, 10.0),
        ({"behind": "evt_1"}, 10.0),
    ],
)
async def test_a_replay_that_makes_no_sense_is_refused(events, shop, changes, rate):
    with pytest.raises(SendingRefused):
        await replayed(events, shop.client_id, span(**changes), rate_per_s=rate)


# Trying out


async def test_a_test_event_goes_to_the_configured_endpoint_and_says_that_it_is_one(url, events, shop):
    event = await events.send_test(shop.client_id)
    assert (event.event_type, event.payment_id, event.status) == ("webhook.test", None, EventStatus.PENDING)
    assert identifiers.is_event(event.event_id)
    assert event.delivery is not None
    assert event.delivery.url == URL
    told = json.loads(body_of(url, event.event_id))
    assert told == {
        "eventId": event.event_id,
        "eventType": "webhook.test",
        "createTime": told["createTime"],
        "environment": "sandbox",
        "clientId": shop.client_id,
        "test": True,
    }
    await number(url)
    assert (await events.get_event(Operator(), event.event_id)).event.sequence == 1
    end(url, shop.client_id, "DEAD")
    assert isinstance(await events.resend(Owner(shop.client_id), event.event_id), Resend)


async def test_without_an_endpoint_there_is_nothing_to_try_out(events, register):
    homeless = await register("Homeless")
    with pytest.raises(SendingRefused, match="no endpoint"):
        await events.send_test(homeless.client_id)


async def test_failing_destinations_are_listed_the_open_ones_first(url, events):
    with psycopg.connect(url) as connection:
        for lane, opened_at in (("b https://b", None), ("a https://a", NOW), ("c https://c", None)):
            connection.execute(
                "INSERT INTO failing_lanes (lane, client_id, failures, failing_since, opened_at, last_reason,"
                " updated_at) VALUES (%s, 'x', 7, %s, %s, 'HTTP 500', %s)",
                [lane, NOW - (HOUR if lane[0] == "c" else HOUR / 2), opened_at, NOW],
            )
    listed = await events.list_failing_lanes()
    assert [failing.lane[0] for failing in listed] == ["a", "c", "b"]
    assert listed[0].failures == 7
