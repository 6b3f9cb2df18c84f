"""What is left to do, read from the database now and then: not when Prometheus asks, and never for long."""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from payaccept.adapters.postgres.backlog import Backlog, PostgresBacklog
from payaccept.domain.errors import OutcomeOpen
from payaccept.figures.slab import Slab

EVERY_S: Final = 10.0
PAUSE: Final = 50.0
"""Reading takes a fiftieth of the time at most, however much is left to do."""

_log = logging.getLogger(__name__)


class BacklogFigures:
    """Reads the backlog again and again. While the database is away, the figures stay as they were."""

    def __init__(self, slab: Slab, store: PostgresBacklog, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._deliveries = slab.numbers("payaccept_deliveries")
        self._oldest = slab.numbers("payaccept_deliveries_oldest_due_seconds")
        self._lanes = slab.numbers("payaccept_lanes")
        self._unnumbered = slab.number("payaccept_events_unnumbered")
        self._payments = slab.number("payaccept_payments_overdue_seconds")
        self._read_at = slab.number("payaccept_backlog_read_timestamp_seconds")
        self._read_s = slab.number("payaccept_backlog_read_seconds")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop, and close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._store.close()

    async def _run(self) -> None:
        while True:
            begun = time.monotonic()
            try:
                await self.read()
            except OutcomeOpen:
                pass  # the time of the last reading tells
            except Exception:  # noqa: BLE001 - a bug here must not end the figures
                _log.exception("reading the backlog failed")
            await asyncio.sleep(max(EVERY_S, PAUSE * (time.monotonic() - begun)))

    async def read(self) -> None:
        """Read once. Raises: OutcomeOpen."""
        begun = time.monotonic()
        now = self._clock()
        self._show(await self._store.read(now), now)
        self._read_at.set(now.timestamp())
        self._read_s.set(time.monotonic() - begun)

    def _show(self, backlog: Backlog, now: datetime) -> None:
        self._deliveries["due"].set(backlog.due)
        self._deliveries["leased"].set(backlog.leased)
        self._deliveries["waiting"].set(backlog.waiting)
        self._deliveries["dead"].set(backlog.dead)
        self._oldest["closed"].set(_age_s(backlog.oldest_due_at, now))
        self._oldest["open"].set(_age_s(backlog.oldest_due_in_open_lanes_at, now))
        self._lanes["due"].set(backlog.due_lanes)
        self._lanes["late"].set(backlog.late_lanes)
        self._lanes["failing"].set(backlog.failing_lanes)
        self._lanes["open"].set(backlog.open_lanes)
        self._unnumbered.set(backlog.unnumbered_events)
        self._payments.set(_age_s(backlog.oldest_payment_at, now))


def _age_s(at: datetime | None, now: datetime) -> float:
    return 0.0 if at is None else max(0.0, (now - at).total_seconds())
