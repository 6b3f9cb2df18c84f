"""A captured request: raw HTTP text, or JSON with `method`, `path`, `headers` and `body`."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from payaccept.cli.terminal import Mistake

MAX_CAPTURE_BYTES: Final = 256 * 1024
_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE: Final = re.compile(r"([A-Za-z]+) (\S+)(?: HTTP/[0-9.]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Capture:
    """What was captured. `notes` are doubts about the capture itself, not about the request."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    notes: tuple[str, ...] = ()

    def values(self, name: str) -> list[str]:
        """All values of a header, its name in any case."""
        return [value for given, value in self.headers if given.lower() == name.lower()]

    def first(self, name: str) -> str:
        """Return the first value of a header, empty when there is none."""
        return next(iter(self.values(name)), "")


class _JsonCapture(msgspec.Struct):
    path: str
    headers: dict[str, str]
    method: str = "POST"
    body: str = ""


def read_input(source: str, limit_bytes: int) -> bytes:
    """Read a file, or stdin for `-`, as bytes.

    Raises: Mistake when it cannot be read, or is longer than the limit.
    """
    try:
        if source == "-":
            content = sys.stdin.buffer.read(limit_bytes + 1)
        else:
            with Path(source).open("rb") as file:
                content = file.read(limit_bytes + 1)
    except OSError as error:
        raise Mistake(f"{source} cannot be read: {error.strerror}") from None
    if len(content) > limit_bytes:
        raise Mistake(f"{source} is larger than {limit_bytes // 1024} KiB")
    return content


def parse(content: bytes) -> Capture:
    """Read a capture of either kind.

    Raises: Mistake when it is neither.
    """
    if content.lstrip()[:1] == b"{":
        return _parse_json(content)
    return _parse_http(content)


def _parse_json(content: bytes) -> Capture:
    try:
        read = msgspec.json.decode(content, type=_JsonCapture)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Mistake(
            f"the capture is not a JSON object of method, path, headers and body: {error}"
        ) from None
    return Capture(read.method, read.path, tuple(read.headers.items()), read.body.encode())


def _parse_http(content: bytes) -> Capture:
    content = content.lstrip(b"\r\n")
    end = _HEAD.search(content)
    head, body = (content[: end.start()], content[end.end() :]) if end else (content.rstrip(b"\r\n"), b"")
    lines = head.decode("utf-8", errors="surrogateescape").replace("\r\n", "\n").split("\n")
    request_line = _REQUEST_LINE.fullmatch(lines[0].rstrip(" "))
    if request_line is None:
        raise Mistake(
            "the capture must start with a request line such as POST /v1/payments/inquiryPayment HTTP/1.1"
        )
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Mistake(f"the capture has a line that is no header: {line[:60]!a}")
        headers.append((name, value.strip(" \t")))
    capture = Capture(request_line[1], request_line[2], tuple(headers), body)
    if any("chunked" in value.lower() for value in capture.values("Transfer-Encoding")):
        raise Mistake("the capture's body is in chunks; save it decoded, without Transfer-Encoding")
    return _fit_to_length(capture)


def _fit_to_length(capture: Capture) -> Capture:
    """Take the body's length from Content-Length: editors append a line feed to the files they save."""
    declared = capture.first("Content-Length")
    body = capture.body
    if not (declared.isascii() and declared.isdigit()):
        note = "There is no Content-Length: whatever follows the empty line is taken for the body."
        notes = (note,) if body.endswith(b"\n") else ()
        return Capture(capture.method, capture.target, capture.headers, body, notes)
    length = int(declared[:9])
    if len(body) == length:
        return capture
    if len(body) > length and not body[length:].strip(b"\r\n"):
        note = f"{len(body) - length} byte(s) of line ends after the body's {length} were left out."
        return Capture(capture.method, capture.target, capture.headers, body[:length], (note,))
    note = (
        f"Content-Length says {length} bytes, but {len(body)} were captured: "
        "line ends or other bytes were changed when it was saved."
    )
    return Capture(capture.method, capture.target, capture.headers, body, (note,))
