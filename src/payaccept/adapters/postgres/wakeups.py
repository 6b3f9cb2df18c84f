"""Hints between processes that something has become due: NOTIFY, debounced, outside payment transactions.

A hint names the lanes in which something is due, so that workers need not look for them; one that names none says
that it may be anything. A lost hint costs the worker one poll interval, nothing else.
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
DEBOUNCE_S: Final = 0.01
MAX_BYTES: Final = 7000
"""How long a hint may become; PostgreSQL takes 8000 bytes. With more lanes than fit it names none."""
SEPARATOR: Final = "\n"
_RETRY_S: Final = 1.0
_log = logging.getLogger(__name__)


class WakeupSender:
    """Tells the workers; many calls within a moment become one NOTIFY."""

    def __init__(self, database_url: str, *, process: str) -> None:
        self._line = SharedLine(database_url, f"{process}-notify")
        self._task: asyncio.Task[None] | None = None
        self._lanes: dict[str, None] | None = {}  # None: anything

    def send(self, lane: str | None = None) -> None:
        """Have the workers look, soon. Never fails."""
        if lane is None:
            self._lanes = None
        elif self._lanes is not None:
            self._lanes[lane] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        await asyncio.sleep(DEBOUNCE_S)
        self._task = None  # what comes from here on needs a hint of its own
        lanes, self._lanes = self._lanes, {}
        hint = SEPARATOR.join(lanes or ())
        if len(hint.encode()) > MAX_BYTES:
            hint = ""
        with contextlib.suppress(OutcomeOpen, psycopg.Error):
            async with self._line.connection() as connection:
                await connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, hint])

    async def close(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
        await self._line.close()


class WakeupListener:
    """Calls back whenever another process says that something is due, with each lane it names, or with None."""

    def __init__(self, database_url: str, callback: Callable[[str | None], None]) -> None:
        self._line = Line(database_url, "worker-listen", hot=False)
        self._callback = callback

    async def run(self) -> None:
        """Listen until cancelled, connecting again when the connection breaks."""
        try:
            while True:
                try:
                    connection = await self._line.get()
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self._callback(None)  # of what was said before, nothing was heard
                    async for said in connection.notifies():
                        for lane in said.payload.split(SEPARATOR):
                            self._callback(lane or None)
                except (OutcomeOpen, psycopg.Error):
                    await self._line.drop()
                    await asyncio.sleep(_RETRY_S)
        finally:
            await self._line.drop()
