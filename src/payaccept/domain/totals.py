"""What a merchant's payments came to, day by day. Days are UTC's, and a payment is of the day it became final on."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from msgspec import Struct

SUCCESS: Final = "SUCCESS"
"""The outcome of a payment that was captured; any other is the code of its failure."""
LONGEST_DAYS: Final = 366
BY_DAY_UNTIL_DAYS: Final = 92
"""Spans that are longer are told by weeks."""
SETTLED_AFTER: Final = timedelta(minutes=15)
"""How long after its end nothing is added to a day any more.

A payment's final time is taken before its transaction begins, which waits for a wallet for 8 seconds and for the
database for 5 at most; the rest is for clocks of several machines that differ.
"""

_ONE_DAY: Final = timedelta(days=1)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


class DayMalformed(ValueError):
    """A day is written as 2026-01-31."""


class DayTotal(Struct, frozen=True):
    """The payments of one day, currency, operation and outcome: how many, and their sum."""

    day: date
    currency: str
    operation: str
    outcome: str
    payments: int
    amount_minor: int


class CapturedPayment(Struct, frozen=True, kw_only=True):
    """A payment that was captured. `request_body` is None where no settlement currency can be in it."""

    event_id: str
    payment_id: str
    payment_request_id: str
    operation: str
    external_store_id: str | None
    currency: str
    amount_minor: int
    created_at: datetime
    final_at: datetime
    request_body: bytes | None


class DaySpan(Struct, frozen=True):
    """Days from the first to the last, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """How many they are."""
        return (self.last - self.first).days + 1


class Period(Struct, kw_only=True):
    """What one day or week of a span came to, in one currency."""

    first: date
    last: date
    captured_minor: int = 0
    succeeded: int = 0
    failures: Counter[str]

    @property
    def failed(self) -> int:
        """How many payments failed."""
        return self.failures.total()

    @property
    def payments(self) -> int:
        """How many payments became final."""
        return self.succeeded + self.failed

    @property
    def success_rate(self) -> float | None:
        """Which part of them was captured, 0 to 1; None when there was none."""
        return self.succeeded / self.payments if self.payments else None


class CurrencyReport(Struct, frozen=True, kw_only=True):
    """What a span came to in one currency: as a whole, by operation, and period by period."""

    currency: str
    whole: Period
    by_operation: dict[str, Period]
    periods: tuple[Period, ...]


def parse_day(text: str) -> date:
    """Read a day. Raises: DayMalformed."""
    if _DAY.fullmatch(text) is None:
        raise DayMalformed
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise DayMalformed from None


def day_of(at: datetime) -> date:
    """Return the day of an instant."""
    return at.astimezone(UTC).date()


def start_of(day: date) -> datetime:
    """Return the instant at which a day begins."""
    return datetime.combine(day, time.min, UTC)


def is_complete(day: date, now: datetime) -> bool:
    """Tell whether nothing is added to a day any more."""
    return now >= start_of(day) + _ONE_DAY + SETTLED_AFTER


def last_days(count: int, now: datetime) -> DaySpan:
    """Return the span of so many days that ends today."""
    today = day_of(now)
    return DaySpan(today - (count - 1) * _ONE_DAY, today)


def report(totals: Iterable[DayTotal], span: DaySpan) -> list[CurrencyReport]:
    """Return what a span came to in each currency, the one with the most payments first."""
    by_currency: dict[str, list[DayTotal]] = {}
    for total in totals:
        by_currency.setdefault(total.currency, []).append(total)
    made = [_of_currency(currency, some, span) for currency, some in sorted(by_currency.items())]
    return sorted(made, key=lambda one: one.whole.payments, reverse=True)


def _of_currency(currency: str, totals: Sequence[DayTotal], span: DaySpan) -> CurrencyReport:
    periods = _periods(span)
    whole = _period(span.first, span.last)
    by_operation: dict[str, Period] = {}
    for total in totals:
        operation = by_operation.setdefault(total.operation, _period(span.first, span.last))
        for period in (whole, operation, periods[_place(total.day, span)]):
            _add(period, total)
    return CurrencyReport(currency=currency, whole=whole, by_operation=by_operation, periods=tuple(periods))


def _periods(span: DaySpan) -> list[Period]:
    """Return the empty days of a span, or its weeks from Monday to Sunday when it is long."""
    found = []
    first = span.first
    while first <= span.last:
        last = first
        if span.days > BY_DAY_UNTIL_DAYS:
            last = min(first + timedelta(days=6 - first.weekday()), span.last)
        found.append(_period(first, last))
        first = last + _ONE_DAY
    return found


def _place(day: date, span: DaySpan) -> int:
    if span.days > BY_DAY_UNTIL_DAYS:
        return ((day - span.first).days + span.first.weekday()) // 7
    return (day - span.first).days


def _period(first: date, last: date) -> Period:
    return Period(first=first, last=last, failures=Counter())


def _add(period: Period, total: DayTotal) -> None:
    if total.outcome == SUCCESS:
        period.succeeded += total.payments
        period.captured_minor += total.amount_minor
    else:
        period.failures[total.outcome] += total.payments
