"""Daily partitions: made ahead, dropped when old, and never in the way of a payment."""

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from deployment import fetch_all, run_sql
from event_rows import insert_events
from payaccept.adapters.postgres import partitions as module
from payaccept.adapters.postgres.partitions import PostgresPartitions

DAY = timedelta(days=1)
NOW = datetime.now(UTC)  # two clocks have to agree, and the other one is the database's own
TABLES = ("payloads", "attempts")


def opened(url: str, payload_days: int = 90, attempt_days: int = 30) -> PostgresPartitions:
    return PostgresPartitions(url, process="test", payload_days=payload_days, attempt_days=attempt_days)


@pytest.fixture
def url(fresh_database):
    """A migrated database with nothing but the default partitions."""
    made = fresh_database()
    for table in TABLES:
        run_sql(made, *(f"DROP TABLE {name}" for name in names(made, table) if "default" not in name))
    return made


@pytest.fixture
async def partitions(url):
    made = opened(url)
    yield made
    await made.close()


def names(url: str, table: str) -> list[str]:
    rows = fetch_all(
        url,
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass ORDER BY 1",
        table,
    )
    return [row[0] for row in rows]


def days(table: str, *steps: int, around: datetime = NOW) -> list[str]:
    return [f"{table}_{around + step * DAY:%Y%m%d}" for step in steps] + [f"{table}_default"]


def homes(url: str, table: str = "payloads") -> dict[str, str]:
    """In which partition each row is."""
    return dict(fetch_all(url, f"SELECT event_id, tableoid::regclass::text FROM {table}"))  # noqa: S608


def insert_attempt(url: str, event_id: str, at: datetime, attempt: int = 1) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO attempts (bucket, event_id, attempt, client_id, url, started_at, key_version, outcome,"
            " status, reason, total_us, answer) VALUES (7, %s, %s, 'c', 'u', %s, 1, 'REFUSED', 500, 'r', 1, '')",
            [event_id, attempt, at],
        )


async def test_a_fresh_database_has_the_days_from_yesterday_on(fresh_database):
    url = fresh_database()
    for table in TABLES:
        assert len(names(url, table)) == 6
    [event_id] = insert_events(url, "sandbox_a", [NOW])
    insert_attempt(url, event_id, NOW)
    assert homes(url) == {event_id: f"payloads_{NOW:%Y%m%d}"}
    assert homes(url, "attempts") == {event_id: f"attempts_{NOW:%Y%m%d}"}


async def test_days_are_made_once_and_each_takes_its_own_rows(url, partitions):
    for _ in range(2):
        await partitions.maintain(NOW)
        for table in TABLES:
            assert names(url, table) == days(table, -1, 0, 1, 2, 3)
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    times = [midnight - timedelta(milliseconds=1), midnight, midnight + DAY - timedelta(milliseconds=1)]
    events = insert_events(url, "sandbox_a", [*times, midnight + 9 * DAY])
    for event_id, at in zip(events, [*times, midnight + 9 * DAY], strict=True):
        insert_attempt(url, event_id, at)
    for table in TABLES:
        yesterday, today, default = days(table, -1, 0)
        assert homes(url, table) == dict(zip(events, [yesterday, today, today, default], strict=True))


async def test_several_workers_at_once_are_fine(url):
    workers = [opened(url) for _ in range(4)]
    await asyncio.gather(*(worker.maintain(NOW) for worker in workers))
    for worker in workers:
        await worker.close()
    for table in TABLES:
        assert names(url, table) == days(table, -1, 0, 1, 2, 3)


async def test_what_is_older_than_is_kept_is_dropped_as_a_whole(url, partitions):
    long_ago = NOW - 95 * DAY
    await partitions.maintain(long_ago)
    await partitions.maintain(NOW - 40 * DAY)
    events = insert_events(url, "sandbox_a", [long_ago, NOW - 40 * DAY])
    await partitions.maintain(NOW)
    kept = days("payloads", -41, -40, -39, -38, -37, -1, 0, 1, 2, 3)
    assert names(url, "payloads") == kept
    assert names(url, "attempts") == days("attempts", -1, 0, 1, 2, 3)
    assert list(homes(url)) == events[1:]
    assert len(fetch_all(url, "SELECT FROM events")) == 2, "the events themselves stay"


async def test_the_last_day_that_is_kept_is_kept_whole(url):
    partitions = opened(url, payload_days=2, attempt_days=1)
    await partitions.maintain(NOW - 2 * DAY)
    await partitions.maintain(NOW)
    await partitions.close()
    assert names(url, "payloads") == days("payloads", -2, -1, 0, 1, 2, 3)
    assert names(url, "attempts") == days("attempts", -1, 0, 1, 2, 3)


async def test_a_day_of_which_something_is_still_to_be_sent_is_kept_until_it_is(url, partitions):
    long_ago = NOW - 95 * DAY
    await partitions.maintain(long_ago)
    [event_id] = insert_events(url, "sandbox_a", [long_ago], state="PENDING")
    await partitions.maintain(NOW)
    assert homes(url) == {event_id: f"payloads_{long_ago:%Y%m%d}"}
    run_sql(url, "UPDATE deliveries SET state = 'ACKNOWLEDGED', next_at = NULL, final_at = created_at")
    await partitions.maintain(NOW)
    assert homes(url) == {}


@pytest.mark.parametrize("clock", [NOW + 400 * DAY, NOW - 400 * DAY])
async def test_a_clock_that_is_far_wrong_drops_nothing_and_stops_no_payment(url, partitions, clock):
    await partitions.maintain(NOW)
    await partitions.maintain(clock)
    for table in TABLES:
        made = set(days(table, -1, 0, 1, 2, 3)) | set(days(table, -1, 0, 1, 2, 3, around=clock))
        assert set(names(url, table)) == made
    events = insert_events(url, "sandbox_a", [NOW, clock, clock + 20 * DAY])
    assert homes(url).keys() == set(events)
    await partitions.maintain(NOW)
    assert set(days("payloads", -1, 0, 1, 2, 3)) <= set(names(url, "payloads"))


async def test_a_day_that_has_rows_in_the_default_partition_is_left_to_it(url, partitions, caplog):
    events = insert_events(url, "sandbox_a", [NOW, NOW + DAY])
    insert_attempt(url, events[0], NOW)
    for _ in range(2):
        await partitions.maintain(NOW)
        assert names(url, "payloads") == days("payloads", -1, 2, 3)
        assert names(url, "attempts") == days("attempts", -1, 1, 2, 3)
    [more] = insert_events(url, "sandbox_a", [NOW])
    assert set(homes(url)) == {*events, more}
    assert sum("left to the default" in message for message in caplog.messages) == 3, "each is told once"


async def test_rows_of_the_default_partition_are_deleted_when_they_are_too_old(url, partitions, monkeypatch):
    monkeypatch.setattr(module, "_EXPIRED_AT_ONCE", 3)
    old = insert_events(url, "sandbox_a", [NOW - 91 * DAY] * 10)
    [waiting] = insert_events(url, "sandbox_a", [NOW - 91 * DAY], state="PENDING")
    [younger] = insert_events(url, "sandbox_a", [NOW - 89 * DAY])
    for number, event_id in enumerate(old):
        insert_attempt(url, event_id, NOW - 91 * DAY)
        insert_attempt(url, event_id, NOW - (number % 2) * 31 * DAY, attempt=2)
    await partitions.maintain(NOW)
    assert set(homes(url)) == {waiting, younger}
    attempts = fetch_all(url, "SELECT event_id, attempt FROM attempts")
    assert sorted(attempts) == sorted((event_id, 2) for event_id in old[::2])


async def test_a_large_default_partition_is_not_locked_while_it_is_read(url, partitions, monkeypatch):
    events = insert_events(url, "sandbox_a", [NOW, NOW + 2 * DAY])
    monkeypatch.setattr(module, "LARGE_BYTES", 0)
    await partitions.maintain(NOW)
    # What may be written just now is left alone; a day to come is proved to have no rows, and made.
    assert names(url, "payloads") == days("payloads", 1, 3)
    assert set(homes(url)) == set(events)
    rows = fetch_all(url, "SELECT FROM pg_constraint WHERE conname LIKE '%%_making'")
    assert rows == []


async def test_what_a_killed_process_left_behind_is_cleared_away(url, partitions):
    run_sql(
        url,
        "ALTER TABLE payloads_default ADD CONSTRAINT payloads_default_making CHECK (event_id < 'evt_0') NOT VALID",
    )
    await partitions.maintain(NOW)
    insert_events(url, "sandbox_a", [NOW + 50 * DAY])


async def test_a_table_in_use_is_not_waited_for_and_the_next_time_succeeds(url, partitions):
    await partitions.maintain(NOW - 95 * DAY)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM payloads")
        async with asyncio.timeout(3):
            await partitions.maintain(NOW)
        assert f"payloads_{NOW - 95 * DAY:%Y%m%d}" in names(url, "payloads")
    await partitions.maintain(NOW)
    assert names(url, "payloads") == days("payloads", -1, 0, 1, 2, 3)


async def test_payments_go_on_while_a_partition_waits_to_be_dropped(url, partitions):
    """A reader holds the table; whoever wants to drop waits for it, and payments wait behind him, shortly."""
    await partitions.maintain(NOW)
    await partitions.maintain(NOW - 95 * DAY)
    longest = 0.0
    stop = threading.Event()

    def pay() -> None:
        nonlocal longest
        while not stop.is_set():
            begun = datetime.now(UTC)
            insert_events(url, "sandbox_a", [NOW])
            longest = max(longest, (datetime.now(UTC) - begun).total_seconds())

    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM payloads")
        paying = asyncio.create_task(asyncio.to_thread(pay))
        for _ in range(3):
            await partitions.maintain(NOW)
        stop.set()
        await paying
    assert longest < 1


async def test_a_role_that_may_not_change_tables_says_so_once_and_goes_on(url, caplog):
    run_sql(
        url,
        "CREATE ROLE serving LOGIN",
        "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO serving",
    )
    try:
        served = opened(url.replace("payaccept@", "serving@", 1))
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await served.maintain(NOW)
        await served.close()
        told = [message for message in caplog.messages if "payaccept migrate" in message]
        assert len(told) == 2, "once for each table"
        with psycopg.connect(url.replace("payaccept@", "serving@", 1)) as connection:
            connection.execute("INSERT INTO payloads VALUES (7, 'evt_01', '')")
    finally:
        run_sql(url, "DROP OWNED BY serving", "DROP ROLE serving")
