"""One JSON line for every request and every delivery attempt, gathered and written a few times a second.

Never a body, a key or an auth code. What happens thousands of times a second is logged here; the rest
goes through `logs`.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from payaccept.wire import timestamps

FLUSH_S: Final = 0.2
MAX_WAITING: Final = 20_000

_encode = msgspec.json.Encoder().encode


class LineLog:
    """Writes to a file descriptor without ever keeping the caller waiting. `event` names what its lines tell."""

    def __init__(self, event: str, descriptor: int | None = None) -> None:
        self._event = event
        self._descriptor = sys.stderr.fileno() if descriptor is None else descriptor
        self._lines: list[bytes] = []
        self._lost = 0
        self.lost_total = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start writing in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write what is left."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._flush()

    def write(self, **members: object) -> None:
        """Keep a line; beyond what memory is meant for, lines are counted instead."""
        self.keep(members)

    def keep(self, members: Mapping[str, object]) -> None:
        """Do the same for members that are at hand already."""
        if len(self._lines) >= MAX_WAITING:
            self._lost += 1
            self.lost_total += 1
            return
        self._lines.append(_encode(members))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            self._flush()

    def _flush(self) -> None:
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        at = f'{{"event":"{self._event}","timestamp":"{timestamps.write(datetime.now(UTC))}",'.encode()
        text = b"".join(at + line[1:] + b"\n" for line in lines)
        if self._lost:
            text += _encode({"event": f"{self._event} lines lost", "count": self._lost}) + b"\n"
            self._lost = 0
        with contextlib.suppress(OSError):
            _write_all(self._descriptor, text)


def _write_all(descriptor: int, text: bytes) -> None:
    view: Any = memoryview(text)
    while view:
        view = view[os.write(descriptor, view) :]
