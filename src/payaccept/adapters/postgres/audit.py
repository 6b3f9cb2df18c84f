"""The audit log: written beside each change, read by merchant or by user, never changed."""

from collections.abc import Iterable
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.audit import Entry

_SQL: Final = statements.load("audit.sql")


async def record(connection: AsyncConnection[Any], *entries: Entry | None) -> None:
    """Write entries in the transaction that the connection has open; None is no entry."""
    for entry in entries:
        if entry is not None:
            members = {name: getattr(entry, name) for name in entry.__struct_fields__}
            for name in ("before", "after"):
                members[name] = None if members[name] is None else Jsonb(dict(members[name]))
            await connection.execute(_SQL["insert_entry"], members)


class PostgresAudit:
    """The port AuditLog."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def insert_entry(self, entry: Entry) -> None:
        """Store an entry by itself, for what changes nothing else."""
        async with self._lines.connection() as connection:
            await record(connection, entry)

    async def list_of_merchant(self, client_id: str, before_id: str, limit: int) -> list[Entry]:
        """Return a merchant's entries older than one, newest first."""
        values = {"client_id": client_id, "before_id": before_id, "limit": limit}
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_entries_of_merchant"], values)
            return _entries(await cursor.fetchall())

    async def list_of_user(self, user_id: str, before_id: str, limit: int) -> list[Entry]:
        """Return what a user did to its own account, older than one entry, newest first."""
        values = {"user_id": user_id, "before_id": before_id, "limit": limit}
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_entries_of_user"], values)
            return _entries(await cursor.fetchall())

    async def list_of_all(
        self, client_id: str | None, user_id: str | None, before_id: str, limit: int
    ) -> list[Entry]:
        """Return entries older than one, newest first: of a merchant, of a person, of both or of all."""
        values = {"client_id": client_id, "user_id": user_id, "before_id": before_id, "limit": limit}
        statement = {
            (False, False): "select_entries",
            (True, False): "select_entries_of_merchant",
            (False, True): "select_entries_by_user",
            (True, True): "select_entries_of_merchant_by_user",
        }[client_id is not None, user_id is not None]
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL[statement], values)
            return _entries(await cursor.fetchall())


def _entries(rows: Iterable[tuple[Any, ...]]) -> list[Entry]:
    return [Entry(**dict(zip(Entry.__struct_fields__, row, strict=True))) for row in rows]
