"""What a worker knows of the lanes it delivers to, and what it has in hand of each.

A lane is a merchant's destination: merchant, scheme, host and port. A delivery is *in hand* from its lease to
its recorded outcome, and *in flight* while its exchange with the merchant's endpoint lasts. How many places a lane
gets is told in `places`.

The circuit breaker of a lane opens after `OPENS_AFTER` unwell exchanges in a row. Then one delivery at a time probes
the endpoint, with a pause after each that finds it unwell, longer each time. Any answer that is not unwell closes it.
Nothing is dropped: what waits, waits.

Pure: told the time, by a clock that is never set (`now_s`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Final

from msgspec import Struct

from payaccept.domain.places import BRISK_S, LONG_AGO, Lane, Limits, Places

OPENS_AFTER: Final = 5
LONGEST_PAUSE: Final = 16.0
LANES_KEPT: Final = 10_000
HUNGRY_LOOKED_AT: Final = 256
HUNGRY_PASSED: Final = 1024
"""Lanes with more due that are passed at a time to find those that may have it: most may be pausing."""
COMMITTED_WITHIN: Final = timedelta(seconds=10)
"""How much later than it is due a delivery may appear: clocks differ, and transactions take their time."""


class Ask(Struct, frozen=True):
    """Look for at most `room` deliveries of a lane that fell due after `since`."""

    lane: str
    room: int
    since: datetime


class FailingLane(Struct, frozen=True, kw_only=True):
    """A destination that is failing, as it is kept. `opened_at` is when its circuit breaker opened."""

    lane: str
    client_id: str
    failures: int
    failing_since: datetime
    opened_at: datetime | None
    last_reason: str


class WaitingLane(Struct, frozen=True, kw_only=True):
    """A failing destination with what waits for it: how many, and when the first of them is due."""

    lane: FailingLane
    waiting: int
    next_at: datetime | None


def merchant_of(lane: str) -> str:
    """Return the Client-Id of a lane's merchant."""
    return lane.partition(" ")[0]


def destination_of(lane: str) -> str:
    """Return where a lane leads: scheme, host and port."""
    return lane.partition(" ")[2] or lane


def _since(lane: Lane, since: datetime) -> datetime:
    """Return from when on to look into a lane: what was found to be gone is not read through again."""
    return min(lane.nothing_until, since) if lane.far_back else since


class Lanes:
    """What a worker knows of the lanes, and what it has in hand of each."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.in_hand = 0
        self._lanes: dict[str, Lane] = {}
        self._busy: dict[str, Lane] = {}
        self._hungry: dict[str, Lane] = {}
        self._of_merchant: Counter[str] = Counter()
        self._turn = 1
        self._short = False
        self._keeps_new_waiting = False
        self._new_one_known = False

    # What may be claimed.

    def plan(
        self,
        found: Sequence[str],
        now_s: float,
        *,
        since: datetime,
        serves: Callable[[str], bool] = lambda _client_id: True,
        told: bool = False,
        sweep: bool = False,
    ) -> list[Ask]:
        """Hand out the free places.

        `found` are lanes with something due, and `told`: this worker has just been told of them, and looks at these
        only; else it looks besides at those known to have more. `serves` tells whose merchants are this worker's.
        `since` is how far back one looks as a rule; `sweep`: those found may have something from long before that.
        """
        wanted: dict[str, tuple[Lane, int]] = {}
        for name in found:
            if serves(merchant_of(name)):
                lane = self._lane(name)
                lane.told = lane.told or (self._turn if told else 0)
                self._set_hungry(name, lane, far_back=sweep)
                wanted[name] = lane, lane.room(self.limits, now_s)
        if not told:
            self._add_hungry(wanted, now_s, serves)
            self._keeps_new_waiting = False
        given = self._hand_out([(name, *of) for name, of in wanted.items() if of[1] > 0], now_s)
        return [Ask(name, room, _since(wanted[name][0], since)) for name, room in given.items()]

    def _add_hungry(
        self, wanted: dict[str, tuple[Lane, int]], now_s: float, serves: Callable[[str], bool]
    ) -> None:
        looked_at = 0
        for name in list(islice(self._hungry, HUNGRY_PASSED)):
            lane = self._hungry.pop(name)
            if not serves(lane.client_id):
                lane.hungry = lane.far_back = False
                continue
            self._hungry[name] = lane  # to the end: the next time it is others' turn
            wanted[name] = lane, lane.room(self.limits, now_s)
            looked_at += wanted[name][1] > 0
            if looked_at == HUNGRY_LOOKED_AT:
                return

    def _hand_out(self, wanted: list[tuple[str, Lane, int]], now_s: float) -> dict[str, int]:
        if not wanted:
            return {}
        wanted.sort(key=lambda each: each[1].in_turn)
        places = Places(self.limits, self._busy.values(), now_s)
        given = places.hand_out(wanted)
        self._turn += 1
        for name in given:
            self._lanes[name].served = self._turn
        self._short = places.free <= 0
        self._keeps_new_waiting = self._keeps_new_waiting or places.keeps_new_waiting
        return given

    def took(self, ask: Ask, count: int, oldest: datetime | None) -> None:
        """Hear how many deliveries were leased for an ask, and since when the oldest of them had been due."""
        lane = self._lane(ask.lane)
        if oldest is not None:
            lane.nothing_until = oldest - COMMITTED_WITHIN
        if count:
            lane.in_hand += count
            self.in_hand += count
            self._of_merchant[lane.client_id] += count
            self._busy[ask.lane] = lane
        if count < ask.room:  # nothing is left; long ago there was nothing if we have looked there
            lane.hungry = lane.far_back = False
            self._hungry.pop(ask.lane, None)

    def end(self, name: str, now_s: float) -> bool:
        """Give a place back; tells whether it is time to claim."""
        lane = self._lane(name)
        lane.in_hand -= 1
        self.in_hand -= 1
        self._of_merchant[lane.client_id] -= 1
        if not lane.in_hand:
            self._busy.pop(name, None)
        if not self._of_merchant[lane.client_id]:
            del self._of_merchant[lane.client_id]
        if self._keeps_new_waiting and self._new_one_known:
            self._new_one_known = False
            return True  # the next one can be tried
        if self._short and 4 * self.in_hand <= 3 * self.limits.in_all:
            return True
        if not lane.hungry:
            return False
        # In batches: when as many fit into the lane as are in it.
        free = self.limits.per_merchant - self._of_merchant[lane.client_id]
        return min(free, lane.room(self.limits, now_s)) >= max(1, lane.in_hand)

    # What may be sent.

    def may_send(self, name: str, now_s: float) -> bool:
        """Tell whether one more exchange may begin in a lane."""
        lane = self._lane(name)
        if lane.is_open:
            return not lane.begun and now_s >= lane.closed_until_s
        return len(lane.begun) < self.limits.per_lane

    def begin(self, name: str, now_s: float) -> None:
        """An exchange begins."""
        self._lane(name).begun.append(now_s)

    def finish(
        self, name: str, begun_s: float, now_s: float, *, unwell: bool, reason: str, now: datetime
    ) -> None:
        """Hear how an exchange went that began at `begun_s`; `now` is only written down."""
        lane = self._lane(name)
        lane.begun.remove(begun_s)
        lane.lasted_s = now_s - begun_s
        self._new_one_known = self._new_one_known or not (lane.answered or lane.failures)
        if not unwell:
            # At its first answer, too: somebody else may have written that it is failing.
            lane.changed = lane.changed or lane.failures > 0 or not lane.answered
            lane.answered = True
            lane.failures, lane.failing_since, lane.opened_at, lane.last_reason = 0, None, None, ""
            return
        lane.failures += 1
        lane.failing_since = lane.failing_since or now
        lane.last_reason = reason
        lane.changed = True
        if lane.is_open and not lane.begun:  # the probe, and not one of those that were still under way
            lane.pause_s = min(2 * lane.pause_s, LONGEST_PAUSE * self.limits.pause_s)
            lane.closed_until_s = now_s + lane.pause_s
        elif lane.failures >= OPENS_AFTER and not lane.is_open:
            lane.opened_at = now
            lane.pause_s = self.limits.pause_s
            lane.closed_until_s = now_s + lane.pause_s

    def too_many(self, name: str, now_s: float) -> int:
        """Return how many in hand of a lane, at most, are to be given back.

        All when its breaker is open, and all that is not to be in flight when it has not answered for a while;
        one unwell answer is no reason.
        """
        lane = self._lane(name)
        if lane.is_open:
            return lane.in_hand
        if lane.waits_longer_than(BRISK_S, now_s):
            return max(0, lane.in_hand - self.limits.per_lane)
        return 0

    # What is kept, and what operators see.

    def load(self, kept: Iterable[FailingLane]) -> None:
        """Learn of failing lanes from what was kept; those known already are known better."""
        for row in kept:
            if row.lane not in self._lanes:
                lane = self._lane(row.lane)
                lane.failures, lane.failing_since = row.failures, row.failing_since
                lane.opened_at, lane.last_reason = row.opened_at, row.last_reason
                lane.pause_s = self.limits.pause_s

    def changes(self) -> tuple[list[FailingLane], list[str]]:
        """Return the lanes that are failing, and those that are not any more, as far as that is news."""
        failing: list[FailingLane] = []
        well: list[str] = []
        for name, lane in self._lanes.items():
            if not lane.changed:
                continue
            lane.changed = False
            if lane.failing_since is None:
                well.append(name)
            else:
                failing.append(_kept(name, lane, lane.failing_since))
        return failing, well

    @property
    def known(self) -> int:
        """How many lanes there are in memory."""
        return len(self._lanes)

    @property
    def open(self) -> int:
        """How many lanes' circuit breakers are open."""
        return sum(lane.is_open for lane in self._lanes.values())

    @property
    def in_flight(self) -> int:
        """How many exchanges are under way."""
        return sum(len(lane.begun) for lane in self._busy.values())

    def _lane(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= LANES_KEPT:
                self._make_room()
            lane = self._lanes[name] = Lane(merchant_of(name))
        return lane

    def _set_hungry(self, name: str, lane: Lane, *, far_back: bool) -> None:
        """Remember that a lane has something due: until a look finds less in it than it had room for."""
        if len(self._hungry) < LANES_KEPT // 2:  # one more would be found again by the next walk
            lane.hungry = True
            self._hungry.setdefault(name, lane)
            if far_back:
                lane.far_back, lane.nothing_until = True, LONG_AGO

    def forget(self, serves: Callable[[str], bool]) -> None:
        """Forget the lanes of merchants that are another worker's now."""
        self._drop(name for name, lane in self._lanes.items() if not serves(lane.client_id))

    def _make_room(self) -> None:
        """Forget a tenth of the lanes, the healthy and the oldest first."""
        well = (name for name, lane in self._lanes.items() if not lane.failures)
        self._drop(islice(chain(well, self._lanes), LANES_KEPT // 10))

    def _drop(self, names: Iterable[str]) -> None:
        for name in list(names):
            lane = self._lanes.get(name)
            if lane is not None and not lane.in_hand and not lane.begun:
                del self._lanes[name]
                self._hungry.pop(name, None)


def _kept(name: str, lane: Lane, failing_since: datetime) -> FailingLane:
    return FailingLane(
        lane=name,
        client_id=lane.client_id,
        failures=lane.failures,
        failing_since=failing_since,
        opened_at=lane.opened_at,
        last_reason=lane.last_reason,
    )
