"""Takes the customer's auth codes out of what merchants send, before it is kept for anybody to read.

What is refused may be broken in any way, so nothing here relies on a body being what it should be: a code is found
under its name in JSON however it is written, cut off or nested, under its name in anything else, and by its looks
where it stands in the wrong place. The text keeps its length, so that the rest of it stays where it was.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

MASK: Final = b"*"

# Every attempt begins where the last one ended, and what is matched is never given back: linear, whatever comes.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_BLANKS: Final = re.compile(rb"[ \t\r\n]*+")
_BARE: Final = re.compile(rb"[^,}\] \t\r\n]*+")
_NOT_A_LETTER: Final = re.compile(r"[^a-z]+")
# In a string in a string, in a form, in another language's notation.
_NAMED: Final = re.compile(
    rb"auth[ _-]?code"
    rb"[\\\"' \t\r\n]{0,16}+[:=]>?[\\\"' \t\r\n]{0,16}+"
    rb"(?P<code>[^\\\"'\s,;&}<]++)",
    re.IGNORECASE,
)
# Wallets issue 16 to 24 digits that begin with 10 to 15 or 25 to 30; a product code or a time begins with others.
_LOOKS: Final = re.compile(rb"(?<![0-9])(?:1[0-5]|2[5-9]|30)[0-9]{14,22}(?![0-9])")
_NAME: Final = "authcode"
# A shorter code is masked under its name only: elsewhere the same characters mean something else.
_SHORTEST: Final = 6
_MOST: Final = 16


def mask(data: bytes) -> bytes:
    """Return the text with every auth code in it replaced by stars."""
    return masked_and_codes(data)[0]


def mask_named(data: bytes) -> bytes:
    """Return a body that was accepted with the auth codes in it replaced by stars.

    Its code stands under its name; what only looks like one is a number of the merchant's own.
    """
    masked, codes = _masked_by_name(data)
    for code in codes:
        masked = masked.replace(code, MASK * len(code))
    return masked


def masked_and_codes(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the masked text, and the codes that stand in it under their name: they may stand elsewhere, too."""
    masked, codes = _masked_by_name(data)
    return without(masked, codes), codes


def _masked_by_name(data: bytes) -> tuple[bytes, list[bytes]]:
    spans = [*_in_json(data), *(match.span("code") for match in _NAMED.finditer(data))]
    masked = bytearray(data)
    for start, end in spans:
        masked[start:end] = MASK * (end - start)
    written = {data[start:end] for start, end in spans if end - start >= _SHORTEST}
    found = written | {_decoded(code) for code in written if b"\\" in code}
    return bytes(masked), sorted((code for code in found if len(code) >= _SHORTEST), key=len, reverse=True)[
        :_MOST
    ]


def _decoded(code: bytes) -> bytes:
    """Return a code as it stands elsewhere: without the escapes of a string in JSON."""
    try:
        return str(json.loads(b'"' + code + b'"')).encode()
    except ValueError:
        return code


def without(data: bytes, codes: list[bytes]) -> bytes:
    """Return a text with these codes, and whatever looks like one, replaced by stars."""
    for code in codes:
        data = data.replace(code, MASK * len(code))
    return _LOOKS.sub(lambda match: MASK * len(match[0]), data)


def _in_json(data: bytes) -> Iterator[tuple[int, int]]:
    """Find the values of members that are named for an auth code; without the quotes of a string."""
    for match in _STRING.finditer(data):
        if not _is_named(match[0]):
            continue
        after = _end(_BLANKS, data, match.end())
        if data[after : after + 1] != b":":
            continue
        start = _end(_BLANKS, data, after + 1)
        first = data[start : start + 1]
        if first == b'"':
            value = _STRING.match(data, start)
            if value is not None:
                yield start + 1, value.end() - len(value[1])
        elif first in {b"{", b"["}:
            yield start, len(data)  # no code is written so, and what is in there is nobody's business
        else:
            yield start, _end(_BARE, data, start)


def _is_named(quoted: bytes) -> bool:
    if b"\\" not in quoted and b"code" not in quoted.lower():
        return False  # nearly always
    try:
        name = json.loads(quoted.decode("utf-8", "replace"), strict=False)
    except ValueError:
        name = quoted.decode("utf-8", "replace")
    return _NAME in _NOT_A_LETTER.sub("", str(name).lower())


def _end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    match = pattern.match(data, start)
    return start if match is None else match.end()
