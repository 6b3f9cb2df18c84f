"""What a figure is, and where its numbers stand in a slab. All labels' values are known beforehand.

So the number of series has a limit by construction, and every process of a version lays its slab out alike.
"""

import zlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import product
from typing import Final

from msgspec import Struct


class Kind(StrEnum):
    """As Prometheus has them. Counters and histograms only grow; a gauge tells of now."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Across(StrEnum):
    """What a gauge is over several processes. Counters and histograms are always summed."""

    SUM = "sum"
    LEAST = "least"


class Metric(Struct, frozen=True, kw_only=True):
    """One figure. `labels` are pairs of a name and all its values; `bounds` a histogram's upper bounds.

    A counter or a gauge takes one cell for each combination of labels; a histogram one for each bound, one
    for what is beyond the last, and one for the sum.
    """

    name: str
    kind: Kind
    meaning: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bounds: tuple[float, ...] = ()
    across: Across = Across.SUM

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels' names, in order."""
        return tuple(name for name, _ in self.labels)

    @property
    def cells(self) -> int:
        """How many cells each combination of labels takes."""
        return len(self.bounds) + 2 if self.kind is Kind.HISTOGRAM else 1

    def combinations(self) -> Iterator[tuple[str, ...]]:
        """Every combination of the labels' values; the empty one without labels."""
        return product(*(values for _, values in self.labels))


FINGERPRINT: Final = 0  # the first cell says which layout the rest has


class Layout:
    """Where every number stands: cells of a fixed order, the same in every process of a version."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = tuple(metrics)
        self._starts: dict[tuple[str, tuple[str, ...]], int] = {}
        size = FINGERPRINT + 1
        for metric in self.metrics:
            for values in metric.combinations():
                self._starts[metric.name, values] = size
                size += metric.cells
        self.size = size
        self.fingerprint = float(zlib.crc32(repr(self.metrics).encode()))

    def start(self, name: str, *values: str) -> int:
        """Return the first cell of a metric under these labels. Raises: KeyError."""
        return self._starts[name, values]

    def cells(self, metric: Metric) -> Iterator[int]:
        """Return every cell of a metric."""
        for values in metric.combinations():
            start = self._starts[metric.name, values]
            yield from range(start, start + metric.cells)

    def metric(self, name: str) -> Metric:
        """Return a metric by its name. Raises: StopIteration."""
        return next(metric for metric in self.metrics if metric.name == name)
