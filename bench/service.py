"""The service under test: the embedded PostgreSQL, one API worker, one worker, all as in production."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from bench import usage
from bench.merchant import Merchant
from payaccept.adapters.postgres.embedded import EmbeddedPostgres
from payaccept.adapters.vault import make_master_key
from payaccept.cli.processes import prepare_database
from payaccept.config import Settings
from payaccept.operations.merchants import Changes, Merchants
from payaccept.sdk import keys
from payaccept.wiring import Administration

START_TIMEOUT_S = 20.0


class Service(NamedTuple):
    """A database with a merchant, not yet any process but PostgreSQL."""

    directory: Path
    settings: Settings
    merchant: Merchant
    postgres_pid: int


def free_port() -> int:
    """Find a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def end_in_order() -> None:
    """Have SIGTERM end this process with all that it has started, and its directories."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@contextmanager
def fresh() -> Iterator[Service]:
    """Run `database` in a directory that is removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="payaccept-bench-"))
    try:
        with database(directory) as running:
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


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
        [merchant] = make_merchants(settings, 1)
        assert postgres.process is not None
        yield Service(directory, settings, merchant, postgres.process.pid)


def make_merchants(settings: Settings, count: int) -> list[Merchant]:
    """Make merchants without a rate limit."""

    async def make() -> list[Merchant]:
        async with Administration(settings) as administration:
            return [await _make_merchant(administration.merchants) for _ in range(count)]

    return asyncio.run(make())


async def _make_merchant(merchants: Merchants) -> Merchant:
    pair = keys.generate()
    now = datetime.now(UTC)
    merchant = await merchants.create("Benchmark", now)
    await merchants.add_key(merchant.client_id, pair.public_pem, now)
    await merchants.change(merchant.client_id, Changes(rate_limit=None), now)
    return Merchant(merchant.client_id, pair.private_pem)


@contextmanager
def api(service: Service, port: int, **settings: object) -> Iterator[int]:
    """Run the API with one worker; yields the worker's process number."""
    with _server(service, "api", port, settings) as pid:
        yield pid


@contextmanager
def portal(service: Service, port: int, **settings: object) -> Iterator[int]:
    """Run the portal with one process that serves; yields the number of that."""
    url = f"http://127.0.0.1:{port}"
    with _server(service, "portal", port, {"web_base_url": url} | settings) as pid:
        yield pid


@contextmanager
def _server(service: Service, command: str, port: int, settings: dict[str, object]) -> Iterator[int]:
    arguments = [command, "--port", str(port), "--workers", "1"]
    log = f"{command}.log"
    with _process(service, arguments, settings, log) as process:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(f"http://127.0.0.1:{port}/readyz"):
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError((service.directory / log).read_text()[-2000:])
            time.sleep(0.05)
        yield usage.children(process.pid)[-1]


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
    except Exception:
        print((service.directory / log).read_text()[-2000:], file=sys.stderr)
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own address
            return bool(answer.status == 200)
    except OSError:
        return False
