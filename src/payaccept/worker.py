"""The worker process: moves payments on, and delivers notifications. It may crash anywhere."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from payaccept.domain.errors import OutcomeOpen
from payaccept.operations.lane_alarms import LaneAlarms
from payaccept.operations.ports import Numbering, Partitions
from payaccept.operations.progress import BATCH, Progress
from payaccept.operations.replays import ReplayRunner
from payaccept.operations.sending import Sending

POLL_S: Final = 0.2
AWAY_S: Final = 0.5
THIN_OUT_EVERY_S: Final = 0.25
MEET_EVERY_S: Final = 0.5
KEEP_LANES_EVERY_S: Final = 1.0
NUMBER_EVERY_S: Final = 1.0
ALARM_EVERY_S: Final = 30.0
MAINTAIN_EVERY_S: Final = 3600.0

_log = logging.getLogger(__name__)

Step = Callable[[], Awaitable[float]]
"""Does something once; returns after how many seconds to do it again at the latest."""


class Worker:
    """Loops that sleep until it is time for their next step; two of them are woken before that."""

    def __init__(
        self,
        progress: Progress,
        sending: Sending,
        numbering: Numbering,
        partitions: Partitions,
        *,
        clock: Callable[[], datetime],
        replays: ReplayRunner,
        alarms: LaneAlarms | None = None,
    ) -> None:
        self._progress = progress
        self._sending = sending
        self._numbering = numbering
        self._partitions = partitions
        self._clock = clock
        self._replays = replays
        self._alarms = alarms
        self._payments_due = asyncio.Event()
        self._deliveries_due = asyncio.Event()
        self._stopped = asyncio.Event()

    def wake(self, lane: str | None = None) -> None:
        """Look now: something may be due, in a lane or anywhere."""
        if lane is None:
            self._payments_due.set()
        self._sending.look(lane)
        self._deliveries_due.set()

    def fill(self) -> None:
        """There is room for more deliveries."""
        self._deliveries_due.set()

    def stop(self) -> None:
        """Take nothing new; `run` returns when what is under way is done."""
        self._stopped.set()
        self.wake()

    async def run(self) -> None:
        """Work until stopped."""
        steps = {
            self._move_payments: self._payments_due,
            self._sending.fill: self._deliveries_due,
            self._thin_out: self._stopped,
            self._meet: self._stopped,
            self._keep_lanes: self._stopped,
            self._number: self._stopped,
            self._maintain: self._stopped,
            self._replays.run_pages: self._stopped,
            self._alarm: self._stopped,
        }
        async with asyncio.TaskGroup() as tasks:
            for step, due in steps.items():
                tasks.create_task(self._repeat(step, due))
        await self._sending.stop()

    async def _repeat(self, step: Step, due: asyncio.Event) -> None:
        """Do a step again and again: when it has said, and before that when something is due."""
        while not self._stopped.is_set():
            if due is not self._stopped:
                due.clear()
            try:
                wait_s = await step()
            except OutcomeOpen:
                await asyncio.sleep(AWAY_S)
            except Exception:  # noqa: BLE001 - a bug here must not end the worker
                _log.exception("a step of the worker failed")
                await asyncio.sleep(AWAY_S)
            else:
                if not self._stopped.is_set():
                    await _wait(due, wait_s)

    async def _move_payments(self) -> float:
        now = self._clock()
        payments = await self._progress.claim(now)
        again = await asyncio.gather(*(self._progress.advance_safely(payment, now) for payment in payments))
        await self._progress.reschedule(
            [(payment, at) for payment, at in zip(payments, again, strict=True) if at is not None]
        )
        return 0.0 if len(payments) == BATCH else POLL_S

    async def _thin_out(self) -> float:
        self._sending.thin_out()
        return THIN_OUT_EVERY_S

    async def _meet(self) -> float:
        await self._sending.meet()
        return MEET_EVERY_S

    async def _keep_lanes(self) -> float:
        await self._sending.keep_lanes()
        return KEEP_LANES_EVERY_S

    async def _number(self) -> float:
        await self._numbering.number_waiting(self._clock())
        return NUMBER_EVERY_S

    async def _alarm(self) -> float:
        if self._alarms is not None:
            await self._alarms.tell()
        return ALARM_EVERY_S

    async def _maintain(self) -> float:
        await self._partitions.maintain(self._clock())
        await self._sending.mend()
        return MAINTAIN_EVERY_S


async def _wait(due: asyncio.Event, at_most_s: float) -> None:
    if at_most_s > 0:
        try:
            async with asyncio.timeout(at_most_s):
                await due.wait()
        except TimeoutError:
            pass
