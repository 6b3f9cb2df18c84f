"""The ways in which merchants' programs build a signing string wrongly, as strings to compare with.

Each `Change` departs from the rules in one respect; `variants` combines them, the simplest first, within
a budget of hashed bytes. Nothing here knows about keys.
"""

import base64
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from payaccept.wire import timestamps
from payaccept.wire.body_variants import MEND_BYTES, UTF8_BOM, bodies

MAX_BYTES: Final = 8 * 1024 * 1024
"""All variants of one request together are at most this long, which bounds the cost of hashing them."""
_MAX_BODY_TO_RECODE: Final = 64 * 1024

_TWO_LINES: Final = "{method} {path}{eol}{client}.{time}."
_MEND_LAYOUT: Final = (
    "sign two lines: `<METHOD> <PATH>`, one LF, then `<Client-Id>.<Request-Time>.<BODY>` with full stops"
)
_MEND_PATH: Final = "sign the path alone, from its first '/' and without host and query"


class Parts(NamedTuple):
    """What a signing string is made of; `finish` turns its bytes into those that were signed."""

    layout: str
    method: str
    path: str
    client: str
    time: str
    eol: str
    body: bytes
    finish: Callable[[bytes], bytes]

    def render(self) -> bytes:
        """Build the string; lone surrogates of a hostile header do no harm."""
        head = self.layout.format(
            method=self.method, path=self.path, client=self.client, time=self.time, eol=self.eol
        )
        return self.finish(head.encode("utf-8", "surrogatepass") + self.body)


class Change(NamedTuple):
    """One departure: the part it changes, the rule it breaks, what was signed and how to mend it.

    `signed` goes on from "... signed"; `mend` is an instruction. Usual ones are tried with
    any other, and together in threes and fours.
    """

    part: str
    value: Any
    rule: str
    signed: str
    mend: str
    usual: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """The request as it arrived; `host` is empty when it is not known."""

    method: str
    target: str
    client_id: str
    request_time: str
    body: bytes
    host: str


def _as_is(signed: bytes) -> bytes:
    return signed


def rightly(sent: Sent) -> Parts:
    """Take the parts of the signing string as the rules want them."""
    path = _without_host(sent.target).partition("?")[0]
    method = sent.method.upper()
    return Parts(_TWO_LINES, method, path, sent.client_id, sent.request_time, "\n", sent.body, _as_is)


def variants(sent: Sent) -> Iterator[tuple[bytes, tuple[Change, ...]]]:
    """Yield strings that a program may have signed, each with its departures, fewest first."""
    right = rightly(sent)
    budget = MAX_BYTES
    for changes in _combinations(sent, right):
        signed = right._replace(**{change.part: change.value for change in changes}).render()
        budget -= len(signed)
        if budget < 0 and changes:
            return
        yield signed, changes


def _combinations(sent: Sent, right: Parts) -> Iterator[tuple[Change, ...]]:
    yield ()
    dimensions: list[Sequence[Change]] = [
        _LAYOUTS,
        [Change("body", *variant) for variant in bodies(right.body)],
        _paths(sent, right.path),
        _LINE_ENDS,
        _methods(right.method),
        _finishes(right.body),
        _times(right.time),
    ]
    dimensions = [
        [change for change in dimension if change.value != getattr(right, change.part)]
        for dimension in dimensions
    ]
    for dimension in dimensions:
        yield from ((change,) for change in dimension)
    yield from ((change,) for change in _near_times(right.time))
    for pair in itertools.combinations(dimensions, 2):
        yield from (two for two in itertools.product(*pair) if two[0].usual or two[1].usual)
    usual = [[change for change in dimension if change.usual] for dimension in dimensions]
    for count in (3, 4):
        for several in itertools.combinations(usual, count):
            yield from itertools.product(*several)


def _layout(rule: str, value: str, signed: str, *, usual: bool = False) -> Change:
    return Change("layout", value, rule, signed, _MEND_LAYOUT, usual)


_LAYOUTS: Final = (
    _layout(
        "five-lines",
        "{method}{eol}{path}{eol}{client}{eol}{time}{eol}",
        "five lines (method, path, Client-Id, Request-Time, body)",
        usual=True,
    ),
    _layout(
        "missing-client-id",
        "{method} {path}{eol}{time}.",
        "a second line without Client-Id, which is how notifications are signed, not requests",
        usual=True,
    ),
    _layout(
        "time-before-client-id",
        "{method} {path}{eol}{time}.{client}.",
        "Request-Time before Client-Id",
        usual=True,
    ),
    _layout(
        "missing-newline", "{method} {path}{client}.{time}.", "the two lines without a line feed between them"
    ),
    _layout("missing-newline", "{method} {path} {client}.{time}.", "the two lines joined by a blank"),
    _layout("missing-newline", "{method} {path}.{client}.{time}.", "the two lines joined by a full stop"),
    _layout(
        "other-separators",
        "{method} {path}{eol}{client}{eol}{time}{eol}",
        "line feeds where the second line has full stops",
        usual=True,
    ),
    _layout(
        "other-separators", "{method}{eol}{path}{eol}{client}.{time}.", "method and path on separate lines"
    ),
    _layout("other-separators", "{method}{path}{eol}{client}.{time}.", "no blank between method and path"),
    _layout("other-separators", "{method} {path}{eol}{client}.{time}", "no full stop before the body"),
    _layout("other-separators", "{method} {path}{eol}{client}.{time}{eol}", "a line feed before the body"),
    _layout("other-separators", "{method} {path}{eol}{client}{time}.", "no full stop after Client-Id"),
    *(
        _layout(
            "other-separators",
            "{method} {path}{eol}{client}" + separator + "{time}" + separator,
            f"a second line with {name} where full stops belong",
        )
        for separator, name in (
            ("", "nothing"),
            (" ", "blanks"),
            (":", "colons"),
            ("|", "bars"),
            (",", "commas"),
            (";", "semicolons"),
            ("&", "ampersands"),
            ("-", "hyphens"),
            ("_", "underscores"),
        )
    ),
    _layout("missing-request-time", "{method} {path}{eol}{client}.", "a second line without Request-Time"),
    _layout("missing-method", "{path}{eol}{client}.{time}.", "a first line without the method"),
    _layout("missing-path", "{method}{eol}{client}.{time}.", "a first line without the path"),
    _layout("missing-first-line", "{client}.{time}.", "the second line alone"),
    _layout("missing-client-id", "{method}{eol}{path}{eol}{time}{eol}", "lines without Client-Id"),
    _layout("body-only", "", "the body alone"),
    _layout("blank-line", "{method} {path}{eol}{eol}{client}.{time}.", "an empty line between the two"),
    _layout("trailing-blank", "{method} {path} {eol}{client}.{time}.", "a blank after the path"),
)

_MEND_LINE_END: Final = "join the two lines with one LF, the single byte 0A"
_LINE_ENDS: Final = (
    Change("eol", "\r\n", "crlf", "lines that end in CR LF", _MEND_LINE_END, usual=True),
    Change("eol", "\\n", "literal-backslash-n", r"the two characters \n", _MEND_LINE_END, usual=True),
    Change("eol", "\\r\\n", "literal-backslash-n", r"the four characters \r\n", _MEND_LINE_END),
    Change("eol", "\r", "cr", "lines that end in CR", _MEND_LINE_END),
)


def _methods(right: str) -> list[Change]:
    mend = f"sign the method as it is sent, {right[:8]}" if right == "POST" else "sign the method in capitals"
    return [
        Change("method", right.lower(), "lower-case-method", "the method in lower case", mend, usual=True),
        Change("method", right.capitalize(), "lower-case-method", "the method in mixed case", mend),
        *(Change("method", m, "other-method", f"the method {m}", mend) for m in ("GET", "PUT") if m != right),
    ]


def _without_host(target: str) -> str:
    scheme, found, rest = target.partition("://")
    if not found or scheme.lower() not in {"http", "https"}:
        return target
    _, slash, path = rest.partition("/")
    return slash + path


def _paths(sent: Sent, path: str) -> list[Change]:
    with_query = _without_host(sent.target)
    changes = [
        Change("path", with_query, "query-in-path", "the query as part of the path", _MEND_PATH, usual=True)
    ]
    hosts = dict.fromkeys((sent.host, "127.0.0.1:8080", "localhost:8080"))
    urls = [f"{scheme}://{host}" for host in hosts if host for scheme in ("https", "http")]
    full = dict.fromkeys([sent.target, *(url + path for url in urls), *(url + with_query for url in urls)])
    for number, url in enumerate(u for u in full if "://" in u):
        signed = "the full URL where the path belongs"
        changes.append(Change("path", url, "full-url", signed, _MEND_PATH, usual=number < len(urls)))
    if sent.host:
        changes.append(Change("path", sent.host + path, "full-url", "the host and the path", _MEND_PATH))
    _, _, last = path.rpartition("/")
    changes += [
        Change("path", path.removeprefix("/"), "other-path", "the path without its first '/'", _MEND_PATH),
        Change("path", path + "/", "other-path", "the path with a '/' after it", _MEND_PATH),
        Change("path", path.lower(), "other-path", "the path in lower case", _MEND_PATH),
        Change("path", last, "other-path", "the last part of the path alone", _MEND_PATH),
        Change("path", "/" + last, "other-path", "the last part of the path alone", _MEND_PATH),
        Change("path", path.removeprefix("/v1"), "other-path", "the path without /v1", _MEND_PATH),
        Change(
            "path",
            path.removeprefix("/v1/payments"),
            "other-path",
            "the path without /v1/payments",
            _MEND_PATH,
        ),
    ]
    found: dict[str, Change] = {}
    for change in changes:
        found.setdefault(change.value, change)
    return list(found.values())


_MEND_TIME: Final = "sign the text of the Request-Time header as it is sent, made once per request"


def _times(text: str) -> list[Change]:
    """Write the instant of the header in the other shapes that programs give it."""
    try:
        at = timestamps.parse(text)
    except timestamps.TimestampMalformed:
        return []
    whole = at.replace(microsecond=0)
    naive = at.replace(tzinfo=None)
    shapes = [
        timestamps.write_seconds(at),
        timestamps.write(at),
        at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        whole.isoformat(),
        at.isoformat(timespec="milliseconds"),
        at.isoformat(timespec="microseconds"),
        naive.isoformat(timespec="seconds"),
        naive.isoformat(timespec="milliseconds"),
        naive.isoformat(timespec="seconds") + "+0000",
        str(naive.replace(microsecond=0)),
        str(whole),
        text.removesuffix("Z"),
        at.strftime("%Y%m%dT%H%M%SZ"),
        at.strftime("%Y%m%d%H%M%S"),
        str(int(at.timestamp())),
        str(round(at.timestamp() * 1000)),
    ]
    signed = "Request-Time in another shape than the header's"
    return [
        Change("time", shape, "other-time-format", signed, _MEND_TIME, usual=number < 2)  # noqa: PLR2004
        for number, shape in enumerate(dict.fromkeys(shapes))
    ]


def _near_times(text: str) -> Iterator[Change]:
    """Instants shortly before and after: the clock was read twice, once to sign and once for the header."""
    try:
        at = timestamps.parse(text)
        steps = [timedelta(seconds=n) for n in (-1, 1, -2, 2, -3, 3)]
        milliseconds = [timedelta(milliseconds=n) for n in range(-250, 251) if n]
        signed = "another Request-Time than the header's, a moment apart"
        near = [timestamps.write_seconds(at + step) for step in steps]
        if "." in text:
            near += [timestamps.write(at + step) for step in milliseconds]
    except (timestamps.TimestampMalformed, OverflowError):
        return
    for shape in dict.fromkeys(near):
        if shape != text:
            yield Change("time", shape, "other-request-time", signed, _MEND_TIME)


def _finishes(body: bytes) -> list[Change]:
    """List what programs do to the whole string before they sign it."""
    mend_twice = "hand the string itself to SHA256withRSA, which hashes it"
    hashed: list[tuple[str, Callable[[bytes], bytes]]] = [
        ("as 32 raw bytes", lambda signed: hashlib.sha256(signed).digest()),
        ("in hexadecimal", lambda signed: hashlib.sha256(signed).hexdigest().encode()),
        ("in base64", lambda signed: base64.b64encode(hashlib.sha256(signed).digest())),
        ("in capital hexadecimal", lambda signed: hashlib.sha256(signed).hexdigest().upper().encode()),
    ]
    changes = [
        Change("finish", finish, "hashed-twice", f"the SHA-256 of the signing string, {form},", mend_twice)
        for form, finish in hashed
    ]
    mark = "a byte order mark before the string"
    changes += [
        Change("finish", UTF8_BOM.__add__, "byte-order-mark", mark, MEND_BYTES),
        Change("finish", base64.b64encode, "encoded-string", "the signing string in base64", MEND_BYTES),
    ]
    if len(body) > _MAX_BODY_TO_RECODE:
        return changes
    encodings = ["utf-16-le", "utf-16-be", "utf-16"] + ([] if body.isascii() else ["latin-1", "cp1252"])
    changes += [
        Change("finish", _in(encoding), "other-encoding", f"the string in {encoding.upper()}", MEND_BYTES)
        for encoding in encodings
    ]
    if not body.isascii():
        twice = "the string's UTF-8 bytes read as Latin-1 and encoded again"
        changes.append(Change("finish", _encoded_again, "other-encoding", twice, MEND_BYTES))
    return changes


def _in(encoding: str) -> Callable[[bytes], bytes]:
    # Characters that the encoding lacks became '?' in the languages that do this silently.
    return lambda signed: signed.decode("utf-8", "replace").encode(encoding, "replace")


def _encoded_again(signed: bytes) -> bytes:
    return signed.decode("latin-1").encode()
