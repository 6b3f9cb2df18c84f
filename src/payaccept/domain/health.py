"""How a deployment is: its processes, and what they counted in each minute."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

KEPT_FOR: Final = timedelta(days=7)
BEATS_EVERY_S: Final = 10.0
SILENT_AFTER: Final = timedelta(seconds=3 * BEATS_EVERY_S)
"""Without a word for so long a process does not count as living."""
FORGOTTEN_AFTER: Final = timedelta(days=1)

BEYOND: Final = "inf"
"""The label of what is beyond the last bound of a distribution."""


class Figure(StrEnum):
    """What is known of each minute. Labels are those of the process's figures; of a distribution, upper bounds in s."""

    REQUESTS = "requests"  # by result code
    REQUEST_TIMES = "request times"
    SETTLED = "settled"  # by result
    ATTEMPTS = "attempts"  # by outcome
    FIRST_ATTEMPTS = "first attempts"  # from the payment's end on
    ACKNOWLEDGED = "acknowledged"  # from the payment's end on
    DIED = "died"
    UNRECORDED = "unrecorded"
    DELIVERIES = "deliveries"  # by state
    OLDEST_DUE = "oldest due"  # by breaker, in ms
    LANES = "lanes"  # by state
    UNNUMBERED = "unnumbered"
    OVERDUE = "overdue"  # of payments, in ms


STATES: Final = frozenset(
    {Figure.DELIVERIES, Figure.OLDEST_DUE, Figure.LANES, Figure.UNNUMBERED, Figure.OVERDUE}
)
"""Figures of what is: the same from every process, and of a span the worst counts. The others are counts."""


class Sample(Struct, frozen=True):
    """What one process adds to a minute: a number of things or of milliseconds."""

    figure: Figure
    label: str
    amount: int


class Process(Struct, frozen=True, kw_only=True):
    """A process of the service. `cpu_permille` is of one processor, lately: 1000 is all of it."""

    process_id: str
    kind: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    cpu_permille: int
    memory_bytes: int

    def is_silent(self, now: datetime) -> bool:
        """Tell whether it has said nothing for too long."""
        return now - self.seen_at > SILENT_AFTER


class Span(Struct, frozen=True):
    """A span of time with its figures, by label."""

    at: datetime
    figures: Mapping[Figure, Mapping[str, int]]

    def of(self, figure: Figure, label: str) -> int:
        """Return one number; nothing was 0."""
        return self.figures.get(figure, {}).get(label, 0)

    def total(self, figure: Figure) -> int:
        """Return the sum over all labels."""
        return sum(self.figures.get(figure, {}).values())


def quantile(counts: Mapping[str, int], share: float) -> float | None:
    """Return the bound below which that share of a distribution lies, in s; None where nothing was counted.

    Within a bound's own span it is estimated as if all were spread evenly; beyond the last one it is that bound.
    """
    bounded = sorted((float(label), count) for label, count in counts.items() if label != BEYOND)
    total = sum(counts.values())
    if total == 0:
        return None
    wanted, below, least = share * total, 0, 0.0
    for bound, count in bounded:
        if below + count >= wanted and count:
            return least + (bound - least) * (wanted - below) / count
        below, least = below + count, bound
    return least
