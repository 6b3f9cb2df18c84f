"""Files of payments: all of them, in order, the same bytes again, whoever pays meanwhile."""

import csv
import io
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
import pytest_asyncio

from deployment import NOW, fetch_all, merchant_made, run_sql
from event_rows import insert_events
from payaccept.adapters.postgres.events import PostgresEvents
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.numbering import PostgresNumbering
from payaccept.adapters.postgres.payment_lists import PostgresPaymentLists
from payaccept.adapters.postgres.reports import PostgresReports
from payaccept.domain.errors import DayIncomplete
from payaccept.domain.payment import PaymentState
from payaccept.domain.payment_search import PaymentSearch
from payaccept.domain.totals import SETTLED_AFTER, DaySpan, start_of
from payaccept.operations import reports as module
from payaccept.operations.payment_lists import PaymentLists
from payaccept.operations.reports import PAYMENT_COLUMNS, RECONCILIATION_COLUMNS, Reports, export
from payment_rows import insert_payments

DAY = date(2026, 3, 1)
LATER = start_of(DAY) + timedelta(days=1) + SETTLED_AFTER
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)


@pytest_asyncio.fixture(loop_scope="session")
async def reports(url):
    store = PostgresReports(url, process="test")
    yield Reports(store)
    await store.close()


@pytest.fixture
def url(settings):
    return settings.database_url


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lists(settings, parts):
    lines = LinePool(settings.database_url, "test-lists")
    events = PostgresEvents(settings.database_url, process="test")
    yield PaymentLists(PostgresPaymentLists(lines), parts.store, events)
    await lines.close()
    await events.close()


async def file_of(pieces) -> tuple[bytes, list[int]]:
    """A whole file, and how many lines each of its pieces had."""
    found = [piece async for piece in pieces]
    return b"".join(found), [piece.count(b"\r\n") for piece in found]


def rows_of(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.decode(), newline="")))


def put_in(url: str, event_ids: list[str], **values: object) -> None:
    """Give the payments of events other values."""
    columns = ", ".join(f"{name} = %({name})s" for name in values)
    with psycopg.connect(url) as connection:
        connection.execute(
            f"UPDATE payments SET {columns} WHERE event_id = ANY(%(ids)s)".encode(),  # noqa: S608
            values | {"ids": event_ids},
        )


async def test_every_payment_that_is_looked_for_is_exported_the_newest_first(lists, url):
    insert_payments(url, "sandbox_export", 2500, NOW)
    insert_payments(url, "sandbox_another", 30, NOW)
    file, lines = await file_of(export(lists, "sandbox_export", PaymentSearch()))
    rows = rows_of(file)
    assert tuple(rows[0]) == PAYMENT_COLUMNS
    assert [row["paymentRequestId"] for row in rows] == [f"order-{number}" for number in range(2500, 0, -1)]
    assert lines == [1001, 1000, 500]
    whole = {row["paymentRequestId"]: row for row in rows}
    assert whole["order-50"]["state"] == "FAIL"
    assert whole["order-50"]["failureCode"] == "USER_REJECTED"
    assert (whole["order-997"]["state"], whole["order-997"]["finalAt"]) == ("PROCESSING", "")
    assert (whole["order-20"]["currency"], whole["order-20"]["amountMinor"]) == ("KWD", "120")
    assert whole["order-20"]["amount"] == "0.120"
    assert whole["order-21"]["amount"] == "1.21"
    assert whole["order-21"]["externalStoreId"] == "store-21"
    assert whole["order-21"]["acquirementId"][3:] == whole["order-21"]["paymentId"][3:]
    search = PaymentSearch(state=PaymentState.FAIL, currency="KWD")
    some = rows_of((await file_of(export(lists, "sandbox_export", search)))[0])
    assert [row["paymentRequestId"] for row in some] == [f"order-{number}" for number in range(2500, 0, -50)]


async def test_a_search_that_finds_nothing_is_a_file_with_its_heading(lists):
    file, _ = await file_of(export(lists, "sandbox_nobody", PaymentSearch()))
    assert file.decode() == ",".join(PAYMENT_COLUMNS) + "\r\n"


async def test_nothing_is_held_in_the_database_while_a_file_is_taken_slowly(lists, url):
    insert_payments(url, "sandbox_slow", 1500, NOW)
    pieces = export(lists, "sandbox_slow", PaymentSearch())
    await anext(pieces)
    held = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    )
    assert fetch_all(url, held) == [(0,)]
    insert_payments(url, "sandbox_slow_too", 1, NOW)
    run_sql(url, "DELETE FROM payments WHERE client_id = 'sandbox_slow' AND payment_request_id = 'order-7'")
    rest = b"".join([piece async for piece in pieces])
    assert rest.count(b"\r\n") == 499


async def test_ids_that_look_like_formulas_are_defused(lists, reports, url):
    shop = merchant_made(NOW)
    [event] = insert_events(url, shop.client_id, [NOW])
    put_in(url, [event], payment_request_id='=HYPERLINK("x")', external_store_id="@store, 1")
    [row] = rows_of((await file_of(export(lists, shop.client_id, PaymentSearch())))[0])
    assert (row["paymentRequestId"], row["externalStoreId"]) == ('\'=HYPERLINK("x")', "'@store, 1")
    file, _ = await file_of(reports.reconcile(shop, DAY, LATER))
    assert rows_of(file)[0]["paymentRequestId"] == '\'=HYPERLINK("x")'


async def test_a_day_has_what_was_captured_on_it_and_totals_by_currency(reports, url):
    shop = merchant_made(NOW)
    times = [
        start_of(DAY),
        NOW,
        MIDNIGHT - timedelta(milliseconds=1),
        MIDNIGHT,
        start_of(DAY) - timedelta(milliseconds=1),
    ]
    events = insert_events(url, shop.client_id, times)
    insert_events(url, "sandbox_other", [NOW])
    put_in(
        url,
        events[:1],
        operation="linkPayCreate",
        request_body=b'{"settlementStrategy":{"settlementCurrency":"USD"},"other":[1]}',
        created_at=NOW - timedelta(days=2),
    )
    put_in(url, events[1:2], operation="linkPayCreate", request_body=b'{"settlementStrategy":{}}')
    insert_events(url, shop.client_id, [NOW], failure_code="RISK_REJECT")
    file, _ = await file_of(reports.reconcile(shop, DAY, LATER))
    rows = rows_of(file)
    assert tuple(rows[0]) == RECONCILIATION_COLUMNS
    assert [row["rowType"] for row in rows] == ["PAYMENT"] * 3 + ["TOTAL"] * 2 + ["END"]
    assert [row["finalAt"] for row in rows[:3]] == [
        "2026-03-01T00:00:00.000Z",
        "2026-03-01T12:00:00.000Z",
        "2026-03-01T23:59:59.999Z",
    ]
    assert rows[0]["createdAt"] == "2026-02-27T12:00:00.000Z"
    assert [row["settlementCurrency"] for row in rows[:3]] == ["USD", "", ""]
    told = [
        (row["currency"], row["settlementCurrency"], row["payments"], row["amountMinor"], row["amount"])
        for row in rows[3:]
    ]
    assert told == [
        ("EUR", "", "2", "3998", "39.98"),
        ("EUR", "USD", "1", "1999", "19.99"),
        ("", "", "3", "", ""),
    ]
    assert {row["day"] for row in rows} == {"2026-03-01"}


async def test_a_day_without_payments_is_a_whole_file_too(reports):
    file, _ = await file_of(reports.reconcile(merchant_made(NOW), DAY, LATER))
    assert file.decode() == ",".join(RECONCILIATION_COLUMNS) + "\r\nEND,2026-03-01,,,,,,,,,,0,,\r\n"


@pytest.mark.parametrize("spread", [1, 2, 16, 256])
async def test_a_merchant_in_many_buckets_has_its_payments_in_the_order_of_their_ends(reports, url, spread):
    shop = merchant_made(NOW, spread=spread, base_bucket=200)
    events = []
    for number in range(0, 300, 3):
        bucket = (200 + number * 7 % spread) % 256
        times = [NOW + timedelta(milliseconds=37 * (each * 7919 % 300)) for each in range(number, number + 3)]
        events += insert_events(url, shop.client_id, times, bucket=bucket)
    insert_events(url, "sandbox_neighbour", [NOW] * 40, bucket=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_AT_A_TIME", 32)
        file, _ = await file_of(reports.reconcile(shop, DAY, LATER))
    wanted = fetch_all(
        url, "SELECT payment_id FROM payments WHERE client_id = %s ORDER BY event_id", shop.client_id
    )
    assert [row["paymentId"] for row in rows_of(file)[:-2]] == [payment_id for (payment_id,) in wanted]
    assert (await file_of(reports.reconcile(shop, DAY, LATER)))[0] == file, "whatever it is read by"


async def test_a_file_is_refused_until_its_day_is_complete_and_then_is_always_the_same(reports, url):
    shop = merchant_made(NOW)
    insert_events(url, shop.client_id, [NOW])
    almost = LATER - timedelta(seconds=1)
    with pytest.raises(DayIncomplete):
        await anext(reports.reconcile(shop, DAY, almost))
    so_far, _ = await file_of(reports.reconcile(shop, DAY, almost, so_far=True))
    assert len(rows_of(so_far)) == 3
    insert_events(url, shop.client_id, [NOW + timedelta(seconds=1)])
    file, _ = await file_of(reports.reconcile(shop, DAY, LATER))
    assert len(rows_of(file)) == 4
    insert_events(url, shop.client_id, [MIDNIGHT, LATER])
    assert (await file_of(reports.reconcile(shop, DAY, LATER + timedelta(days=3))))[0] == file


async def test_the_totals_of_a_day_are_those_of_its_file(reports, url):
    shop = merchant_made(NOW)
    events = insert_events(url, shop.client_id, [NOW + timedelta(minutes=number) for number in range(40)])
    put_in(url, events[:10], currency="JPY", amount_minor=70)
    put_in(url, events[10:15], operation="createQROrder")
    numbering = PostgresNumbering(url, process="test")
    while await numbering.number_waiting(LATER):
        pass
    await numbering.close()
    found = await reports.report(shop.client_id, DaySpan(DAY, DAY))
    rows = rows_of((await file_of(reports.reconcile(shop, DAY, LATER)))[0])
    totals = {
        row["currency"]: (int(row["payments"]), int(row["amountMinor"]))
        for row in rows
        if row["rowType"] == "TOTAL"
    }
    assert (
        totals
        == {one.currency: (one.whole.succeeded, one.whole.captured_minor) for one in found}
        == {"EUR": (30, 30 * 1999), "JPY": (10, 700)}
    )
