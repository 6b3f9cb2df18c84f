"""Hints between processes that something has become due: NOTIFY, debounced, outside payment transactions.

A lost hint costs the worker one poll interval, nothing else.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

import psycopg

from payaccept.adapters.postgres.connections import Line, SharedLine
from payaccept.domain.errors import OutcomeOpen

CHANNEL: Final = "payaccept_due"
DEBOUNCE_S: Final = 0.02
_RETRY_S: Final = 1.0
_log = logging.getLogger(__name__)


class WakeupSender:
    """Tells the workers; many calls within a moment become one NOTIFY."""

    def __init__(self, database_url: str, *, process: str) -> None:
        self._line = SharedLine(database_url, f"{process}-notify")
        self._task: asyncio.Task[None] | None = None

    def send(self) -> None:
        """Have the workers look, soon. Never fails."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        await asyncio.sleep(DEBOUNCE_S)
        self._task = None  # what comes from here on needs a hint of its own
        with contextlib.suppress(OutcomeOpen, psycopg.Error):
            async with self._line.connection() as connection:
                await connection.execute(f"NOTIFY {CHANNEL}")

    async def close(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
        await self._line.close()


class WakeupListener:
    """Calls back whenever another process says that something is due."""

    def __init__(self, database_url: str, callback: Callable[[], None]) -> None:
        self._line = Line(database_url, "worker-listen", hot=False)
        self._callback = callback

    async def run(self) -> None:
        """Listen until cancelled, connecting again when the connection breaks."""
        try:
            while True:
                try:
                    connection = await self._line.get()
                    await connection.execute(f"LISTEN {CHANNEL}")
                    async for _ in connection.notifies():
                        self._callback()
                except (OutcomeOpen, psycopg.Error):
                    await self._line.drop()
                    await asyncio.sleep(_RETRY_S)
        finally:
            await self._line.drop()
