"""Examines a captured request as the API would, but to the end: every broken rule is told, not only the first."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

from payaccept.domain import request_rules
from payaccept.domain.key_proofs import public_key_of
from payaccept.domain.merchant import Environment, KeyState, MerchantKey
from payaccept.domain.traffic import milliseconds
from payaccept.domain.urls import UrlPolicy
from payaccept.wire import fields, signing, strict_json, timestamps
from payaccept.wire import messages as m
from payaccept.wire.capture import HEADERS, Capture, CaptureUnreadable, header_findings, parse
from payaccept.wire.diagnosis import CapturedRequest, Finding, diagnose
from payaccept.wire.header_reading import read_leniently
from payaccept.wire.signed_variants import Sent, rightly

MAX_BODY_BYTES: Final = 64 * 1024
MAX_SKEW: Final = timedelta(minutes=5)


class Verdict(StrEnum):
    """Whether a rule was kept."""

    KEPT = "kept"
    BROKEN = "broken"
    OPEN = "open"
    """It cannot be told."""


class Check(Struct, frozen=True):
    """One step of the examination; `told` says what was found where nothing is broken."""

    title: str
    verdict: Verdict
    told: str = ""
    findings: tuple[Finding, ...] = ()


class Examination(Struct, frozen=True, kw_only=True):
    """All checks in the API's order, and what should have been signed, when that is known."""

    checks: tuple[Check, ...]
    signing_string: bytes | None
    notes: tuple[str, ...]

    @property
    def broken(self) -> list[Check]:
        """The checks that failed, in the API's order: it answers with the first."""
        return [check for check in self.checks if check.verdict is Verdict.BROKEN]

    @property
    def digest(self) -> str:
        """SHA-256 of the signing string, in hexadecimal."""
        return "" if self.signing_string is None else hashlib.sha256(self.signing_string).hexdigest()


class Patient(Struct, frozen=True, kw_only=True):
    """Whose request it should be, and in which deployment. `keys` are all the merchant has ever had."""

    client_id: str
    environment: Environment
    urls: UrlPolicy
    keys: Sequence[MerchantKey]

    def public_keys(self) -> dict[int, RSAPublicKey]:
        """Return all keys ready to verify, by version."""
        return {key.key_version: public_key_of(key) for key in self.keys}


class Kept(Struct, frozen=True):
    """What is known of a request that the API itself has received."""

    received_at: datetime
    body_bytes: int
    body_is_whole: bool


def read_typed(text: str, patient: Patient) -> Capture:
    """Read a capture out of a form's text, in which browsers write every line end as CR LF.

    Of the bytes that it can have been, those are taken whose signature verifies, else those as long as
    Content-Length says, else those with plain line feeds.

    Raises: CaptureUnreadable.
    """
    if "PRIVATE KEY" in text:
        raise CaptureUnreadable(
            "this holds a private key: the request is enough, and the key has left your machine"
        )
    plain = text.replace("\r\n", "\n").encode()
    first = parse(plain)
    if plain.lstrip()[:1] == b"{":
        return first
    readings = [first, parse(text.encode()), parse(plain.rstrip(b"\n"))]
    keys = patient.public_keys()
    for reading in readings:
        if _verifies(reading, keys):
            return reading
    return next(
        (reading for reading in readings if not reading.notes and reading.values("Content-Length")), first
    )


def examine(capture: Capture, patient: Patient, kept: Kept | None = None) -> Examination:
    """Examine a request; `kept` tells of one that was received, whose body may not be all there."""
    whole = kept is None or kept.body_is_whole
    signed = _signing_string(capture) if whole else None
    return Examination(
        checks=(
            _path(capture, len(capture.body) if kept is None else kept.body_bytes),
            _headers(capture),
            _time(capture, kept),
            _client(capture, patient),
            _signature(capture, patient) if whole else _signature_of_part(capture),
            _body(capture, patient, is_cut=kept is not None and kept.body_bytes != len(capture.body)),
        ),
        signing_string=signed,
        notes=capture.notes,
    )


def _check(title: str, findings: Sequence[Finding], told: str, verdict: Verdict = Verdict.KEPT) -> Check:
    return Check(title, Verdict.BROKEN if findings else verdict, told, tuple(findings))


def _path(capture: Capture, body_bytes: int) -> Check:
    found = []
    path = capture.target.partition("?")[0]
    operation = _operation(capture)
    if operation is None:
        known = ", ".join(m.PATH_PREFIX + name for name in m.REQUESTS)
        found.append(Finding("path", f"There is nothing at {path[:200]}. The operations are {known}."))
    if capture.method != "POST":
        found.append(Finding("method", f"The method is {capture.method[:32]}; every operation takes POST."))
    if body_bytes > MAX_BODY_BYTES:
        found.append(Finding("size", f"The body has {body_bytes} bytes; at most {MAX_BODY_BYTES} are taken."))
    return _check("Path, method and size", found, f"POST to {operation}, {body_bytes} bytes of body.")


def _headers(capture: Capture) -> Check:
    told = f"{', '.join(HEADERS[:-1])} and {HEADERS[-1]} are there once each."
    return _check("Headers", header_findings(capture), told)


def _time(capture: Capture, kept: Kept | None) -> Check:
    title = "Request-Time"
    given = capture.first("Request-Time")
    if not given:
        return Check(title, Verdict.OPEN, "There is none to read.")
    try:
        at = timestamps.parse(given)
    except timestamps.TimestampMalformed as error:
        return _check(title, [Finding("request-time", f"Request-Time {error}: it reads {given[:64]!a}.")], "")
    if kept is None:
        return Check(title, Verdict.KEPT, f"Well formed. The API took it within 5 minutes of {given} only.")
    skew = at - kept.received_at
    seconds = milliseconds(skew) / 1000
    away = f"{abs(seconds):.1f} s {'ahead of' if seconds > 0 else 'behind'} our clock when it arrived"
    if abs(skew) > MAX_SKEW:
        text = (
            f"It was {away}; at most 300 s are accepted. Keep the clock right with NTP, and sign just before sending:"
            " a request that waited in a queue, or was sent again, needs a new time and a new signature."
        )
        return _check(title, [Finding("clock", text)], "")
    return Check(title, Verdict.KEPT, f"It was {away}.")


def _client(capture: Capture, patient: Patient) -> Check:
    title = "Client-Id"
    given = capture.first("Client-Id")
    if not given:
        return Check(title, Verdict.OPEN, "There is none to read.")
    if given == patient.client_id:
        return Check(title, Verdict.KEPT, "It is this merchant's.")
    if given.startswith(patient.environment.other.client_id_prefix):
        text = f"It belongs to the {patient.environment.other} environment; this is {patient.environment}."
        return _check(title, [Finding("other-environment", f"{text} Use {patient.client_id} here.")], "")
    text = f"It is not this merchant's, which is {patient.client_id}."
    if given.strip() == patient.client_id:
        text = "It has blanks around it: send it without."
    return _check(title, [Finding("other-client-id", text)], "")


def _signature(capture: Capture, patient: Patient) -> Check:
    title = "Signature"
    if len(capture.values("Signature")) != 1:
        return Check(title, Verdict.OPEN, "There is not one to check.")
    keys = patient.public_keys()
    finding = diagnose(_captured(capture), keys)
    named = read_leniently(capture.first("Signature")).key_version
    states = {key.key_version: key for key in patient.keys}
    found = [finding] if finding is not None else []
    key = None if named is None else states.get(named)
    if named is not None and key is None and keys:
        yours = ", ".join(f"{one.key_version} ({one.state.lower()})" for one in patient.keys)
        text = f"keyVersion {named} was never given out to this Client-Id. Yours: {yours}."
        found.append(Finding("unknown-key-version", text))
    if key is not None and key.state in {KeyState.RETIRED, KeyState.DISCARDED}:
        active = [str(one.key_version) for one in patient.keys if one.state is KeyState.ACTIVE]
        use = f"Sign with keyVersion {' or '.join(active)}." if active else "Add a new key."
        found.append(Finding("retired-key", f"keyVersion {named} is {key.state.lower()}. {use}"))
    waits = key is not None and key.state is KeyState.PENDING
    more = " It is waiting for its proof: sent to the API, this request would be it." if waits else ""
    return _check(title, found, f"It verifies under keyVersion {named}.{more}")


def _signature_of_part(capture: Capture) -> Check:
    """Check what can be checked when the body is not all there."""
    title = "Signature"
    if len(capture.values("Signature")) != 1:
        return Check(title, Verdict.OPEN, "There is not one to check.")
    faults = read_leniently(capture.first("Signature")).faults
    why = "The body was not kept whole (it was long, or held an auth code), so that this cannot be checked again."
    return _check(title, [Finding(fault.rule, fault.text) for fault in faults], why, Verdict.OPEN)


def _body(capture: Capture, patient: Patient, *, is_cut: bool) -> Check:
    title = "Body and fields"
    if is_cut:
        return Check(title, Verdict.OPEN, "Only its beginning was kept.")
    try:
        value = strict_json.load_object(capture.body)
    except strict_json.JsonRefused as error:
        return _check(title, [Finding("json", f"The body {error}.")], "")
    operation = _operation(capture)
    if operation is None:
        return Check(
            title, Verdict.OPEN, "JSON as it should be; which fields it needs, only the path could tell."
        )
    try:
        request = fields.read(value, m.REQUESTS[operation])
    except fields.FieldsRefused as error:
        return _check(title, [_field_finding(problem) for problem in error.problems], "")
    if isinstance(request, m.InquiryPaymentRequest):
        return Check(title, Verdict.KEPT, f"Everything that {operation} needs, within its bounds.")
    problems = request_rules.problems(request, patient.environment, patient.urls)
    found = [_field_finding(problem) for problem in problems]
    return _check(title, found, f"Everything that {operation} needs, within its bounds.")


def _field_finding(problem: fields.Problem) -> Finding:
    return Finding(problem.path or "fields", f"{problem.message}.")


def _operation(capture: Capture) -> str | None:
    path = capture.target.partition("?")[0]
    operation = path.removeprefix(m.PATH_PREFIX)
    return operation if operation in m.REQUESTS and path == m.PATH_PREFIX + operation else None


def _captured(capture: Capture) -> CapturedRequest:
    return CapturedRequest(
        method=capture.method,
        path=capture.target,
        client_id=capture.first("Client-Id"),
        request_time=capture.first("Request-Time"),
        body=capture.body,
        signature_header=capture.first("Signature"),
        host=capture.first("Host"),
    )


def _signing_string(capture: Capture) -> bytes:
    of = _captured(capture)
    return rightly(Sent(of.method, of.path, of.client_id, of.request_time, of.body, of.host)).render()


def _verifies(capture: Capture, keys: Mapping[int, RSAPublicKey]) -> bool:
    try:
        header = signing.parse_header(capture.first("Signature"))
        signing.verify(keys[header.key_version], header.signature, _signing_string(capture))
    except (signing.SignatureHeaderMalformed, signing.SignatureMismatch, KeyError):
        return False
    return True
