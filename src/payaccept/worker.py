"""The worker process: moves payments on, and delivers notifications. It may crash anywhere."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

from payaccept.domain.delivery import Delivery, Lanes
from payaccept.domain.errors import OutcomeOpen
from payaccept.operations.deliveries import Deliveries
from payaccept.operations.progress import BATCH, Progress
from payaccept.operations.provider_keys import Signer

POLL_S: Final = 0.2
AWAY_S: Final = 0.5
PER_LANE: Final = 32
SIGNED_TOGETHER: Final = 16

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
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes = Lanes(PER_LANE)
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
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _repeat(self, step: Callable[[], Awaitable[bool]], due: asyncio.Event) -> None:
        """Do a step again and again: at once while it says there is more, else when woken."""
        while not self._stopping:
            due.clear()
            try:
                more = await step()
            except OutcomeOpen:
                await asyncio.sleep(AWAY_S)
                continue
            except Exception:  # noqa: BLE001 - a bug here must not end the worker
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
        room = self._concurrency - self._in_flight
        if room < self._concurrency // 4:
            return False  # claims in large batches are cheap; an attempt that ends wakes us
        signer = await self._signer()
        claim = await self._deliveries.claim(room, self._lanes)
        claimed = claim.deliveries
        for first in range(0, len(claimed), SIGNED_TOGETHER):
            together = claimed[first : first + SIGNED_TOGETHER]
            self._in_flight += len(together)
            for delivery in together:
                self._lanes.begin(delivery.lane)
            task = asyncio.create_task(self._send(together, signer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return claim.more

    async def _send(self, deliveries: Sequence[Delivery], signer: Signer) -> None:
        """Sign some notifications in one go, since a thread costs more than a signature; then send each."""
        try:
            headers = await self._deliveries.sign(deliveries, signer)
        except Exception:  # noqa: BLE001 - a bug here must not end the worker
            _log.exception("signing failed")
            for delivery in deliveries:
                self._ended(delivery)
            return
        await asyncio.gather(*map(self._attempt, deliveries, headers))

    async def _attempt(self, delivery: Delivery, headers: dict[str, str]) -> None:
        try:
            await self._deliveries.attempt(delivery, headers)
        except Exception:  # noqa: BLE001 - a bug here must not end the worker
            _log.exception("an attempt failed", extra={"eventId": delivery.event_id})
        finally:
            self._ended(delivery)

    def _ended(self, delivery: Delivery) -> None:
        self._in_flight -= 1
        lane_takes_more = self._lanes.end(delivery.lane)
        if lane_takes_more or self._in_flight == self._concurrency * 3 // 4:
            self._deliveries_due.set()
