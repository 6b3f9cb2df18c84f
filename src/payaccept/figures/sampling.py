"""What a process says of itself every second: its batches, its connections, its use of the machine."""

import asyncio
import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from payaccept.adapters.postgres.tallies import CONNECTIONS, Batches, all_batches
from payaccept.figures import catalogue
from payaccept.figures.slab import Slab
from payaccept.line_log import LineLog

EVERY_S: Final = 1.0
_STATM: Final = Path("/proc/self/statm")


class Sampling:
    """Copies what was counted elsewhere into the slab. `more` is called with each round, to add to it."""

    def __init__(self, slab: Slab, logs: Sequence[LineLog], more: Callable[[], None] = lambda: None) -> None:
        self._logs = logs
        self._more = more
        self._sizes = slab.histograms("payaccept_group_commit_batch_size")
        self._seconds = slab.histograms("payaccept_group_commit_seconds")
        self._waiting = slab.numbers("payaccept_group_commit_waiting")
        self._open = slab.number("payaccept_database_lines_open")
        self._connects = slab.numbers("payaccept_database_connects_total")
        self._lost = slab.number("payaccept_log_lines_lost_total")
        self._cpu = slab.number("payaccept_cpu_seconds_total")
        self._memory = slab.number("payaccept_resident_memory_bytes")
        self._heartbeat = slab.number("payaccept_heartbeat_timestamp_seconds")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop, with a last look."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.look()

    async def _run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(EVERY_S)

    def look(self) -> None:
        """Copy all of it now."""
        for method, batches in _by_method().items():
            self._sizes[method].set(batches.sizes, batches.calls)
            self._seconds[method].set(batches.times, batches.seconds)
            self._waiting[method].set(batches.waiting)
        self._open.set(CONNECTIONS.open)
        self._connects["opened"].set(CONNECTIONS.opened)
        self._connects["failed"].set(CONNECTIONS.failed)
        self._lost.set(sum(log.lost_total for log in self._logs))
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._cpu.set(used.ru_utime + used.ru_stime)
        self._memory.set(resident_bytes(used.ru_maxrss))
        self._heartbeat.set(time.time())
        self._more()


def _by_method() -> dict[str, Batches]:
    """Return the batches of each method that the catalogue names, and those of all others together."""
    named: dict[str, Batches] = {}
    for method, batches in all_batches().items():
        known = method if method in catalogue.METHODS else catalogue.OTHER
        named.setdefault(known, Batches()).include(batches)
    return named


def resident_bytes(peak: int) -> int:
    """Return the memory in use; where the system does not say (macOS), what it was at most."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak
