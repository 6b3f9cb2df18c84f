"""Mail about failing destinations: after an hour, after a day, when it is over, each once."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from itertools import count

import psycopg
import pytest
import pytest_asyncio
from msgspec.structs import replace

from deployment import NOW, fetch_all, running_worker
from payaccept.adapters.mail import SmtpMail
from payaccept.adapters.postgres.lane_alarms import PostgresLaneAlarms
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.people import PostgresPeople
from payaccept.operations.lane_alarms import LEASE, LaneAlarms
from post_office import post_office
from processes import eventually
from visitor import Clock

QUIET = timedelta(days=6)
numbers = count(1)


@pytest.fixture
async def office():
    async with post_office() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lines(settings):
    pool = LinePool(settings.database_url, "test")
    yield pool
    await pool.close()


@pytest.fixture
def clock(settings):
    run(settings, "DELETE FROM failing_lanes")
    run(settings, "UPDATE lane_alarms SET told = 0, claim_id = NULL, leased_until = NULL")
    return Clock(NOW)


@pytest.fixture
async def make(settings, lines, administration, office, clock):
    """A function that makes what tells the news, as each worker has one."""
    stores = []

    def made() -> LaneAlarms:
        store = PostgresLaneAlarms(settings.database_url, process="test")
        stores.append(store)
        return LaneAlarms(
            store,
            PostgresPeople(lines),
            administration.store,
            SmtpMail(office.url, "alarms@pay.example"),
            web_base_url="https://portal.test",
            quiet=QUIET,
            clock=clock,
        )

    yield made
    for store in stores:
        await store.close()


@pytest.fixture
def alarms(make):
    return make()


@pytest.fixture
async def shop(settings, register):
    """A merchant with an owner, a developer and a viewer."""
    shop = await register("Corner shop")
    for role in ("owner", "developer", "viewer"):
        number = next(numbers)
        run(
            settings,
            "INSERT INTO users (user_id, email, email_key, name, staff, password_hash, created_at,"
            " password_changed_at) VALUES (%s, %s, %s, 'Anna', false, 'x', %s, %s)",
            f"usr_{number}",
            f"{role}{number}@example.com",
            f"{role}{number}@example.com",
            NOW,
            NOW,
        )
        run(
            settings,
            "INSERT INTO memberships (client_id, user_id, role, created_at) VALUES (%s, %s, %s, %s)",
            shop.client_id,
            f"usr_{number}",
            role,
            NOW,
        )
    return shop


def run(settings, query: str, *values: object) -> None:
    with psycopg.connect(settings.database_url) as connection:
        connection.execute(query.encode(), values)


def fails(settings, shop, clock, since=None) -> str:
    """A destination that is failing, as a worker keeps it."""
    lane = f"{shop.client_id} https://shop.example:443"
    run(
        settings,
        "INSERT INTO failing_lanes (lane, client_id, failures, failing_since, last_reason, updated_at)"
        " VALUES (%s, %s, 9, %s, 'connection refused', %s)"
        " ON CONFLICT (lane) DO UPDATE SET updated_at = excluded.updated_at",
        lane,
        shop.client_id,
        since or clock.now,
        clock.now,
    )
    return lane


def recovers(settings, lane: str) -> None:
    run(settings, "DELETE FROM failing_lanes WHERE lane = %s", lane)


def subjects(office) -> list[str]:
    found = [str(letter["Subject"]) for letter in office.letters]
    office.letters.clear()
    return found


async def test_owners_and_developers_are_told_after_an_hour_after_a_day_and_when_it_is_over(
    settings, shop, alarms, office, clock
):
    lane = fails(settings, shop, clock)
    clock.move(minutes=59)
    assert await alarms.tell() == 0
    clock.move(minutes=1)
    assert await alarms.tell() == 1
    assert {re.match("[a-z]+", str(letter["To"]))[0] for letter in office.letters} == {"owner", "developer"}
    text = office.letters[0].get_content()
    assert "9 attempts failed in a row" in text
    assert "connection refused" in text
    assert f"https://portal.test/m/{shop.client_id}/webhooks" in text
    assert subjects(office) == ["https://shop.example:443 has been failing for an hour"] * 2
    for _ in range(5):
        clock.move(hours=4)
        assert await alarms.tell() == 0
    clock.move(hours=3)
    assert await alarms.tell() == 1
    assert subjects(office) == ["https://shop.example:443 has been failing for a day"] * 2
    assert await alarms.tell() == 0
    recovers(settings, lane)
    assert await alarms.tell() == 1
    assert subjects(office) == ["https://shop.example:443 takes webhooks again"] * 2
    assert await alarms.tell() == 0


async def test_what_recovers_within_the_hour_is_not_told_of(settings, shop, alarms, office, clock):
    lane = fails(settings, shop, clock)
    clock.move(minutes=50)
    await alarms.tell()
    recovers(settings, lane)
    clock.move(hours=2)
    assert await alarms.tell() == 0
    assert office.letters == []


async def test_what_fails_again_is_told_again(settings, shop, alarms, office, clock):
    lane = fails(settings, shop, clock)
    clock.move(hours=25)
    await alarms.tell()
    assert subjects(office) == ["https://shop.example:443 has been failing for a day"] * 2
    # It recovers and fails again before anybody has looked.
    recovers(settings, lane)
    fails(settings, shop, clock)
    assert await alarms.tell() == 0
    clock.move(hours=1)
    assert await alarms.tell() == 1
    assert subjects(office) == ["https://shop.example:443 has been failing for an hour"] * 2


async def test_of_many_workers_one_tells_it(settings, shop, make, office, clock):
    fails(settings, shop, clock)
    clock.move(hours=1)
    await asyncio.gather(*(make().tell() for _ in range(8)))
    assert len(office.letters) == 2


async def test_when_no_mail_goes_out_it_is_tried_again(settings, shop, alarms, office, clock):
    fails(settings, shop, clock)
    clock.move(hours=1)
    office.refuses = True
    assert await alarms.tell() == 1
    office.refuses = False
    assert await alarms.tell() == 0
    clock.move(seconds=LEASE.total_seconds())
    assert await alarms.tell() == 1
    assert len(office.letters) == 2


async def test_a_worker_that_dies_before_it_has_written_leaves_it_to_another(
    settings, shop, make, office, clock
):
    fails(settings, shop, clock)
    clock.move(hours=1)
    died = PostgresLaneAlarms(settings.database_url, process="died")
    assert len(await died.claim(clock.now, clock.now + LEASE, clock.now - QUIET, 10)) == 1
    await died.close()
    assert await make().tell() == 0
    clock.move(seconds=LEASE.total_seconds())
    assert await make().tell() == 1
    assert len(office.letters) == 2


async def test_what_is_forgotten_because_nothing_is_sent_there_has_not_recovered(
    settings, shop, alarms, office, clock
):
    lane = fails(settings, shop, clock)
    clock.move(hours=2)
    await alarms.tell()
    office.letters.clear()
    clock.move(days=6, hours=1)
    assert await alarms.tell() == 0
    recovers(settings, lane)
    assert await alarms.tell() == 0
    assert office.letters == []


async def test_a_merchant_without_people_is_told_of_to_nobody(settings, register, alarms, office, clock):
    shop = await register("Nobody's")
    lane = fails(settings, shop, clock)
    clock.move(hours=1)
    assert await alarms.tell() == 1
    assert await alarms.tell() == 0
    query = "SELECT told FROM lane_alarms WHERE lane = %s"
    assert fetch_all(settings.database_url, query, lane) == [(1,)]


async def test_a_running_worker_tells_it_by_itself(settings, shop, office, clock):
    clock.now = datetime.now(UTC)  # a worker goes by the real one
    fails(settings, shop, clock, since=clock.now - timedelta(hours=2))
    with_mail = replace(settings, smtp_url=office.url, web_base_url="https://portal.test")
    async with running_worker(with_mail):
        await eventually(lambda: len(office.letters) == 2, "both are told")
    assert set(subjects(office)) == {"https://shop.example:443 has been failing for an hour"}
