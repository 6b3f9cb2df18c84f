"""A limit of N requests in any 60 seconds, exact: the times of the admitted requests are the state."""

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from payaccept.domain.merchant import RATE_WINDOW_S

WINDOW_US = RATE_WINDOW_S * 1_000_000


class Admission(Struct, frozen=True):
    """How many of the requests asked for are admitted, and the window after them.

    `times_us` are the admitted requests of the last 60 s in order, Unix microseconds. `free_at_us` is
    when the next request can be admitted at the earliest (now, while there is room).
    """

    admitted: int
    times_us: list[int]
    free_at_us: int


def admit(times_us: Sequence[int], now_us: int, limit: int, wanted: int) -> Admission:
    """Admit as many of `wanted` requests as the limit leaves room for at `now_us`.

    Clocks of several machines differ a little: a time before the last admitted one counts as that one.
    """
    now_us = max(now_us, times_us[-1] if times_us else 0)
    # A request exactly 60 s old still shares a window of 60 s with one made now.
    live = list(times_us[bisect_right(times_us, now_us - WINDOW_US - 1) :])
    admitted = max(0, min(wanted, limit - len(live)))
    live.extend([now_us] * admitted)
    room = len(live) < limit
    free_at_us = now_us if room or limit == 0 else live[len(live) - limit] + WINDOW_US + 1
    return Admission(admitted=admitted, times_us=live, free_at_us=free_at_us)
