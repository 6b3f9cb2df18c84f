"""What many tests stand on: one real PostgreSQL for the session, a fresh database for each module."""

import asyncio
import shutil
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest
import pytest_asyncio

from deployment import Register, client_of, numbers, opened_kernel, register_with, run_sql, settings_for
from merchant import Merchant
from payaccept.adapters.postgres.embedded import EmbeddedPostgres
from payaccept.adapters.vault import make_master_key
from payaccept.api.kernel import Kernel
from payaccept.config import Settings
from payaccept.wiring import Administration, ensure_provider_key, migrate

_TEMPLATE = "template_migrated"

# A runner in the background starts us with SIGINT ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing on a machine that runs other things, too.
hypothesis.settings.register_profile("payaccept", deadline=None)
hypothesis.settings.load_profile("payaccept")


@pytest.fixture(scope="session")
def master_key_file() -> Iterator[Path]:
    """The master key of every deployment of this session."""
    directory = Path(tempfile.mkdtemp(prefix="payaccept-tests-"))
    make_master_key(directory / "master.key")
    yield directory / "master.key"
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One embedded PostgreSQL, with its default durability."""
    directory = Path(tempfile.mkdtemp(prefix="payaccept-tests-pg-"))
    server = EmbeddedPostgres(directory / "data")
    try:
        server.start()
        server.wait_ready()
        yield server
    finally:
        server.stop(timeout_s=0.01)  # abruptly: what it would tidy up is removed
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def empty_database(postgres: EmbeddedPostgres) -> Callable[[], str]:
    """A function that makes an empty database and returns its URL; they go with the server."""

    def create(template: str = "template0") -> str:
        name = f"test_{next(numbers)}"
        run_sql(postgres.url(), f"CREATE DATABASE {name} TEMPLATE {template}")
        return postgres.url(name)

    return create


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres, master_key_file: Path) -> str:
    """Name of a database with the schema and a provider key: the others are copied from it."""
    run_sql(postgres.url(), f"CREATE DATABASE {_TEMPLATE}")
    settings = settings_for(postgres.url(_TEMPLATE), master_key_file)

    async def prepare() -> None:
        await migrate(settings)
        await ensure_provider_key(settings)

    # In a thread and a loop of its own: an asynchronous fixture is made anew for every kind of loop.
    thread = threading.Thread(target=asyncio.run, args=[prepare()])
    thread.start()
    thread.join()
    return _TEMPLATE


@pytest.fixture(scope="session")
def fresh_database(empty_database: Callable[[str], str], template: str) -> Callable[[], str]:
    """A function that makes a migrated database and returns its URL."""
    return lambda: empty_database(template)


@pytest.fixture(scope="module")
def database_url(fresh_database: Callable[[], str]) -> str:
    """A migrated database of this module's own."""
    return fresh_database()


@pytest.fixture(scope="module")
def settings(database_url: str, master_key_file: Path) -> Settings:
    """The settings of this module's sandbox."""
    return settings_for(database_url, master_key_file)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kernel(settings: Settings) -> AsyncIterator[Kernel]:
    """An open API process of this module."""
    async with opened_kernel(settings) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def administration(settings: Settings) -> AsyncIterator[Administration]:
    """The administrator of this module's sandbox."""
    async with Administration(settings) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(kernel: Kernel) -> AsyncIterator[httpx.AsyncClient]:
    """A client of this module's API process."""
    async with client_of(kernel) as client:
        yield client


@pytest.fixture(scope="module")
def register(administration: Administration) -> Register:
    """A function that makes a merchant, ready to sign."""
    return register_with(administration)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchant(register: Register) -> Merchant:
    """A merchant of this module without a rate limit."""
    return await register("Module's shop")
