"""The worker process: moves payments on, and delivers notifications. It may crash anywhere."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Protocol

from payaccept.domain.delivery import Delivery
from payaccept.domain.errors import OutcomeOpen
from payaccept.operations.deliveries import Deliveries
from payaccept.operations.progress import BATCH, Progress
from payaccept.operations.provider_keys import Signer

POLL_S: Final = 0.2
AWAY_S: Final = 0.5
PER_LANE: Final = 4

_log = logging.getLogger(__name__)


class SignerSource(Protocol):
    """Knows the key that signs now."""

    async def __call__(self) -> Signer:
        """Return it. Raises: OutcomeOpen."""


class Worker:
    """Two loops that sleep until they are woken, and look anyway every 200 ms."""

    def __init__(
        self,
        progress: Progress,
        deliveries: Deliveries,
        signer: SignerSource,
        *,
        concurrency: int,
        clock: Callable[[], datetime],
    ) -> None:
        self._progress = progress
        self._deliveries = deliveries
        self._signer = signer
        self._concurrency = concurrency
        self._clock = clock
        self._payments_due = asyncio.Event()
        self._deliveries_due = asyncio.Event()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._lanes: Counter[str] = Counter()
        self._stopping = False

    def wake(self) -> None:
        """Look now: something may be due."""
        self._payments_due.set()
        self._deliveries_due.set()

    def stop(self) -> None:
        """Take nothing new; `run` returns when what is under way is done."""
        self._stopping = True
        self.wake()

    async def run(self) -> None:
        """Work until stopped."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat(self._move_payments, self._payments_due))
            tasks.create_task(self._repeat(self._send_deliveries, self._deliveries_due))
        if self._in_flight:
            await asyncio.wait(self._in_flight)

    async def _repeat(self, step: Callable[[], Awaitable[bool]], due: asyncio.Event) -> None:
        """Do a step again and again: at once while it says there is more, else when woken."""
        while not self._stopping:
            due.clear()
            try:
                more = await step()
            except OutcomeOpen:
                await asyncio.sleep(AWAY_S)
                continue
            except Exception:
                _log.exception("a step of the worker failed")
                await asyncio.sleep(AWAY_S)
                continue
            if not more and not self._stopping:
                try:
                    async with asyncio.timeout(POLL_S):
                        await due.wait()
                except TimeoutError:
                    pass

    async def _move_payments(self) -> bool:
        now = self._clock()
        payments = await self._progress.claim(now)
        again = await asyncio.gather(*(self._progress.advance_safely(payment, now) for payment in payments))
        await self._progress.reschedule(
            [(payment, at) for payment, at in zip(payments, again, strict=True) if at is not None]
        )
        if payments:
            self._deliveries_due.set()
        return len(payments) == BATCH

    async def _send_deliveries(self) -> bool:
        room = self._concurrency - len(self._in_flight)
        if room <= 0:
            return False  # the next attempt that ends wakes us
        signer = await self._signer()
        full = [lane for lane, count in self._lanes.items() if count >= PER_LANE]
        claimed = await self._deliveries.claim(room, full)
        for delivery in claimed:
            task = asyncio.create_task(self._attempt(delivery, signer))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)
        return len(claimed) == room

    async def _attempt(self, delivery: Delivery, signer: Signer) -> None:
        self._lanes[delivery.lane] += 1
        try:
            await self._deliveries.attempt(delivery, signer)
        except Exception:
            _log.exception("an attempt failed", extra={"eventId": delivery.event_id})
        finally:
            self._lanes[delivery.lane] -= 1
            if not self._lanes[delivery.lane]:
                del self._lanes[delivery.lane]
            self._deliveries_due.set()
