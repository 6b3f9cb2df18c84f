"""What an answer says about the notification, as far as HTTP and its body tell."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from payaccept.domain.delivery import Answered

_REDIRECTS: Final = range(300, 400)


class _Result(msgspec.Struct, rename="camel"):
    result_status: Any = None


class _Body(msgspec.Struct):
    result: _Result | None = None


_body_decoder: Final = msgspec.json.Decoder(_Body)


def judge(status: int, body: bytes, retry_after: bytes | None) -> Answered:
    """Return an answer's meaning; `body` is the beginning of its body."""
    return Answered(
        status=status,
        refusal=_refusal(status, body),
        retry_after_s=None if retry_after is None else _retry_after_s(retry_after.decode("latin-1")),
    )


def _refusal(status: int, body: bytes) -> str | None:
    """Return what in the body says no: a JSON object whose result.resultStatus is there and is not S."""
    if status in _REDIRECTS:
        return f"HTTP {status}: redirects are not followed"
    if not body.lstrip().startswith(b"{"):
        return None
    try:
        decoded = _body_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if decoded.result is None or decoded.result.result_status in {None, "S"}:
        return None
    return f"HTTP {status} with resultStatus {str(decoded.result.result_status)[:16]!a}"


def _retry_after_s(value: str) -> float | None:
    value = value.strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
        return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
