"""Which lanes get a worker's free places, so that no destination can slow another down.

    in flight   at most `per_lane` in a lane; one while the lane's circuit breaker is open
    in hand     at most `per_merchant` of a merchant, `in_all` of this worker. A lane has in hand what it may have
                in flight; while it answers briskly `AHEAD` times that, so that the next are signed meanwhile

Places are handed out to the lanes that were served the longest ago, to each the same share, and what is left of it
again among those that have more. A lane is *failing* after an exchange in which its endpoint was unwell, and *new*
until it has answered once; both get one place. Failing lanes hold at most a quarter of the places, those that keep
one waiting at most half of these; they and the new and the slow ones hold at most half, of a merchant's, too: however
many endpoints hang, those that answer find room.

Nobody can tell a new lane that will answer from one that will hang. So once those that keep one waiting are three
eighths of the places, new lanes are tried a few at a time, and the rest of the half lasts until some have timed out:
a new one waits a second or two, and not for a time-out. Those that one is told of, since something has just fallen
due, come before those that are only found, having waited already.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

AHEAD: Final = 8
BRISK_S: Final = 0.25
SLOW_S: Final = 1.0
LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_TRIED_AT_A_TIME: Final = 80
"""Of so many places one is for a new lane where most of those not known yet hang: with ten seconds until they time
out, they then take the last eighth as slowly as it is given back."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much a worker takes on. `pause_s` is the first pause of an open circuit breaker."""

    per_lane: int = 4
    per_merchant: int = 32
    in_all: int = 256
    pause_s: float = 1.0


@dataclass(slots=True)
class Lane:
    """What is known of a lane."""

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
    served: int = 0  # in which turn
    told: int = 0  # since which turn one has known of it by being told
    changed: bool = False  # since it was last written down

    @property
    def is_open(self) -> bool:
        """Whether its circuit breaker is open."""
        return self.opened_at is not None

    @property
    def in_turn(self) -> tuple[int, float]:
        """Who comes first: those served the longest ago; of the new ones those one was told of, not just found."""
        return self.served, self.told or float("inf")

    def waits_longer_than(self, seconds: float, now_s: float) -> bool:
        """Tell whether it keeps an exchange waiting for so long."""
        return bool(self.begun) and now_s - self.begun[0] > seconds

    def room(self, limits: Limits, now_s: float) -> int:
        """Return how many more of it may be in hand, as far as it goes by this lane alone."""
        if self.is_open and now_s < self.closed_until_s:
            return 0
        return self._most(limits, now_s) - self.in_hand

    def _most(self, limits: Limits, now_s: float) -> int:
        """Return how many of it may be in hand: it has to be known well to get more than one place."""
        if self.failures or not self.answered:
            return 1
        if self.lasted_s <= BRISK_S and not self.waits_longer_than(BRISK_S, now_s):
            return limits.per_lane * AHEAD
        return limits.per_lane

    def is_new(self, now_s: float) -> bool:
        """Tell whether nothing is known of it, not even that it keeps one waiting."""
        return not self.answered and not self.failures and not self.waits_longer_than(SLOW_S, now_s)

    def is_unproven(self, now_s: float) -> bool:
        """Tell whether it is not known to answer."""
        return self.failures > 0 or not self.answered or self.waits_longer_than(SLOW_S, now_s)

    def is_hanging(self, now_s: float) -> bool:
        """Tell whether it fails by keeping one waiting."""
        return self.failures > 0 and (self.lasted_s > SLOW_S or self.waits_longer_than(SLOW_S, now_s))


class Places:
    """The places that are free, counted down while they are handed out."""

    def __init__(self, limits: Limits, in_hand: Iterable[Lane], now_s: float) -> None:
        self._limits = limits
        self._now_s = now_s
        self.free = limits.in_all
        self.keeps_new_waiting = False
        self._unproven = max(1, limits.in_all // 2)
        self._proving = max(1, limits.in_all * 3 // 8)
        self._failing = max(1, limits.in_all // 4)
        self._hanging = max(1, limits.in_all // 8)
        self._new = 0
        self._of_merchant: Counter[str] = Counter()
        self._unproven_of_merchant: Counter[str] = Counter()
        for lane in in_hand:
            self._occupy(lane, lane.in_hand)

    def hand_out(self, wanted: Sequence[tuple[str, Lane, int]]) -> dict[str, int]:
        """Return how many places each gets of those that have room, the first ones first."""
        given: Counter[str] = Counter()
        while wanted and self.free > 0:
            share = max(1, self.free // len(wanted))
            want_more = []
            for name, lane, room in wanted:
                taken = self._take(lane, min(room, share))
                if taken:
                    given[name] += taken
                if taken == share < room:
                    want_more.append((name, lane, room - taken))
            wanted = want_more
        return dict(given)

    def _take(self, lane: Lane, wanted: int) -> int:
        """Take as many of the places wanted as there are for such a lane."""
        free = min(wanted, self.free, self._limits.per_merchant - self._of_merchant[lane.client_id])
        if lane.is_unproven(self._now_s):
            most = max(1, self._limits.per_merchant // 2)
            free = min(free, self._unproven, most - self._unproven_of_merchant[lane.client_id])
            free = min(free, self._left_for_new() if lane.is_new(self._now_s) else self._proving)
        if lane.failures:
            free = min(free, self._failing)
        if lane.is_hanging(self._now_s):
            free = min(free, self._hanging)
        if free <= 0:
            return 0
        self._occupy(lane, free)
        return free

    def _left_for_new(self) -> int:
        left = max(self._proving, max(1, self._limits.in_all // _TRIED_AT_A_TIME) - self._new)
        self.keeps_new_waiting = self.keeps_new_waiting or min(left, self._unproven) <= 0
        return left

    def _occupy(self, lane: Lane, count: int) -> None:
        self.free -= count
        self._of_merchant[lane.client_id] += count
        if lane.is_unproven(self._now_s):
            self._unproven -= count
            self._unproven_of_merchant[lane.client_id] += count
            self._proving -= count
        if lane.is_new(self._now_s):
            self._new += count
        if lane.failures:
            self._failing -= count
        if lane.is_hanging(self._now_s):
            self._hanging -= count
