"""Merchants' endpoints of every kind on one machine, as cheap as they can be: a protocol and a fixed answer.

One process listens on three ports of every address in 127/8, so that a lane is an address: one port acknowledges,
one takes requests and never answers, one answers 500. A fourth is kept, but refuses connections. The process tells
on stdout how much it has had; `receiving` runs it and listens.
"""

import asyncio
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, cast

import uvloop

TOLD_EVERY_S: Final = 0.05
START_TIMEOUT_S: Final = 20.0
_BACKLOG: Final = 4096
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EVENT_ID: Final = re.compile(rb"\r\nevent-id: *([^\r]+)", re.IGNORECASE)
_YES: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_NO: Final = b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"


class Ports(NamedTuple):
    """Where one is acknowledged, kept waiting, answered 500, and refused."""

    good: int
    hanging: int
    failing: int
    refusing: int


class Tally(NamedTuple):
    """What has come: different events acknowledged, acknowledgements, requests kept waiting, 500s; and when."""

    events: int = 0
    acknowledged: int = 0
    hanging: int = 0
    failed: int = 0
    last_at: float = 0.0


class Receiver:
    """The running receiver, seen from the process that measures."""

    def __init__(self, process: "subprocess.Popen[str]", ports: Ports) -> None:
        self.ports = ports
        self.tally = Tally()
        self._process = process
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def wait_for(self, events: int, timeout_s: float) -> Tally:
        """Wait until so many different events have been acknowledged. Raises: RuntimeError when they are not."""
        deadline = time.monotonic() + timeout_s
        while self.tally.events < events:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"only {self.tally.events} of {events} events arrived in {timeout_s:g} s")
            time.sleep(TOLD_EVERY_S / 2)
        return self.tally

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            *counts, last_at = line.split()
            self.tally = Tally(*map(int, counts), last_at=float(last_at))


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run the receiver in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.receiver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline().split()
        if len(first) != len(Ports._fields):
            raise RuntimeError("the receiver did not start")
        yield Receiver(process, Ports(*map(int, first)))
    finally:
        process.terminate()
        process.wait(START_TIMEOUT_S)


class _Counts:
    """What the process has had."""

    def __init__(self) -> None:
        self.events: set[bytes] = set()
        self.acknowledged = self.hanging = self.failed = 0
        self.last_at = 0.0

    def acknowledge(self, event_id: bytes) -> bytes:
        self.acknowledged += 1
        if event_id not in self.events:
            self.events.add(event_id)
            self.last_at = time.time()
        return _YES

    def hang(self, _event_id: bytes) -> bytes:
        self.hanging += 1
        return b""

    def fail(self, _event_id: bytes) -> bytes:
        self.failed += 1
        return _NO


class _Endpoint(asyncio.Protocol):
    """One connection: whole requests are counted and answered, in whatever pieces they come."""

    def __init__(self, counts: _Counts, kind: str) -> None:
        self._take = getattr(counts, kind)
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if not transport.get_extra_info("peername")[0].startswith("127."):
            transport.close()  # all of 127/8 cannot be listened on without everything else

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(data, 0, end)
            whole = end + 4 + (int(length[1]) if length else 0)
            if len(data) < whole:
                break
            event_id = _EVENT_ID.search(data, 0, end + 2)
            answer = self._take(event_id[1] if event_id else b"")
            if answer:
                self._transport.write(answer)
            data = data[whole:]
        self._rest = data


async def _main() -> None:
    loop = asyncio.get_running_loop()
    counts = _Counts()
    everywhere = "0.0.0.0"  # noqa: S104 - only peers in 127/8 are let in
    servers = [
        await loop.create_server(lambda kind=kind: _Endpoint(counts, kind), everywhere, 0, backlog=_BACKLOG)
        for kind in ("acknowledge", "hang", "fail")
    ]
    with socket.socket() as refusing:
        refusing.bind((everywhere, 0))  # and never listens
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        print(*ports, refusing.getsockname()[1], flush=True)
        telling = asyncio.create_task(_tell(counts))
        await loop.run_in_executor(None, sys.stdin.read)  # until whoever started us has ended
        telling.cancel()


async def _tell(counts: _Counts) -> None:
    told = None
    while True:
        await asyncio.sleep(TOLD_EVERY_S)
        now = (len(counts.events), counts.acknowledged, counts.hanging, counts.failed, counts.last_at)
        if now != told:
            print(*now, flush=True)
            told = now


if __name__ == "__main__":
    uvloop.run(_main())
