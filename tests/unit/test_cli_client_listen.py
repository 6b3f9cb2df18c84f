"""`payaccept listen`, in a process of its own."""

# ruff: noqa: F811 - fixtures are imported and named again as arguments

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from unit.test_cli_client_bridge import Bridge, Ran, bridge, merchant  # noqa: F401
from unit.test_sdk_notifications import BODY, TEST_BODY, headers_for


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


def test_listen_shows_a_test_as_a_test(listening: Any) -> None:
    listener = listening("--count", "2")
    assert listener.post(TEST_BODY, **{"Event-Sequence": "42"}) == 200
    shown = listener.line()
    assert (shown["verified"], shown["sequence"]) == (True, 42)
    assert shown["notification"]["eventType"] == "webhook.test"
    assert shown["notification"]["test"] is True
    assert listener.post(**{"Event-Sequence": "none"}) == 200
    assert listener.line()["sequence"] is None
    assert listener.end() == 0


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
