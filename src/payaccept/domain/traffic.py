"""What is seen of a merchant's requests: how its keys are used, how its clock goes, and what was refused."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from payaccept.wire import auth_codes, timestamps

MAX_BODY: Final = 8192
MAX_TEXT: Final = 1000
MAX_SIGNATURE: Final = 2000
# What lies beyond is not looked at: a code that begins within what is kept ends before.
_LOOKED_AT: Final = 2 * MAX_BODY

SKEW_WARNING: Final = timedelta(minutes=2)
"""From here on a merchant's clock is told to be wrong; from five minutes on its requests are refused."""


class KeyMinute(Struct, frozen=True, kw_only=True):
    """How a key was used in a minute. A skew is negative where the merchant's clock was behind ours."""

    client_id: str
    key_version: int
    minute: datetime
    uses: int
    first_used_at: datetime
    last_used_at: datetime
    least_skew_ms: int
    greatest_skew_ms: int


def together(one: KeyMinute, other: KeyMinute) -> KeyMinute:
    """Add up two counts of the same key and minute."""
    return msgspec.structs.replace(
        one,
        uses=one.uses + other.uses,
        first_used_at=min(one.first_used_at, other.first_used_at),
        last_used_at=max(one.last_used_at, other.last_used_at),
        least_skew_ms=min(one.least_skew_ms, other.least_skew_ms),
        greatest_skew_ms=max(one.greatest_skew_ms, other.greatest_skew_ms),
    )


class RefusalMinute(Struct, frozen=True, kw_only=True):
    """How many requests that named a merchant were refused in a minute, and of how many only this is known."""

    client_id: str
    minute: datetime
    result_code: str
    refused: int
    only_counted: int


class RefusedRequest(Struct, frozen=True, kw_only=True):
    """A request that was refused, as it came. `target` is path and query; a missing header is an empty text.

    `body` is cut and masked; `body_is_whole` says that it is neither, so that its signature can be checked.
    """

    client_id: str
    request_id: str
    received_at: datetime
    method: str
    target: str
    status: int
    result_code: str
    message: str
    skew_ms: int | None
    address: str
    host: str
    user_agent: str
    content_type: str
    request_time: str
    signature_header: str
    body: bytes
    body_bytes: int
    body_is_whole: bool


def presentable(raw: RefusedRequest) -> RefusedRequest:
    """Return a request as it may be kept: cut, without auth codes, and without what a database cannot hold."""
    looked_at = raw.body[:_LOOKED_AT]
    masked, codes = auth_codes.masked_and_codes(looked_at)
    # A text with NUL characters is UTF-16 or no text: nobody could say where a code stands in it.
    kept = b"" if b"\0" in looked_at else masked[:MAX_BODY]

    def text(value: str, limit: int = MAX_TEXT) -> str:
        clean = auth_codes.without(value[:limit].encode("utf-8", "replace"), codes)
        return clean.decode("utf-8", "replace").replace("\0", "\ufffd")

    return RefusedRequest(
        client_id=raw.client_id,
        request_id=raw.request_id,
        received_at=raw.received_at,
        method=text(raw.method, 32),
        target=text(raw.target),
        status=raw.status,
        result_code=raw.result_code,
        message=text(raw.message, 4 * MAX_TEXT),
        skew_ms=skew_ms(raw.request_time, raw.received_at),
        address=text(raw.address, 64),
        host=text(raw.host, 256),
        user_agent=text(raw.user_agent, 256),
        content_type=text(raw.content_type, 256),
        request_time=text(raw.request_time, 64),
        signature_header=raw.signature_header[:MAX_SIGNATURE]
        .encode("ascii", "replace")
        .decode()
        .replace("\0", "?"),
        body=kept,
        body_bytes=len(raw.body),
        body_is_whole=kept == raw.body,
    )


def skew_ms(request_time: str, at: datetime) -> int | None:
    """Return by how much a Request-Time was ahead, in milliseconds; None when it is no time."""
    try:
        return milliseconds(timestamps.parse(request_time) - at)
    except timestamps.TimestampMalformed:
        return None


def milliseconds(span: timedelta) -> int:
    """Return a span in whole milliseconds, towards zero."""
    return int(span.total_seconds() * 1000)


class KeyUse(Struct, frozen=True, kw_only=True):
    """How a key was used since it was added."""

    key_version: int
    uses: int
    first_used_at: datetime
    last_used_at: datetime


class Minute(Struct, frozen=True, kw_only=True):
    """What one key did in one minute."""

    minute: datetime
    key_version: int
    uses: int
    least_skew_ms: int
    greatest_skew_ms: int


class RefusalCount(Struct, frozen=True, kw_only=True):
    """How many requests were refused with one code, and of how many only that is known."""

    result_code: str
    refused: int
    only_counted: int
    last_at: datetime


class AcceptedRequest(Struct, frozen=True, kw_only=True):
    """A request that made a payment."""

    payment_id: str
    payment_request_id: str
    operation: str
    state: str
    received_at: datetime
    key_version: int | None
    request_time: str | None

    @property
    def skew_ms(self) -> int | None:
        """By how much Request-Time was ahead of our clock."""
        return None if self.request_time is None else skew_ms(self.request_time, self.received_at)


class Clock(Struct, frozen=True):
    """How far a merchant's clock was away from ours in the requests that verified, milliseconds."""

    least_ms: int
    greatest_ms: int

    @property
    def worst_ms(self) -> int:
        """The skew that is farthest from none."""
        return max(self.least_ms, self.greatest_ms, key=abs)

    @property
    def is_off(self) -> bool:
        """Whether the merchant should be warned."""
        return abs(self.worst_ms) >= milliseconds(SKEW_WARNING)


def clock_of(minutes: Sequence[Minute]) -> Clock | None:
    """Return how the clock went in some minutes; None when nothing was sent."""
    if not minutes:
        return None
    return Clock(min(one.least_skew_ms for one in minutes), max(one.greatest_skew_ms for one in minutes))
