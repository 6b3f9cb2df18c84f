"""What a worker has in hand: claimed lane by lane, signed together, sent within the limits, recorded.

What is signed waits for its turn in its lane. It is given back unsent when the lane turns bad meanwhile, or when
the worker stops.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from payaccept.domain.delivery import Attempt, Delivery, is_unwell, reason_of
from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.lanes import Ask, FailingLane, Lanes
from payaccept.domain.membership import Membership
from payaccept.domain.places import LONG_AGO, Limits
from payaccept.operations.deliveries import Deliveries, Signed
from payaccept.operations.ports import Workers
from payaccept.operations.provider_keys import Signer

SIGNING_THREADS: Final = 2
SIGNED_TOGETHER: Final = 16
SIGNED_AT_LEAST: Final = 4
"""In one go, as far as there are so many: few are shared among the threads, and sent the sooner."""
LOOK_EVERY_S: Final = 0.2
SWEEP_EVERY_S: Final = 5.0
WALK_LANES: Final = 1000
WALK_PAUSE: Final = 5.0
CLAIM_PAUSE: Final = 2.0
"""How much longer than it took one waits before the next walk along the lanes, or the next claim: so neither takes
more than its share of the time, and under load each finds more."""
TOLD_PAUSE_AT_MOST_S: Final = 0.02
"""What one is told of has just fallen due: a claim that the disk has held up is no reason for the next to wait."""

_log = logging.getLogger(__name__)


class SignerSource(Protocol):
    """Knows the key that signs now."""

    async def __call__(self) -> Signer:
        """Return it. Raises: OutcomeOpen."""


class _Ready(Struct, frozen=True):
    """A delivery that is signed, and when it was claimed."""

    delivery: Delivery
    signed: Signed
    claimed_s: float


class Sending:
    """Claims deliveries, sends them and records what became of them, within the limits of the lanes.

    `on_room` is called when it is time to `fill` again. `walk` goes on beside it, so that nobody of whom one has
    heard waits for the others to be found.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        workers: Workers,
        signer: SignerSource,
        limits: Limits,
        *,
        on_room: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deliveries = deliveries
        self._workers = workers
        self._signer = signer
        self._on_room = on_room
        self._monotonic = monotonic
        self.lanes = Lanes(limits)
        self._membership = Membership()
        self._met = False
        self._stopping = False
        self._look = True
        self._told_of: dict[str, None] = {}
        self._found: dict[str, None] = {}
        self._found_far_back = False
        self._rest = True
        self._look_at_s = self._sweep_at_s = self._walked_at_s = float("-inf")
        self._told_at_s = self._rest_at_s = self._filled_at_s = float("-inf")
        self._sweeping = False
        self._after = ""
        self._in_hand: dict[str, Delivery] = {}
        self._waiting: dict[str, deque[_Ready]] = {}
        self._unkept: dict[str, FailingLane | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self, lane: str | None = None) -> None:
        """Hear that something may be due: in a lane, which is then looked into, or anywhere."""
        if lane is None or len(self._told_of) >= WALK_LANES:
            self._look = True
        else:
            self._told_of[lane] = None

    async def fill(self) -> float:
        """Claim as much as there is room for, and begin to send it: what one is told of does not wait for the rest.

        Returns: after how many seconds to fill again at the latest. Raises: OutcomeOpen.
        """
        if not self._met:
            await self.meet()
        signer = await self._signer()
        now_s = self._monotonic()
        if self._told_of and now_s >= self._told_at_s:
            told_of, self._told_of = self._told_of, {}
            pause_s = await self._claim_of([*told_of], signer, told=True)
            self._told_at_s = self._monotonic() + min(pause_s, TOLD_PAUSE_AT_MOST_S)
            return 0.0
        if now_s >= self._rest_at_s and (self._rest or now_s - self._filled_at_s >= LOOK_EVERY_S * 0.9):
            found, far_back = self._found, self._found_far_back
            self._found, self._found_far_back, self._rest, self._filled_at_s = {}, False, False, now_s
            pause_s = await self._claim_of([*found], signer, sweep=far_back)
            self._rest_at_s = self._monotonic() + pause_s
        now_s = self._monotonic()
        waits = [self._told_at_s - now_s] * bool(self._told_of) + [self._rest_at_s - now_s] * self._rest
        return max(0.0, min(waits, default=LOOK_EVERY_S))

    async def _claim_of(
        self, lanes: Sequence[str], signer: Signer, *, told: bool = False, sweep: bool = False
    ) -> float:
        """Claim of some lanes as `Lanes.plan` has it. Returns: how long to pause then."""
        begun_s = self._monotonic()
        since, serves = self._deliveries.since(), self._membership.serves
        asks = self.lanes.plan(lanes, begun_s, since=since, serves=serves, told=told, sweep=sweep)
        if not asks:
            return 0.0
        await self._claim(asks, signer)
        return CLAIM_PAUSE * (self._monotonic() - begun_s)

    def _fill_up(self) -> None:
        """Have the other places filled, too, and not only with what one is told of."""
        self._rest = True
        self._on_room()

    async def _claim(self, asks: Sequence[Ask], signer: Signer) -> None:
        claimed_s = self._monotonic()
        taken: dict[str, list[Delivery]] = {ask.lane: [] for ask in asks}
        in_hand = [event_id for event_id, of in self._in_hand.items() if of.lane in taken]
        claimed = await self._deliveries.claim(asks, in_hand)
        for delivery in claimed:
            taken[delivery.lane].append(delivery)
            self._in_hand[delivery.event_id] = delivery
        for ask in asks:
            due = [delivery.due_at for delivery in taken[ask.lane]]
            self.lanes.took(ask, len(due), min(due, default=None))
        together = min(SIGNED_TOGETHER, max(SIGNED_AT_LEAST, -(-len(claimed) // SIGNING_THREADS)))
        for first in range(0, len(claimed), together):
            self._spawn(self._sign(claimed[first : first + together], signer, claimed_s))

    async def walk(self) -> float:
        """Look which lanes have something due, if it is time to; what is found is claimed by the next `fill`.

        Returns: after how many seconds to walk again at the latest. Raises: OutcomeOpen.
        """
        now_s = self._monotonic()
        wanted = self._look or now_s - self._walked_at_s >= LOOK_EVERY_S * 0.9
        is_full = self.lanes.in_hand >= self.lanes.limits.in_all or len(self._found) >= WALK_LANES
        if not wanted or is_full:
            return LOOK_EVERY_S
        if now_s >= self._look_at_s:
            await self._walk_on(now_s)
        return max(0.0, self._look_at_s - self._monotonic()) if self._look else LOOK_EVERY_S

    async def _walk_on(self, now_s: float) -> None:
        if now_s >= self._sweep_at_s and not self._after:
            self._sweeping = True
            self._sweep_at_s = now_s + SWEEP_EVERY_S
        self._look = False  # what is told of from here on is looked for the next time
        try:
            since = LONG_AGO if self._sweeping else self._deliveries.since()
            found = await self._deliveries.list_due_lanes(self._after, since, WALK_LANES)
        except BaseException:
            self._look = True
            raise
        finally:
            self._walked_at_s = self._monotonic()
            self._look_at_s = now_s + (1 + WALK_PAUSE) * (self._walked_at_s - now_s)
        if found:
            self._found.update(dict.fromkeys(found))
            self._found_far_back = self._found_far_back or self._sweeping
            self._fill_up()
        if len(found) == WALK_LANES:
            self._after, self._look = found[-1], True  # the rest of them the next time
        else:
            self._after, self._sweeping = "", False

    async def _sign(self, deliveries: Sequence[Delivery], signer: Signer, claimed_s: float) -> None:
        """Sign some notifications in one go, since a thread costs more than a signature."""
        try:
            signed = await self._deliveries.sign(deliveries, signer)
        except Exception:  # noqa: BLE001 - a bug here must not end the worker
            _log.exception("signing failed")
            for delivery in deliveries:
                self._end(delivery)
            return
        for delivery, each in zip(deliveries, signed, strict=True):
            waiting = self._waiting.setdefault(delivery.lane, deque())
            waiting.append(_Ready(delivery, each, claimed_s))
        for lane in {delivery.lane for delivery in deliveries}:
            self._send(lane)
        if self._stopping:
            await self._give_back_waiting()

    def _send(self, lane: str) -> None:
        """Begin as many exchanges as the lane may have in flight, and give back what it is not to have in hand."""
        waiting = self._waiting.get(lane)
        if waiting is None:
            return
        now_s = self._monotonic()
        back: list[Delivery] = []
        while waiting and not self._stopping and self.lanes.may_send(lane, now_s):
            ready = waiting.popleft()
            if now_s - ready.claimed_s > self._deliveries.sent_within_s:
                back.append(ready.delivery)
                continue
            self.lanes.begin(lane, now_s)
            self._spawn(self._attempt(ready, now_s))
        too_many = min(len(waiting), self.lanes.too_many(lane, now_s))
        back += [waiting.pop().delivery for _ in range(too_many)]  # the last claimed
        if not waiting:
            del self._waiting[lane]
        if back:
            self._spawn(self._give_back(back))

    async def _attempt(self, ready: _Ready, begun_s: float) -> None:
        try:
            attempt = await self._exchange(ready, begun_s)
            await self._deliveries.record(attempt)
        except Exception:  # noqa: BLE001 - a bug here must not end the worker
            _log.exception("an attempt failed", extra={"eventId": ready.delivery.event_id})
        finally:
            self._end(ready.delivery)

    async def _exchange(self, ready: _Ready, begun_s: float) -> Attempt:
        """Send one; while it is being recorded, the next of the lane is sent."""
        lane = ready.delivery.lane
        unwell, reason = True, "a fault of this service"
        try:
            attempt = await self._deliveries.post(ready.delivery, ready.signed)
            outcome = attempt.exchange.outcome
            unwell, reason = is_unwell(outcome), reason_of(outcome)
        finally:
            now = self._deliveries.read_clock()
            self.lanes.finish(lane, begun_s, self._monotonic(), unwell=unwell, reason=reason, now=now)
            self._send(lane)
        return attempt

    def _end(self, delivery: Delivery) -> None:
        self._in_hand.pop(delivery.event_id, None)
        if self.lanes.end(delivery.lane, self._monotonic()):
            self._fill_up()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What is not sent after all.

    async def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        try:
            await self._deliveries.give_back(deliveries)
        except OutcomeOpen:
            pass  # the leases run out
        except Exception:  # noqa: BLE001 - a bug here must not end the worker
            _log.exception("giving back failed")
        finally:
            for delivery in deliveries:
                self._end(delivery)

    async def _give_back_waiting(self) -> None:
        waiting = [ready.delivery for queue in self._waiting.values() for ready in queue]
        self._waiting.clear()
        if waiting:
            await self._give_back(waiting)

    def thin_out(self) -> None:
        """Give back what waits in lanes that do not answer briskly any more."""
        for lane in list(self._waiting):
            self._send(lane)

    async def stop(self) -> None:
        """Give back what is not in flight, and wait for what is."""
        self._stopping = True
        await self._give_back_waiting()
        while self._tasks:
            await asyncio.wait(self._tasks)

    # The other workers, and what is written down about lanes.

    async def meet(self) -> None:
        """Hear which workers live; what another one leaves to this one comes with what it knew of it.

        Raises: OutcomeOpen.
        """
        me, workers = await self._workers.list_workers()
        if self._membership.update(me, workers) or not self._met:
            serves = self._membership.serves
            failing = await self._deliveries.list_failing_lanes()
            self.lanes.forget(serves)
            self.lanes.load(lane for lane in failing if serves(lane.client_id))
            self._met = True
            self.look()
            self._fill_up()

    async def keep_lanes(self) -> None:
        """Write down which lanes are failing, and which are not any more. Raises: OutcomeOpen."""
        failing, well = self.lanes.changes()
        self._unkept.update({lane.lane: lane for lane in failing})
        self._unkept.update(dict.fromkeys(well))
        if self._unkept:
            unkept, self._unkept = self._unkept, {}
            try:
                await self._deliveries.record_lanes(
                    [lane for lane in unkept.values() if lane is not None],
                    [name for name, lane in unkept.items() if lane is None],
                )
            except OutcomeOpen:
                self._unkept = unkept | self._unkept
                raise

    async def mend(self) -> None:
        """Set right what nobody else would, now and then. Raises: OutcomeOpen."""
        if await self._deliveries.pull_in():
            _log.warning("deliveries that a wrong clock had put off are due now")
        await self._deliveries.forget_lanes()
