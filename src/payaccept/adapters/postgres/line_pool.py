"""A few lines for what many tasks do occasionally: each gets the one that is free."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from psycopg import AsyncConnection

from payaccept.adapters.postgres.connections import STATEMENT_TIMEOUT_S, SharedLine


class LinePool:
    """Lends lines, the last used first, so that no more are opened than are needed at a time."""

    def __init__(self, database_url: str, name: str, *, size: int = 4, hot: bool = False) -> None:
        self._lines = [SharedLine(database_url, name, hot=hot) for _ in range(size)]
        self._free: asyncio.LifoQueue[SharedLine] = asyncio.LifoQueue()
        for line in self._lines:
            self._free.put_nowait(line)

    @contextlib.asynccontextmanager
    async def connection(
        self, *, timeout_s: float = STATEMENT_TIMEOUT_S
    ) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection. Raises: StoreUnavailable, OutcomeUnknown."""
        line = await self._free.get()
        try:
            async with line.connection(timeout_s=timeout_s) as connection:
                yield connection
        finally:
            self._free.put_nowait(line)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection with a transaction open on it. Raises: StoreUnavailable, OutcomeUnknown."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def close(self) -> None:
        """Close all connections."""
        for line in self._lines:
            await line.close()
