"""The merchant's commands, run as a user runs them: mistakes, pay, inquire and keygen."""

# ruff: noqa: F811 - fixtures are imported and named again as arguments

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from payaccept.cli import _Entry
from payaccept.sdk import keys
from unit.test_cli_client_bridge import PEM, Bridge, Ran, bridge, merchant, service  # noqa: F401
from unit.test_sdk_fake_service import CLIENT_ID, FakeService, refusal

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
