"""A captured request examined to the end: each broken rule in its place, and nothing wrong with a right one."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from merchant import PREFIX, Merchant, compact, private_key, public_pem, request_of
from payaccept.domain import doctor, merchant_keys
from payaccept.domain.doctor import Examination, Kept, Patient, Verdict
from payaccept.domain.merchant import Environment, KeyState
from payaccept.domain.urls import UrlPolicy
from payaccept.wire.capture import Capture, CaptureUnreadable

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = "2026-03-01T12:00:00Z"
PATH = PREFIX + "createQROrder"
CLIENT_ID = "sandbox_" + "1" * 24


def key_of(number: int, version: int, state: KeyState = KeyState.ACTIVE):
    made = merchant_keys.next_key(CLIENT_ID, [], merchant_keys.accept(public_pem(private_key(number))), NOW)
    return replace(made, key_version=version, state=state)


SHOP = Merchant(CLIENT_ID)
SHOP.use_key(1, private_key(1))
PATIENT = Patient(
    client_id=CLIENT_ID,
    environment=Environment.SANDBOX,
    urls=UrlPolicy(allow_http=False, allow_private=False),
    keys=[
        key_of(1, 1),
        key_of(2, 2, KeyState.RETIRED),
        key_of(3, 3, KeyState.PENDING),
        key_of(4, 4, KeyState.DISCARDED),
    ],
)


def captured(
    body: bytes | None = None, *, path: str = PATH, method: str = "POST", time: str = AT, **headers: Any
) -> Capture:
    content = compact(request_of("createQROrder")) if body is None else body
    given = SHOP.headers(path.partition("?")[0], content, time) | {
        name.replace("_", "-").title(): value for name, value in headers.items()
    }
    pairs = tuple((name, value) for name, value in given.items() if value is not None)
    return Capture(method, path, pairs, content)


def verdicts(examination: Examination) -> dict[str, Verdict]:
    return {check.title: check.verdict for check in examination.checks}


def rules(examination: Examination) -> set[str]:
    return {finding.rule for check in examination.checks for finding in check.findings}


def test_a_right_request_is_healthy_and_its_signing_string_is_shown():
    capture = captured()
    examination = doctor.examine(capture, PATIENT)
    assert set(verdicts(examination).values()) == {Verdict.KEPT}
    assert examination.broken == []
    assert examination.signing_string == f"POST {PATH}\n{CLIENT_ID}.{AT}.".encode() + capture.body
    assert len(examination.digest) == 64


@pytest.mark.parametrize(
    ("capture", "rule"),
    [
        (captured(path="/v1/payment/createQROrder"), "path"),
        (captured(path=PREFIX), "path"),
        (captured(method="PUT"), "method"),
        (captured(b"{" + b" " * 70_000 + b"}"), "size"),
        (captured(client_id=None), "header-missing"),
        (captured(content_type="text/plain"), "content-type"),
        (captured(time="2026-03-01T12:00:00+00:00"), "request-time"),
        (captured(client_id="live_" + "1" * 24), "other-environment"),
        (captured(client_id="sandbox_" + "2" * 24), "other-client-id"),
        (captured(signature="algorithm=SHA256withRSA, keyVersion=1, signature=AAAA"), "signature-length"),
        (captured(b"[1]"), "json"),
        (captured(compact(request_of("createQROrder", paymentAmount=None))), "paymentAmount"),
        (
            captured(compact(request_of("createQROrder", paymentAmount={"currency": "ABC", "value": 1}))),
            "paymentAmount.currency",
        ),
        (
            captured(compact(request_of("createQROrder", paymentNotifyUrl="http://shop.example/"))),
            "paymentNotifyUrl",
        ),
        (captured(compact(request_of("createQROrder", sandbox={"outcome": "PERHAPS"}))), "extendInfo"),
    ],
)
def test_each_rule_that_is_broken_is_told(capture, rule):
    examination = doctor.examine(capture, PATIENT)
    assert rule in rules(examination)
    assert examination.broken


def test_everything_that_is_wrong_is_told_at_once():
    capture = captured(b"{}", method="GET", time="today", content_type="text/html", client_id="shop")
    assert len(doctor.examine(capture, PATIENT).broken) >= 5


@pytest.mark.parametrize(
    ("number", "version", "verdict", "told"),
    [
        (2, 2, Verdict.BROKEN, "keyVersion 2 is retired. Sign with keyVersion 1."),
        (3, 3, Verdict.KEPT, "this request would be it"),
        (4, 4, Verdict.BROKEN, "keyVersion 4 is discarded"),
        (
            1,
            9,
            Verdict.BROKEN,
            "keyVersion 9 was never given out to this Client-Id. Yours: 1 (active), 2 (retired)",
        ),
        (2, 1, Verdict.BROKEN, "the key of keyVersion 2 signed"),
        (5, 1, Verdict.BROKEN, "No key registered for this merchant made this signature"),
    ],
)
def test_the_state_of_the_key_counts(number, version, verdict, told):
    signer = Merchant(CLIENT_ID)
    signer.use_key(version, private_key(number))
    body = compact(request_of("createQROrder"))
    capture = Capture("POST", PATH, tuple(signer.headers(PATH, body, AT).items()), body)
    check = next(check for check in doctor.examine(capture, PATIENT).checks if check.title == "Signature")
    assert check.verdict is verdict
    assert told in check.told + " ".join(finding.explanation for finding in check.findings)


def test_a_merchant_without_a_key_is_told_to_register_one():
    assert "no-registered-key" in rules(doctor.examine(captured(), replace(PATIENT, keys=[])))


def test_of_a_request_that_was_received_the_clock_is_judged():
    def time_of(kept: Kept):
        return next(c for c in doctor.examine(captured(), PATIENT, kept).checks if c.title == "Request-Time")

    body_bytes = len(captured().body)
    late = time_of(Kept(NOW + timedelta(seconds=412), body_bytes, body_is_whole=True))
    assert late.verdict is Verdict.BROKEN
    assert "412.0 s behind our clock" in late.findings[0].explanation
    right = time_of(Kept(NOW - timedelta(seconds=2), body_bytes, body_is_whole=True))
    assert (right.verdict, right.told) == (
        Verdict.KEPT,
        "It was 2.0 s ahead of our clock when it arrived.",
    )


def test_what_was_masked_or_cut_is_not_judged_as_if_it_were_whole():
    body = compact(request_of("retailPay"))
    masked = body.replace(b"281012020262467128", b"*" * 18)
    kept = Kept(NOW, len(body), body_is_whole=False)
    capture = captured(masked, path=PREFIX + "retailPay")
    found = verdicts(doctor.examine(capture, PATIENT, kept))
    assert (found["Signature"], found["Body and fields"]) == (Verdict.OPEN, Verdict.KEPT)
    cut = doctor.examine(captured(masked[:40]), PATIENT, kept)
    assert verdicts(cut)["Body and fields"] is Verdict.OPEN
    assert cut.signing_string is None
    padded = captured(masked, signature="algorithm=SHA256withRSA, keyVersion=1, signature=AA==")
    assert "signature-length" in rules(doctor.examine(padded, PATIENT, kept))


def raw(capture: Capture, *, length: bool = True, end: str = "") -> str:
    head = [f"{capture.method} {capture.target} HTTP/1.1", *(f"{n}: {v}" for n, v in capture.headers)]
    if length:
        head.append(f"Content-Length: {len(capture.body)}")
    return "\n".join(head) + "\n\n" + capture.body.decode() + end


BODIES = (b'{"a":1}', b'{\n  "a": 1\n}', b'{\r\n  "a": 1\r\n}\r\n', b'{"a":1}\n')


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("length", [True, False])
def test_a_browser_s_line_ends_change_nothing(body, length):
    """Browsers send every line end of a textarea as CR LF, whatever was pasted."""
    typed = raw(captured(body), length=length).replace("\r\n", "\n").replace("\n", "\r\n")
    read = doctor.read_typed(typed, PATIENT)
    check = next(c for c in doctor.examine(read, PATIENT).checks if c.title == "Signature")
    assert check.verdict is Verdict.KEPT, check
    assert read.body == body


def test_a_line_end_that_was_pasted_after_the_body_is_left_out():
    capture = captured()
    typed = raw(capture, length=False, end="\n\n").replace("\n", "\r\n")
    read = doctor.read_typed(typed, PATIENT)
    assert read.body == capture.body
    assert doctor.examine(read, PATIENT).broken == []


def test_a_capture_in_json_is_read_too():
    capture = captured()
    typed = json.dumps(
        {"path": capture.target, "headers": dict(capture.headers), "body": capture.body.decode()}, indent=2
    ).replace("\n", "\r\n")
    assert doctor.examine(doctor.read_typed(typed, PATIENT), PATIENT).broken == []


@pytest.mark.parametrize("text", ["hello", "{}", "GET", "-----BEGIN RSA PRIVATE KEY-----"])
def test_what_is_no_request_is_told_so(text):
    with pytest.raises(CaptureUnreadable):
        doctor.read_typed(text, PATIENT)


@pytest.mark.parametrize("signature", ["", "é", "\udcff", "a" * 10_000, "algorithm=,keyVersion=,signature="])
def test_no_header_breaks_the_doctor(signature):
    doctor.examine(captured(signature=signature, request_time="\udcff", client_id="\udcff"), PATIENT)
