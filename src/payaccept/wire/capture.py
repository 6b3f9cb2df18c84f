"""A captured request: raw HTTP text, or JSON with `method`, `path`, `headers` and `body`."""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from payaccept.wire.diagnosis import Finding

HEADERS: Final = ("Client-Id", "Request-Time", "Signature", "Content-Type")
_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE: Final = re.compile(r"([A-Za-z]+) (\S+)(?: HTTP/[0-9.]+)?", re.ASCII)


class CaptureUnreadable(ValueError):
    """The text is no capture of a request; the message says why."""


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


def parse(content: bytes) -> Capture:
    """Read a capture of either kind.

    Raises: CaptureUnreadable when it is neither.
    """
    if content.lstrip()[:1] == b"{":
        return _parse_json(content)
    return _parse_http(content)


def _parse_json(content: bytes) -> Capture:
    try:
        read = msgspec.json.decode(content, type=_JsonCapture)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CaptureUnreadable(
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
        raise CaptureUnreadable(
            "the capture must start with a request line such as POST /v1/payments/inquiryPayment HTTP/1.1"
        )
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise CaptureUnreadable(f"the capture has a line that is no header: {line[:60]!a}")
        headers.append((name, value.strip(" \t")))
    capture = Capture(request_line[1], request_line[2], tuple(headers), body)
    if any("chunked" in value.lower() for value in capture.values("Transfer-Encoding")):
        raise CaptureUnreadable("the capture's body is in chunks; save it decoded, without Transfer-Encoding")
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


def header_findings(capture: Capture) -> list[Finding]:
    """Return which headers are missing, doubled, or announce something else than JSON."""
    findings = []
    for name in HEADERS:
        count = len(capture.values(name))
        if count != 1:
            how = "is missing" if count == 0 else f"is given {count} times"
            findings.append(Finding("header-missing" if count == 0 else "header-doubled", f"{name} {how}."))
    media_type, _, parameter = capture.first("Content-Type").partition(";")
    charset = parameter.strip().lower().replace('"', "")
    right = media_type.strip().lower() == "application/json" and charset in {"", "charset=utf-8"}
    if capture.values("Content-Type") and not right:
        findings.append(Finding("content-type", "Content-Type must be application/json."))
    return findings
