"""Which lanes get a worker's free places, so that no destination can slow another down.

A lane is a merchant's destination: merchant, scheme, host and port. A delivery is *in hand* from its lease to
its recorded outcome, and *in flight* while its exchange with the merchant's endpoint lasts.

    in flight   at most `per_lane` in a lane; one while the lane's circuit breaker is open
    in hand     at most `per_merchant` of a merchant, `in_all` of this worker. A lane has in hand what it may have
                in flight; while it answers briskly `AHEAD` times that, so that the next are signed meanwhile

Places are handed out to the lanes that were served the longest ago, to each the same share first. A lane is
*failing* after an exchange in which its endpoint was unwell, and *new* until it has answered once; both get one
place. Failing lanes hold at most a quarter of the places, those that keep one waiting at most half of these; they
and the new and the slow ones hold at most half, of a merchant's, too: however many endpoints hang, those that answer
find room.

The circuit breaker opens after `OPENS_AFTER` unwell exchanges in a row. Then one delivery at a time probes the
endpoint, with a pause after each that finds it unwell, longer each time. Any answer that is not unwell closes it.
Nothing is dropped: what waits, waits.

Pure: told the time, by a clock that is never set (`now_s`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import Final

from msgspec import Struct

AHEAD: Final = 8
OPENS_AFTER: Final = 5
BRISK_S: Final = 0.25
SLOW_S: Final = 1.0
LONGEST_PAUSE: Final = 16.0
LANES_KEPT: Final = 10_000
HUNGRY_LOOKED_AT: Final = 256
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
COMMITTED_WITHIN: Final = timedelta(seconds=10)
"""How much later than it is due a delivery may appear: clocks differ, and transactions take their time."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much a worker takes on. `pause_s` is the first pause of an open circuit breaker."""

    per_lane: int = 4
    per_merchant: int = 32
    in_all: int = 256
    pause_s: float = 1.0


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


@dataclass(slots=True)
class _Lane:
    client_id: str
    in_hand: int = 0
    begun: list[float] = field(default_factory=list)  # when its exchanges in flight began, the oldest first
    answered: bool = False
    lasted_s: float = 0.0  # the last exchange
    failures: int = 0
    failing_since: datetime | None = None
    opened_at: datetime | None = None
    last_reason: str = ""
    pause_s: float = 0.0
    closed_until_s: float = float("-inf")
    hungry: bool = False
    far_back: bool = False
    nothing_until: datetime = LONG_AGO  # far back, nothing was found that fell due before this
    served: int = 0
    changed: bool = False  # since it was last written down

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    def waits_longer_than(self, seconds: float, now_s: float) -> bool:
        return bool(self.begun) and now_s - self.begun[0] > seconds


class _Places:
    """The places that are free, counted down while they are handed out."""

    def __init__(self, limits: Limits, in_hand: Iterable[_Lane], now_s: float) -> None:
        self._limits = limits
        self.free = limits.in_all
        self._unproven = max(1, limits.in_all // 2)
        self._failing = max(1, limits.in_all // 4)
        self._hanging = max(1, limits.in_all // 8)
        self._of_merchant: Counter[str] = Counter()
        self._unproven_of_merchant: Counter[str] = Counter()
        for lane in in_hand:
            self._occupy(lane, lane.in_hand, now_s)

    def take(self, lane: _Lane, wanted: int, now_s: float) -> int:
        """Take as many of the places wanted as there are for such a lane."""
        free = min(wanted, self.free, self._limits.per_merchant - self._of_merchant[lane.client_id])
        if _is_unproven(lane, now_s):
            most = max(1, self._limits.per_merchant // 2)
            free = min(free, self._unproven, most - self._unproven_of_merchant[lane.client_id])
        if lane.failures:
            free = min(free, self._failing)
        if _is_hanging(lane, now_s):
            free = min(free, self._hanging)
        if free <= 0:
            return 0
        self._occupy(lane, free, now_s)
        return free

    def _occupy(self, lane: _Lane, count: int, now_s: float) -> None:
        self.free -= count
        self._of_merchant[lane.client_id] += count
        if _is_unproven(lane, now_s):
            self._unproven -= count
            self._unproven_of_merchant[lane.client_id] += count
        if lane.failures:
            self._failing -= count
        if _is_hanging(lane, now_s):
            self._hanging -= count


def _since(lane: _Lane, since: datetime) -> datetime:
    """Return from when on to look into a lane: what was found to be gone is not read through again."""
    return min(lane.nothing_until, since) if lane.far_back else since


def _is_unproven(lane: _Lane, now_s: float) -> bool:
    return lane.failures > 0 or not lane.answered or lane.waits_longer_than(SLOW_S, now_s)


def _is_hanging(lane: _Lane, now_s: float) -> bool:
    return lane.failures > 0 and (lane.lasted_s > SLOW_S or lane.waits_longer_than(SLOW_S, now_s))


class Lanes:
    """What a worker knows of the lanes, and what it has in hand of each."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.in_hand = 0
        self._lanes: dict[str, _Lane] = {}
        self._busy: dict[str, _Lane] = {}
        self._hungry: dict[str, _Lane] = {}
        self._of_merchant: Counter[str] = Counter()
        self._turn = 0
        self._short = False

    # What may be claimed.

    def plan(
        self,
        found: Sequence[str],
        now_s: float,
        *,
        since: datetime,
        serves: Callable[[str], bool] = lambda _client_id: True,
        sweep: bool = False,
    ) -> list[Ask]:
        """Hand out the free places.

        `found` are lanes with something due; those known to have more are looked at besides. `serves` tells whose
        merchants are this worker's. `since` is how far back one looks as a rule; `sweep`: those found may have
        something from long before that.
        """
        wanted: dict[str, tuple[_Lane, int]] = {}
        for name in found:
            if serves(merchant_of(name)):
                lane = self._lane(name)
                self._set_hungry(name, lane, far_back=sweep)
                wanted[name] = lane, self._room(lane, now_s)
        for name in list(islice(self._hungry, HUNGRY_LOOKED_AT)):
            lane = self._hungry.pop(name)
            if serves(lane.client_id):
                self._hungry[name] = lane  # to the end: the next time it is others' turn
                wanted[name] = lane, self._room(lane, now_s)
            else:
                lane.hungry = lane.far_back = False
        given = self._hand_out([(name, *of) for name, of in wanted.items() if of[1] > 0], now_s)
        return [Ask(name, room, _since(wanted[name][0], since)) for name, room in given.items()]

    def _hand_out(self, wanted: list[tuple[str, _Lane, int]], now_s: float) -> dict[str, int]:
        if not wanted:
            return {}
        places = _Places(self.limits, self._busy.values(), now_s)
        wanted.sort(key=lambda each: each[1].served)
        share = max(1, places.free // len(wanted))
        given = {}
        self._turn += 1
        for name, lane, room in wanted:
            taken = places.take(lane, min(room, share), now_s)
            if taken:
                given[name] = taken
                lane.served = self._turn
        for name, lane, room in wanted:
            if name in given:
                given[name] += places.take(lane, room - given[name], now_s)
        self._short = places.free <= 0
        return given

    def _room(self, lane: _Lane, now_s: float) -> int:
        if lane.is_open and now_s < lane.closed_until_s:
            return 0
        return self._most(lane, now_s) - lane.in_hand

    def _most(self, lane: _Lane, now_s: float) -> int:
        """Return how many of a lane may be in hand: it has to be known well to get more than one place."""
        if lane.failures or not lane.answered:
            return 1
        if lane.lasted_s <= BRISK_S and not lane.waits_longer_than(BRISK_S, now_s):
            return self.limits.per_lane * AHEAD
        return self.limits.per_lane

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
        if self._short and 4 * self.in_hand <= 3 * self.limits.in_all:
            return True
        if not lane.hungry:
            return False
        # In batches: when as many fit into the lane as are in it.
        free = self.limits.per_merchant - self._of_merchant[lane.client_id]
        return min(free, self._room(lane, now_s)) >= max(1, lane.in_hand)

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

    def _lane(self, name: str) -> _Lane:
        lane = self._lanes.get(name)
        if lane is None:
            if len(self._lanes) >= LANES_KEPT:
                self._make_room()
            lane = self._lanes[name] = _Lane(merchant_of(name))
        return lane

    def _set_hungry(self, name: str, lane: _Lane, *, far_back: bool) -> None:
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


def _kept(name: str, lane: _Lane, failing_since: datetime) -> FailingLane:
    return FailingLane(
        lane=name,
        client_id=lane.client_id,
        failures=lane.failures,
        failing_since=failing_since,
        opened_at=lane.opened_at,
        last_reason=lane.last_reason,
    )
