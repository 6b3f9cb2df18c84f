"""The HTTP side of `payaccept listen`: takes a webhook, verifies it, answers."""

import socket
import socketserver
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from payaccept.sdk import Notification, TestNotification, WebhookKeys
from payaccept.sdk.errors import KeysUnavailable, NotificationRefused, PayacceptError
from payaccept.sdk.notifications import verify

MAX_BODY_BYTES: Final = 64 * 1024
VERIFIED, NOT_BELIEVED, NO_SUCH_PATH, NO_KEYS = 200, 401, 404, 503
METHOD_NOT_ALLOWED, LENGTH_REQUIRED, TOO_LARGE = 405, 411, 413


@dataclass(frozen=True, slots=True)
class Rules:
    """What to take, whose keys to believe, and what to answer: `status` to all, or to the first few."""

    keys: WebhookKeys
    path: str | None = None
    fail_first: int = 0
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One webhook: the notification, or why it is not to be believed; and what was answered."""

    at: datetime
    path: str
    attempt: int | None
    sequence: int | None
    notification: Notification | TestNotification | None
    refusal: PayacceptError | None
    status: int


class Receiver(ThreadingHTTPServer):
    """Receives until `on_received` returns true, or it is interrupted."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], rules: Rules, on_received: Callable[[Received], bool]
    ) -> None:
        self.rules = rules
        self.on_received = on_received
        self._lock = threading.Lock()
        self._taken = 0
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server what this machine is called, as http.server would."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def take(self, path: str, headers: list[tuple[str, str]], body: bytes) -> Received:
        """Verify what arrived, and decide what to answer."""
        notification: Notification | TestNotification | None = None
        refusal: PayacceptError | None = None
        status = VERIFIED
        try:
            notification = verify(body, headers, path=path, keys=self.rules.keys)
        except NotificationRefused as error:
            refusal, status = error, NOT_BELIEVED
        except KeysUnavailable as error:
            refusal, status = error, NO_KEYS
        with self._lock:
            self._taken += 1
            ordered = self.rules.fail_first == 0 or self._taken <= self.rules.fail_first
        if self.rules.status is not None and ordered:
            status = self.rules.status
        return Received(
            at=datetime.now(UTC),
            path=path,
            attempt=_number(headers, "delivery-attempt"),
            sequence=_number(headers, "event-sequence"),
            notification=notification,
            refusal=refusal,
            status=status,
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: a caller that hangs up is worth no traceback."""


def _number(headers: list[tuple[str, str]], wanted: str) -> int | None:
    text = next((value for name, value in headers if name.lower() == wanted), "")
    return int(text[:18]) if text.isascii() and text.isdigit() else None


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    timeout = 10

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        if self.server.rules.path not in (None, path):
            self._answer(NO_SUCH_PATH)
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._answer(LENGTH_REQUIRED)
            return
        if len(length) > len(str(MAX_BODY_BYTES)) or int(length) > MAX_BODY_BYTES:
            self._answer(TOO_LARGE)
            return
        body = self.rfile.read(int(length))
        received = self.server.take(path, self.headers.items(), body)
        self._answer(received.status)
        if self.server.on_received(received):
            self.server.shutdown()

    def do_GET(self) -> None:
        self._answer(METHOD_NOT_ALLOWED)

    def _answer(self, status: int) -> None:
        good = status < 300  # noqa: PLR2004
        body = b'{"result":{"resultStatus":"%s"}}' % (b"S" if good else b"F")
        if status in (204, 304):
            body = b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent: what is worth showing, the command shows."""
