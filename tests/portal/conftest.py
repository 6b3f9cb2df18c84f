"""A portal in this process, on the session's PostgreSQL, with a clock that the tests move."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from msgspec.structs import replace

from payaccept.config import Settings
from portals import Portal
from visitor import Clock

Make = Callable[..., Awaitable[Portal]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def open_portal(settings: Settings) -> AsyncIterator[Make]:
    """A function that opens a portal on this module's database, with other settings."""
    opened: list[Portal] = []

    async def make(**changes: object) -> Portal:
        portal = Portal(replace(settings, **changes), Clock(datetime.now(UTC).replace(microsecond=0)))
        await portal.process.open()
        opened.append(portal)
        return portal

    yield make
    for portal in opened:
        await portal.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def portal(open_portal: Make) -> Portal:
    """This module's portal."""
    return await open_portal(web_base_url="http://portal.test")


@pytest.fixture
def clock(portal: Portal) -> Clock:
    """The portal's clock."""
    return portal.clock
