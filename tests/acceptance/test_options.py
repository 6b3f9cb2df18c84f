"""A sandbox with every option, on a PostgreSQL that is not its own."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from payaccept import __version__
from payaccept.adapters.postgres.embedded import EmbeddedPostgres
from processes import Sandbox, eventually, free_port, payaccept
from traffic import Receiver, Till, published_keys, verify


@pytest.fixture(scope="module")
def other_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("p") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def metrics_port() -> int:
    """A free port whose next one is free, too."""
    while True:
        port = free_port()
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port + 1))
            return port


@pytest.fixture(scope="module")
def sandbox(
    other_postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory, metrics_port: int
) -> Iterator[Sandbox]:
    options = {
        "--database-url": other_postgres.url(),
        "--api-workers": "2",
        "--settle-delay": "1.5",
        "--order-expiry": "3",
        "--retry-schedule": "0.2",
        "--webhook-timeout": "1",
        "--host": "127.0.0.1",
        "--metrics-port": str(metrics_port),
    }
    data_dir = tmp_path_factory.mktemp("s") / "data"
    with Sandbox(data_dir, *(word for pair in options.items() for word in pair)) as running:
        yield running


def test_it_keeps_its_data_in_the_database_given(sandbox: Sandbox, other_postgres: EmbeddedPostgres) -> None:
    assert not (sandbox.data_dir / "postgres").exists()
    assert len(sandbox.api_workers()) == 2
    named = payaccept(
        "merchant", "list", "--json", "--database-url", other_postgres.url(), "--data-dir", sandbox.data_dir
    )
    assert named.returncode == 0
    assert sandbox.demo_merchant().client_id in named.stdout


async def test_the_times_given_are_kept(sandbox: Sandbox) -> None:
    async with Receiver() as receiver, Till(sandbox.base_url, sandbox.demo_merchant()) as till:
        begun = time.monotonic()
        hook = f"{receiver.base_url}/hook"
        paid = await till.create("createQROrder", paymentNotifyUrl=hook)
        unpaid = await till.create("createQROrder", paymentNotifyUrl=hook, sandbox={"outcome": "MANUAL"})
        await eventually(lambda: len(receiver.journal) == 1, "it is paid")
        assert 1.4 <= time.monotonic() - begun <= 1.5 + 2
        await eventually(lambda: len(receiver.journal) == 2, "it has expired")
        assert 2.9 <= time.monotonic() - begun <= 3 + 2
        keys = await published_keys(sandbox.base_url)
    first, second = receiver.journal
    for arrival in (first, second):
        verify(arrival, keys)
    assert first.json["paymentId"] == paid.value["paymentId"]
    assert second.json["paymentId"] == unpaid.value["paymentId"]
    assert second.json["result"]["resultCode"] == "ORDER_EXPIRED"


def test_the_figures_of_both_are_served_on_ports_of_their_own(sandbox: Sandbox, metrics_port: int) -> None:
    for port, process, processes in ((metrics_port, "api", 2), (metrics_port + 1, "worker", 1)):
        figures = httpx.get(f"http://127.0.0.1:{port}/metrics").raise_for_status().text
        assert f'payaccept_build_info{{process="{process}",version="{__version__}"}} 1.0' in figures
        assert f"payaccept_processes {processes}.0" in figures
        assert f"http://127.0.0.1:{port}/metrics" in sandbox.output.read_text()
    assert httpx.get(f"{sandbox.base_url}/metrics").status_code == 404


async def test_the_sandboxs_limit_is_exact_over_two_processes(sandbox: Sandbox) -> None:
    merchant = sandbox.demo_merchant()

    async def ask() -> str:
        # A connection of its own may come to either process.
        async with Till(sandbox.base_url, merchant, connections=1) as till:
            return (await till.inquire(paymentRequestId="none")).code

    codes = [code for _ in range(6) for code in await asyncio.gather(*(ask() for _ in range(25)))]
    admitted = codes.count("ORDER_NOT_EXIST")
    assert set(codes) == {"ORDER_NOT_EXIST", "REQUEST_TRAFFIC_EXCEED_LIMIT"}
    assert 100 - 10 <= admitted <= 100, "besides the few requests of the tests before this one"
