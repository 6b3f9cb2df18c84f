"""The ways in which a program may have written the body that it signed, where it sent other bytes."""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from payaccept.wire import strict_json

UTF8_BOM: Final = b"\xef\xbb\xbf"
MEND_BYTES: Final = "sign the UTF-8 bytes of the string itself, without a byte order mark"

_MAX_BODY_TO_REWRITE: Final = 64 * 1024
_SMALL_BODY: Final = 8 * 1024
_MEND_BODY: Final = "serialise the body once, and sign and send those same bytes"
_MEND_END: Final = "end the signing string with the last byte of the body"
_MEND_HASH: Final = "put the body itself into the signing string"
_MEND_AS_SENT: Final = "sign the body as it is sent"
_SHAPES: Final = (
    ("compact", -1),
    ("a blank after each ',' and ':'", 0),
    ("indented by 2", 2),
    ("indented by 4", 4),
)


class BodyVariant(NamedTuple):
    """Other bytes for the body, the rule they break, what was signed and how to mend it."""

    value: bytes
    rule: str
    signed: str
    mend: str
    usual: bool


def bodies(body: bytes) -> list[BodyVariant]:
    """Every other body that is known, none twice, the likeliest first."""
    found: dict[bytes, BodyVariant] = {}

    def add(value: bytes, rule: str, signed: str, mend: str = _MEND_BODY, *, usual: bool = False) -> None:
        found.setdefault(value, BodyVariant(value, rule, signed, mend, usual))

    # The body itself, so that no variant equal to it is kept; taken out again at the end.
    add(body, "", "")
    add(b"", "empty-body", "an empty body", _MEND_AS_SENT, usual=True)
    for line_end in (b"\n", b"\r\n"):
        add(body + line_end, "trailing-newline", "a line break after the body", _MEND_END, usual=True)
    for how, value, usual in _rewritten(body):
        add(value, "reserialised-json", f"the same JSON value in other bytes ({how})", usual=usual)
    for form, value in _digest_forms(body):
        add(
            value, "body-hash", f"the SHA-256 of the body {form} in place of the body", _MEND_HASH, usual=True
        )
    for line_end in (b"\n", b"\r\n"):
        without = "the body without the line break that was sent after it"
        add(
            body.removesuffix(line_end), "trailing-newline-sent", without, "send no line break after the body"
        )
    add(body.strip(), "blanks-around-body", "the body without the blanks around it")
    add(b" " + body, "blanks-around-body", "a blank before the body")
    add(body.replace(b"\r\n", b"\n"), "crlf-in-body", "the body with LF where CR LF was sent")
    add(body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), "crlf-in-body", "the body with CR LF for LF")
    add(body.replace(b"\n", b""), "newlines-removed", "the body without its line breaks")
    add(UTF8_BOM + body, "byte-order-mark", "a byte order mark before the body", MEND_BYTES)
    add(body.removeprefix(UTF8_BOM), "byte-order-mark", "the body without its byte order mark", MEND_BYTES)
    add(base64.b64encode(body), "encoded-body", "the body in base64", _MEND_AS_SENT)
    quoted = json.dumps(body.decode("utf-8", "replace"), ensure_ascii=False).encode("utf-8", "replace")
    add(quoted, "quoted-body", "the body written as a JSON string, in quotes", _MEND_AS_SENT)
    del found[body]
    return list(found.values())


def _digest_forms(data: bytes) -> list[tuple[str, bytes]]:
    digest = hashlib.sha256(data).digest()
    return [
        ("in hexadecimal", digest.hex().encode()),
        ("in base64", base64.b64encode(digest)),
        ("as 32 raw bytes", digest),
        ("in base64url", base64.urlsafe_b64encode(digest).rstrip(b"=")),
        ("in capital hexadecimal", digest.hex().upper().encode()),
    ]


def _rewritten(body: bytes) -> Iterator[tuple[str, bytes, bool]]:
    """Write the same JSON value as other programs do: how, the bytes, and whether that is usual."""
    if len(body) > _MAX_BODY_TO_REWRITE:
        return
    text = body.removeprefix(UTF8_BOM)
    try:
        value = strict_json.load_object(text)
    except strict_json.JsonRefused:
        return
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    escaped = json.dumps(value, separators=(",", ":")).encode()
    texts = [
        ("", plain, True),
        ("non-ASCII characters escaped, ", escaped, True),
        # Only its blanks differ: escapes and numbers stay as they were sent.
        ("", text, False),
    ]
    if len(body) <= _SMALL_BODY:
        html = plain.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
        by_name = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
        by_name_escaped = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        texts += [
            ("members sorted, ", by_name, True),
            ("members sorted, non-ASCII characters escaped, ", by_name_escaped, False),
            ("slashes escaped, ", plain.replace(b"/", b"\\/"), False),
            ("slashes and non-ASCII characters escaped, ", escaped.replace(b"/", b"\\/"), False),
            ("<, > and & escaped, ", html, False),
        ]
    for shape, indent in _SHAPES:
        for how, written, usual in texts:
            yield how + shape, msgspec.json.format(written, indent=indent), usual
    lines = msgspec.json.format(plain, indent=1).split(b"\n")
    tabbed = (b"\t" * (len(line) - len(line.lstrip(b" "))) + line.lstrip(b" ") for line in lines)
    yield "indented by tabs", b"\n".join(tabbed), False
