"""The real processes: a whole sandbox started, watched, stopped and killed; and the ports and tools for it.

Only processes that were started here are ever signalled, each by its number.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from merchant import Merchant
from payaccept.adapters.postgres.embedded import socket_url

PAYACCEPT = [sys.executable, "-m", "payaccept.cli"]
_MARK = "PAYACCEPT_TESTS_RUN"  # inherited by every process of a sandbox, but by PostgreSQL's
_STARTED = "the sandbox is running"


class Process(NamedTuple):
    """A line of the process table; `begun` tells a process from a later one of the same number."""

    pid: int
    parent: int
    begun: str
    args: str


def process_table() -> list[Process]:
    """Every process of this machine that runs; zombies do not."""
    shown = subprocess.run(
        ["ps", "-axww", "-o", "pid=,ppid=,stat=,lstart=,args="], check=True, capture_output=True, text=True
    ).stdout
    table = []
    for line in shown.splitlines():
        pid, parent, state, *rest = line.split(maxsplit=8)
        if not state.startswith("Z"):
            table.append(Process(int(pid), int(parent), " ".join(rest[:5]), rest[5] if len(rest) > 5 else ""))
    return table


def free_port() -> int:
    """A TCP port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], Any], what: str, timeout_s: float = 15.0) -> Any:
    """Wait for something to become true, and return it."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = holds()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.02)


async def eventually(holds: Callable[[], Any], what: str, timeout_s: float = 15.0) -> Any:
    """`wait_until` for a running event loop."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = holds()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.02)


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without any setting of the service's, and with the changes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PAYACCEPT_")}
    return {**kept, "NO_COLOR": "1", **changes}


def payaccept(
    *arguments: object, timeout_s: float = 60.0, **settings: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command of the command line to its end, whatever that is."""
    return subprocess.run(
        [*PAYACCEPT, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
    )


class Sandbox:
    """A real `payaccept sandbox` on a data directory, on ports of its own.

    options: further ones of its command line; settings: variables of its environment and of its commands'.
    In a `with` block it is started, and stopped at the end; whatever is left of it then is killed.
    """

    def __init__(self, data_dir: Path, *options: str, **settings: str) -> None:
        self.data_dir = data_dir
        self.options = options
        self.settings = settings
        self.api_port = free_port()
        self.portal_port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.output = data_dir.with_name(f"{data_dir.name}.output")
        self._mark = uuid.uuid4().hex
        self._seen: set[tuple[int, str]] = set()  # number and beginning: a parent may change

    def __enter__(self) -> Self:
        with ExitStack() as on_failure:
            on_failure.callback(self.kill_everything)
            self.start()
            on_failure.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.process is not None:
                self.stop()
        finally:
            self.kill_everything()

    @property
    def base_url(self) -> str:
        """Where its API listens."""
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def database_url(self) -> str:
        """Its embedded database, for a look behind the scenes."""
        return socket_url(self.data_dir)

    @property
    def command(self) -> list[str]:
        """Its command line."""
        ports = ["--api-port", str(self.api_port), "--portal-port", str(self.portal_port)]
        return [*PAYACCEPT, "sandbox", "--data-dir", str(self.data_dir), *ports, *self.options]

    def start(self, timeout_s: float = 60.0) -> float:
        """Start it and wait until it says that it runs; returns after how many seconds that was."""
        begun = time.monotonic()
        with self.output.open("ab") as output:
            said = output.tell()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(**self.settings, **{_MARK: self._mark}),
                start_new_session=True,  # a terminal's Ctrl-C reaches a whole process group: it has its own
            )
        process = self.process

        def has_started() -> bool:
            text = self.output.read_bytes()[said:].decode()
            assert process.poll() is None, f"the sandbox ended: {text}"
            return _STARTED in text

        wait_until(has_started, "the sandbox runs", timeout_s)
        return time.monotonic() - begun

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = 45.0) -> int:
        """Ask it to stop, by SIGINT as a terminal does, and return its exit code."""
        assert self.process is not None
        self.tree()
        if number is signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        code = self.process.wait(timeout_s)
        self.process = None
        return code

    def kill_everything(self) -> None:
        """Send SIGKILL to all its processes, at once and by their numbers; nothing of it runs afterwards."""
        self.tree()
        deadline = time.monotonic() + 20
        while left := self.left_running():
            assert time.monotonic() < deadline, f"cannot be killed: {left}"
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            if self.process is not None:
                self.process.poll()
            time.sleep(0.02)
        if self.process is not None:
            self.process.wait()
            self.process = None

    def tree(self) -> list[Process]:
        """All its processes that run now: the supervisor first, then its descendants."""
        if self.process is None:
            return []
        table = process_table()
        found = _with_offspring([line for line in table if line.pid == self.process.pid], table)
        self._seen.update((line.pid, line.begun) for line in found)
        return found

    def left_running(self) -> list[Process]:
        """Which of the processes it ever had run now, orphans among them."""
        table = process_table()
        marked = _marked(self._mark)
        known = [line for line in table if (line.pid, line.begun) in self._seen or line.pid in marked]
        return _with_offspring(known, table)

    def _children(self, words: str) -> list[Process]:
        tree = self.tree()
        return [line for line in tree[1:] if line.parent == tree[0].pid and words in line.args]

    def api(self) -> int:
        """The API's server process, parent of those that answer."""
        return self._children("payaccept.cli api")[0].pid

    def api_workers(self) -> list[int]:
        """The processes that answer requests."""
        tree = self.tree()
        servers = {line.pid for line in self._children("payaccept.cli api")}
        return [line.pid for line in tree if line.parent in servers and "resource_tracker" not in line.args]

    def worker(self) -> int:
        """The worker process."""
        return self._children("payaccept.cli worker")[0].pid

    def postgres(self) -> int:
        """PostgreSQL's first process."""
        return self._children("/postgres -D")[0].pid

    def sql(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of one query on its embedded database."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return connection.execute(query.encode(), values or None).fetchall()

    def cli(self, *arguments: object) -> Any:
        """Run an administrator's command on it, with --json, and return what it prints."""
        done = payaccept(*arguments, "--json", "--data-dir", self.data_dir, **self.settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    async def acli(self, *arguments: object) -> Any:
        """`cli` for a running event loop."""
        return await asyncio.to_thread(self.cli, *arguments)

    def demo_merchant(self) -> Merchant:
        """The merchant that the sandbox has made."""
        told = json.loads((self.data_dir / "demo-merchant.json").read_bytes())
        key = load_pem_private_key(Path(told["privateKeyFile"]).read_bytes(), password=None)
        assert isinstance(key, RSAPrivateKey)
        merchant = Merchant(told["clientId"])
        merchant.use_key(told["keyVersion"], key)
        return merchant


def _with_offspring(roots: list[Process], table: list[Process]) -> list[Process]:
    found = list(roots)
    for parent in found:
        found += [line for line in table if line.parent == parent.pid and line not in found]
    return found


def _marked(mark: str) -> set[int]:
    """Which processes carry the mark in their environment, where the system shows that (Linux)."""
    wanted = f"{_MARK}={mark}".encode()
    marked = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                marked.add(int(entry.name))
    return marked


def one_line(text: str) -> str:
    """Assert that a complaint is one line and no traceback; returns it."""
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith("payaccept: ")
    assert "Traceback" not in text
    return lines[0]
