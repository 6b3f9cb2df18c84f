"""A limit on unauthenticated failures per source address, in this process's memory.

It never refuses a rightly signed request: beyond the limit, a failure is answered in fewer words, and
without the work of explaining it.
"""

import time
from collections.abc import Callable
from typing import Final

_WINDOW_S: Final = 60.0
_MAX_ADDRESSES: Final = 10_000


class AddressFailureLimit:
    """Counts failures of each address in windows of a minute. `limit` None means no limit."""

    def __init__(self, limit: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self._clock = clock
        self._started_at = clock()
        self._counts: dict[str, int] = {}

    def is_exceeded(self, address: str) -> bool:
        """Tell whether the address has failed too often in this window."""
        return self.limit is not None and self._counts.get(address, 0) > self.limit

    def count(self, address: str) -> bool:
        """Count one more failure, and tell whether there were too many."""
        if self.limit is None:
            return False
        now = self._clock()
        if now - self._started_at >= _WINDOW_S or len(self._counts) >= _MAX_ADDRESSES:
            self._counts.clear()
            self._started_at = now
        self._counts[address] = self._counts.get(address, 0) + 1
        return self._counts[address] > self.limit
