"""Reads over all merchants, for the provider's staff."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.merchants import merchant_of
from payaccept.domain.dead_deliveries import DeadCount, DeadDelivery, Place
from payaccept.domain.merchant import Merchant, MerchantState

MOST_COUNTS: Final = 200
_SQL: Final = statements.load("oversight.sql")
_FIRST: Final = Place(datetime(9999, 1, 1, tzinfo=UTC), "evt_~")


class PostgresOversight:
    """The port OversightStore."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def search_merchants(
        self, text: str, state: MerchantState | None, behind: str | None, limit: int
    ) -> list[Merchant]:
        """Return merchants with the text in their name or Client-Id, the newest first, behind one of them."""
        values = {"pattern": _pattern(text), "state": state, "behind": behind, "limit": limit}
        return [merchant_of(row) for row in await self._rows("search_merchants", values)]

    async def names_of(self, client_ids: Collection[str]) -> dict[str, str]:
        """Return merchants' names."""
        return dict(await self._rows("select_names", {"client_id": list(client_ids)}))

    async def count_dead(self, looked_at: int) -> list[DeadCount]:
        """Count the latest dead deliveries by merchant and reason, the most first."""
        rows = await self._rows("count_dead", {"looked_at": looked_at, "limit": MOST_COUNTS})
        return [DeadCount(**dict(zip(DeadCount.__struct_fields__, row, strict=True))) for row in rows]

    async def list_dead(self, client_id: str | None, behind: Place | None, limit: int) -> list[DeadDelivery]:
        """Return dead deliveries behind a place, of one merchant or of all, the last given up first."""
        place = behind or _FIRST
        values: dict[str, Any] = {"final_at": place.final_at, "event_id": place.event_id, "limit": limit}
        statement = "select_dead"
        if client_id is not None:
            statement, values = "select_dead_of_merchant", values | {"client_id": client_id}
        rows = await self._rows(statement, values)
        return [DeadDelivery(**dict(zip(DeadDelivery.__struct_fields__, row, strict=True))) for row in rows]

    async def _rows(self, statement: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL[statement], values)
            return await cursor.fetchall()


def _pattern(text: str) -> str | None:
    """Return the pattern for a text anywhere in another; None for no text."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%" if text else None
