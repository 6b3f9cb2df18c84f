"""What was recorded of requests, read for the pages of their merchant."""

from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import Struct

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.traffic import AcceptedRequest, KeyUse, Minute, RefusalCount, RefusedRequest

T = TypeVar("T", bound=Struct)

_SQL: Final = statements.load("traffic.sql")


class PostgresRequests:
    """The port RequestStore."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def list_refused(
        self, client_id: str, before_id: str, result_code: str | None, limit: int
    ) -> list[RefusedRequest]:
        """Return refused requests older than one, newest first."""
        values = {"client_id": client_id, "before_id": before_id, "result_code": result_code, "limit": limit}
        return await self._list(RefusedRequest, "select_refused_requests", values)

    async def find_refused(self, client_id: str, request_id: str) -> RefusedRequest | None:
        """Return one refused request of a merchant."""
        values = {"client_id": client_id, "request_id": request_id}
        found = await self._list(RefusedRequest, "select_refused_request", values)
        return found[0] if found else None

    async def list_accepted(self, client_id: str, before_id: str, limit: int) -> list[AcceptedRequest]:
        """Return requests that made a payment, older than one, newest first."""
        values = {"client_id": client_id, "before_id": before_id, "limit": limit}
        return await self._list(AcceptedRequest, "select_accepted_requests", values)

    async def count_refusals(self, client_id: str, since: datetime) -> list[RefusalCount]:
        """Count what was refused, by code, the most frequent first."""
        values = {"client_id": client_id, "since": since}
        return await self._list(RefusalCount, "select_refusal_counts", values)

    async def list_key_uses(self, client_id: str) -> list[KeyUse]:
        """Return how the merchant's keys were used since they were added."""
        return await self._list(KeyUse, "select_key_uses", {"client_id": client_id})

    async def list_minutes(self, client_id: str, since: datetime) -> list[Minute]:
        """Return what its keys did in each minute."""
        return await self._list(Minute, "select_key_minutes", {"client_id": client_id, "since": since})

    async def _list(self, kind: type[T], statement: str, values: dict[str, Any]) -> list[T]:
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL[statement], values)
            return [
                kind(**dict(zip(kind.__struct_fields__, row, strict=True))) for row in await cursor.fetchall()
            ]
