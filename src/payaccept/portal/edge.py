"""What surrounds every request of the portal: its id, its limits, headers that make browsers careful, a log line."""

import ipaddress
import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, Message, Receive, Send

from payaccept.domain.user import Viewer
from payaccept.portal.services import Site

MAX_BODY_BYTES: Final = 256 * 1024
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Everything that a page may load, send or be shown in is ours. `style-src` and `script-src` know no inline code.
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers then hide the origin of our own forms from us, too.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_HSTS: Final = {"strict-transport-security": "max-age=31536000"}
_SECRETS_BELOW: Final = frozenset({"invitation", "new-password"})
_NOWHERE: Final = "/%00"  # the signs themselves: no route has them
_NO_STORE: Final = b"no-store"

_log = logging.getLogger(__name__)


class RequestLog(Protocol):
    """Keeps a line about every request."""

    def write(self, **members: object) -> None:
        """Keep a line."""


class Edge:
    """An ASGI application around the portal's own."""

    def __init__(
        self, app: ASGIApp, site: Site, log: RequestLog, trusted_proxies: Sequence[Network] = ()
    ) -> None:
        self.app = app
        self._log = log
        self._trusted = tuple(trusted_proxies)
        fixed = _HEADERS | (_HSTS if site.is_https else {})
        self._headers = [(name.encode(), value.encode()) for name, value in fixed.items()]

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = f"req_{time.time_ns() // 1_000_000:012x}{os.urandom(8).hex()}"
        scope["request_id"] = request_id
        scope["client_address"] = client_address(scope, self._trusted)
        begun = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *self._with_defaults(message["headers"]),
                    (b"request-id", request_id.encode()),
                ]
            await send(message)

        try:
            if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                # No text of ours has that sign, and PostgreSQL takes none with it.
                scope["path"] = _NOWHERE
            await self.app(scope, _Limited(receive), send_with_headers)
        except Exception:
            # Litestar answers errors itself: what gets here broke while answering.
            _log.exception("request failed", extra={"requestId": request_id, "path": scope["path"][:200]})
            if status:
                raise
            await _fail(send_with_headers, request_id)
        finally:
            self._log.write(
                requestId=request_id,
                method=scope["method"],
                path=_loggable(scope["path"]),
                status=status,
                durationMs=round((time.perf_counter() - begun) * 1000, 1),
                address=scope["client_address"],
                user=_user_of(scope),
            )

    def _with_defaults(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        given = list(headers)
        names = {name.lower() for name, _ in given}
        if b"cache-control" not in names:
            given.append((b"cache-control", _NO_STORE))
        return given + [pair for pair in self._headers if pair[0] not in names]


class _Limited:
    """Receives a body up to the limit; the rest of a larger one is never read."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = MAX_BODY_BYTES

    async def __call__(self) -> Any:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message["body"])
            if self._left < 0:
                raise HTTPException(status_code=413)
        return message


def client_address(scope: Any, trusted: Sequence[Network]) -> str:
    """Return where a request comes from: the peer, or the last address that a trusted proxy has added.

    X-Forwarded-For is read from its end, for its beginning is whatever the client wrote.
    """
    peer = (scope.get("client") or ("", 0))[0]
    forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    hops = [hop.strip() for hop in b",".join(forwarded).decode("latin-1").split(",") if hop.strip()]
    address: str = peer
    while hops and _is_in(address, trusted):
        address = hops.pop()
    return address if address == peer or _parsed(address) is not None else peer


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_in(text: str, networks: Sequence[Network]) -> bool:
    address = _parsed(text)
    return address is not None and any(address in network for network in networks)


def _user_of(scope: Any) -> str | None:
    viewer: Viewer | None = scope.get("user")
    return None if viewer is None else viewer.user.user_id


def _loggable(path: str) -> str:
    """Return a path for the log, without the secret of a one-time link."""
    first, _, rest = path[1:].partition("/")
    return f"/{first}/…" if first in _SECRETS_BELOW and rest else path[:200]


async def _fail(send: Send, request_id: str) -> None:
    body = f"Something broke on our side. Request id: {request_id}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
