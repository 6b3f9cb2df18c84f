"""A process says every ten seconds that it lives, and what it has counted since it last said so.

That is the history which the operator's page shows without anything else to run; Prometheus has all figures, more
exactly and for longer.
"""

import asyncio
import logging
import os
import resource
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from payaccept import __version__
from payaccept.adapters.postgres.health import PostgresPulse
from payaccept.domain.errors import OutcomeOpen, StoreUnavailable
from payaccept.domain.health import (
    BEATS_EVERY_S,
    BEYOND,
    FORGOTTEN_AFTER,
    KEPT_FOR,
    STATES,
    Figure,
    Process,
    Sample,
)
from payaccept.figures import catalogue
from payaccept.figures.metric import Kind, Layout, Metric
from payaccept.figures.sampling import resident_bytes
from payaccept.figures.slab import Slab

FIRST_AFTER_S: Final = 1.0
EXPIRE_EVERY_S: Final = 3600.0
_MS: Final = 1000

# By label; a figure of several labels goes by its last one.
_FIGURES: Final = {
    "payaccept_requests_total": Figure.REQUESTS,
    "payaccept_request_seconds": Figure.REQUEST_TIMES,
    "payaccept_payments_settled_total": Figure.SETTLED,
    "payaccept_delivery_attempts_total": Figure.ATTEMPTS,
    "payaccept_delivery_first_attempt_seconds": Figure.FIRST_ATTEMPTS,
    "payaccept_delivery_acknowledged_seconds": Figure.ACKNOWLEDGED,
    "payaccept_deliveries_died_total": Figure.DIED,
    "payaccept_delivery_attempts_unrecorded_total": Figure.UNRECORDED,
    "payaccept_deliveries": Figure.DELIVERIES,
    "payaccept_deliveries_oldest_due_seconds": Figure.OLDEST_DUE,
    "payaccept_lanes": Figure.LANES,
    "payaccept_events_unnumbered": Figure.UNNUMBERED,
    "payaccept_payments_overdue_seconds": Figure.OVERDUE,
}
_log = logging.getLogger(__name__)


class Pulse:
    """One process's. Without a slab it has nothing to tell but that it lives."""

    def __init__(
        self, kind: str, store: PostgresPulse, clock: Callable[[], datetime], slab: Slab | None = None
    ) -> None:
        self._kind = kind
        self._store = store
        self._clock = clock
        self._slab = slab
        self._cells = [] if slab is None else list(_cells(slab.layout))
        self._process_id = f"prc_{secrets.token_hex(12)}"
        self._started_at: datetime | None = None
        self._told: dict[tuple[Figure, str], int] = {}
        self._used_s, self._used_at_s = _processor_s(), time.monotonic()
        self._expired_at_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Say the last counts, and leave."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._started_at is not None:
            with suppress(OutcomeOpen):  # then it is one that has fallen silent
                await self.beat()
                await self._store.leave(self._process_id)
        await self._store.close()

    async def _run(self) -> None:
        await asyncio.sleep(FIRST_AFTER_S)  # what ends at once says nothing
        while True:
            try:
                await self.beat()
                if self._kind == "worker":
                    await self._expire()
            except OutcomeOpen:
                pass  # the next time will do
            except Exception:  # noqa: BLE001 - a bug here must not end the pulse
                _log.exception("saying that this process lives failed")
            await asyncio.sleep(BEATS_EVERY_S)

    async def beat(self) -> None:
        """Say it once. Raises: OutcomeOpen."""
        now = self._clock()
        if self._started_at is None:
            self._started_at = now
        counted = self._count()
        samples = [
            Sample(figure, label, amount if figure in STATES else amount - self._told.get((figure, label), 0))
            for (figure, label), amount in counted.items()
        ]
        try:
            await self._store.beat(
                self._present(now, self._started_at),
                now.replace(second=0, microsecond=0),
                [sample for sample in samples if sample.amount > 0],
            )
        except StoreUnavailable:
            raise  # nothing was added: the next time all of it is
        except OutcomeOpen:
            self._told = counted  # perhaps it was; better too little than twice
            raise
        self._told = counted

    async def _expire(self) -> None:
        if time.monotonic() - self._expired_at_s >= EXPIRE_EVERY_S or not self._expired_at_s:
            now = self._clock()
            await self._store.expire(now - KEPT_FOR, now - FORGOTTEN_AFTER)
            self._expired_at_s = time.monotonic()

    def _count(self) -> dict[tuple[Figure, str], int]:
        """Return all that is counted and not nothing."""
        if self._slab is None:
            return {}
        numbers: Sequence[float] = self._slab.read().cells
        counted: dict[tuple[Figure, str], int] = {}
        for figure, label, cell, factor in self._cells:
            if numbers[cell] > 0:
                amount = counted.get((figure, label), 0) + round(numbers[cell] * factor)
                counted[figure, label] = amount
        return counted

    def _present(self, now: datetime, started_at: datetime) -> Process:
        used_s, at_s = _processor_s(), time.monotonic()
        passed_s = max(at_s - self._used_at_s, 0.001)
        permille = max(0, round(1000 * (used_s - self._used_s) / passed_s))
        self._used_s, self._used_at_s = used_s, at_s
        return Process(
            process_id=self._process_id,
            kind=self._kind,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            started_at=started_at,
            seen_at=max(now, started_at),
            cpu_permille=permille,
            memory_bytes=resident_bytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss),
        )


def _cells(layout: Layout) -> Iterator[tuple[Figure, str, int, int]]:
    """Return the cells that are told of: their figure, label and place, and what makes whole numbers of theirs."""
    for metric in layout.metrics:
        figure = _FIGURES.get(metric.name)
        if figure is None:
            continue
        for values in metric.combinations():
            if values[:1] != (catalogue.DOCUMENT,):  # health checks are no requests of anybody's
                yield from _of(layout, metric, figure, values)


def _of(
    layout: Layout, metric: Metric, figure: Figure, values: tuple[str, ...]
) -> Iterator[tuple[Figure, str, int, int]]:
    start = layout.start(metric.name, *values)
    if metric.kind is Kind.HISTOGRAM:
        for place, label in enumerate([*map(str, metric.bounds), BEYOND]):
            yield figure, label, start + place, 1
    else:
        is_time = metric.name.endswith("_seconds")
        yield figure, values[-1] if values else "", start, _MS if is_time else 1


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
