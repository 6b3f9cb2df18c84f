"""A merchant's reports: what its days came to, its payments as CSV, and what was captured on a day, to reconcile."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from payaccept.domain import identifiers
from payaccept.domain.csv_lines import Cell, write_lines
from payaccept.domain.errors import DayIncomplete
from payaccept.domain.merchant import Merchant, buckets_of
from payaccept.domain.money import in_major_units
from payaccept.domain.payment_search import ListedPayment, PaymentSearch
from payaccept.domain.totals import (
    CapturedPayment,
    CurrencyReport,
    DaySpan,
    DayTotal,
    is_complete,
    report,
    start_of,
)
from payaccept.operations.payment_lists import PaymentLists
from payaccept.wire import messages as m
from payaccept.wire import timestamps

ROWS_AT_A_TIME: Final = 1000
PAYMENT_COLUMNS: Final = (
    "createdAt",
    "finalAt",
    "paymentId",
    "acquirementId",
    "paymentRequestId",
    "operation",
    "state",
    "failureCode",
    "currency",
    "amountMinor",
    "amount",
    "externalStoreId",
)
RECONCILIATION_COLUMNS: Final = (
    "rowType",
    "day",
    "finalAt",
    "createdAt",
    "paymentId",
    "acquirementId",
    "paymentRequestId",
    "operation",
    "externalStoreId",
    "currency",
    "settlementCurrency",
    "payments",
    "amountMinor",
    "amount",
)


class ReportStore(Protocol):
    """Totals and captured payments, by merchant. Every method raises OutcomeOpen when it must."""

    async def list_day_totals(self, client_id: str, first: date, last: date) -> list[DayTotal]:
        """Return the totals of the days from the first to the last."""

    async def list_captured(
        self, client_id: str, buckets: Sequence[int], after: str, end: str, limit: int
    ) -> tuple[list[CapturedPayment], str | None]:
        """Return payments captured between two eventIds, both left out, in the order of their ends.

        About `limit` of them, and the eventId to go on after; None when there are no more.
        """


class _Strategy(Struct):
    settlement_strategy: m.SettlementStrategy = msgspec.field(
        default=m.SettlementStrategy(), name="settlementStrategy"
    )


_read_strategy: Final = msgspec.json.Decoder(_Strategy).decode


async def export(lists: PaymentLists, client_id: str, search: PaymentSearch) -> AsyncIterator[bytes]:
    """Yield a merchant's payments that are looked for as CSV, the newest first, some hundred lines at a time.

    Nothing is held in the database between two pieces, however slowly they are taken. Raises: OutcomeOpen.
    """
    lines = write_lines([PAYMENT_COLUMNS])
    before: str | None = None
    while True:
        page = await lists.search(client_id, search, before, limit=ROWS_AT_A_TIME)
        lines += write_lines(map(_payment_row, page.payments))
        if lines:
            yield lines
        if page.older is None:
            return
        before, lines = page.older, b""


class Reports:
    """The verbs of reporting."""

    def __init__(self, store: ReportStore) -> None:
        self._store = store

    async def report(self, client_id: str, span: DaySpan) -> list[CurrencyReport]:
        """Return what a span of days came to, by currency, the one with the most payments first."""
        return report(await self._store.list_day_totals(client_id, span.first, span.last), span)

    async def reconcile(
        self, merchant: Merchant, day: date, now: datetime, *, so_far: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield what was captured on a day as CSV, in the order of the payments' ends; then the totals.

        The same bytes whenever it is asked for, once the day is complete. `so_far`: also before that.
        Raises: DayIncomplete, OutcomeOpen.
        """
        if not (so_far or is_complete(day, now)):
            raise DayIncomplete(f"{day} is not complete yet")
        start = start_of(day)
        end = identifiers.least(identifiers.EVENT, start + timedelta(days=1))
        place: str | None = identifiers.least(identifiers.EVENT, start)
        payments: Counter[tuple[str, str]] = Counter()
        amounts: Counter[tuple[str, str]] = Counter()
        lines = write_lines([RECONCILIATION_COLUMNS])
        while place is not None:
            found, place = await self._store.list_captured(
                merchant.client_id, buckets_of(merchant), place, end, ROWS_AT_A_TIME
            )
            rows = []
            for payment in found:
                settled_in = _settlement_currency(payment)
                payments[payment.currency, settled_in] += 1
                amounts[payment.currency, settled_in] += payment.amount_minor
                rows.append(_captured_row(payment, day, settled_in))
            lines += write_lines(rows)
            if lines:
                yield lines
            lines = b""
        yield write_lines(_total_rows(day, payments, amounts))


def _payment_row(payment: ListedPayment) -> tuple[Cell, ...]:
    return (
        timestamps.write(payment.created_at),
        None if payment.final_at is None else timestamps.write(payment.final_at),
        payment.payment_id,
        identifiers.acquirement_of(payment.payment_id),
        payment.payment_request_id,
        payment.operation,
        payment.state,
        payment.failure_code,
        payment.currency,
        payment.amount_minor,
        _decimal(payment.currency, payment.amount_minor),
        payment.external_store_id,
    )


def _captured_row(payment: CapturedPayment, day: date, settled_in: str) -> tuple[Cell, ...]:
    return (
        "PAYMENT",
        day.isoformat(),
        timestamps.write(payment.final_at),
        timestamps.write(payment.created_at),
        payment.payment_id,
        identifiers.acquirement_of(payment.payment_id),
        payment.payment_request_id,
        payment.operation,
        payment.external_store_id,
        payment.currency,
        settled_in,
        1,
        payment.amount_minor,
        _decimal(payment.currency, payment.amount_minor),
    )


def _total_rows(
    day: date, payments: Counter[tuple[str, str]], amounts: Counter[tuple[str, str]]
) -> list[tuple[Cell, ...]]:
    """Return a row for each pair of currencies, and a last one: a file without it has been cut off."""
    nothing = (None,) * 7
    rows: list[tuple[Cell, ...]] = [
        (
            "TOTAL",
            day.isoformat(),
            *nothing,
            *pair,
            payments[pair],
            amounts[pair],
            _decimal(pair[0], amounts[pair]),
        )
        for pair in sorted(payments)
    ]
    return [*rows, ("END", day.isoformat(), *nothing, None, None, payments.total(), None, None)]


def _settlement_currency(payment: CapturedPayment) -> str:
    """Return in which currency the merchant has asked to be settled; empty when it has not."""
    if payment.request_body is None:
        return ""
    wanted = _read_strategy(payment.request_body).settlement_strategy.settlement_currency
    return wanted if isinstance(wanted, str) else ""


def _decimal(currency: str, amount_minor: int) -> str:
    """Write an amount in major units with all its decimals and a point, for machines."""
    return f"{in_major_units(currency, amount_minor):f}"
