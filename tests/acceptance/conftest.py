"""One sandbox, as a newcomer starts it; and directories for those that tests start themselves."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from processes import Sandbox
from traffic import Till


@pytest.fixture
def directory() -> Iterator[Path]:
    """An empty directory with a short name, which sockets' paths must have."""
    made = Path(tempfile.mkdtemp(prefix="payaccept-acceptance-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="package")
def sandbox() -> Iterator[Sandbox]:
    """A running sandbox."""
    made = Path(tempfile.mkdtemp(prefix="payaccept-acceptance-"))
    try:
        with Sandbox(made / "data", "--settle-delay", "0.5") as running:
            yield running
    finally:
        shutil.rmtree(made)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def till(sandbox: Sandbox) -> AsyncIterator[Till]:
    """The demo merchant's connections to the API."""
    async with Till(sandbox.base_url, sandbox.demo_merchant()) as opened:
        yield opened
