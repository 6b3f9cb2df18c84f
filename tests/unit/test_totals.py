"""Totals of days: how days are read, when they are complete, and what a span of them came to."""

from datetime import UTC, date, datetime, timedelta

import pytest

from payaccept.domain.totals import (
    BY_DAY_UNTIL_DAYS,
    SETTLED_AFTER,
    DayMalformed,
    DaySpan,
    DayTotal,
    day_of,
    is_complete,
    last_days,
    parse_day,
    report,
    start_of,
)

DAY = date(2026, 3, 1)  # a Sunday


def total(day: date, outcome: str = "SUCCESS", payments: int = 1, **changes: object) -> DayTotal:
    values = {"currency": "EUR", "operation": "retailPay", "amount_minor": 100 * payments} | changes
    return DayTotal(day=day, outcome=outcome, payments=payments, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-3-1",
        "2026-02-30",
        "2026-13-01",
        "20260301",
        "2026-03-01T00:00Z",
        "٢٠٢٦-03-01",
        " 2026-03-01",
    ],
)
def test_a_day_is_written_in_one_way(text):
    with pytest.raises(DayMalformed):
        parse_day(text)


def test_a_day_is_utc_s():
    assert parse_day("2026-03-01") == DAY
    assert start_of(DAY) == datetime(2026, 3, 1, tzinfo=UTC)
    assert day_of(start_of(DAY) - timedelta(microseconds=1)) == date(2026, 2, 28)
    assert last_days(7, datetime(2026, 3, 1, 23, 59, tzinfo=UTC)) == DaySpan(date(2026, 2, 23), DAY)


def test_a_day_is_complete_when_everything_that_ended_on_it_is_written():
    end = start_of(DAY) + timedelta(days=1)
    assert not is_complete(DAY, end - timedelta(seconds=1))
    assert not is_complete(DAY, end + SETTLED_AFTER - timedelta(seconds=1))
    assert is_complete(DAY, end + SETTLED_AFTER)


def test_a_span_is_told_by_currency_the_one_with_the_most_payments_first():
    span = DaySpan(DAY, DAY + timedelta(days=2))
    reports = report(
        [
            total(DAY, payments=3, currency="CHF"),
            total(DAY, payments=3),
            total(DAY, "RISK_REJECT", 1),
            total(DAY + timedelta(days=2), "ORDER_EXPIRED", 4, operation="createQROrder"),
        ],
        span,
    )
    assert [one.currency for one in reports] == ["EUR", "CHF"]
    euro = reports[0]
    assert (euro.whole.captured_minor, euro.whole.succeeded, euro.whole.failed) == (300, 3, 5)
    assert euro.whole.success_rate == 3 / 8
    assert euro.whole.failures.most_common(1) == [("ORDER_EXPIRED", 4)]
    assert [period.payments for period in euro.periods] == [4, 0, 4]
    assert [period.success_rate for period in euro.periods] == [0.75, None, 0.0]
    assert {name: period.payments for name, period in euro.by_operation.items()} == {
        "retailPay": 4,
        "createQROrder": 4,
    }
    assert report([], span) == []


@pytest.mark.parametrize("days", [1, 7, BY_DAY_UNTIL_DAYS, BY_DAY_UNTIL_DAYS + 1, 200, 366])
@pytest.mark.parametrize("weekday", range(7))
def test_every_day_of_a_span_counts_in_the_period_that_it_is_of(days, weekday):
    first = DAY + timedelta(days=weekday)
    span = DaySpan(first, first + timedelta(days=days - 1))
    everything = [first + timedelta(days=number) for number in range(days)]
    [one] = report([total(day) for day in everything], span)
    assert one.whole.payments == days == span.days
    counted = []
    for period in one.periods:
        covered = [day for day in everything if period.first <= day <= period.last]
        assert period.payments == len(covered) == (period.last - period.first).days + 1
        counted += covered
    assert counted == everything
    if days > BY_DAY_UNTIL_DAYS:
        assert {period.first.weekday() for period in one.periods[1:]} == {0}
