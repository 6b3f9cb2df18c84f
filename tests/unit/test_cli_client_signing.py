"""`payaccept sign` and `payaccept diagnose`."""

# ruff: noqa: F811 - fixtures are imported and named again as arguments

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from payaccept.sdk import keys
from payaccept.wire import signing
from unit.test_cli_client_bridge import Ran, bridge, merchant, service  # noqa: F401
from unit.test_sdk_fake_service import CLIENT_ID, KEY, OTHER_KEY, FakeService

# sign


@pytest.mark.usefixtures("merchant")
def test_sign_prints_a_string_headers_and_curl_that_the_service_accepts(
    service: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = tmp_path / "it's a body.json"
    body.write_bytes(b'{"paymentRequestId": "order-1",\n "paymentAmount": {"currency": "EUR", "value": 1}}\n')
    ran = Ran(capsys, "sign", "--path", "/v1/payments/createQROrder", "--body", str(body), "--json")
    assert ran.json["signingString"].startswith(f"POST /v1/payments/createQROrder\n{CLIENT_ID}.")
    sent = subprocess.run(["sh", "-c", ran.json["curl"]], capture_output=True, text=True, check=True)
    assert "qrCode" in sent.stdout
    assert service.requests[0].content == body.read_bytes()


@pytest.mark.usefixtures("merchant")
def test_sign_of_stdin_gives_a_command_that_sends_the_same_bytes(
    service: FakeService, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'{"paymentRequestId":"it\'s %s \\\\n","paymentAmount":{"currency":"EUR","value":1}}\n'
    monkeypatch.setattr("sys.stdin", _Stdin(body))
    ran = Ran(capsys, "sign", "--path", "/v1/payments/createQROrder", "--body", "-", "--json")
    subprocess.run(["sh", "-c", ran.json["curl"]], capture_output=True, check=True)
    assert service.requests[0].content == body
    assert service.payments


class _Stdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = self
        self.content = content

    def read(self, size: int) -> bytes:
        return self.content[:size]


@pytest.mark.usefixtures("merchant")
def test_sign_marks_line_feeds_and_takes_the_time_that_is_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b").write_bytes(b"{}\n")
    arguments = ["sign", "--path", "/v1/x", "--body", str(tmp_path / "b"), "--time"]
    ran = Ran(capsys, *arguments, "2026-01-31T12:00:00Z")
    assert f"POST /v1/x⏎\n{CLIENT_ID}.2026-01-31T12:00:00Z.{{}}⏎\n" in ran.out
    assert "ends with a line feed" in ran.err
    assert Ran(capsys, *arguments, "noon").code == 2


# diagnose


def captured(tmp_path: Path, line_end: bytes = b"\r\n", **changes: Any) -> Path:
    """Write a capture of a request that is right but for the changes."""
    body = changes.get("body", b'{"paymentRequestId":"order-1"}')
    path = "/v1/payments/inquiryPayment"
    request_time = "2026-01-31T12:00:00Z"
    string = signing.request_string("POST", path, CLIENT_ID, request_time, changes.get("signed", body))
    header = signing.write_header(1, signing.sign(changes.get("key", KEY), string))
    lines = [
        f"{changes.get('method', 'POST')} {path} HTTP/1.1",
        "Host: service.test",
        f"client-id: {CLIENT_ID}",
        f"Request-Time: {changes.get('time', request_time)}",
        f"Signature: {changes.get('signature', header)}",
        "Content-Type: application/json; charset=UTF-8",
        f"Content-Length: {len(body)}",
    ]
    lines = [line for line in lines if not line.startswith(changes.get("without", "-"))]
    file = tmp_path / "captured.http"
    head = line_end.join(line.encode() for line in lines)
    file.write_bytes(head + line_end * 2 + body + changes.get("appended", b""))
    return file


@pytest.mark.parametrize("line_end", [b"\r\n", b"\n"])
@pytest.mark.parametrize("appended", [b"", b"\n", b"\r\n"])
def test_a_request_that_is_right_verifies_however_the_capture_was_saved(
    merchant: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line_end: bytes, appended: bytes
) -> None:
    ran = Ran(capsys, "diagnose", str(captured(tmp_path, line_end, appended=appended)))
    assert ran.out.startswith("The signature verifies\n")
    assert ran.code == 0
    assert bool(ran.err) is bool(appended)


@pytest.mark.usefixtures("merchant")
@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"without": "Signature"}, "header-missing"),
        ({"without": "Content-Type"}, "header-missing"),
        ({"method": "PUT"}, "method"),
        ({"time": "2026-01-31T12:00:00+00:00"}, "request-time"),
        ({"signature": "algorithm=SHA256withRSA, keyVersion=1, signature=abc"}, "signature-length"),
        ({"signed": b'{"paymentRequestId": "order-1"}'}, ""),
        ({"key": OTHER_KEY}, "unregistered-key"),
    ],
)
def test_a_broken_rule_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], rule: str
) -> None:
    ran = Ran(capsys, "diagnose", str(captured(tmp_path, **changes)), "--json")
    assert ran.code == 1
    assert ran.json["verifies"] is False
    rules = [finding["rule"] for finding in ran.json["findings"]]
    assert rule in rules if rule else rules


@pytest.mark.usefixtures("merchant")
def test_a_body_changed_by_saving_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = captured(tmp_path, body=b'{\n"paymentRequestId":"order-1"}')
    file.write_bytes(file.read_bytes().replace(b"{\n", b"{\r\n"))
    ran = Ran(capsys, "diagnose", str(file))
    assert ran.code == 1
    assert "Content-Length says" in ran.err


@pytest.mark.usefixtures("merchant")
def test_a_capture_may_be_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = captured(tmp_path).read_text().splitlines()
    headers = dict(line.split(": ", 1) for line in lines[1:-2])
    members = {"path": "/v1/payments/inquiryPayment", "headers": headers, "body": lines[-1]}
    file = tmp_path / "captured.json"
    file.write_text(json.dumps(members))
    assert Ran(capsys, "diagnose", str(file)).code == 0


def test_keys_may_be_given_with_their_versions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, other = tmp_path / "ours=1.pem", tmp_path / "other.pem"
    ours.write_bytes(keys.public_pem(KEY.public_key()))
    other.write_bytes(keys.public_pem(OTHER_KEY.public_key()))
    file = str(captured(tmp_path))
    assert Ran(capsys, "diagnose", file, "--public-key", str(ours)).code == 0
    assert Ran(capsys, "diagnose", file, "--public-key", f"1={ours}", "--public-key", f"2={other}").code == 0
    swapped = Ran(capsys, "diagnose", file, "--public-key", f"2={ours}", "--public-key", f"1={other}")
    assert "other-key-version" in swapped.out
    assert Ran(capsys, "diagnose", file, "--public-key", f"1={ours}", "--public-key", f"1={other}").code == 2
    assert Ran(capsys, "diagnose", file, "--public-key", str(tmp_path / "no.pem")).code == 2


@pytest.mark.usefixtures("merchant")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"hello",
        b"POST /v1 HTTP/1.1\nno header\n\n",
        b"POST /v1\nTransfer-Encoding: chunked\n\n0\n",
    ],
)
def test_a_file_that_is_no_capture_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / "f").write_bytes(content)
    ran = Ran(capsys, "diagnose", str(tmp_path / "f"))
    assert ran.code == 2
    assert ran.err.count("\n") == 1
