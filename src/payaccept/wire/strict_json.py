"""Bytes to a JSON value, refusing whatever two readers could understand differently.

Accepted: one JSON object in UTF-8, at most 16 levels deep, no member named twice at any level, no
NaN or Infinity, no NUL character and no lone surrogate in a string; integers are exact, up to 4300 digits.
"""

import contextlib
import json
import re
from typing import Any, Final, NoReturn

import msgspec

MAX_DEPTH: Final = 16
MAX_DIGITS: Final = 4300

_ESCAPE_TO_LOOK_AT: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class JsonRefused(ValueError):
    """The text is no acceptable JSON; the message says why, and where when that is known."""


def load_object(data: bytes) -> dict[str, Any]:
    """Read one JSON object.

    Raises: JsonRefused.
    """
    try:
        value = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _load_slowly(data)  # raises with a better message, or judges what msgspec could not
    else:
        # Written again to the very same bytes, the text had no member that was dropped as a duplicate
        # and no number that lost a digit; fewer than 17 brackets cannot nest deeper than 16.
        usual = (
            data.count(b"{") + data.count(b"[") <= MAX_DEPTH
            and _ESCAPE_TO_LOOK_AT.search(data) is None
            and _encode(value) == data
        )
        if not usual:
            value = _load_slowly(data)
    if not isinstance(value, dict):
        raise JsonRefused("must be a JSON object")
    return value


def _load_slowly(data: bytes) -> Any:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonRefused(f"is not UTF-8 (byte {error.start})") from None
    if text.startswith("\ufeff"):
        raise JsonRefused("starts with a byte order mark")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise JsonRefused(f"is not JSON: {error.msg} (character {error.pos})") from None
    except RecursionError:
        raise JsonRefused(f"is nested deeper than {MAX_DEPTH} levels") from None
    _check(value, 0)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise JsonRefused(f"names the member {name[:64]!a} twice")
            seen.add(name)
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise JsonRefused(f"holds {name}, which is not JSON")


def _integer(digits: str) -> int:
    # The same bound as the fast decoder's, so that white space elsewhere never decides; Python's own
    # bound is this one too, unless its environment lowers it.
    if len(digits.lstrip("-")) <= MAX_DIGITS:
        with contextlib.suppress(ValueError):
            return int(digits)
    raise JsonRefused(f"holds an integer of more than {MAX_DIGITS} digits")


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list):
        if depth == MAX_DEPTH:
            raise JsonRefused(f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            for name in value:
                _check_text(name)
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth + 1)
    elif isinstance(value, float) and value in {float("inf"), float("-inf")}:
        raise JsonRefused("holds a number too large to be read")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise JsonRefused("holds a NUL character in a string")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise JsonRefused("holds half of a surrogate pair in a string") from None
