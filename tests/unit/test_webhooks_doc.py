"""docs/webhooks.md and docs/life-of-a-payment.md show real bodies, say what the code says, and their programs run."""

import base64
import json
import re
import runpy
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from payaccept.domain.delivery import RETRY_SCHEDULE_S
from payaccept.domain.scenario import Outcome, Scenario
from payaccept.sdk import WebhookKeys
from payaccept.sdk import keys as sdk_keys
from payaccept.sdk.notifications import verify
from payaccept.wire import messages as m
from payaccept.wire import signing, timestamps
from processes import free_port, wait_until

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "webhooks.md").read_text(encoding="utf-8")
LIFE = (DOCS / "life-of-a-payment.md").read_text(encoding="utf-8")


def block(marker: str) -> str:
    """The code block below `<!-- marker -->`."""
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```\w+\n(.*?)\n```\n", PAGE, re.DOTALL)
    assert found is not None, marker
    return found[1]


def rows(marker: str) -> list[list[str]]:
    """The cells of the table below `<!-- table: marker -->`, without its head."""
    found = re.search(rf"<!-- table: {re.escape(marker)} -->\n((?:\|.*\|\n)+)", PAGE)
    assert found is not None, marker
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[1].splitlines()[2:]]


class Example(NamedTuple):
    """The webhook that the page shows."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def sent_at(self) -> datetime:
        return timestamps.parse(self.headers["Request-Time"])


def example() -> Example:
    head, _, body = block("example: webhook").partition("\n\n")
    request_line, *lines = head.splitlines()
    return Example(request_line.split()[1], dict(line.split(": ", 1) for line in lines), body.encode())


EXAMPLE = example()
KEYS = json.loads(block("example: keys"))
PEM = {key["keyVersion"]: key["publicKeyPem"].encode() for key in KEYS}


def test_the_example_is_signed_by_the_key_on_the_page():
    known = WebhookKeys.from_json(block("example: keys").encode())
    shown = verify(EXAMPLE.body, EXAMPLE.headers, path=EXAMPLE.path, keys=known, now=EXAMPLE.sent_at)
    assert isinstance(shown, m.Notification)
    assert shown.payment_status == "SUCCESS"
    assert EXAMPLE.headers["Event-Id"] == shown.event_id
    assert int(EXAMPLE.headers["Content-Length"]) == len(EXAMPLE.body)
    assert msgspec.json.encode(shown) == EXAMPLE.body


def test_the_jwks_has_the_same_key():
    (jwk,) = json.loads(block("example: jwks"))["keys"]
    n, e = (int.from_bytes(base64.urlsafe_b64decode(jwk[name] + "==")) for name in ("n", "e"))
    pem = RSAPublicNumbers(e, n).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert pem == PEM[int(jwk["kid"])]


def test_every_member_and_header_is_explained():
    assert [name.strip("`") for name, _ in rows("members")] == list(m.Notification.__struct_encode_fields__)
    assert [name.strip("`") for name, _ in rows("test members")] == list(
        m.TestNotification.__struct_encode_fields__
    )
    for header in EXAMPLE.headers.keys() - {"Host", "Content-Length"}:
        assert f"| `{header}` |" in PAGE


def test_the_schedule_is_the_schedule():
    def in_words(seconds: float) -> str:
        hours, rest = divmod(int(seconds), 3600)
        parts = [(hours, "h"), (rest // 60, "min"), (rest % 60, "s")]
        return " ".join(f"{count} {unit}" for count, unit in parts if count)

    steps = [(in_words(step), in_words(total)) for step, total in zip(
        RETRY_SCHEDULE_S, accumulate(RETRY_SCHEDULE_S), strict=True
    )]  # fmt: skip
    assert [tuple(row) for row in rows("schedule")] == [
        (str(attempt), *words) for attempt, words in enumerate(steps, start=2)
    ]


def test_the_python_program_accepts_the_example_and_nothing_else(tmp_path: Path):
    program = tmp_path / "verify.py"
    program.write_text(block("tested: python"), encoding="utf-8")
    is_ours = runpy.run_path(str(program))["is_ours"]
    right = {
        "path": EXAMPLE.path,
        "request_time": EXAMPLE.headers["Request-Time"],
        "signature_header": EXAMPLE.headers["Signature"],
        "body": EXAMPLE.body,
        "public_key_pem_of": PEM.get,
        "now": EXAMPLE.sent_at + timedelta(minutes=10),
    }
    assert is_ours(**right)
    for change in (
        {"path": "/hooks"},
        {"request_time": "2026-11-20T13:08:54Z"},
        {"request_time": "never"},
        {"signature_header": EXAMPLE.headers["Signature"] + "="},
        {"body": EXAMPLE.body + b"\n"},
        {"public_key_pem_of": lambda _: None},
        {"now": EXAMPLE.sent_at + timedelta(minutes=10, seconds=1)},
        {"now": EXAMPLE.sent_at - timedelta(minutes=10, seconds=1)},
    ):
        assert not is_ours(**right | change), change


def test_the_sdk_program_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "receive.py"
    program.write_text(block("tested: sdk"), encoding="utf-8")
    # The keys would come from a sandbox, and the example would have to be a few minutes old.
    monkeypatch.setattr(WebhookKeys, "from_url", lambda _: WebhookKeys.from_pem(PEM))
    receive = runpy.run_path(str(program))["receive"]
    verify_now = receive.__globals__["verify"]
    receive.__globals__["verify"] = lambda *args, **named: verify_now(*args, **named, now=EXAMPLE.sent_at)
    assert receive(EXAMPLE.path, EXAMPLE.headers, EXAMPLE.body).payment_request_id == "order-2026-000123"


def test_the_openssl_commands_verify_the_example(tmp_path: Path):
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not installed, so the page's commands cannot be run")
    (tmp_path / "body.json").write_bytes(EXAMPLE.body)
    (tmp_path / "keys.json").write_text(block("example: keys"), encoding="utf-8")
    (tmp_path / "verify.sh").write_text("set -eu\n" + block("tested: openssl") + "\n", encoding="utf-8")
    done = subprocess.run(
        ["sh", "verify.sh"], check=True, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.stdout.strip() == "Verified OK"


PAIR = sdk_keys.generate()
TEST_BODY = msgspec.json.encode(
    m.TestNotification("evt_1", m.TEST_EVENT, "2026-11-20T13:08:53.378Z", "sandbox", "sandbox_1", test=True)
)


class _Keys(BaseHTTPRequestHandler):
    """Publishes the key of this test."""

    def do_GET(self) -> None:
        body = json.dumps([{"keyVersion": 7, "publicKeyPem": PAIR.public_pem.decode(), "status": "ACTIVE"}])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


class Receiver(NamedTuple):
    """The page's Node program at work."""

    url: str
    output: Path


@pytest.fixture
def node_receiver(tmp_path: Path) -> Iterator[Receiver]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("the node command is not installed, so the page's program cannot be run")
    program, output, port = tmp_path / "webhooks.mjs", tmp_path / "output", free_port()
    program.write_text(block("tested: node"), encoding="utf-8")
    with HTTPServer(("127.0.0.1", 0), _Keys) as publisher, output.open("wb") as printed:
        threading.Thread(target=publisher.serve_forever, daemon=True).start()
        process = subprocess.Popen(
            [node, program, str(port), f"http://127.0.0.1:{publisher.server_address[1]}/keys"], stdout=printed
        )
        url = f"http://127.0.0.1:{port}/hooks"

        def answers() -> bool:
            try:
                return httpx.get(url).status_code == 401
            except httpx.TransportError:
                return False

        try:
            wait_until(answers, "the receiver answers")
            yield Receiver(url, output)
        finally:
            process.terminate()
            process.wait(10)
            publisher.shutdown()


def test_the_node_receiver_takes_a_true_webhook_once_and_no_other(node_receiver: Receiver):
    key = sdk_keys.load_private(PAIR.private_pem)

    def post(
        body: bytes = EXAMPLE.body,
        *,
        age_s: float = 0,
        version: int = 7,
        path: str = "/hooks",
        signed: bytes = EXAMPLE.body,
    ) -> int:
        request_time = timestamps.write_seconds(datetime.fromtimestamp(time.time() - age_s, UTC))
        string = signing.notification_string(path, request_time, signed)
        headers = {
            "Request-Time": request_time,
            "Signature": signing.write_header(version, signing.sign(key, string)),
        }
        return httpx.post(f"{node_receiver.url}?not=signed", headers=headers, content=body).status_code

    assert [post(), post()] == [200, 200]
    assert post(TEST_BODY, signed=TEST_BODY) == 200
    assert post(EXAMPLE.body.replace(b"1999", b"9999")) == 401
    assert post(age_s=605) == 401
    assert post(age_s=-605) == 401
    assert post(version=8) == 401
    assert post(path="/") == 401
    assert node_receiver.output.read_text().splitlines() == [
        "payment.succeeded order-2026-000123 1999",
        "a test: webhooks arrive",
    ]


@pytest.mark.parametrize("page", [PAGE, LIFE, (DOCS / "README.md").read_text(encoding="utf-8")])
def test_links_lead_to_pages_and_headings(page: str):
    def headings(text: str) -> set[str]:
        titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        return {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}

    for link in re.findall(r"\]\(([^)]+)\)", page):
        path, _, heading = link.partition("#")
        target = (DOCS / path).resolve()
        assert target.exists(), link
        if heading:
            assert heading in headings(target.read_text(encoding="utf-8") if path else page), link


REQUEST_OF = {"createQROrder": m.CreateQROrderRequest, "retailPay": m.RetailPayRequest,
              "linkPayCreate": m.LinkPayCreateRequest, "inquiryPayment": m.InquiryPaymentRequest}  # fmt: skip
RESPONSE_OF = {"createQROrder": m.CreateQROrderResponse, "retailPay": m.RetailPayResponse,
               "linkPayCreate": m.LinkPayCreateResponse, "inquiryPayment": m.InquiryPaymentResponse}  # fmt: skip


@pytest.mark.parametrize("operation", REQUEST_OF)
def test_the_bodies_of_an_operation_have_its_members_and_no_other(operation: str):
    section = LIFE[LIFE.index(f"### {operation}") :].partition("\n## ")[0].partition("\n### ")[0]
    request, response = (json.loads(body) for body in re.findall(r"```json\n(.*?)```", section, re.DOTALL))
    for body, kind in ((request, REQUEST_OF[operation]), (response, RESPONSE_OF[operation])):
        assert msgspec.to_builtins(msgspec.convert(body, kind)) == body


def test_the_whole_script_is_explained():
    section = LIFE[LIFE.index("## Sandbox scripts") :]
    members = section.partition("| Member |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", members, re.MULTILINE) == [*Scenario.__struct_encode_fields__]
    for outcome in Outcome:
        assert f"| `{outcome}` | `A`" in section
    for fault in ("duplicate", "late", "tampered"):
        assert f"| `{fault}` |" in section
