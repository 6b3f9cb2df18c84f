"""Deliveries over days and through clocks that are set: when each attempt is made, and what becomes of it."""

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest

from delivering import UNWELL, WELL, Time, at_hand, insert_due
from deployment import NOW, fetch_all, run_sql
from payaccept.domain.delivery import JITTER, RETRY_SCHEDULE_S, Unreachable

HOUR_S = 3600.0
STATES = "SELECT state, count(*) FROM deliveries GROUP BY state"


def states(database_url: str) -> dict[str, int]:
    return dict(fetch_all(database_url, STATES))


async def until_nothing_is_due(hand, database_url: str, *, most_s: float) -> None:
    """Let the time pass that is between two attempts, as it does; each is made when it is due."""
    begun_s = hand.time.monotonic_s
    while True:
        await hand.step()
        [(next_at,)] = fetch_all(database_url, "SELECT min(next_at) FROM deliveries WHERE state = 'PENDING'")
        if next_at is None or hand.time.monotonic_s - begun_s > most_s:
            return
        # As often as a worker looks; more where nothing is to happen.
        wait_s = (next_at - hand.deliveries._now()).total_seconds()
        hand.time.go_on(max(0.2, wait_s))


async def test_over_eighty_hours_a_dead_endpoint_gets_twelve_attempts_on_schedule(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "dead.example"), 1)
    async with at_hand(url, time) as hand:
        hand.endpoints.behaviour["dead.example"] = lambda _: Unreachable("no answer")
        await until_nothing_is_due(hand, url, most_s=100 * HOUR_S)
        arrived = hand.endpoints.at("dead.example")
        assert [post.attempt for post in arrived] == list(range(1, 13))
        for (first, second), step_s in zip(pairwise(arrived), RETRY_SCHEDULE_S, strict=True):
            waited_s = second.at_s - first.at_s
            assert step_s * (1 - JITTER) <= waited_s <= step_s * (1 + JITTER) + 0.4
        assert 60 * HOUR_S < arrived[-1].at_s - arrived[0].at_s < 91 * HOUR_S
        assert states(url) == {"DEAD": 1}
        assert len({post.body for post in arrived}) == 1
        assert {post.sequence for post in arrived} == {1}
        kept = fetch_all(url, "SELECT attempt, outcome, status, reason FROM attempts ORDER BY attempt")
        assert kept == [(number, "UNREACHABLE", None, "no answer") for number in range(1, 13)]
        assert [told["decision"] for told in hand.told] == ["Again"] * 11 + ["Dead"]


async def test_what_many_merchants_get_over_eighty_hours_arrives_once_when_their_endpoints_come_back(
    fresh_database,
):
    url, time = fresh_database(), Time()
    hours = {f"shop-{number}.example": number * 8.0 for number in range(9)}
    insert_due(url, {host: f"sandbox_{number}" for number, host in enumerate(hours)}, 3)
    async with at_hand(url, time) as hand:
        for host, down_for in hours.items():
            up_at_s = time.monotonic_s + down_for * HOUR_S
            hand.endpoints.behaviour[host] = lambda post, up_at_s=up_at_s: (
                WELL if post.at_s >= up_at_s else UNWELL
            )
        await until_nothing_is_due(hand, url, most_s=120 * HOUR_S)
        assert states(url) == {"ACKNOWLEDGED": 27}
        by_event = Counter(
            post.event_id for post in hand.endpoints.journal if post.at_s >= 5000 + hours[post.host] * HOUR_S
        )
        assert set(by_event.values()) == {1}


@pytest.mark.parametrize("set_by_s", [-HOUR_S, HOUR_S, -10 * 86400.0, 10 * 86400.0, -2.0])
async def test_a_clock_that_is_set_while_attempts_are_in_flight_doubles_none(fresh_database, set_by_s):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "slow.example"), 6)
    async with at_hand(url, time) as hand:
        release = _hold(hand, "slow.example")
        await hand.step()
        time.set_by(set_by_s)
        for _ in range(3):
            time.go_on(3)  # the sweeps look far back, and at leases
            await hand.step()
        assert set(Counter(post.event_id for post in hand.endpoints.journal).values()) == {1}
        release()
        await hand.sending.mend()  # a worker does that every hour: for clocks that were wrong by days
        await hand.steps(30, 0.5)
        assert states(url) == {"ACKNOWLEDGED": 6}
        assert set(Counter(post.event_id for post in hand.endpoints.journal).values()) == {1}
        assert fetch_all(url, "SELECT count(*) FROM attempts") == [(6,)]


@pytest.mark.parametrize("set_by_s", [-HOUR_S, HOUR_S])
async def test_a_clock_that_is_set_does_not_stop_what_is_new(fresh_database, set_by_s):
    url, time = fresh_database(), Time()
    async with at_hand(url, time) as hand:
        await hand.step()
        time.go_on(60)
        time.set_by(set_by_s)
        insert_due(url, ("sandbox_1", "shop.example"), 5, at=time.wall)
        time.go_on(0.2)
        for _ in range(3):
            await hand.step()
            time.go_on(0.2)
        assert states(url) == {"ACKNOWLEDGED": 5}


async def test_a_retry_is_made_in_time_although_the_clock_was_set_back_meanwhile(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 1)
    async with at_hand(url, time) as hand:
        hand.endpoints.behaviour["shop.example"] = lambda post: UNWELL if post.attempt < 4 else WELL
        await hand.step()
        time.go_on(1)
        time.set_by(-HOUR_S)
        await hand.steps(300, 0.5)
        arrived = hand.endpoints.at("shop.example")
        assert [post.attempt for post in arrived] == [1, 2, 3, 4]
        for (first, second), step_s in zip(pairwise(arrived), RETRY_SCHEDULE_S, strict=False):
            assert step_s * 0.8 <= second.at_s - first.at_s <= step_s * 1.2 / 0.9 + 1
        # What is signed goes by the clock as it is now, and so does what is written down.
        assert arrived[-1].request_time < "2026-03-01T11:10"
        [(ended,)] = fetch_all(url, "SELECT final_at FROM deliveries")
        assert ended < NOW - timedelta(minutes=50)


async def test_a_retry_that_comes_early_because_the_clock_was_set_forward_comes_once(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 1)
    async with at_hand(url, time) as hand:
        hand.endpoints.behaviour["shop.example"] = lambda post: UNWELL if post.attempt < 3 else WELL
        await hand.step()
        time.set_by(HOUR_S)
        await hand.steps(60, 0.5)
        assert [post.attempt for post in hand.endpoints.journal] == [1, 2, 3]


async def test_what_a_killed_worker_had_in_hand_goes_out_within_35_s(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "slow.example"), 1)
    async with at_hand(url, time) as killed:
        _hold(killed, "slow.example")
        await killed.step()
        assert len(killed.endpoints.journal) == 1
    async with at_hand(url, time) as hand:
        killed_s = time.monotonic_s
        await hand.steps(36, 0.5)
        [again] = hand.endpoints.journal
        assert 29 < again.at_s - killed_s <= 35.5
        assert again.attempt == 2


@pytest.mark.parametrize("set_by_s", [-HOUR_S, -86400.0])
async def test_that_goes_for_a_lease_from_before_the_clock_was_set_back(fresh_database, set_by_s):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "slow.example"), 1)
    async with at_hand(url, time) as killed:
        _hold(killed, "slow.example")
        await killed.step()
    run_sql(url, "UPDATE deliveries SET next_at = next_at - interval '2 days'")  # it is about the lease
    time.set_by(set_by_s)
    async with at_hand(url, time) as hand:
        await hand.steps(36, 0.5)
        assert len(hand.endpoints.journal) == 1


async def test_what_a_wrong_clock_has_put_off_for_years_is_made_due(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 2)
    run_sql(
        url,
        "UPDATE deliveries SET next_at = '2099-01-01' WHERE bucket = 1",
        "UPDATE deliveries SET next_at = '2026-03-04' WHERE bucket = 2",
    )
    async with at_hand(url, time) as hand:
        await hand.sending.mend()
        await hand.step()
        assert len(hand.endpoints.journal) == 1
        assert states(url) == {"ACKNOWLEDGED": 1, "PENDING": 1}


async def test_a_lease_that_was_lost_is_not_written_over_and_the_attempt_is_kept(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "slow.example"), 1)
    async with at_hand(url, time) as hand:
        release = _hold(hand, "slow.example")
        await hand.step()
        run_sql(url, "UPDATE deliveries SET claim_id = gen_random_uuid()")  # somebody else has it now
        release()
        await hand.settle_down()
        assert [told["recorded"] for told in hand.told] == [False]
        assert states(url) == {"PENDING": 1}
        assert fetch_all(url, "SELECT attempt, outcome, status FROM attempts") == [(1, "ACKNOWLEDGED", 200)]


async def test_a_notification_that_is_not_kept_any_more_is_dead(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 2)
    run_sql(url, "DELETE FROM payloads WHERE bucket = 1")
    async with at_hand(url, time) as hand:
        for _ in range(3):
            await hand.step()
        assert len(hand.endpoints.journal) == 1
        assert fetch_all(url, "SELECT attempts, last_reason FROM deliveries WHERE state = 'DEAD'") == [
            (0, "the notification is too old: it is not kept any more")
        ]


async def test_each_attempt_is_told_with_what_operators_measure(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 1)
    time.go_on(2)
    async with at_hand(url, time, schedule_s=(5.0,)) as hand:
        hand.endpoints.behaviour["shop.example"] = lambda post: UNWELL if post.attempt == 1 else WELL
        await hand.steps(8, 0.5)
        first, second = hand.told
        assert first["firstAttemptAfterMs"] == 2000
        assert "acknowledgedAfterMs" not in first
        assert "firstAttemptAfterMs" not in second
        assert 6000 <= second["acknowledgedAfterMs"] <= 8500
        for told in (first, second):
            assert told["paymentId"].startswith("pay_")
            assert told["clientId"] == "sandbox_1"
            assert told["durationMs"] == 1
            assert told["recorded"] is True


def _hold(hand, host: str):
    """Have an endpoint answer only when the function returned is called."""
    released = asyncio.Event()

    async def answer(_post):
        await released.wait()
        return WELL

    hand.endpoints.behaviour[host] = answer
    return released.set
