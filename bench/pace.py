"""Sends requests that were signed beforehand at a fixed rate, whatever becomes of those before: an open loop.

    python -m bench.pace FILE PORT PER_S

A process of its own. It tells on stdout when it starts and how it went; `paced` runs it.
"""

import asyncio
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple, cast

import uvloop

CONNECTIONS: Final = 64
PATIENCE_S: Final = 10.0


class Sent(NamedTuple):
    """Answers with status 200, all others or none; 99 % were sent this late, and answered within this."""

    good: int
    bad: int
    late_p99_ms: float
    answer_p99_ms: float


class Pace:
    """The running load, seen from the process that measures; `started_at` is Unix time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self._process = process
        self._lines = process.stdout
        self.started_at = float(self._lines.readline())

    def is_over(self) -> bool:
        """Whether everything has been sent and answered."""
        return self._process.poll() is not None

    def result(self) -> Sent:
        """Wait until it is over."""
        good, bad, late_ms, answer_ms = self._lines.readline().split()
        return Sent(int(good), int(bad), float(late_ms), float(answer_ms))


@contextmanager
def paced(requests: Path, port: int, per_s: float) -> Iterator[Pace]:
    """Send the requests of a file to a local port, so many in a second."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.pace", str(requests), str(port), str(per_s)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Pace(process)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


class _Load:
    """Connections, and the requests that wait for one."""

    def __init__(self) -> None:
        self.idle: deque[_Connection] = deque()
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.late_ms: list[float] = []
        self.answer_ms: list[float] = []
        self.good = self.bad = 0
        self._expected: int | None = None
        self._all_answered = asyncio.Event()

    async def answered(self, count: int) -> None:
        """Wait until so many answers have come."""
        self._expected = count
        if self.good + self.bad < count:
            await self._all_answered.wait()

    def send(self, due: float, request: bytes) -> None:
        """Send now, or as soon as a connection is free."""
        if self.idle:
            self.idle.popleft().send(due, request)
        else:
            self.waiting.append((due, request))

    def is_free(self, connection: "_Connection") -> None:
        """Take a connection back."""
        if self.good + self.bad == self._expected:
            self._all_answered.set()
        if self.waiting:
            connection.send(*self.waiting.popleft())
        else:
            self.idle.append(connection)


class _Connection(asyncio.Protocol):
    """A connection with one request at a time; the answers have a Content-Length."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._answer = b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._load.is_free(self)

    def send(self, due: float, request: bytes) -> None:
        self._due = due
        self._load.late_ms.append((time.time() - due) * 1e3)
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, mark, body = self._answer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        if not mark or len(body) < int(length or 0):
            return
        self._answer = b""
        self._load.answer_ms.append((time.time() - self._due) * 1e3)
        if head.startswith(b"HTTP/1.1 200"):
            self._load.good += 1
        else:
            self._load.bad += 1
            if self._load.bad == 1:
                print((head + mark + body).decode(errors="replace")[:1000], file=sys.stderr, flush=True)
        self._load.is_free(self)


def _requests(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while line := file.readline():
            yield file.read(int(line))


async def _main(path: Path, port: int, per_s: float) -> None:
    loop = asyncio.get_running_loop()
    load = _Load()
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
    started_at = time.time()
    print(started_at, flush=True)
    sent = 0
    for sent, request in enumerate(_requests(path), 1):
        due = started_at + (sent - 1) / per_s
        if (wait_s := due - time.time()) > 0:
            await asyncio.sleep(wait_s)
        load.send(due, request)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            await load.answered(sent)
    print(load.good, sent - load.good, _p99(load.late_ms), _p99(load.answer_ms), flush=True)


def _p99(times: list[float]) -> float:
    return quantiles(times, n=100)[98] if len(times) > 1 else 0.0


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
