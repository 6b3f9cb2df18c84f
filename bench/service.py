"""The service under test: the embedded PostgreSQL, one API worker, one worker, all as in production."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from bench.merchant import Merchant
from payaccept.adapters.postgres.embedded import EmbeddedPostgres
from payaccept.adapters.vault import make_master_key
from payaccept.cli.processes import prepare_database
from payaccept.config import Settings
from payaccept.operations.merchants import Changes
from payaccept.sdk import keys
from payaccept.wiring import Administration

START_TIMEOUT_S = 20.0


class Service(NamedTuple):
    """A database with a merchant, not yet any process but PostgreSQL."""

    directory: Path
    settings: Settings
    merchant: Merchant


def free_port() -> int:
    """Find a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def database(directory: Path) -> Iterator[Service]:
    """Run PostgreSQL with its default durability, migrated, with one merchant without a rate limit."""
    with EmbeddedPostgres(directory) as postgres:
        master_key = directory / "master.key"
        make_master_key(master_key)
        settings = Settings(
            allow_http=True,
            allow_private=True,
            database_url=postgres.url(),
            master_key_file=master_key,
            settle_delay_s=3600,
            order_expiry_s=7200,
        )
        prepare_database(settings)
        yield Service(directory, settings, asyncio.run(_make_merchant(settings)))


async def _make_merchant(settings: Settings) -> Merchant:
    pair = keys.generate()
    now = datetime.now(UTC)
    async with Administration(settings) as administration:
        merchants = administration.merchants
        merchant = await merchants.create("Benchmark", now)
        await merchants.add_key(merchant.client_id, pair.public_pem, now)
        await merchants.change(merchant.client_id, Changes(rate_limit=None), now)
    return Merchant(merchant.client_id, pair.private_pem)


@contextmanager
def api(service: Service, port: int, **settings: object) -> Iterator[int]:
    """Run the API with one worker; yields the worker's process number."""
    arguments = ["api", "--port", str(port), "--workers", "1"]
    with _process(service, arguments, settings, "api.log") as process:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(f"http://127.0.0.1:{port}/readyz"):
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError((service.directory / "api.log").read_text()[-2000:])
            time.sleep(0.05)
        yield _children(process.pid)[-1]


@contextmanager
def worker(service: Service, **settings: object) -> Iterator[int]:
    """Run the worker; yields its process number."""
    with _process(service, ["worker"], settings, "worker.log") as process:
        yield process.pid


@contextmanager
def _process(
    service: Service, arguments: list[str], changed: dict[str, object], log: str
) -> Iterator["subprocess.Popen[bytes]"]:
    settings = replace(service.settings, **changed)
    with (service.directory / log).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "payaccept.cli", *arguments],
            env={**os.environ, **settings.to_environ()},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(child) for child in listed.stdout.split()]


def resident_mib(pid: int) -> float:
    """Return a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no resident memory")
