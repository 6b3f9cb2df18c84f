"""What is left to do, as the figures tell it: counted in the database, along its partial indexes."""

from datetime import timedelta

import psycopg
import pytest

from deployment import NOW, after
from event_rows import insert_events
from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.backlog import PostgresBacklog
from payaccept.domain.errors import StoreUnavailable
from payaccept.figures import catalogue
from payaccept.figures.backlog import BacklogFigures
from payaccept.figures.slab import Slab

WELL, SLOW, BROKEN = "https://well.example", "https://slow.example", "https://broken.example"


@pytest.fixture
def filled(fresh_database):
    """A database in which each state occurs."""
    url = fresh_database()
    ago = [NOW - timedelta(seconds=seconds) for seconds in (30, 20, 10)]
    due = insert_events(url, "c", ago, state="PENDING", url=WELL)
    insert_events(url, "c", [after(3600), after(7200)], state="PENDING", url=WELL)
    insert_events(url, "c", [after(-90)], state="PENDING", url=SLOW)
    insert_events(url, "c", [after(-3600), after(-60)], state="PENDING", url=BROKEN)
    insert_events(url, "c", [after(-9000)], state="DEAD", url=WELL)
    numbered = insert_events(url, "c", [after(-8000), after(-7000)], url=WELL)
    with psycopg.connect(url) as connection:
        # The oldest of them is with a worker; the next one was, and its lease has ended.
        for event_id, until in ((due[0], after(20)), (due[1], after(-5))):
            connection.execute(
                "UPDATE deliveries SET claim_id = gen_random_uuid(), leased_until = %s WHERE event_id = %s",
                (until, event_id),
            )
        for number, event_id in enumerate(numbered, 1):
            connection.execute("UPDATE events SET sequence = %s WHERE event_id = %s", (number, event_id))
        for url_of, opened_at in ((BROKEN, NOW), (SLOW, None)):
            connection.execute(
                "INSERT INTO failing_lanes (lane, client_id, failures, failing_since, opened_at, last_reason,"
                " updated_at) VALUES (%s, 'c', 7, %s, %s, 'HTTP 500', %s)",
                (f"c {url_of}", NOW, opened_at, NOW),
            )
    return url


async def test_every_state_is_counted(filled):
    with psycopg.connect(filled) as connection:
        connection.execute(
            "INSERT INTO payments (bucket, payment_id, client_id, payment_request_id, operation, state, currency,"
            " amount_minor, request_body, answer, created_at, expires_at, due_at)"
            " SELECT 7, 'pay_' || i, 'c', 'r' || i, 'createQROrder', 'PROCESSING', 'EUR', 1, '', '{}', %(at)s,"
            " %(at)s, %(due_at)s + i * interval '1 minute' FROM generate_series(0, 3) AS i",
            {"at": after(-500), "due_at": after(-120)},
        )
    backlog = PostgresBacklog(filled, process="test")
    try:
        found = await backlog.read(NOW)
    finally:
        await backlog.close()
    assert (found.due, found.leased, found.waiting, found.dead) == (6, 1, 2, 1)
    assert found.oldest_due_at == after(-90)
    assert found.oldest_due_in_open_lanes_at == after(-3600)
    assert (found.due_lanes, found.late_lanes, found.failing_lanes, found.open_lanes) == (3, 1, 2, 1)
    assert found.unnumbered_events == 9
    assert found.oldest_payment_at == after(-120)


async def test_the_figures_show_it(filled):
    slab = Slab(catalogue.WORKER)
    store = PostgresBacklog(filled, process="test")
    figures = BacklogFigures(slab, store, lambda: NOW)
    await figures.read()
    await figures.close()

    def shown(name, *values):
        return slab.read().cells[catalogue.WORKER.start(name, *values)]

    states = {state: shown("payaccept_deliveries", state) for state in ("due", "leased", "waiting", "dead")}
    assert states == {"due": 6, "leased": 1, "waiting": 2, "dead": 1}
    assert shown("payaccept_deliveries_oldest_due_seconds", "closed") == 90
    assert shown("payaccept_deliveries_oldest_due_seconds", "open") == 3600
    lanes = {state: shown("payaccept_lanes", state) for state in ("due", "late", "failing", "open")}
    assert lanes == {"due": 3, "late": 1, "failing": 2, "open": 1}
    assert shown("payaccept_events_unnumbered") == 9
    assert shown("payaccept_payments_overdue_seconds") == 0
    assert shown("payaccept_backlog_read_timestamp_seconds") == NOW.timestamp()
    assert shown("payaccept_backlog_read_seconds") > 0


async def test_where_nothing_is_left_to_do_the_figures_are_zero(fresh_database):
    slab = Slab(catalogue.WORKER)
    figures = BacklogFigures(slab, PostgresBacklog(fresh_database(), process="test"), lambda: NOW)
    await figures.read()
    await figures.close()
    shown = slab.read().cells
    for name in ("payaccept_deliveries", "payaccept_deliveries_oldest_due_seconds", "payaccept_lanes"):
        assert not any(shown[cell] for cell in catalogue.WORKER.cells(catalogue.WORKER.metric(name)))


async def test_a_database_that_is_away_is_said_to_be():
    backlog = PostgresBacklog("postgresql://nobody@127.0.0.1:1/nothing", process="test")
    with pytest.raises(StoreUnavailable):
        await backlog.read(NOW)
    await backlog.close()


def test_no_table_is_read_from_end_to_end(filled):
    growing = {"deliveries", "events", "payments"}
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        for name, query in statements.load("backlog.sql").items():
            plan = connection.execute(
                b"EXPLAIN (FORMAT JSON) " + query.encode(), {"now": NOW, "late": NOW}
            ).fetchone()
            text = str(plan)
            assert not any(f"'Seq Scan', 'Relation Name': '{table}'" in text for table in growing), name
            used = {"deliveries_pending", "deliveries_dead", "events_unnumbered", "payments_due"}
            assert name == "count_failing_lanes" or any(index in text for index in used), name
