"""The memory that a process counts in: one number after the other, added to by one thread.

In a file mapped to memory, what was counted stays when the process is killed, and another process can sum
what several have counted without asking them. A file is locked by its process as long as that lives: a file
that can be locked is a dead process's, is added to the sums once and removed.
"""

import contextlib
import fcntl
import logging
import mmap
import os
import secrets
import threading
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

from payaccept.figures.metric import FINGERPRINT, Across, Kind, Layout

_BYTES: Final = array("d").itemsize
_SUFFIX: Final = ".slab"
_log = logging.getLogger(__name__)


class Reading(Struct, frozen=True):
    """The numbers of all processes together, by the cells of their layout, and how many of them live."""

    cells: Sequence[float]
    processes: int


class Source(Protocol):
    """What can be read at any moment, by any thread."""

    def read(self) -> Reading:
        """Return the numbers of now."""


class Number:
    """One cell: a counter is added to, a gauge is set."""

    __slots__ = ("_cell", "_cells")

    def __init__(self, cells: "memoryview[Any]", cell: int) -> None:
        self._cells = cells
        self._cell = cell

    def add(self, amount: float = 1.0) -> None:
        """Count."""
        self._cells[self._cell] += amount

    def set(self, value: float) -> None:
        """Say how it is now; for a counter, its total."""
        self._cells[self._cell] = value


class Histogram:
    """The cells of one histogram; bounds are upper bounds, themselves included."""

    __slots__ = ("_bounds", "_cells", "_start", "_sum")

    def __init__(self, cells: "memoryview[Any]", start: int, bounds: tuple[float, ...]) -> None:
        self._cells = cells
        self._start = start
        self._sum = start + len(bounds) + 1
        self._bounds = bounds

    def observe(self, value: float) -> None:
        """Count one value."""
        cells = self._cells
        cells[self._start + bisect_left(self._bounds, value)] += 1.0
        cells[self._sum] += value

    def set(self, counts: Sequence[float], total: float) -> None:
        """Say all that was ever counted: one count for each bound and one beyond, and the sum of the values."""
        for cell, count in enumerate(counts, self._start):
            self._cells[cell] = count
        self._cells[self._sum] = total


class Slab:
    """What this process counts. With a directory, in a file there; a file that cannot be is done without."""

    def __init__(self, layout: Layout, directory: Path | None = None) -> None:
        self.layout = layout
        self._file: int | None = None
        size = layout.size * _BYTES
        if directory is not None:
            try:
                self._file = _new_file(directory, size)
            except OSError as error:  # payments go on; the figures of this process are missing
                _log.error("what this process counts is not in the figures: %s", error)
        self._memory = mmap.mmap(-1 if self._file is None else self._file, size)
        self._cells = memoryview(self._memory).cast("d")
        self._cells[FINGERPRINT] = layout.fingerprint

    def number(self, name: str, *values: str) -> Number:
        """Return the counter or gauge under these labels."""
        return Number(self._cells, self.layout.start(name, *values))

    def numbers(self, name: str) -> dict[str, Number]:
        """Return the counters or gauges of a metric with one label, by its value."""
        [(_, values)] = self.layout.metric(name).labels
        return {value: self.number(name, value) for value in values}

    def histogram(self, name: str, *values: str) -> Histogram:
        """Return the histogram under these labels."""
        return Histogram(self._cells, self.layout.start(name, *values), self.layout.metric(name).bounds)

    def histograms(self, name: str) -> dict[str, Histogram]:
        """Return the histograms of a metric with one label, by its value."""
        [(_, values)] = self.layout.metric(name).labels
        return {value: self.histogram(name, value) for value in values}

    def read(self) -> Reading:
        """Return the numbers of now: those of one process."""
        return Reading(list(self._cells), 1)

    def close(self) -> None:
        """Give the file up; whoever sums has it from then on. Cells may still be written, to no effect."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)  # the memory holds the file open
            os.close(self._file)
            self._file = None


def _new_file(directory: Path, size: int) -> int:
    """Make a locked file of zeros; it gets its name last, so that nobody finds it without its lock."""
    partial = directory / f"{os.getpid()}-{secrets.token_hex(4)}"
    file = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, bytes(size))  # written, not only announced: a full disk fails here and not in a count
        fcntl.flock(file, fcntl.LOCK_EX)
        partial.rename(partial.with_suffix(_SUFFIX))
    except OSError:
        os.close(file)
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    return file


class Slabs:
    """The sum over all processes that count in a directory, those that have died included."""

    def __init__(self, layout: Layout, directory: Path) -> None:
        self._layout = layout
        self._directory = directory
        self._gauges = [
            cell for metric in layout.metrics if metric.kind is Kind.GAUGE for cell in layout.cells(metric)
        ]
        self._least = [
            cell
            for metric in layout.metrics
            if metric.across is Across.LEAST
            for cell in layout.cells(metric)
        ]
        self._of_the_dead = [0.0] * layout.size
        self._reading = threading.Lock()

    def read(self) -> Reading:
        """Return the sums of now; a gauge is of the living alone."""
        with self._reading:
            living = []
            for path in sorted(self._directory.glob("*" + _SUFFIX)):
                with contextlib.suppress(OSError):
                    cells = self._read_one(path)
                    if cells is not None:
                        living.append(cells)
            sums: list[float] = list(map(sum, zip(self._of_the_dead, *living, strict=True)))
            for cell in self._least:
                sums[cell] = min((one[cell] for one in living), default=0.0)
            return Reading(sums, len(living))

    def _read_one(self, path: Path) -> "array[float] | None":
        """Return a living process's numbers; a dead one's are kept here, without its gauges, and None."""
        cells = array("d")
        with path.open("rb") as file:
            is_dead = _can_lock(file.fileno())
            cells.frombytes(file.read(self._layout.size * _BYTES))
        if len(cells) < self._layout.size or cells[FINGERPRINT] != self._layout.fingerprint:
            return None  # a process of another version, started by one that was upgraded under its feet
        if not is_dead:
            return cells
        path.unlink()
        for cell in self._gauges:
            cells[cell] = 0.0
        self._of_the_dead = list(map(sum, zip(self._of_the_dead, cells, strict=True)))
        return None


def _can_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
