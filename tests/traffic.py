"""Traffic for a running sandbox: a bounded load of payments, and a receiver of webhooks that keeps all it gets."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import aiohttp

from merchant import PREFIX, Merchant, compact, request_of, verify_notification

ACKNOWLEDGE = b'{"result":{"resultStatus":"S"}}'


@dataclass(frozen=True)
class Arrival:
    """One webhook as it arrived, byte for byte; `at` is of the wall clock."""

    at: datetime
    path: str
    header_lines: list[tuple[str, str]]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """Its headers; no webhook names one twice."""
        headers = dict(self.header_lines)
        assert len(headers) == len(self.header_lines), f"a header twice: {self.header_lines}"
        return headers

    @property
    def attempt(self) -> int:
        """Which attempt to deliver its event it says it is."""
        return int(self.headers["Delivery-Attempt"])

    @property
    def json(self) -> Any:
        """Its body, decoded."""
        return json.loads(self.body)


Behaviour = Callable[[Arrival, asyncio.StreamWriter], Awaitable[None]]


async def respond(
    writer: asyncio.StreamWriter, status: int, body: bytes = b"", *headers: tuple[str, str]
) -> None:
    """Write a whole answer."""
    lines = [f"HTTP/1.1 {status} Answer", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers)]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()


async def acknowledge(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    """Answer as a merchant should."""
    await respond(writer, 200, ACKNOWLEDGE, ("Content-Type", "application/json"))


class Receiver:
    """A merchant's endpoint on a port of its own; it keeps a journal of everything that arrives.

    behaviour: what it does with an arrival, by the path or its part before the first `-`; else it acknowledges.
    """

    def __init__(self, **behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.journal: list[Arrival] = []
        self.base_url = ""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def at(self, path: str) -> list[Arrival]:
        """What arrived at a path, in order."""
        return [arrival for arrival in self.journal if arrival.path == path]

    def by_event(self) -> dict[str, list[Arrival]]:
        """What arrived, by Event-Id."""
        found: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in self.journal:
            found[arrival.headers["Event-Id"]].append(arrival)
        return found

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            # Cancelled at the end: asyncio's server takes a cancelled connection for a failed one.
            with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
                while not writer.is_closing():
                    arrival = await _read(reader)
                    self.journal.append(arrival)
                    name = arrival.path[1:]
                    behaviour = self.behaviour.get(name) or self.behaviour.get(name.partition("-")[0])
                    await (behaviour or acknowledge)(arrival, writer)
        finally:
            self._connections.discard(connection)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Arrival:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head[:-4].split("\r\n")
    method, path, _ = request_line.split(" ")
    assert method == "POST"
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    length = next(int(value) for name, value in headers if name.lower() == "content-length")
    return Arrival(datetime.now(UTC), path, headers, await reader.readexactly(length))


def verify(arrival: Arrival, keys: dict[int, str]) -> None:
    """Verify a webhook as a merchant does: the signature, and the ten-minute window. Raises."""
    verify_notification(arrival.headers, arrival.path.partition("?")[0], arrival.body, keys)
    said = datetime.strptime(arrival.headers["Request-Time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((arrival.at - said).total_seconds()) < 600


async def published_keys(base_url: str) -> dict[int, str]:
    """The keys that webhooks verify under, PEM by keyVersion."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{base_url}/.well-known/payaccept/webhook-keys") as answer,
    ):
        assert answer.status == 200
        return {key["keyVersion"]: key["publicKeyPem"] for key in await answer.json()}


@dataclass
class Answered:
    """An answer of the API."""

    status: int
    value: dict[str, Any]

    @property
    def code(self) -> str:
        """Its resultCode."""
        return str(self.value["result"]["resultCode"])


class Till:
    """A merchant's connections to an API."""

    def __init__(self, base_url: str, merchant: Merchant, *, connections: int = 16) -> None:
        self.base_url = base_url
        self.merchant = merchant
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections), timeout=aiohttp.ClientTimeout(total=20)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def send(self, operation: str, body: bytes | dict[str, Any]) -> Answered:
        """Sign and send a request. Raises aiohttp.ClientError, TimeoutError: it is open what became of it."""
        assert self._session is not None
        content = body if isinstance(body, bytes) else compact(body)
        path = PREFIX + operation
        async with self._session.post(
            self.base_url + path, data=content, headers=self.merchant.headers(path, content)
        ) as answer:
            return Answered(answer.status, await answer.json())

    async def create(self, operation: str, **changes: Any) -> Answered:
        """Send a usual request with some members changed."""
        return await self.send(operation, request_of(operation, **changes))

    async def inquire(self, **ids: str) -> Answered:
        """Ask how a payment stands."""
        return await self.send("inquiryPayment", ids)


@dataclass
class Taken:
    """A payment the load has sent until a definite answer came."""

    operation: str
    request_id: str
    tries: int = 0
    answer: Answered | None = None


@dataclass
class Load:
    """Buyers who come one after the other through a few tills, until told to stop; bounded in every way.

    Each request is sent again, the same bytes, until the answer is definite, as a careful merchant does.
    """

    till: Till
    notify_url: str
    buyers: int = 8
    pause_s: float = 0.04
    give_up_after_s: float = 60.0
    most: int = 20_000
    taken: list[Taken] = field(default_factory=list)
    open: list[Taken] = field(default_factory=list)
    unknown: int = 0
    _stopping: bool = False

    async def run(self) -> None:
        """Send until `stop`."""
        async with asyncio.TaskGroup() as buyers:
            for number in range(self.buyers):
                buyers.create_task(self._buy(number))

    def stop(self) -> None:
        """End when every request has its answer."""
        self._stopping = True

    @property
    def acknowledged(self) -> int:
        """How many payments were acknowledged."""
        return sum(1 for taken in self.taken if taken.answer is not None and taken.answer.status == 200)

    async def _buy(self, number: int) -> None:
        operations = ("createQROrder", "retailPay")
        for count in range(self.most // self.buyers):
            if self._stopping:
                return
            await self._take(operations[(number + count) % 2])
            await asyncio.sleep(self.pause_s)

    async def _take(self, operation: str) -> None:
        request = request_of(operation, paymentNotifyUrl=self.notify_url)
        body = compact(request)
        taken = Taken(operation, request["paymentRequestId"])
        deadline = time.monotonic() + self.give_up_after_s
        while time.monotonic() < deadline:
            taken.tries += 1
            with suppress(aiohttp.ClientError, TimeoutError):
                answer = await self.till.send(operation, body)
                if answer.status < 500:
                    taken.answer = answer
                    self.taken.append(taken)
                    return
            self.unknown += 1
            await asyncio.sleep(0.1)
        self.open.append(taken)


async def running(load: Load, stack: AsyncExitStack) -> "asyncio.Task[None]":
    """Start a load that ends with the stack, whatever happens."""
    task = asyncio.create_task(load.run())

    async def end() -> None:
        load.stop()
        await task

    stack.push_async_callback(end)
    return task
