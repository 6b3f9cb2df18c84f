"""A merchant's payments in PostgreSQL, read in the order of time for its pages."""

from typing import Any, Final

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.payment import PaymentState
from payaccept.domain.payment_search import ListedPayment, PaymentSearch
from payaccept.wire.codes import ResultCode

_SQL: Final = statements.load("payment_lists.sql")
_COLUMNS: Final = ListedPayment.__struct_fields__


class PostgresPaymentLists:
    """The port PaymentListStore."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def list_payments(
        self, client_id: str, first_id: str, before_id: str, limit: int
    ) -> list[ListedPayment]:
        """Return the newest payments between two ids, the first of them included."""
        values = {"client_id": client_id, "first_id": first_id, "before_id": before_id, "limit": limit}
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_payments"], values)
            return [_listed(row) for row in await cursor.fetchall()]

    async def search_payments(
        self, client_id: str, search: PaymentSearch, before_id: str, *, limit: int, look_at: int
    ) -> tuple[list[ListedPayment], str | None]:
        """Return the newest payments that are looked for, and the last one looked at when there may be more."""
        values = {
            "client_id": client_id,
            "first_id": search.first_id,
            "before_id": before_id,
            "state": search.state,
            "operation": search.operation,
            "currency": search.currency,
            "least_minor": search.least_minor,
            "most_minor": search.most_minor,
            "store": search.store,
            "limit": limit,
            "look_at": look_at,
        }
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["search_payments"], values)
            rows = await cursor.fetchall()
        return [_listed(row[:-1]) for row in rows if row[0] is not None], rows[0][-1]


def _listed(row: Any) -> ListedPayment:
    members = dict(zip(_COLUMNS, row, strict=True))
    members["state"] = PaymentState(members["state"])
    if members["failure_code"] is not None:
        members["failure_code"] = ResultCode(members["failure_code"])
    return ListedPayment(**members)
