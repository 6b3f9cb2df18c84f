"""What both clients share of HTTP: the limits of an answer, and what a broken connection tells."""

import random
import time
from datetime import UTC, datetime
from typing import Final

import httpx

from payaccept.sdk.answers import NoAnswer
from payaccept.sdk.flow import Clock

MAX_ANSWER_BYTES: Final = 1024 * 1024

SYSTEM_CLOCK: Final = Clock(
    now=lambda: datetime.now(UTC),
    elapsed_s=time.monotonic,
    chance=random.random,
)

_BEFORE_SENDING: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)


def no_answer(error: httpx.TransportError | httpx.DecodingError) -> NoAnswer:
    """Say why there is no answer, and whether the request may have arrived all the same."""
    reason = "it took too long" if isinstance(error, httpx.TimeoutException) else str(error)
    return NoAnswer(reason or type(error).__name__, was_sent=not isinstance(error, _BEFORE_SENDING))


class Collector:
    """An answer's body, piece by piece, within its limits of size and time."""

    def __init__(self, give_up_at_s: float) -> None:
        self._give_up_at_s = give_up_at_s
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> NoAnswer | None:
        """Take a piece; a NoAnswer says that a limit is passed and reading must stop."""
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > MAX_ANSWER_BYTES:
            return NoAnswer(f"it is longer than {MAX_ANSWER_BYTES} bytes", was_sent=True)
        if SYSTEM_CLOCK.elapsed_s() > self._give_up_at_s:
            # httpx bounds each read, not their sum: a byte every second would go on for ever.
            return NoAnswer("it took too long", was_sent=True)
        return None

    @property
    def body(self) -> bytes:
        """All pieces together."""
        return b"".join(self._pieces)
