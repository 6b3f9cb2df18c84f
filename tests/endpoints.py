"""Endpoints that do whatever a socket can do, names that lead where a test wants, and posts to them."""

import asyncio
import functools
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from payaccept.adapters.outbound import Outbound
from payaccept.adapters.outbound.dialling import make_tls_context
from payaccept.adapters.outbound.unanswered import Unanswered
from payaccept.domain.delivery import Exchange
from payaccept.domain.urls import Address, UrlPolicy

LOCAL = UrlPolicy(allow_http=True, allow_private=True)
BODY = b'{"eventId":"evt_1"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class NearbyInternet(UrlPolicy, frozen=True, kw_only=True):
    """A public service's rule, to which 127.0.0.2 is out there on the Internet."""

    def allows(self, address: Address) -> bool:
        return str(address) == "127.0.0.2" or super().allows(address)


NEARBY = NearbyInternet(allow_http=True, allow_private=False)


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]


@dataclass
class Talk:
    """One connection, seen from the endpoint; `number` counts them from 1."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: list[Request]

    async def hear(self) -> Request:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head[:-4].split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        assert len(headers) == len(lines), "a header twice"
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append(Request(line, headers, body))
        return self.requests[-1]

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def drip(self, data: bytes, pause_s: float = 0.0) -> None:
        """Say something byte by byte."""
        for byte in data:
            await self.say(bytes((byte,)))
            await asyncio.sleep(pause_s)

    async def hang(self) -> None:
        await asyncio.sleep(60)


Behaviour = Callable[[Talk], Awaitable[None]]


def answering(data: bytes) -> Behaviour:
    """Say this to each request, on one connection as long as the other side wants."""

    async def behave(talk: Talk) -> None:
        while True:
            await talk.hear()
            await talk.say(data)

    return behave


class Endpoint:
    """A listening socket; `behave` is called for each connection, which is closed when it returns."""

    def __init__(
        self,
        behave: Behaviour,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.connections = 0
        self.requests: list[Request] = []
        self.host = host
        self.port = port
        self._behave = behave
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    def url(self, target: str = "/hook", *, host: str | None = None) -> str:
        host = host or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"http{'s' if self._tls else ''}://{host}:{self.port}{target}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
                await self._behave(Talk(self.connections, reader, writer, self.requests))
        finally:
            self._talks.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()


class FullListener:
    """A port whose queue is full and that nobody accepts from: connections to it stay half made."""

    def __enter__(self) -> Self:
        self._sockets = [socket.socket()]
        self._sockets[0].bind(("127.0.0.1", 0))
        self._sockets[0].listen(0)
        self.port: int = self._sockets[0].getsockname()[1]
        for _ in range(4):
            waiting = socket.socket()
            self._sockets.append(waiting)
            waiting.setblocking(False)  # noqa: FBT003 - so it is called
            waiting.connect_ex(("127.0.0.1", self.port))
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()


class Names:
    """Where names lead: each look-up of a name takes its next answer, and the last one stays."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers: Mapping[str, list[Sequence[str]]] = {
            name.replace("_", "."): list(given) for name, given in answers.items()
        }
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._answers:
            raise Unanswered("the host name is unknown")
        given = self._answers[host]
        return given.pop(0) if len(given) > 1 else given[0]

    async def close(self) -> None:
        """Nothing to close."""


# Reading the authorities of this machine takes longer than most tests.
_trusted = functools.cache(make_tls_context)


@asynccontextmanager
async def outbound(
    policy: UrlPolicy = LOCAL, *, timeout_s: float = 5.0, **given: Any
) -> AsyncIterator[Outbound]:
    """An open client; `given` as for Outbound."""
    given.setdefault("tls", _trusted())
    client = Outbound(policy, timeout_s=timeout_s, **given)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


async def post(client: Outbound, url: str, body: bytes = BODY) -> Exchange:
    return await client.post(url, body, {"Content-Type": "application/json", "Event-Id": "evt_1"})
