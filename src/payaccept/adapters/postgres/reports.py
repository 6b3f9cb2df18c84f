"""Totals and captured payments in PostgreSQL, for a merchant's reports."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Final

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Integers
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.domain.totals import CapturedPayment, DayTotal

LONG_S: Final = 60.0
"""Who has few payments among many of others waits that long for them; nobody's payment waits meanwhile."""
LEAST_OF_BUCKET: Final = 16

_SQL: Final = statements.load("reports.sql")


class PostgresReports:
    """The port ReportStore. Files have a connection of their own, so that no page waits for one."""

    def __init__(self, database_url: str, *, process: str) -> None:
        self._pages = SharedLine(database_url, f"{process}-totals", hot=True)
        self._files = SharedLine(database_url, f"{process}-files", hot=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._pages.close()
        await self._files.close()

    async def list_day_totals(self, client_id: str, first: date, last: date) -> list[DayTotal]:
        """Return the totals of the days from the first to the last."""
        values = {"client_id": client_id, "first": first, "last": last}
        async with self._pages.connection() as connection:
            cursor = await connection.execute(_SQL["select_day_totals"], values)
            return [
                DayTotal(
                    day=day,
                    currency=currency,
                    operation=operation,
                    outcome=outcome,
                    payments=payments,
                    amount_minor=int(amount_minor),
                )
                for day, currency, operation, outcome, payments, amount_minor in await cursor.fetchall()
            ]

    async def list_captured(
        self, client_id: str, buckets: Sequence[int], after: str, end: str, limit: int
    ) -> tuple[list[CapturedPayment], str | None]:
        """Return payments captured between two eventIds, and the eventId to go on after."""
        of_each = limit if len(buckets) == 1 else max(LEAST_OF_BUCKET, limit // len(buckets))
        values = {
            "client_id": client_id,
            "buckets": Integers(buckets),
            "after": after,
            "end": end,
            "limit": of_each,
        }
        async with self._files.connection(timeout_s=LONG_S) as connection:
            await connection.execute(_SQL["set_statement_timeout"], {"statement_timeout": f"{LONG_S:.0f}s"})
            cursor = await connection.execute(_SQL["select_captured_between"], values, binary=True)
            rows = await cursor.fetchall()
        last_of = {bucket: event_id for bucket, event_id, *_ in rows}
        count_of = Counter(bucket for bucket, *_ in rows)
        # A bucket of which as many were read as were asked for may have more behind its last one.
        ends = [last_of[bucket] for bucket, count in count_of.items() if count == of_each]
        found = [
            CapturedPayment(**dict(zip(CapturedPayment.__struct_fields__, row, strict=True)))
            for _, *row in rows
        ]
        if not ends:
            return found, None
        return [payment for payment in found if payment.event_id <= min(ends)], min(ends)
