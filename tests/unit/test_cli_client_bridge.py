"""What the tests of the merchant's commands share: a service on a real socket, and a run of a command."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from payaccept.cli import main
from unit.test_sdk_fake_service import CLIENT_ID, KEY, FakeService
from unit.test_sdk_notifications import document

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


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert Ran(capsys, "--version").out.startswith("payaccept 0.")
