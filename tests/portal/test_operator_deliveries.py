"""What was given up over all merchants: counted, listed, sent again by the staff; and what endpoints have answered."""

from datetime import timedelta

import psycopg
import pytest
import pytest_asyncio

from deployment import fetch_all, numbers, run_sql
from event_rows import insert_events
from payaccept.operations.oversight import PER_PAGE

ROOT = "/operator/deliveries"


@pytest_asyncio.fixture(loop_scope="session")
async def employee(portal):
    return await portal.employee()


@pytest_asyncio.fixture(loop_scope="session")
async def staff(employee):
    return await employee.browser()


@pytest.fixture(autouse=True)
def nothing_dead(portal):
    run_sql(
        portal.settings.database_url,
        "UPDATE deliveries SET state = 'ACKNOWLEDGED' WHERE state = 'DEAD'",
        "DELETE FROM failing_lanes",
    )


def dead_of(portal, client_id, count, reason="HTTP 500", **changes):
    """Make events that were given up, the last one a minute ago, and return their ids in that order."""
    times = [portal.clock() - timedelta(minutes=count - n) for n in range(count)]
    made = insert_events(portal.settings.database_url, client_id, times, state="DEAD", **changes)
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute(
            "UPDATE deliveries SET last_reason = %s, last_status = 500 WHERE event_id = ANY(%s)",
            (reason, made),
        )
    return made


async def test_the_dead_are_counted_by_merchant_and_reason(portal, staff):
    owner, other = await portal.owner("Bakery"), await portal.owner("Butcher")
    dead_of(portal, owner.client_id, 3)
    dead_of(portal, owner.client_id, 1, "connection refused")
    dead_of(portal, other.client_id, 2)
    counts = await portal.services.oversight.count_dead()
    assert [(c.merchant_name, c.reason, c.deliveries) for c in counts] == [
        ("Bakery", "HTTP 500", 3),
        ("Butcher", "HTTP 500", 2),
        ("Bakery", "connection refused", 1),
    ]
    seen = await staff.get(ROOT)
    assert f"{ROOT}?merchant={owner.client_id}" in seen.links


async def test_the_list_is_of_all_merchants_or_of_one(portal, staff):
    owner, other = await portal.owner(), await portal.owner()
    ours, theirs = dead_of(portal, owner.client_id, 2), dead_of(portal, other.client_id, 2)
    listed = [link.rpartition("/")[2] for link in (await staff.get(ROOT)).links if "/evt_" in link]
    assert sorted(listed) == sorted([*ours, *theirs])
    seen = await staff.get(f"{ROOT}?merchant={owner.client_id}")
    assert [link.rpartition("/")[2] for link in seen.links if "/evt_" in link] == ours[::-1]


@pytest.mark.parametrize("of_one", [False, True])
async def test_the_list_goes_on_page_after_page_without_a_gap(portal, staff, of_one):
    owner = await portal.owner()
    made = dead_of(portal, owner.client_id, 2 * PER_PAGE + 3)
    path, found = ROOT + (f"?merchant={owner.client_id}" if of_one else ""), []
    for _ in range(4):
        seen = await staff.get(path)
        found += [link.rpartition("/")[2] for link in seen.links if "/evt_" in link]
        older = [link for link in seen.links if "behind=" in link]
        if not older:
            break
        path = ROOT + older[0]
    assert found == made[::-1]


@pytest.mark.parametrize("query", ["behind=x", f"behind={'f' * 14}-evt_{'0' * 36}", "behind=1-evt_x"])
async def test_a_strange_place_in_the_list_is_as_its_beginning(staff, query):
    assert (await staff.get(f"{ROOT}?{query}")).status == 200


async def test_a_merchant_that_is_not_there_has_no_list(staff):
    assert (await staff.get(f"{ROOT}?merchant=nobody")).status == 404


async def test_an_event_is_sent_again_by_the_staff_once_and_with_its_name(portal, employee, staff):
    owner = await portal.owner()
    [event_id] = dead_of(portal, owner.client_id, 1, notify_url="https://shop.example/hook")
    first = await staff.get(ROOT)
    seen = await staff.send(first, f"/operator/deliveries/{event_id}/resend")
    assert seen.path == f"/operator/deliveries/{event_id}"
    assert "On its way again." in seen.text
    assert states_of(portal, event_id) == "PENDING"
    resent = [
        e for e in await portal.services.people.list_entries(owner.client_id) if e.action == "event.resent"
    ]
    assert [(e.actor, e.subject) for e in resent] == [(employee.email, event_id)]
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute(
            "UPDATE deliveries SET state = 'DEAD', next_at = NULL, final_at = created_at, attempts = 9"
            " WHERE event_id = %s",
            (event_id,),
        )
    seen = await staff.send(first, f"/operator/deliveries/{event_id}/resend")
    assert "It has been sent since you looked" in seen.text
    assert states_of(portal, event_id) == "DEAD"


async def test_what_cannot_be_sent_again_says_why(portal, staff):
    owner = await portal.owner()
    gone, nowhere = dead_of(portal, owner.client_id, 2)
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute("DELETE FROM payloads WHERE event_id = %s", (gone,))
    list_page = await staff.get(ROOT)
    for event_id, told in ((gone, "too old to be sent again"), (nowhere, "nowhere to go")):
        seen = await staff.send(list_page, f"/operator/deliveries/{event_id}/resend")
        assert seen.status == 422
        assert told in seen.text


async def test_only_here_is_shown_what_an_endpoint_answered_and_the_look_is_recorded(portal, employee, staff):
    owner = await portal.owner()
    [event_id] = dead_of(portal, owner.client_id, 1)
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute(
            "INSERT INTO attempts (bucket, event_id, attempt, client_id, url, started_at, key_version, outcome, status,"
            " reason, total_us, answer) SELECT bucket, event_id, 1, client_id, url, %s, 1, 'REFUSED', 500, 'HTTP 500',"
            " 1200, %s FROM deliveries WHERE event_id = %s",
            (portal.clock(), b"<h1>Oops\0\xff</h1>", event_id),
        )
    portal.clock.move(seconds=1)
    seen = await staff.get(f"/operator/deliveries/{event_id}")
    assert "&lt;h1&gt;Oops\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}" in seen.html
    entry = (await portal.services.people.list_entries(owner.client_id))[0]
    assert (entry.action, entry.actor, entry.subject) == ("event.viewed", employee.email, event_id)
    assert "Oops" not in (await (await owner.browser()).get(f"{owner.home}/webhooks/{event_id}")).text


@pytest.mark.parametrize("event_id", ["evt_" + "0" * 36, "x", "evt_"])
async def test_an_event_that_is_not_there_has_no_page(staff, event_id):
    assert (await staff.get(f"/operator/deliveries/{event_id}")).status == 404


async def test_failing_destinations_are_told_with_their_merchant(portal, staff):
    owner = await portal.owner(f"Florist {next(numbers)}")
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute(
            "INSERT INTO failing_lanes (lane, client_id, failures, failing_since, opened_at, last_reason, updated_at)"
            " VALUES (%s, %s, 7, %s, %s, 'HTTP 503', %s)",
            (f"{owner.client_id} https://shop.example", owner.client_id, *[portal.clock()] * 3),
        )
    for path in (ROOT, f"{ROOT}?merchant={owner.client_id}", f"/operator/merchants/{owner.client_id}"):
        seen = await staff.get(path)
        assert "https://shop.example" in seen.text
        assert "HTTP 503" in seen.text


async def test_where_nothing_was_given_up_the_page_says_so(staff):
    assert "Nothing was given up" in (await staff.get(ROOT)).text


def states_of(portal, event_id):
    [(state,)] = fetch_all(
        portal.settings.database_url, "SELECT state FROM deliveries WHERE event_id = %s", event_id
    )
    return state


def test_the_dead_are_found_along_an_index(portal):
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = str(
            connection.execute(
                "EXPLAIN (FORMAT JSON) SELECT event_id FROM deliveries WHERE state = 'DEAD'"
                " AND (final_at, event_id) < ('9999-01-01', 'evt_~') ORDER BY final_at DESC, event_id DESC LIMIT 51"
            ).fetchone()
        )
    assert "deliveries_dead_at" in plan
    assert "'Sort'" not in plan
