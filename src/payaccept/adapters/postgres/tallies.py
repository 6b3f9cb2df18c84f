"""What the connections and group commits of this process have done: counted where it happens, for the figures."""

from bisect import bisect_left
from collections.abc import Mapping
from operator import add
from typing import Final

BATCH_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SECONDS_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Batches:
    """The batches of one store method: their sizes and times by bound, with a last place for what is beyond."""

    __slots__ = ("calls", "seconds", "sizes", "times", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.sizes = [0] * (len(BATCH_BOUNDS) + 1)
        self.calls = 0
        self.times = [0] * (len(SECONDS_BOUNDS) + 1)
        self.seconds = 0.0

    def count(self, calls: int, seconds: float) -> None:
        """Count a batch that the database has answered, or failed to."""
        self.sizes[bisect_left(BATCH_BOUNDS, calls)] += 1
        self.calls += calls
        self.times[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self.seconds += seconds

    def include(self, other: "Batches") -> None:
        """Count another method's batches as well."""
        self.waiting += other.waiting
        self.calls += other.calls
        self.seconds += other.seconds
        self.sizes = list(map(add, self.sizes, other.sizes))
        self.times = list(map(add, self.times, other.times))


class Connections:
    """The connections of this process."""

    __slots__ = ("failed", "open", "opened")

    def __init__(self) -> None:
        self.open = 0
        self.opened = 0
        self.failed = 0


CONNECTIONS: Final = Connections()
_batches: Final[dict[str, Batches]] = {}


def batches_of(method: str) -> Batches:
    """Return where the batches of a store method are counted."""
    return _batches.setdefault(method, Batches())


def all_batches() -> Mapping[str, Batches]:
    """Return the batches by store method."""
    return _batches
