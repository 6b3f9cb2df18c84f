"""The page of reports: what days came to by currency, and files that start at once."""

import csv
import io
from datetime import timedelta

import psycopg
import pytest

from deployment import NOW
from event_rows import insert_events
from payaccept.domain.totals import day_of
from payment_rows import insert_payments


def add(
    portal, client_id: str, back: int, outcome: str = "SUCCESS", payments: int = 1, **changes: object
) -> None:
    """Add a day's total, so many days ago."""
    day = day_of(portal.clock()) - timedelta(days=back)
    values = {"currency": "EUR", "operation": "retailPay", "amount": 1250 * payments} | changes
    with psycopg.connect(portal.settings.database_url) as connection:
        connection.execute(
            "INSERT INTO day_totals VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [client_id, day, values["currency"], values["operation"], outcome, payments, values["amount"]],
        )


async def test_a_merchant_without_payments_is_told_what_to_do(portal):
    owner = await portal.owner()
    seen = await (await owner.browser()).get(f"{owner.home}/reports")
    assert "No payment became final in these days" in seen.text
    assert f"{owner.home}/reports?days=90" in seen.links
    seen = await (await owner.browser()).get(f"{owner.home}/reports?days=90")
    assert "/docs" in seen.links


async def test_a_span_is_told_as_a_whole_by_day_by_reason_and_by_operation(portal):
    owner = await portal.owner()
    add(portal, owner.client_id, 0, payments=3)
    add(portal, owner.client_id, 0, "RISK_REJECT", payments=1)
    add(portal, owner.client_id, 2, payments=4, operation="createQROrder")
    add(portal, owner.client_id, 2, "ORDER_EXPIRED", payments=2)
    add(portal, owner.client_id, 40, payments=1000)
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/reports")
    assert "Captured €87.50 Payments 10 Success rate 70 %" in seen.text
    assert "2 ORDER_EXPIRED" in seen.text
    assert "ORDER_EXPIRED The order was not paid in time. 2 20 %" in seen.text
    assert "QR orders 4 100 % €50.00" in seen.text
    assert "At the till 6 50 % €37.50" in seen.text
    assert "€37.50, 3 of 4 captured (75 %)" in seen.html
    assert "1,010" in (await visitor.get(f"{owner.home}/reports?days=90")).text
    assert (
        "Payments 4 Success"
        in (await visitor.get(f"{owner.home}/reports?from={day_of(portal.clock())}")).text
    )


async def test_each_currency_has_its_own_charts(portal):
    owner = await portal.owner()
    add(portal, owner.client_id, 1, payments=5)
    add(portal, owner.client_id, 1, payments=2, currency="JPY", amount=3000)
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/reports?days=7")
    assert "€62.50" in seen.text
    [other] = [link for link in seen.links if "currency=JPY" in link]
    seen = await visitor.get(other)
    assert "Captured ¥3,000" in seen.text, seen.text
    assert "KWD" not in seen.text
    assert "€62.50" in (await visitor.get(f"{owner.home}/reports?currency=NONSENSE")).text


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("from=2026-02-30", "A day is written like 2026-01-31."),
        ("until=yesterday", "A day is written like 2026-01-31."),
        ("from=2026-03-02&until=2026-03-01", "It ends before it begins."),
        ("from=2020-01-01&until=2026-01-01", "At most 366 days at a time."),
    ],
)
async def test_what_is_wrong_with_a_span_is_said_beside_it_and_keeps_what_was_typed(portal, query, told):
    owner = await portal.owner()
    seen = await (await owner.browser()).get(f"{owner.home}/reports?{query}")
    assert seen.status == 422
    assert told in seen.text
    typed = query.partition("&")[0].partition("=")[2]
    assert f'value="{typed}"' in seen.html


@pytest.mark.parametrize(
    "query", ["until=2026-01-31", "from=2026-01-02&until=2026-01-31", "until=0001-01-02"]
)
async def test_a_span_may_lack_its_beginning(portal, query):
    owner = await portal.owner()
    seen = await (await owner.browser()).get(f"{owner.home}/reports?{query}")
    assert seen.status == 200
    assert "2 Jan 2026 to 31 Jan 2026" in seen.text or "0001" in query


async def test_a_long_span_is_told_by_weeks(portal):
    owner = await portal.owner()
    add(portal, owner.client_id, 200)
    first = day_of(portal.clock()) - timedelta(days=250)
    seen = await (await owner.browser()).get(f"{owner.home}/reports?from={first}")
    assert "Week by week" in seen.text
    assert "1 of 1 captured" in seen.html


async def test_a_busy_quarter_in_several_currencies_is_a_light_page(portal):
    owner = await portal.owner()
    codes = ("ORDER_EXPIRED", "INSUFFICIENT_BALANCE", "PAYMENT_AMOUNT_EXCEED_LIMIT")
    for back in range(90):
        for outcome in ("SUCCESS", *codes):
            add(portal, owner.client_id, back, outcome, payments=1_234_567, amount=999_999_999_999_99)
    for number in range(10):
        add(portal, owner.client_id, 0, currency=f"X{chr(65 + number)}A")
    seen = await (await owner.browser()).get(f"{owner.home}/reports?days=90")
    assert seen.status == 200
    assert len(seen.html.encode()) < 60 * 1024
    assert "style=" not in seen.html
    assert "<style" not in seen.html


async def test_the_payments_of_a_search_come_as_a_file_named_after_them(portal):
    owner = await portal.owner()
    insert_payments(portal.settings.database_url, owner.client_id, 1200, portal.clock(), bucket=9)
    visitor = await owner.browser()
    today = day_of(portal.clock())
    seen = await visitor.get(f"{owner.home}/reports/payments?state=FAIL&from=2026-01-01&until={today}")
    headers = seen.response.headers
    assert headers["content-type"] == "text/csv; charset=utf-8"
    assert headers["content-disposition"] == (
        f'attachment; filename="payments-{owner.client_id}-from-2026-01-01-until-{today}.csv"'
    )
    assert headers["cache-control"] == "no-store"
    rows = list(csv.DictReader(io.StringIO(seen.response.text, newline="")))
    assert len(rows) == 24
    assert {row["failureCode"] for row in rows} == {"USER_REJECTED"}
    everything = await visitor.get(f"{owner.home}/reports/payments")
    assert everything.response.text.count("\r\n") == 1201
    assert everything.response.headers["content-disposition"].endswith(f'-until-{today}.csv"')


async def test_a_search_that_is_wrong_goes_back_to_the_list_as_it_was_typed(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await visitor.get(f"{owner.home}/reports/payments?amount=12&state=PAID", follow=False)
    assert seen.status == 303
    path, _, query = seen.response.headers["location"].partition("?")
    assert (path, set(query.split("&"))) == (f"{owner.home}/payments", {"amount=12", "state=PAID"})


async def test_a_day_comes_as_a_file_that_says_whether_it_is_complete(portal):
    owner = await portal.owner()
    insert_events(portal.settings.database_url, owner.client_id, [NOW])
    visitor = await owner.browser()
    path = f"{owner.home}/reports/reconciliation?day="
    seen = await visitor.get(f"{path}2026-03-01")
    assert seen.response.headers["content-disposition"] == (
        f'attachment; filename="reconciliation-{owner.client_id}-2026-03-01.csv"'
    )
    assert seen.response.text.count("\r\n") == 4
    assert (await visitor.get(f"{path}2026-03-01")).response.content == seen.response.content
    today = await visitor.get(f"{path}{day_of(portal.clock())}")
    assert today.response.headers["content-disposition"].endswith('-so-far.csv"')
    listed = await visitor.get(f"{owner.home}/reports")
    assert f"{path}{day_of(portal.clock()) - timedelta(days=6)}" in listed.links


@pytest.mark.parametrize(
    ("day", "told"),
    [
        ("2026-3-1", "A day is written like 2026-01-31."),
        ("", "A day is written like 2026-01-31."),
        ("9999-12-31", "That day has not begun."),
    ],
)
async def test_a_day_that_is_none_is_said_to_be_so_beside_its_field(portal, day, told):
    owner = await portal.owner()
    seen = await (await owner.browser()).get(f"{owner.home}/reports/reconciliation?day={day}")
    assert seen.status == 422
    assert told in seen.text
    assert "content-disposition" not in seen.response.headers


@pytest.mark.parametrize("what", ["", "/payments", "/reconciliation?day=2026-03-01"])
async def test_a_stranger_gets_nothing_of_another_merchants_reports(portal, what):
    owner, stranger = await portal.owner(), await portal.owner()
    insert_events(portal.settings.database_url, owner.client_id, [NOW])
    add(portal, owner.client_id, 0)
    theirs = await stranger.browser()
    assert (await theirs.get(f"{owner.home}/reports{what}")).status == 404
    mine = await theirs.get(f"{stranger.home}/reports{what}")
    assert mine.status == 200
    assert "1999" not in mine.response.text
    assert "12.50" not in mine.text


async def test_what_breaks_before_a_file_begins_is_told_by_a_page(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    with pytest.MonkeyPatch.context() as patch:
        line = portal.process._report_store._files._line
        await line.drop()
        patch.setattr(line, "_conninfo", "host=/nowhere dbname=none")
        seen = await visitor.get(f"{owner.home}/reports/reconciliation?day=2026-03-01")
    assert seen.status == 503
    assert "content-disposition" not in seen.response.headers
