"""One sandbox for these tests, with a compressed retry schedule, and a merchant's till at it."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from processes import Sandbox, eventually
from traffic import Receiver, Till, published_keys

SCHEDULE_S = (0.4, 1.2, 0.6)
TIMEOUT_S = 1.0

Delivered = Callable[..., Awaitable[tuple[str, int, str]]]


@pytest.fixture(scope="package")
def sandbox() -> Iterator[Sandbox]:
    """A running sandbox whose demo merchant has no rate limit."""
    directory = Path(tempfile.mkdtemp(prefix="payaccept-webhooks-"))
    options = ["--settle-delay", "0.1", "--webhook-timeout", str(TIMEOUT_S)]
    try:
        with Sandbox(
            directory / "data", *options, "--retry-schedule", ",".join(map(str, SCHEDULE_S))
        ) as running:
            running.cli("merchant", "set", running.demo_merchant().client_id, "--rate-limit", "none")
            yield running
    finally:
        shutil.rmtree(directory)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def till(sandbox: Sandbox) -> AsyncIterator[Till]:
    """The demo merchant's connections to the API."""
    async with Till(sandbox.base_url, sandbox.demo_merchant()) as opened:
        yield opened


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def keys(sandbox: Sandbox) -> dict[int, str]:
    """The keys that webhooks verify under."""
    return await published_keys(sandbox.base_url)


@pytest_asyncio.fixture(loop_scope="session")
async def receiver() -> AsyncIterator[Receiver]:
    """An endpoint that acknowledges; a test gives its paths a behaviour."""
    async with Receiver() as opened:
        yield opened


@pytest.fixture(scope="package")
def ended(sandbox: Sandbox) -> Delivered:
    """A function that waits until the delivery to a URL is final: its state, its attempts, the last reason."""

    async def wait(url: str, timeout_s: float = 15.0) -> tuple[str, int, str]:
        query = "SELECT state, attempts, last_reason FROM deliveries WHERE url = %s AND final_at IS NOT NULL"

        def rows() -> list[tuple[str, int, str]]:
            return sandbox.sql(query, url)

        found = await eventually(rows, f"the delivery to {url} is final", timeout_s)
        await asyncio.sleep(0)
        return found[0]

    return wait
