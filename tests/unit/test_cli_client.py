"""The merchant's commands, run as a user runs them, against a service on a real socket."""

import json
import signal
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from payaccept.cli import _Entry, main
from payaccept.sdk import keys
from payaccept.wire import signing
from unit.test_sdk_fake_service import CLIENT_ID, KEY, OTHER_KEY, FakeService, refusal
from unit.test_sdk_notifications import BODY, document, headers_for

PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Bridge(ThreadingHTTPServer):
    """Puts the fake service on a socket; `/keys` publishes the key that signs its webhooks."""

    daemon_threads = True

    def __init__(self) -> None:
        self.service = FakeService()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Bridge

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = list(self.headers.items())
        request = httpx.Request("POST", self.server.url + self.path, headers=headers, content=body)
        self._answer(self.server.service.handle(request))

    def do_GET(self) -> None:
        self._answer(httpx.Response(200, content=document(1)))

    def _answer(self, response: httpx.Response) -> None:
        self.send_response(response.status_code)
        self.send_header("Content-Length", str(len(response.content)))
        self.send_header("Request-Id", response.headers.get("Request-Id", ""))
        self.end_headers()
        self.wfile.write(response.content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with Bridge() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def service(bridge: Bridge) -> FakeService:
    bridge.service = FakeService()
    return bridge.service


@pytest.fixture
def merchant(bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the credentials file where the sandbox would, so that no command needs an option."""
    (tmp_path / "demo-merchant-key.pem").write_bytes(PEM)
    members = {
        "baseUrl": bridge.url,
        "clientId": CLIENT_ID,
        "keyVersion": 1,
        "privateKeyFile": str(tmp_path / "demo-merchant-key.pem"),
        "webhookKeysUrl": f"{bridge.url}/keys",
    }
    file = tmp_path / "demo-merchant.json"
    file.write_text(json.dumps(members))
    monkeypatch.setenv("PAYACCEPT_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("PAYACCEPT_MERCHANT", raising=False)
    return file


class Ran:
    """What a run of the command printed, and its exit code."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        self.code = caught.value.code
        self.out, self.err = capsys.readouterr()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


# What every command has in common.


def test_help_imports_nothing_that_takes_time() -> None:
    code = (
        "import sys\nfrom payaccept.cli import main\ntry:\n    main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'httpx', 'cryptography', 'msgspec', 'rich', 'segno', 'psycopg', 'structlog', 'granian',"
        " 'payaccept.sdk', 'payaccept.domain', 'payaccept.wire'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"
    assert "Take a payment" in ran.stdout
    assert "sandbox" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pya"], "No such command 'pya'. Did you mean 'pay'?"),
        (["pay"], "Missing argument 'kind'. Choose from: qr, retail, link (see payaccept pay --help)"),
        (["pay", "qr", "--vlaue", "1"], "--vlaue"),
        (["pay", "qr", "--value", "x"], "--value"),
        (["pay", "qr", "--auth-code", "1"], "--auth-code belongs to `pay retail`"),
        (["pay", "qr", "--redirect-url", "https://a.test"], "--redirect-url belongs to `pay link`"),
        (["pay", "qr", "--script", "{"], "--script takes a JSON object"),
        (["pay", "qr", "--script", "{}", "--outcome", "FAIL"], "not both"),
        (["pay", "qr", "--merchant", "/no/such/file"], "/no/such/file cannot be read"),
        (["inquire"], "--payment-id ID or --request-id ID"),
        (["sign", "--path", "v1", "--body", "-"], "--path takes a path"),
        (["sign", "--path", "/v1?a=1", "--body", "-"], "--path takes a path"),
        (["sign", "--path", "/v1", "--body", "/no/such/file"], "/no/such/file cannot be read"),
        (["diagnose", "/no/such/file"], "/no/such/file cannot be read"),
        (["keygen", "--name", "../x"], "--name takes"),
        (["listen", "--path", "hooks"], "--path takes a path"),
        (["listen", "--keys-url", "ftp://a"], "--keys-url"),
    ],
)
def test_a_user_s_mistake_is_one_line_and_exit_code_2(
    merchant: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    ran = Ran(capsys, *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("payaccept: ")
    assert ran.out == ""


def test_without_a_sandbox_the_way_to_one_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYACCEPT_DATA_DIR", str(tmp_path))
    ran = Ran(capsys, "inquire", "--request-id", "a")
    assert ran.code == 2
    assert "start `payaccept sandbox`" in ran.err
    ran = Ran(capsys, "listen")
    assert ran.code == 2
    assert "--keys-url" in ran.err


def test_a_service_command_without_the_service_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "needs_the_service.py").write_text("import a_package_of_the_server_extra")
    monkeypatch.syspath_prepend(tmp_path)
    commands = {"sandbox": ("needs_the_service:run", "")}
    monkeypatch.setattr("payaccept.cli._COMMANDS", {k: _entry(v) for k, v in commands.items()})
    ran = Ran(capsys, "sandbox")
    assert ran.code == 2
    assert ran.err == 'payaccept: this command needs the service: pip install "payaccept[server]"\n'


def _entry(parts: tuple[str, str]) -> Any:
    return _Entry(*parts)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert Ran(capsys, "--version").out.startswith("payaccept 0.")


# pay and inquire


@pytest.mark.usefixtures("merchant")
def test_a_qr_order_is_drawn(service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "pay", "qr", "--request-id", "order-1", "--notify-url", "http://127.0.0.1:9000/")
    assert ran.code == 0
    assert "https://pay.test/q/pay_" in ran.out
    assert "█▄▄▄▄▄█" in ran.out.replace(" ", "") or "▀▀▀" in ran.out
    assert "payaccept inquire --request-id order-1" in ran.out
    assert "EUR 1999 (minor units)" in ran.out
    sent = json.loads(service.requests[0].content)
    assert sent["paymentNotifyUrl"] == "http://127.0.0.1:9000/"
    assert "extendInfo" not in sent


@pytest.mark.usefixtures("merchant", "service")
@pytest.mark.parametrize("kind", ["qr", "retail", "link"])
def test_each_kind_prints_the_api_s_answer_as_json(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "pay", kind, "--request-id", "order-1", "--json", "--wait")
    assert ran.code == 0
    assert ran.json["merchantTransId" if kind == "link" else "paymentRequestId"] == "order-1"
    assert ran.json["payment"]["paymentStatus"] == "SUCCESS"


@pytest.mark.usefixtures("merchant")
@pytest.mark.parametrize(
    ("options", "script"),
    [
        (["--outcome", "MANUAL"], {"outcome": "MANUAL"}),
        (["--result-code", "RISK_REJECT"], {"outcome": "FAIL", "resultCode": "RISK_REJECT"}),
        (["--script", '{"delayMs":5}'], {"delayMs": 5}),
        (["--script", '{"sandbox":{"delayMs":5}}'], {"delayMs": 5}),
    ],
)
def test_the_sandbox_is_scripted(
    service: FakeService, capsys: pytest.CaptureFixture[str], options: list[str], script: dict[str, Any]
) -> None:
    assert Ran(capsys, "pay", "qr", *options).code == 0
    sent = json.loads(service.requests[0].content)
    assert json.loads(sent["extendInfo"]) == {"sandbox": script}


@pytest.mark.usefixtures("merchant")
def test_waiting_for_a_payment_that_fails_exits_with_1(
    service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.status = "FAIL"
    ran = Ran(capsys, "pay", "qr", "--wait")
    assert ran.code == 1
    assert "INSUFFICIENT_BALANCE" in ran.out
    assert ran.err == "payaccept: the payment failed: Too poor.\n"
    service.status = "PROCESSING"
    ran = Ran(capsys, "pay", "qr", "--wait", "--wait-s", "0")
    assert ran.code == 1
    assert "still PROCESSING" in ran.err


@pytest.mark.usefixtures("merchant")
def test_a_declined_retail_payment_exits_with_1(
    service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.status = "FAIL"
    ran = Ran(capsys, "pay", "retail", "--json")
    assert ran.code == 1
    assert ran.err == "payaccept: INSUFFICIENT_BALANCE: INSUFFICIENT_BALANCE it is.\n"
    assert ran.json["error"]["kind"] == "PaymentDeclined"
    assert ran.json["error"]["resultCode"] == "INSUFFICIENT_BALANCE"


@pytest.mark.usefixtures("service")
def test_outside_the_sandbox_a_retail_payment_needs_a_code(
    merchant: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(capsys, "pay", "retail", "--client-id", "live_1")
    assert ran.code == 2
    assert "--auth-code" in ran.err


@pytest.mark.usefixtures("merchant")
def test_a_refusal_of_the_service_is_one_line(
    service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.accidents.append(lambda: refusal(400, "PARAM_ILLEGAL"))
    ran = Ran(capsys, "pay", "qr")
    assert ran.code == 1
    assert ran.err == "payaccept: PARAM_ILLEGAL: PARAM_ILLEGAL it is. (Request-Id req-1)\n"


@pytest.mark.usefixtures("merchant")
def test_an_answer_cannot_steer_the_terminal(
    service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    result = {"resultStatus": "F", "resultCode": "X", "resultMessage": "\x1b[2Jgone\nnext"}
    service.accidents.append(lambda: httpx.Response(400, json={"result": result}))
    assert "\x1b" not in Ran(capsys, "pay", "qr").err


@pytest.mark.usefixtures("merchant", "service")
def test_an_inquiry_shows_how_the_payment_stands(capsys: pytest.CaptureFixture[str]) -> None:
    Ran(capsys, "pay", "qr", "--request-id", "order-1")
    ran = Ran(capsys, "inquire", "--request-id", "order-1")
    assert ran.code == 0
    assert ran.out.startswith("SUCCESS\n")
    assert Ran(capsys, "inquire", "--request-id", "order-1", "--json").json["paymentStatus"] == "SUCCESS"
    ran = Ran(capsys, "inquire", "--request-id", "order-2")
    assert (ran.code, ran.err) == (
        1,
        "payaccept: ORDER_NOT_EXIST: ORDER_NOT_EXIST it is. (Request-Id req-1)\n",
    )


def test_credentials_may_be_given_one_by_one(
    bridge: Bridge, service: FakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.pem").write_bytes(PEM)
    parts = ["--base-url", bridge.url, "--client-id", CLIENT_ID, "--key-version", "7"]
    assert Ran(capsys, "pay", "qr", *parts, "--key", str(tmp_path / "k.pem")).code == 0
    assert "keyVersion=7" in service.requests[0].headers["signature"]


# keygen


def test_keygen_writes_a_secret_and_a_public_half(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "keygen", "--out", str(tmp_path / "new"), "--name", "shop", "--json")
    private_file, public_file = Path(ran.json["privateKeyFile"]), Path(ran.json["publicKeyFile"])
    assert ran.code == 0
    assert stat.S_IMODE(private_file.stat().st_mode) == 0o600
    assert keys.public_pem(keys.load_private(private_file).public_key()) == public_file.read_bytes()
    before = private_file.read_bytes()
    ran = Ran(capsys, "keygen", "--out", str(tmp_path / "new"), "--name", "shop")
    assert ran.code == 1
    assert "exists" in ran.err
    assert private_file.read_bytes() == before


def test_keygen_says_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "payaccept key add CLIENT_ID" in Ran(capsys, "keygen", "--out", str(tmp_path)).out
    (tmp_path / "file").write_text("")
    ran = Ran(capsys, "keygen", "--out", str(tmp_path / "file" / "below"))
    assert ran.code == 1
    assert "cannot write" in ran.err


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


# listen


class Listening:
    """`payaccept listen --json` in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "payaccept.cli", "listen", "--port", "0", "--json", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.line()["listening"]

    def line(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def post(self, body: bytes = BODY, path: str = "/", **headers: str) -> int:
        signed = headers_for(body, path, datetime.now(UTC))
        given = {**signed, "Delivery-Attempt": "2", **headers}
        request = urllib.request.Request(self.url.rstrip("/") + path, data=body, headers=given)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310
                return int(response.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def end(self) -> int:
        self.process.communicate(timeout=10)
        return int(self.process.returncode)


@pytest.fixture
def listening(merchant: Path) -> Iterator[Any]:
    started: list[Listening] = []

    def start(*arguments: str) -> Listening:
        started.append(Listening(*arguments))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate()


def test_listen_verifies_and_ends_after_its_count(listening: Any) -> None:
    listener = listening("--count", "1")
    assert listener.post(path="/hooks?x=1".partition("?")[0]) == 200
    shown = listener.line()
    assert (shown["verified"], shown["attempt"], shown["answered"]) == (True, 2, 200)
    assert shown["notification"]["paymentRequestId"] == "order-1"
    assert listener.end() == 0


def test_listen_answers_401_to_what_is_not_to_be_believed(listening: Any) -> None:
    listener = listening("--count", "2")
    assert listener.post(**{"Request-Time": "2020-01-01T00:00:00Z"}) == 401
    assert listener.line()["reason"].startswith("Request-Time is")
    assert listener.post(Signature="x") == 401
    assert listener.line()["notification"] is None
    assert listener.end() == 1


def test_listen_fails_the_first_ones_when_asked_to(listening: Any) -> None:
    listener = listening("--count", "2", "--fail", "1", "--status", "503")
    assert [listener.post(), listener.post()] == [503, 200]
    assert listener.end() == 0


def test_listen_takes_only_its_path_and_no_endless_body(listening: Any) -> None:
    listener = listening("--path", "/hooks")
    listener.url = listener.url.removesuffix("/hooks")
    assert listener.post(path="/other") == 404
    assert listener.post(body=b" " * 70_000, path="/hooks") == 413
    assert listener.post(path="/hooks") == 200


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_listen_ends_cleanly(listening: Any, sent: signal.Signals) -> None:
    listener = listening()
    listener.process.send_signal(sent)
    _, err = listener.process.communicate(timeout=10)
    assert listener.process.returncode == 0
    assert "Traceback" not in err


def test_listen_says_when_its_port_is_taken(
    bridge: Bridge, merchant: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(capsys, "listen", "--port", str(bridge.server_address[1]))
    assert ran.code == 1
    assert "cannot listen on 127.0.0.1 port" in ran.err
