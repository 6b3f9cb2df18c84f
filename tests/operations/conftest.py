"""What the tests of the operations share: the payment verbs over a real store, and a shop."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from deployment import NOW, Parts, merchant_made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def parts(settings) -> AsyncIterator[Parts]:
    async with Parts(settings) as opened:
        yield opened


@pytest.fixture
def shop():
    return merchant_made(NOW)
