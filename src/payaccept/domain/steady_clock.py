"""The time that schedules go by: a clock that was set back does not stop them."""

from datetime import datetime, timedelta
from typing import Final

PACE: Final = 0.9
FURTHEST: Final = timedelta(days=1)


class SteadyClock:
    """Follows the wall clock, but never goes back while the process lives.

    A wall clock that was set back is waited for: until it has caught up, this one goes at nine tenths of the
    pace, which stays within the jitter of the schedule. One that was set back by more than a day had been wrong
    before, and is followed.
    """

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None

    def read(self, wall: datetime, monotonic_s: float) -> datetime:
        """Return the time, given what the wall clock shows and a clock that is never set."""
        now = wall
        if self._last is not None:
            last, last_s = self._last
            carried = last + timedelta(seconds=max(0.0, monotonic_s - last_s)) * PACE
            if wall < carried <= wall + FURTHEST:
                now = carried
        self._last = now, monotonic_s
        return now
