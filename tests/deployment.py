"""A deployment in this process, on the session's PostgreSQL: what the fixtures are made of."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg

from merchant import Merchant, private_key, public_pem
from payaccept.api.kernel import Kernel
from payaccept.config import Settings
from payaccept.operations.merchants import Changes
from payaccept.wiring import Administration, ApiProcess, WorkerProcess

Register = Callable[..., Awaitable[Merchant]]

numbers = itertools.count(1)


def settings_for(database_url: str, master_key_file: Path, **changes: Any) -> Settings:
    """A local sandbox's settings, with time compressed."""
    values: dict[str, Any] = {
        "database_url": database_url,
        "allow_http": True,
        "allow_private": True,
        "settle_delay_s": 0.1,
        "retry_schedule_s": (0.1, 0.2, 0.3),
        "webhook_timeout_s": 2.0,
        "failure_limit": None,
        "provider_key_lead_s": 1.0,
        "master_key_file": master_key_file,
    }
    return Settings(**values | changes)


def run_sql(database_url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def fetch_all(database_url: str, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of one query."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return connection.execute(query.encode(), values or None).fetchall()


@asynccontextmanager
async def opened_kernel(settings: Settings) -> AsyncIterator[Kernel]:
    """An API process in this process: its kernel, open while the block lasts."""
    process = ApiProcess(settings)
    kernel = process.kernel()
    await process.open()
    try:
        yield kernel
    finally:
        await process.close()


def client_of(kernel: Kernel) -> httpx.AsyncClient:
    """An HTTP client that speaks to a kernel without a socket."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=kernel, client=("192.0.2.1", 4711)),
        base_url="http://api.test",
        timeout=30,
    )


def register_with(administration: Administration) -> Register:
    """Return a function that makes a merchant with one key; without a rate limit unless one is given."""

    async def register(name: str = "Shop", *, keys: int = 1, **changes: Any) -> Merchant:
        now = datetime.now(UTC)
        made = await administration.merchants.create(name, now)
        await administration.merchants.change(made.client_id, Changes(**{"rate_limit": None} | changes), now)
        merchant = Merchant(made.client_id)
        for _ in range(keys):
            await add_key(administration, merchant)
        return merchant

    return register


async def add_key(administration: Administration, merchant: Merchant) -> int:
    """Register one more key of a merchant's, which it signs with from now on."""
    key = private_key(next(numbers))
    stored = await administration.merchants.add_key(merchant.client_id, public_pem(key), datetime.now(UTC))
    merchant.use_key(stored.key_version, key)
    return stored.key_version


@asynccontextmanager
async def running_worker(settings: Settings) -> AsyncIterator[WorkerProcess]:
    """A worker process in this process, at work while the block lasts."""
    process = WorkerProcess(settings)
    running = asyncio.create_task(process.run())
    try:
        yield process
    finally:
        process.stop()
        await running
