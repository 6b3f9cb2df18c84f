"""The totals of days: each final payment counts once, whoever numbers its event, and whatever breaks meanwhile."""

import asyncio
import random
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest

from deployment import NOW, after, fetch_all, run_sql, settings_for
from event_rows import insert_events
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.numbering import PostgresNumbering, number_events
from payaccept.domain.errors import OutcomeUnknown
from payaccept.wiring import migrate

COUNTED = """
SELECT t.client_id, t.day, t.currency, t.operation, t.outcome, t.payments, t.amount_minor FROM day_totals AS t
ORDER BY 1, 2, 3, 4, 5
"""
TRUE = """
SELECT
    p.client_id, (p.final_at AT TIME ZONE 'UTC')::date, p.currency, p.operation, coalesce(p.failure_code, 'SUCCESS'),
    count(*), sum(p.amount_minor)
FROM payments AS p JOIN events AS e ON e.payment_id = p.payment_id
WHERE e.sequence IS NOT NULL
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1, 2, 3, 4, 5
"""
VARY = """
UPDATE payments SET
    state = CASE WHEN right(payment_id, 1) < '4' THEN 'FAIL' ELSE 'SUCCESS' END,
    failure_code = CASE WHEN right(payment_id, 1) < '2' THEN 'ORDER_EXPIRED'
        WHEN right(payment_id, 1) < '4' THEN 'RISK_REJECT' END,
    currency = CASE WHEN substr(payment_id, 20, 1) < '8' THEN 'EUR' ELSE 'JPY' END,
    operation = CASE WHEN substr(payment_id, 21, 1) < '8' THEN 'retailPay' ELSE 'createQROrder' END,
    amount_minor = 1 + ascii(substr(payment_id, 22, 1))
"""


@pytest.fixture
def url(fresh_database):
    return fresh_database()


def counted(url: str) -> list[tuple]:
    """The totals, which must be those of the payments whose events have their number."""
    found = fetch_all(url, COUNTED)
    assert found == fetch_all(url, TRUE)
    return found


def unnumbered(url: str) -> list[tuple[int, str, str]]:
    return fetch_all(url, "SELECT bucket, event_id, client_id FROM events WHERE sequence IS NULL")


async def number_all(url: str) -> None:
    numbering = PostgresNumbering(url, process="test")
    while await numbering.number_waiting(NOW):
        pass
    await numbering.close()


async def test_a_payment_counts_on_the_utc_day_of_its_end_by_currency_operation_and_outcome(url):
    midnight = datetime(2026, 3, 2, tzinfo=UTC)
    insert_events(
        url, "sandbox_a", [midnight - timedelta(milliseconds=1), midnight, midnight, after(0)], state=None
    )
    run_sql(
        url,
        "UPDATE payments SET state = 'FAIL', failure_code = 'RISK_REJECT'"
        " WHERE payment_id = (SELECT max(payment_id) FROM payments)",
    )
    await number_all(url)
    assert counted(url) == [
        ("sandbox_a", date(2026, 3, 1), "EUR", "retailPay", "SUCCESS", 2, 2 * 1999),
        ("sandbox_a", date(2026, 3, 2), "EUR", "retailPay", "RISK_REJECT", 1, 1999),
        ("sandbox_a", date(2026, 3, 2), "EUR", "retailPay", "SUCCESS", 1, 1999),
    ]


async def test_what_has_its_number_is_not_counted_again(url):
    insert_events(url, "sandbox_a", [NOW, after(1)])
    events = unnumbered(url)
    line = SharedLine(url, "test-again")
    for _ in range(3):
        async with line.connection() as connection, connection.transaction():
            await number_events(connection, events)
    await line.close()
    await number_all(url)
    assert [row[5] for row in counted(url)] == [2]


async def test_tests_of_an_endpoint_are_no_payments(url):
    run_sql(
        url,
        "INSERT INTO events (bucket, event_id, client_id, event_type, created_at)"
        " VALUES (7, 'evt_019', 'sandbox_a', 'webhook.test', now())",
    )
    await number_all(url)
    assert unnumbered(url) == counted(url) == []


async def test_both_paths_number_at_once_some_are_taken_back_and_every_payment_counts_once(url):
    clients = [f"sandbox_{name}" for name in "cab"]
    times = [after(number * 600) for number in range(200)]
    events = [
        (7, event_id, client_id) for client_id in clients for event_id in insert_events(url, client_id, times)
    ]
    run_sql(url, VARY)
    lines = [SharedLine(url, f"test-{number}") for number in range(2)]
    waiting = [PostgresNumbering(url, process=f"test{number}") for number in range(2)]

    async def send(line: SharedLine, seed: int) -> None:
        """As deliveries number what they send."""
        chance = random.Random(seed)  # noqa: S311 - the same at every run
        for _ in range(12):
            some = chance.sample(events, 20)
            taken_back = chance.random() < 0.4
            async with line.connection() as connection, connection.transaction(force_rollback=taken_back):
                await number_events(connection, some)

    async def sweep(numbering: PostgresNumbering) -> None:
        for _ in range(12):
            await numbering.number_waiting(NOW)

    await asyncio.gather(*(send(lines[seed % 2], seed) for seed in range(4)))
    counted(url)
    await asyncio.gather(
        *(send(lines[seed % 2], seed) for seed in range(4, 8)), *(sweep(one) for one in waiting)
    )
    await number_all(url)
    for part in (*lines, *waiting):
        await part.close()
    assert sum(row[5] for row in counted(url)) == len(events)


async def test_a_process_that_dies_before_its_commit_has_counted_nothing(url):
    insert_events(url, "sandbox_a", [after(number) for number in range(30)])
    run_sql(url, VARY)
    events = unnumbered(url)
    line = SharedLine(url, "test-dies")

    async def number_and_die() -> None:
        async with line.connection() as connection, connection.transaction():
            assert len(await number_events(connection, events[:20])) == 20
            run_sql(url, f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")
            await connection.execute("SELECT 1")

    with pytest.raises(OutcomeUnknown):
        await number_and_die()
    await line.close()
    assert counted(url) == []
    await number_all(url)
    assert sum(row[5] for row in counted(url)) == 30


async def test_who_waits_for_the_counter_counts_only_what_is_left(url):
    insert_events(url, "sandbox_a", [after(number) for number in range(10)])
    events = unnumbered(url)
    first, second = (SharedLine(url, f"test-{number}") for number in range(2))
    async with second.connection() as later:
        async with first.connection() as connection, connection.transaction():
            await number_events(connection, events[:7])

            async def wait() -> None:
                async with later.transaction():
                    await number_events(later, events)

            waiting = asyncio.create_task(wait())
            await asyncio.sleep(0.2)
            assert not waiting.done()
        await waiting
    for line in (first, second):
        await line.close()
    assert [row[5] for row in counted(url)] == [10]


async def test_counting_looks_up_only_what_is_numbered_on_tables_that_were_never_analysed(url):
    insert_events(url, "sandbox_a", [after(number) for number in range(2000)])
    some = unnumbered(url)[:30]
    line = SharedLine(url, "test-hot", hot=True)
    # Joined by their bucket alone, these would be 60,000 payments, each beside 2,000 events.
    async with asyncio.timeout(2), line.connection() as connection, connection.transaction():
        await number_events(connection, some)
    await line.close()
    assert [row[5] for row in counted(url)] == [30]


async def test_the_migration_counts_what_was_numbered_before_it(empty_database, master_key_file):
    settings = settings_for(empty_database(), master_key_file)
    url = settings.database_url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE schema_migrations (version integer CONSTRAINT schema_migrations_pkey PRIMARY KEY,"
            " name text NOT NULL, applied_at timestamptz NOT NULL)"
        )
        for step in migrations.available():
            if step.version < 6:
                connection.execute(step.sql.encode(), prepare=False)
                connection.execute(
                    "INSERT INTO schema_migrations VALUES (%s, %s, now())", [step.version, step.name]
                )
    ids = insert_events(url, "sandbox_a", [after(number * 3600) for number in range(40)])
    run_sql(url, VARY)
    numbered = ids[:25]
    with psycopg.connect(url) as connection:
        for sequence, event_id in enumerate(numbered, 1):
            connection.execute("UPDATE events SET sequence = %s WHERE event_id = %s", [sequence, event_id])
        connection.execute("INSERT INTO event_counters VALUES ('sandbox_a', 25)")
    assert 6 in [step.version for step in await migrate(settings)]
    assert sum(row[5] for row in counted(url)) == 25
    await number_all(url)
    assert sum(row[5] for row in counted(url)) == 40
