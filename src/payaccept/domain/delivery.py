"""When a notification is sent again, when it counts as delivered, when it is given up."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

RETRY_SCHEDULE_S: Final = (
    5.0, 30.0, 120.0, 600.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0,
)  # fmt: skip
JITTER: Final = 0.2
RETRY_AFTER_AT_MOST: Final = 4.0
_OK: Final = range(200, 300)
_MAY_SAY_WHEN: Final = frozenset({429, 503})


class DeliveryState(StrEnum):
    """DUE waits for its time, LEASED is with a worker, the other two are final."""

    DUE = "DUE"
    LEASED = "LEASED"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    DEAD = "DEAD"


class Delivery(Struct, frozen=True, kw_only=True):
    """A delivery in the hands of a worker. `attempt` counts this attempt already, from 1."""

    bucket: int
    event_id: str
    client_id: str
    url: str
    lane: str
    body: bytes
    attempt: int
    faults: tuple[str, ...]
    claim_id: UUID


class Claim(Struct, frozen=True):
    """What a worker has leased; `more` says that there may be more to lease at once."""

    deliveries: list[Delivery]
    more: bool


class Lanes:
    """How many deliveries are under way in each lane, and how many more one takes.

    A lane that hangs holds at most `per_lane` places, whatever is due in it. A lane with more than half its
    places taken counts as full, so that a busy one is filled in batches and not one by one.
    """

    def __init__(self, per_lane: int) -> None:
        self._per_lane = per_lane
        self._under_way: Counter[str] = Counter()

    def full(self) -> list[str]:
        """Return the lanes that take none now."""
        return [lane for lane, count in self._under_way.items() if count > self._per_lane // 2]

    def fitting(self, wanted: Sequence[str]) -> list[bool]:
        """Tell for each delivery, given by its lane, whether it finds a place, in that order."""
        taken: Counter[str] = Counter()
        fits = []
        for lane in wanted:
            fits.append(self._under_way[lane] + taken[lane] < self._per_lane)
            taken[lane] += 1
        return fits

    def begin(self, lane: str) -> None:
        """Take a place."""
        self._under_way[lane] += 1

    def end(self, lane: str) -> bool:
        """Give a place back; tells whether the lane takes more just from now on."""
        self._under_way[lane] -= 1
        count = self._under_way[lane]
        if not count:
            del self._under_way[lane]
        return count in {0, self._per_lane // 2}


class Answered(Struct, frozen=True, tag=True):
    """The merchant's endpoint answered. `refusal` is what in its body says no, None if nothing does."""

    status: int
    refusal: str | None = None
    retry_after_s: float | None = None


class Unreachable(Struct, frozen=True, tag=True):
    """No answer came: the reason in a few words, for the merchant to read."""

    reason: str


AttemptOutcome = Answered | Unreachable


class Acknowledged(Struct, frozen=True, tag=True):
    """The merchant has it."""


class Again(Struct, frozen=True, tag=True):
    """To be sent again at `at`, then with these faults left to play."""

    at: datetime
    faults: tuple[str, ...]


class Dead(Struct, frozen=True, tag=True):
    """The schedule is used up: kept, shown, and sent again only when somebody asks."""


Decision = Acknowledged | Again | Dead


def is_acknowledged(outcome: AttemptOutcome) -> bool:
    """Any 2xx acknowledges, unless its body is JSON whose result.resultStatus is not S."""
    return isinstance(outcome, Answered) and outcome.status in _OK and outcome.refusal is None


def reason_of(outcome: AttemptOutcome) -> str:
    """Say in a few words how the attempt went."""
    if isinstance(outcome, Unreachable):
        return outcome.reason
    return outcome.refusal or f"HTTP {outcome.status}"


def after_attempt(
    delivery: Delivery,
    outcome: AttemptOutcome,
    now: datetime,
    *,
    schedule_s: Sequence[float],
    chance: float,
) -> Decision:
    """Decide what becomes of a delivery after an attempt.

    `chance` in [0, 1) places the next attempt within ±20 % of its step of the schedule. An attempt in
    which the sandbox played "tampered" proves nothing and never acknowledges; "duplicate" sends an
    acknowledged notification once more.
    """
    played = "tampered" in delivery.faults
    left = tuple(fault for fault in delivery.faults if fault != "tampered")
    if is_acknowledged(outcome) and not played:
        if "duplicate" not in left:
            return Acknowledged()
        return Again(at=now, faults=tuple(fault for fault in left if fault != "duplicate"))
    if delivery.attempt > len(schedule_s):
        return Dead()
    step_s = schedule_s[delivery.attempt - 1]
    wait_s = step_s * (1 - JITTER + 2 * JITTER * chance)
    if (
        isinstance(outcome, Answered)
        and outcome.status in _MAY_SAY_WHEN
        and outcome.retry_after_s is not None
    ):
        wait_s = min(max(outcome.retry_after_s, step_s), RETRY_AFTER_AT_MOST * step_s)
    return Again(at=now + timedelta(seconds=wait_s), faults=left)
