"""The edge of the API process: the only module that knows RSGI and ASGI.

Both faces read the same few things from a request, never more than 64 KiB of body, and hand them on.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Protocol

from msgspec import Struct

from payaccept import garbage, trace
from payaccept.api.deadline import Deadline
from payaccept.api.gate import Answer, Endpoint, Gate, SignedRequest, failure
from payaccept.domain.traffic import RefusedRequest
from payaccept.wire.codes import ResultCode

MAX_BODY_BYTES: Final = 64 * 1024
_CONTENT_TYPE: Final = ("content-type", "application/json")
_KEPT_HEADERS: Final = {
    "host": "host",
    "user_agent": "user-agent",
    "content_type": "content-type",
    "request_time": "request-time",
    "signature_header": "signature",
}

Document = Callable[[], Awaitable[Answer]]

_log = logging.getLogger(__name__)


class _TooLarge(Exception):
    """The body is larger than 64 KiB."""


class RequestLog(Protocol):
    """Keeps a line about every request."""

    def write(self, **members: object) -> None:
        """Keep a line."""


class Refusals(Protocol):
    """Keeps requests that were refused, for their merchant to see."""

    def refused(self, request: RefusedRequest) -> None:
        """Keep one; returns at once, and never raises."""


class Lifespan(Protocol):
    """What the process holds open while it serves."""

    async def open(self) -> None:
        """Open it, in the running loop."""

    async def close(self) -> None:
        """Close it, when the last request is answered."""


class _Incoming(Struct):
    """A request before it is routed."""

    method: str
    path: str
    query: str
    address: str
    get_all: Callable[[str], Sequence[str]]
    read: Callable[[], Awaitable[bytes]]
    body: bytes = b""


class Kernel:
    """Routes requests: signed ones through the gate, documents to whoever asks."""

    def __init__(
        self,
        gate: Gate,
        endpoints: Mapping[str, Endpoint],
        documents: Mapping[str, Document],
        *,
        lifespan: Lifespan,
        log: RequestLog,
        refusals: Refusals,
        deadline_s: float,
    ) -> None:
        self._gate = gate
        self._endpoints = endpoints
        self._documents = documents
        self._lifespan = lifespan
        self._log = log
        self._refusals = refusals
        self._deadline = Deadline(deadline_s)

    # RSGI

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Open what the process needs before the first request."""
        loop.run_until_complete(self._lifespan.open())
        garbage.spare_the_collector()

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close it after the last."""
        loop.run_until_complete(self._lifespan.close())

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Serve one request."""
        if scope.proto != "http":
            protocol.close(403)
            return
        headers = scope.headers
        incoming = _Incoming(
            scope.method,
            scope.path,
            scope.query_string,
            scope.client.rpartition(":")[0],
            headers.get_all,
            lambda: _read_rsgi(headers, protocol),
        )
        answer, answer_headers = await self._answer(incoming)
        if scope.method == "HEAD":
            protocol.response_empty(answer.status, answer_headers)
        else:
            protocol.response_bytes(answer.status, answer_headers, answer.body)

    # ASGI

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one ASGI scope; tests drive the same kernel through this face."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        incoming = _Incoming(
            scope["method"],
            scope["path"],
            scope["query_string"].decode("latin-1"),
            (scope.get("client") or ("",))[0],
            lambda name: headers.get(name, ()),
            lambda: _read_asgi(headers, receive),
        )
        answer, answer_headers = await self._answer(incoming)
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer_headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    async def _serve_lifespan(self, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._lifespan.open()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._lifespan.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    # Both

    async def _answer(self, incoming: _Incoming) -> tuple[Answer, list[tuple[str, str]]]:
        started = time.perf_counter()
        request_id = f"req_{time.time_ns() // 1_000_000:012x}{os.urandom(8).hex()}"
        traced = trace.begin(request_id)
        task = self._deadline.begin()
        try:
            answer = await self._route(incoming)
        except asyncio.CancelledError:
            if not self._deadline.is_missed(task):
                raise
            answer = failure(
                ResultCode.SYSTEM_BUSY, "the request took too long; it is not known whether it was done"
            )
        except _TooLarge:
            answer = failure(ResultCode.PAYLOAD_TOO_LARGE)
        except Exception:  # noqa: BLE001 - whatever it is, the client hears U and no more
            _log.exception("request failed", extra={"requestId": request_id, "path": incoming.path[:200]})
            answer = failure(
                ResultCode.UNKNOWN_EXCEPTION, f"an unexpected error; quote the Request-Id {request_id}"
            )
        finally:
            self._deadline.end(task)
        if answer.status != HTTPStatus.OK:
            try:
                self._keep_refusal(incoming, request_id, answer)
            except Exception:  # noqa: BLE001 - what is kept for a page must not cost anybody an answer
                _log.exception("keeping a refused request failed", extra={"requestId": request_id})
        self._log.write(
            requestId=request_id,
            method=incoming.method,
            path=incoming.path[:200],
            status=answer.status,
            resultCode=answer.code,
            clientId=answer.client_id,
            paymentId=traced.payment_id,
            eventId=traced.event_id,
            detail=answer.detail,
            durationMs=round((time.perf_counter() - started) * 1000, 3),
        )
        return answer, [_CONTENT_TYPE, ("request-id", request_id), *answer.headers]

    async def _route(self, incoming: _Incoming) -> Answer:
        endpoint = self._endpoints.get(incoming.path)
        if endpoint is None:
            return await self._serve_document(incoming)
        if incoming.method != "POST":
            return failure(
                ResultCode.METHOD_NOT_ALLOWED,
                f"this path takes POST, not {incoming.method[:16]}",
                (("allow", "POST"),),
            )
        incoming.body = await incoming.read()
        request = SignedRequest(
            incoming.method,
            incoming.path,
            incoming.query,
            incoming.address,
            incoming.get_all,
            incoming.body,
        )
        return await self._gate.pass_through(request, endpoint, datetime.now(UTC))

    def _keep_refusal(self, incoming: _Incoming, request_id: str, answer: Answer) -> None:
        get_all = incoming.get_all
        named = get_all("client-id")
        if not named:
            return  # nobody could be shown it
        given = {name: next(iter(get_all(header)), "") for name, header in _KEPT_HEADERS.items()}
        self._refusals.refused(
            RefusedRequest(
                client_id=named[0],
                request_id=request_id,
                received_at=datetime.now(UTC),
                method=incoming.method,
                target=f"{incoming.path}?{incoming.query}" if incoming.query else incoming.path,
                status=answer.status,
                result_code=answer.code,
                message=answer.message,
                skew_ms=None,
                address=incoming.address,
                **given,
                body=incoming.body,
                body_bytes=len(incoming.body),
                body_is_whole=True,
            )
        )

    async def _serve_document(self, incoming: _Incoming) -> Answer:
        document = self._documents.get(incoming.path)
        if document is None:
            return failure(
                ResultCode.NOT_FOUND, "there is nothing at this path; operations live under /v1/payments/"
            )
        if incoming.method not in {"GET", "HEAD"}:
            return failure(
                ResultCode.METHOD_NOT_ALLOWED,
                f"this path takes GET, not {incoming.method[:16]}",
                (("allow", "GET, HEAD"),),
            )
        return await document()


def _refuse_announced(lengths: Sequence[str]) -> None:
    if lengths and lengths[0].isdecimal() and int(lengths[0]) > MAX_BODY_BYTES:
        raise _TooLarge


async def _read_rsgi(headers: Any, protocol: Any) -> bytes:
    length = headers.get("content-length")
    if length is not None:
        # The HTTP parser reads no further than what is announced.
        _refuse_announced((length,))
        return bytes(await protocol())
    return await _read_capped(protocol)


async def _read_asgi(headers: Mapping[str, Sequence[str]], receive: Any) -> bytes:
    _refuse_announced(headers.get("content-length", ()))

    async def chunks() -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
            yield message.get("body", b"")

    return await _read_capped(chunks())


async def _read_capped(chunks: Any) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise _TooLarge
        parts.append(chunk)
    return b"".join(parts)
