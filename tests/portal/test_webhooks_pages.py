"""The pages of webhooks: where they go, how each event was delivered, sending one again, and what is failing."""

from datetime import timedelta

import psycopg
import pytest

from deployment import fetch_all
from event_rows import insert_events
from payaccept.adapters.postgres.numbering import PostgresNumbering
from payaccept.domain import identifiers
from payaccept.domain.payment import lane_of
from payaccept.domain.user import Role
from payaccept.operations.event_lists import PER_PAGE
from payaccept.operations.merchants import Changes

URL = "https://shop.example/hooks/payaccept"
HOUR = timedelta(hours=1)


async def shop_of(portal, url: str | None = URL):
    """An owner whose merchant has an endpoint, and the owner's browser."""
    owner = await portal.owner()
    if url is not None:
        await portal.services.merchants.change(owner.client_id, Changes(webhook_url=url), portal.clock())
    return owner, await owner.browser()


async def number(portal) -> None:
    numbering = PostgresNumbering(portal.settings.database_url, process="test")
    while await numbering.number_waiting(portal.clock()):
        pass
    await numbering.close()


async def events_of(portal, owner, count: int, *, state: str | None = "ACKNOWLEDGED") -> list[str]:
    """Numbered events of a merchant, the first of them the oldest."""
    times = [portal.clock() - HOUR + timedelta(milliseconds=n) for n in range(count)]
    made = insert_events(portal.settings.database_url, owner.client_id, times, state=state)
    await number(portal)
    return made


def write(portal, query: str, *values: object) -> None:
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute(query.encode(), values)


def attempted(portal, client_id: str, event_id: str, attempt: int = 1, **changes: object) -> None:
    """An attempt as a worker keeps it."""
    values = {
        "bucket": identifiers.bucket_of(event_id),
        "event_id": event_id,
        "attempt": attempt,
        "client_id": client_id,
        "url": URL,
        "started_at": portal.clock(),
        "key_version": 3,
        "outcome": "REFUSED",
        "status": 503,
        "reason": "HTTP 503",
        "resolve_us": 1500,
        "connect_us": 2500,
        "tls_us": 4000,
        "first_byte_us": 90_000,
        "total_us": 100_000,
        "answer": b"<h1>secret trace</h1>",
    } | changes
    write(
        portal,
        f"INSERT INTO attempts ({', '.join(values)}) VALUES ({', '.join(['%s'] * len(values))})",  # noqa: S608
        *values.values(),
    )


def failing(portal, client_id: str, since, *, url: str = URL, opened: bool = True) -> None:
    """A destination that is failing, as a worker keeps it."""
    write(
        portal,
        "INSERT INTO failing_lanes (lane, client_id, failures, failing_since, opened_at, last_reason, updated_at)"
        " VALUES (%s, %s, 7, %s, %s, 'connection refused', %s)",
        lane_of(client_id, url),
        client_id,
        since,
        since if opened else None,
        portal.clock(),
    )


# Where they go


async def test_the_endpoint_is_set_changed_and_removed_and_each_is_in_the_audit_log(portal):
    owner, visitor = await shop_of(portal, url=None)
    root = f"{owner.home}/webhooks"
    seen = await visitor.get(root)
    assert "No endpoint is set" in seen.text
    assert "No event yet" in seen.text
    seen = await visitor.send(seen, f"{root}/endpoint", url=f" {URL} ")
    assert seen.path == root
    assert "go there" in seen.text
    assert URL in seen.text
    seen = await visitor.send(seen, f"{root}/endpoint", url=URL)
    assert "nothing was changed" in seen.text
    seen = await visitor.send(seen, f"{root}/endpoint", url="https://shop.example/other?token=1")
    assert "https://shop.example/other?token=1" in seen.text
    seen = await visitor.send(seen, f"{root}/endpoint/remove")
    assert "The endpoint is removed" in seen.text
    assert (await portal.services.merchants.get(owner.client_id)).webhook_url is None
    audit = (await visitor.get(f"{owner.home}/audit")).text
    assert audit.count("Settings changed") == 3
    assert URL in audit


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "Enter the address"),
        ("shop.example/hooks", "must be an absolute https URL"),
        ("https://anna:secret@shop.example/", "must not have a user name"),
        ("https://shop.example/a b", "must not have spaces"),
        ("https://ü.example/", "must be written in ASCII"),
        ("https://shop.example/" + "a" * 2048, "must have at most 2048 characters"),
    ],
)
async def test_an_address_that_breaks_a_rule_is_told_which_and_stays_in_its_field(portal, url, told):
    owner, visitor = await shop_of(portal, url=None)
    root = f"{owner.home}/webhooks"
    page = await visitor.get(root)
    seen = await visitor.send(page, f"{root}/endpoint", url=url)
    assert seen.status == 422
    assert told in seen.text
    assert seen.form(f"{root}/endpoint").fields["url"] == url
    token = page.forms[0].fields["csrf"]
    verdict = (await visitor.post(f"{root}/endpoint/verdict", {"csrf": token, "url": url})).response.json()
    assert verdict["good"] is False
    assert told in verdict["text"]
    assert (await portal.services.merchants.get(owner.client_id)).webhook_url is None


async def test_the_rules_of_a_public_service_hold_here_too(open_portal):
    portal = await open_portal(allow_http=False, allow_private=False, web_base_url="https://portal.test")
    for url, told in (
        ("http://shop.example/", "must be an https URL"),
        ("https://192.168.1.1/", "private address"),
        ("https://localhost/", "private address"),
        ("https://portal.test/", "this service itself"),
    ):
        assert told in (portal.services.merchants.webhook_problem(url) or "")


async def test_a_good_address_is_told_which_path_is_signed(portal):
    owner, visitor = await shop_of(portal, url=None)
    root = f"{owner.home}/webhooks"
    token = (await visitor.get(root)).forms[0].fields["csrf"]

    async def verdict(url: str) -> dict:
        return (await visitor.post(f"{root}/endpoint/verdict", {"csrf": token, "url": url})).response.json()

    assert await verdict(URL) == {
        "good": True,
        "text": "A good address. The path that is signed is /hooks/payaccept.",
    }
    assert "sent, and not signed" in (await verdict(f"{URL}?key=1"))["text"]


async def test_a_test_event_is_sent_and_its_page_shows_how_it_goes(portal):
    owner, visitor = await shop_of(portal)
    root = f"{owner.home}/webhooks"
    seen = await visitor.fill(root, f"{root}/test")
    assert seen.path.startswith(f"{root}/evt_")
    assert "The test is on its way" in seen.text
    assert "it is a test, and nothing was paid" in seen.text
    assert 'data-live="2"' in seen.html
    event_id = seen.path.rpartition("/")[2]
    state = fetch_all(
        portal.settings.database_url, "SELECT state FROM deliveries WHERE event_id = %s", event_id
    )
    assert state == [("PENDING",)]
    assert "Test webhook sent" in (await visitor.get(f"{owner.home}/audit")).text


async def test_without_an_endpoint_there_is_no_test(portal):
    owner, visitor = await shop_of(portal, url=None)
    root = f"{owner.home}/webhooks"
    page = await visitor.get(root)
    assert f"{root}/test" not in [form.action for form in page.forms]
    token = page.forms[0].fields["csrf"]
    assert "set one first" in (await visitor.post(f"{root}/test", {"csrf": token})).text


# The events


async def test_events_are_listed_by_number_with_their_delivery_and_proved_complete(portal):
    owner, visitor = await shop_of(portal)
    made = await events_of(portal, owner, 3)
    write(
        portal,
        "UPDATE deliveries SET final_at = created_at + interval '84 milliseconds', attempts = 1,"
        " last_reason = 'HTTP 200' WHERE event_id = %s",
        made[0],
    )
    seen = await visitor.get(f"{owner.home}/webhooks")
    assert "is the number of your last event. Every event has one: 1 to 3, without a gap" in seen.text
    assert "None waits for its number" in seen.text
    assert "None was given up" in seen.text
    assert "84 ms" in seen.text
    rows = [link for link in seen.links if "/webhooks/evt_" in link]
    assert rows == [f"{owner.home}/webhooks/{event_id}" for event_id in reversed(made)]
    assert any(link.startswith(f"{owner.home}/payments/pay_") for link in seen.links)


async def test_a_long_log_goes_page_by_page_and_misses_nothing(portal):
    owner, visitor = await shop_of(portal)
    made = await events_of(portal, owner, PER_PAGE * 2 + 5)
    found: list[str] = []
    path = f"{owner.home}/webhooks"
    for _ in range(3):
        seen = await visitor.get(path)
        assert len(seen.response.content) < 60 * 1024
        found += [link.rpartition("/")[2] for link in seen.links if "/webhooks/evt_" in link]
        path = next((link for link in seen.links if "before=" in link), "")
    assert path == ""
    assert found == made[::-1]


async def test_events_are_filtered_by_their_state(portal):
    owner, visitor = await shop_of(portal)
    root = f"{owner.home}/webhooks"
    made = {
        state: await events_of(portal, owner, 2, state=state)
        for state in ("ACKNOWLEDGED", "DEAD", "PENDING", None)
    }
    for status, state in (
        ("acknowledged", "ACKNOWLEDGED"),
        ("dead", "DEAD"),
        ("waiting", "PENDING"),
        ("unsent", None),
    ):
        seen = await visitor.get(f"{root}?status={status}")
        rows = [link.rpartition("/")[2] for link in seen.links if "/webhooks/evt_" in link]
        assert rows == made[state][::-1], status
    assert "2 given up" in seen.text


async def test_the_dead_of_a_long_log_go_page_by_page(portal):
    owner, visitor = await shop_of(portal)
    made = await events_of(portal, owner, PER_PAGE + 3, state="DEAD")
    await events_of(portal, owner, 3)
    seen = await visitor.get(f"{owner.home}/webhooks?status=dead")
    first = [link.rpartition("/")[2] for link in seen.links if "/webhooks/evt_" in link]
    older = next(link for link in seen.links if "before=" in link)
    seen = await visitor.get(older)
    second = [link.rpartition("/")[2] for link in seen.links if "/webhooks/evt_" in link]
    assert first + second == made[::-1]


async def test_a_rare_state_is_looked_for_in_so_many_events_and_says_how_far_back(portal, monkeypatch):
    monkeypatch.setattr("payaccept.operations.event_lists.LOOKED_THROUGH", 10)
    owner, visitor = await shop_of(portal)
    [old] = await events_of(portal, owner, 1, state=None)
    await events_of(portal, owner, 25)
    seen = await visitor.get(f"{owner.home}/webhooks?status=unsent")
    assert "None among these" in seen.text
    assert "back to number 17" in seen.text
    for _ in range(2):
        seen = await visitor.get(next(link for link in seen.links if "before=" in link))
    assert f"{owner.home}/webhooks/{old}" in seen.links
    assert "Look further back" not in seen.text


@pytest.mark.parametrize("query", ["before=x", "before=" + "9" * 40, "before=0", "status=%27", "find=%00x"])
async def test_a_strange_query_does_no_harm(portal, query):
    owner, visitor = await shop_of(portal)
    await events_of(portal, owner, 1)
    assert (await visitor.get(f"{owner.home}/webhooks?{query}")).status in {200, 404}


async def test_an_event_is_found_by_its_id_its_payment_its_acquirement_and_its_number(portal):
    owner, visitor = await shop_of(portal)
    made = await events_of(portal, owner, 3)
    [[payment_id]] = fetch_all(
        portal.settings.database_url, "SELECT payment_id FROM events WHERE event_id = %s", made[1]
    )
    for text in (
        made[1],
        payment_id,
        identifiers.acquirement_of(payment_id),
        "2",
        "%232",
        f"%20{made[1]}%20",
    ):
        seen = await visitor.get(f"{owner.home}/webhooks?find={text}")
        assert seen.path == f"{owner.home}/webhooks/{made[1]}", text
    for text in ("4", "order-2026", "evt_" + "0" * 36, "pay_" + "0" * 36, "99999999999999999"):
        seen = await visitor.get(f"{owner.home}/webhooks?find={text}")
        assert "You have no event with this" in seen.text
        assert text in seen.html


# One event


async def test_an_event_shows_its_bytes_its_headers_and_each_attempt_but_no_answer(portal):
    owner, visitor = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1, state="PENDING")
    write(
        portal,
        "UPDATE deliveries SET attempts = 2, last_reason = 'HTTP 503', url = %s, next_at = %s WHERE event_id = %s",
        URL,
        portal.clock() + timedelta(minutes=2),
        event_id,
    )
    unreached = {"outcome": "UNREACHABLE", "status": None, "reason": "connection refused", "answer": b""}
    attempted(
        portal, owner.client_id, event_id, 1, **unreached, tls_us=None, first_byte_us=None, connect_us=None
    )
    attempted(portal, owner.client_id, event_id, 2)
    seen = await visitor.get(f"{owner.home}/webhooks/{event_id}")
    assert f'{{"eventId":"{event_id}"}}' in seen.text
    assert "Retrying" in seen.text
    assert "Next attempt" in seen.text
    assert "DNS 1.5 ms" in seen.text
    assert "Connect 2.5 ms" in seen.text
    assert "TLS 4.0 ms" in seen.text
    assert "First byte 90 ms" in seen.text
    assert "HTTP 503, 21 bytes answered" in seen.text
    assert "connection refused" in seen.text
    assert "keyVersion=3" in seen.text
    assert "POST /hooks/payaccept" in seen.text
    assert "secret trace" not in seen.html
    assert 'data-live="2"' in seen.html


async def test_an_event_whose_body_is_not_kept_says_so_and_offers_nothing(portal):
    owner, visitor = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1)
    path = f"{owner.home}/webhooks/{event_id}"
    page = await visitor.get(path)
    write(portal, "DELETE FROM payloads WHERE event_id = %s", event_id)
    seen = await visitor.send(page, f"{path}/resend")
    assert seen.status == 422
    assert "too old to be sent again" in seen.text
    assert f"{path}/resend" not in [form.action for form in seen.forms]


async def test_an_event_without_an_endpoint_says_where_to_set_one(portal):
    owner, visitor = await shop_of(portal, url=None)
    [event_id] = await events_of(portal, owner, 1, state=None)
    path = f"{owner.home}/webhooks/{event_id}"
    seen = await visitor.get(path)
    assert "It has nowhere to go" in seen.text
    token = seen.forms[0].fields["csrf"]
    seen = await visitor.post(f"{path}/resend", {"csrf": token, "seen": "0"})
    assert seen.status == 422
    assert "you have set no endpoint" in seen.text
    await portal.services.merchants.change(owner.client_id, Changes(webhook_url=URL), portal.clock())
    seen = await visitor.fill(path, f"{path}/resend")
    assert "On its way again" in seen.text
    assert "Webhook sent again" in (await visitor.get(f"{owner.home}/audit")).text


async def test_a_second_click_sends_nothing_again_that_the_first_has_sent(portal):
    owner, visitor = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1)
    path = f"{owner.home}/webhooks/{event_id}"
    page = await visitor.get(path)
    assert "On its way again" in (await visitor.send(page, f"{path}/resend")).text
    # The worker was quick: it is acknowledged before the second click arrives.
    write(
        portal,
        "UPDATE deliveries SET state = 'ACKNOWLEDGED', next_at = NULL, final_at = now(), attempts = attempts + 1"
        " WHERE event_id = %s",
        event_id,
    )
    seen = await visitor.send(page, f"{path}/resend")
    assert "It has been sent since you looked" in seen.text
    query = "SELECT state, attempts FROM deliveries WHERE event_id = %s"
    assert fetch_all(portal.settings.database_url, query, event_id) == [("ACKNOWLEDGED", 4)]
    assert (await visitor.get(f"{owner.home}/audit")).text.count("Webhook sent again") == 1


async def test_an_event_that_a_worker_has_is_left_alone(portal):
    owner, visitor = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1, state="PENDING")
    path = f"{owner.home}/webhooks/{event_id}"
    page = await visitor.get(path)
    write(
        portal,
        "UPDATE deliveries SET claim_id = gen_random_uuid(), leased_until = %s, attempts = attempts + 1"
        " WHERE event_id = %s",
        portal.clock() + timedelta(seconds=30),
        event_id,
    )
    seen = await visitor.send(page, f"{path}/resend")
    assert "being sent at this moment, so nothing was changed" in seen.text
    assert "Being sent" in seen.text
    assert f"{path}/resend" not in [form.action for form in seen.forms]


async def test_another_merchants_event_is_not_there(portal):
    owner, _ = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1)
    stranger, visitor = await shop_of(portal)
    token = (await visitor.get("/account")).forms[0].fields["csrf"]
    for home in (owner.home, stranger.home):
        path = f"{home}/webhooks/{event_id}"
        assert (await visitor.get(path)).status == 404
        assert (await visitor.post(f"{path}/resend", {"csrf": token, "seen": "3"})).status == 404
    seen = await visitor.get(f"{stranger.home}/webhooks?find={event_id}")
    assert "You have no event with this" in seen.text
    query = "SELECT state FROM deliveries WHERE event_id = %s"
    assert fetch_all(portal.settings.database_url, query, event_id) == [("ACKNOWLEDGED",)]


@pytest.mark.parametrize("event_id", ["evt_", "evt_" + "g" * 36, "x", "%00", "evt_" + "0" * 37])
async def test_what_is_no_event_id_is_not_there(portal, event_id):
    owner, visitor = await shop_of(portal)
    assert (await visitor.get(f"{owner.home}/webhooks/{event_id}")).status == 404


async def test_viewers_see_everything_and_are_offered_no_change(portal):
    owner, _ = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1)
    viewer = await (await portal.colleague(owner, Role.VIEWER)).browser()
    for path in (f"{owner.home}/webhooks", f"{owner.home}/webhooks/{event_id}"):
        seen = await viewer.get(path)
        assert seen.status == 200
        assert [
            form.action for form in seen.forms if form.action.startswith(owner.home) and form.method == "post"
        ] == []


async def test_what_endpoints_say_is_shown_as_text(portal):
    owner, visitor = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1, state="DEAD")
    script = "<script>alert(1)</script>"
    write(portal, "UPDATE deliveries SET last_reason = %s WHERE event_id = %s", script, event_id)
    write(portal, "UPDATE payloads SET body = %s WHERE event_id = %s", script.encode(), event_id)
    attempted(portal, owner.client_id, event_id, reason=script)
    for path in (
        f"{owner.home}/webhooks",
        f"{owner.home}/webhooks/{event_id}",
        f"{owner.home}/webhooks?find={script}",
    ):
        assert script not in (await visitor.get(path)).html


async def test_an_event_of_many_attempts_stays_small(portal):
    owner, visitor = await shop_of(portal)
    [event_id] = await events_of(portal, owner, 1)
    for attempt in range(1, 80):
        attempted(portal, owner.client_id, event_id, attempt)
    seen = await visitor.get(f"{owner.home}/webhooks/{event_id}")
    assert len(seen.response.content) < 60 * 1024
    assert "39 before them are not shown" in seen.text


# What is failing


@pytest.mark.parametrize(
    ("hours", "kind"), [(0.9, None), (1, "warn"), (23.9, "warn"), (24, "bad"), (70, "bad")]
)
async def test_every_page_warns_of_a_destination_that_has_been_failing_for_long(portal, hours, kind):
    owner, visitor = await shop_of(portal)
    failing(portal, owner.client_id, portal.clock() - timedelta(hours=hours))
    for path in ("", "/keys", "/webhooks", "/people", "/requests"):
        seen = await visitor.get(owner.home + path)
        told = "https://shop.example:443 has been failing for" in seen.text
        assert told == (kind is not None)
        if kind is not None:
            assert f'<div class="banner {kind}" role="status">' in seen.html


async def test_others_are_not_warned(portal):
    owner, _ = await shop_of(portal)
    failing(portal, owner.client_id, portal.clock() - timedelta(hours=30))
    other, visitor = await shop_of(portal)
    for path in (other.home, f"{other.home}/webhooks", "/account"):
        assert "has been failing" not in (await visitor.get(path)).text


async def test_failing_destinations_are_listed_with_what_waits_and_what_to_do(portal):
    owner, visitor = await shop_of(portal)
    await events_of(portal, owner, 2, state="PENDING")
    write(
        portal,
        "UPDATE deliveries SET lane = %s, next_at = %s WHERE client_id = %s",
        lane_of(owner.client_id, URL),
        portal.clock() + timedelta(minutes=9),
        owner.client_id,
    )
    failing(portal, owner.client_id, portal.clock() - timedelta(hours=2))
    failing(
        portal,
        owner.client_id,
        portal.clock() - timedelta(minutes=2),
        url="https://b.example:8443/",
        opened=False,
    )
    seen = await visitor.get(f"{owner.home}/webhooks")
    assert "https://shop.example:443" in seen.text
    assert "for 2 h" in seen.text
    assert "7 in a row" in seen.text
    assert "in 9 min" in seen.text
    assert "Paused between tries" in seen.text
    assert "https://b.example:8443" in seen.text
    assert "with the next event" in seen.text
    assert "What to do." in seen.text


async def test_the_home_page_leads_to_the_endpoint(portal):
    owner, visitor = await shop_of(portal, url=None)
    seen = await visitor.get(owner.home)
    assert "Set the endpoint" in seen.text
    assert f"{owner.home}/webhooks" in seen.links


# A range of them again


async def test_a_range_is_counted_before_it_is_sent_and_watched_and_stopped_and_taken_up(portal):
    owner, visitor = await shop_of(portal)
    await events_of(portal, owner, 3, state="DEAD")
    await events_of(portal, owner, 2)
    path = f"{owner.home}/webhooks/replay"
    page = await visitor.get(f"{path}?status=dead")
    counted = await visitor.send(page, path)
    assert counted.path == path
    assert "3 events" in counted.text
    assert "At 50 a second it takes 60 ms" in counted.text
    query = "SELECT count(*) FROM replays WHERE client_id = %s"
    assert fetch_all(portal.settings.database_url, query, owner.client_id) == [(0,)]
    started = await visitor.send(counted, path)
    assert started.path.startswith(f"{owner.home}/webhooks/replays/rpl_")
    assert "0 of 3 events" in started.text
    assert 'data-live="1"' in started.html
    again = await visitor.send(counted, path)
    assert again.status == 422
    assert "Another replay is running" in again.text
    stopped = await visitor.send(started, f"{started.path}/stop")
    assert "Stopped. What was sent again stays sent." in stopped.text
    resumed = await visitor.send(stopped, f"{started.path}/resume")
    assert "It goes on where it stopped." in resumed.text
    assert "Nobody is at it" not in resumed.text
    portal.clock.move(minutes=1)
    assert "Nobody is at it just now" in (await visitor.get(started.path)).text
    await visitor.send(resumed, f"{started.path}/stop")
    assert f"{started.path}" in (await visitor.get(path)).links
    audit = (await visitor.get(f"{owner.home}/audit")).text
    for told in ("Range sent again", "Replay stopped", "Replay taken up"):
        assert told in audit


@pytest.mark.parametrize(
    ("fields", "name", "told"),
    [
        ({"from": "yesterday"}, "from", "Write a time in UTC"),
        ({"from": "2026-02-30"}, "from", "Write a time in UTC"),
        ({"until": "2100-01-01"}, "until", "in the future"),
        ({"from": "2026-01-02", "until": "2026-01-01"}, "until", "not after the beginning"),
        ({"rate": "0"}, "rate", "from 1 to 1000"),
        ({"rate": "1001"}, "rate", "from 1 to 1000"),
        ({"rate": "1e3"}, "rate", "from 1 to 1000"),
        ({"status-dead": "", "status-unsent": ""}, "status", "Choose at least one"),
    ],
)
async def test_a_mistake_in_a_range_is_told_beside_its_field(portal, fields, name, told):
    owner, visitor = await shop_of(portal)
    path = f"{owner.home}/webhooks/replay"
    page = await visitor.get(path)
    seen = await visitor.post(path, page.form(path).fields | fields)
    assert seen.status == 422
    assert told in seen.text
    assert f'id="{name}-error"' in seen.html
    for field, typed in fields.items():
        assert seen.form(path).fields.get(field, "") == typed


@pytest.mark.parametrize(
    "typed", ["2026-01-31", "2026-01-31 08:30", "2026-01-31T08:30Z", "2026-01-31 08:30:15"]
)
async def test_times_are_read_as_people_write_them(portal, typed):
    owner, visitor = await shop_of(portal)
    path = f"{owner.home}/webhooks/replay"
    page = await visitor.get(path)
    seen = await visitor.post(path, page.form(path).fields | {"from": typed})
    assert seen.status == 200
    assert "0 events" in seen.text
    assert "There is nothing to send again" in seen.text


async def test_another_merchants_replay_is_not_there(portal):
    owner, visitor = await shop_of(portal)
    await events_of(portal, owner, 1, state="DEAD")
    path = f"{owner.home}/webhooks/replay"
    counted = await visitor.send(await visitor.get(path), path)
    started = await visitor.send(counted, path)
    stranger, theirs = await shop_of(portal)
    token = (await theirs.get("/account")).forms[0].fields["csrf"]
    moved = started.path.replace(owner.client_id, stranger.client_id)
    for place in (started.path, moved):
        assert (await theirs.get(place)).status == 404
        for what in ("stop", "resume"):
            assert (await theirs.post(f"{place}/{what}", {"csrf": token})).status == 404
    assert "0 of 1 events" in (await visitor.get(started.path)).text
    viewer = await (await portal.colleague(owner, Role.VIEWER)).browser()
    assert (await viewer.get(started.path)).status == 200
