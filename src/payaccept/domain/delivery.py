"""When a notification is sent again, when it counts as delivered, when it is given up."""

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
_TOO_MANY: Final = 429
_SERVER_ERRORS: Final = range(500, 600)
_MAY_SAY_WHEN: Final = frozenset({_TOO_MANY, 503})


class DeliveryState(StrEnum):
    """PENDING waits for its time or is with a worker that has leased it, the other two are final."""

    PENDING = "PENDING"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    DEAD = "DEAD"


class Delivery(Struct, frozen=True, kw_only=True):
    """A delivery in the hands of a worker.

    `attempt` counts this attempt already, from 1. `step` counts the attempts of the present run through the
    schedule: it is `attempt` unless somebody has had the notification sent again. `sequence` is the number
    of the event among its merchant's.
    """

    bucket: int
    event_id: str
    client_id: str
    url: str
    lane: str
    body: bytes
    attempt: int
    step: int
    sequence: int
    faults: tuple[str, ...]
    claim_id: UUID
    created_at: datetime
    due_at: datetime
    payment_id: str | None  # None for a test event


class Answered(Struct, frozen=True, tag=True):
    """The merchant's endpoint answered. `refusal` is what in its body says no, None if nothing does."""

    status: int
    refusal: str | None = None
    retry_after_s: float | None = None


class Unreachable(Struct, frozen=True, tag=True):
    """No answer came: the reason in a few words, for the merchant to read."""

    reason: str


AttemptOutcome = Answered | Unreachable


class Timing(Struct, frozen=True, kw_only=True):
    """How long the parts of an exchange took, in microseconds; None for what it did not get to or did not need."""

    resolve_us: int | None = None
    connect_us: int | None = None
    tls_us: int | None = None
    first_byte_us: int | None = None
    total_us: int


class Exchange(Struct, frozen=True):
    """One exchange with a merchant's endpoint. `answer` is the beginning of its body, kept for the operator."""

    outcome: AttemptOutcome
    timing: Timing
    answer: bytes = b""


class Attempt(Struct, frozen=True, kw_only=True):
    """An attempt that was made. `started_at` and `key_version` are of its signature."""

    delivery: Delivery
    started_at: datetime
    key_version: int
    exchange: Exchange


class AttemptKind(StrEnum):
    """How an attempt is kept: the merchant said yes, said something else, or said nothing."""

    ACKNOWLEDGED = "ACKNOWLEDGED"
    REFUSED = "REFUSED"
    UNREACHABLE = "UNREACHABLE"


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


def kind_of(outcome: AttemptOutcome) -> AttemptKind:
    """Return how an attempt with this outcome is kept."""
    if isinstance(outcome, Unreachable):
        return AttemptKind.UNREACHABLE
    return AttemptKind.ACKNOWLEDGED if is_acknowledged(outcome) else AttemptKind.REFUSED


def is_unwell(outcome: AttemptOutcome) -> bool:
    """Tell whether the endpoint is in no state to take notifications: no answer, 429 or 5xx."""
    if isinstance(outcome, Unreachable):
        return True
    return outcome.status == _TOO_MANY or outcome.status in _SERVER_ERRORS


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
    if delivery.step > len(schedule_s):
        return Dead()
    step_s = schedule_s[delivery.step - 1]
    wait_s = step_s * (1 - JITTER + 2 * JITTER * chance)
    if (
        isinstance(outcome, Answered)
        and outcome.status in _MAY_SAY_WHEN
        and outcome.retry_after_s is not None
    ):
        wait_s = min(max(outcome.retry_after_s, step_s), RETRY_AFTER_AT_MOST * step_s)
    return Again(at=now + timedelta(seconds=wait_s), faults=left)
