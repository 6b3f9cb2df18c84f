"""`payaccept api`, `portal`, `worker` and `migrate`: the service's processes, on any PostgreSQL."""

import asyncio
import contextlib
import os
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer
import uvloop
from granian.constants import HTTPModes, Interfaces, Loops
from granian.server import Server
from msgspec.structs import replace

from payaccept import logs, wiring
from payaccept.adapters.postgres.migrations import SchemaRefused
from payaccept.adapters.vault import VaultError
from payaccept.cli import metrics as figures
from payaccept.cli import terminal
from payaccept.cli.terminal import Failed, Mistake
from payaccept.config import SettingInvalid, Settings, from_environ
from payaccept.domain.errors import OutcomeOpen, StoreUnavailable
from payaccept.figures import catalogue
from payaccept.figures.exposition import Address

GRACE_S = 15
SWITCH_INTERVAL_S = 0.0002
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url", envvar="PAYACCEPT_DATABASE_URL", metavar="URL", help="The PostgreSQL to use."
    ),
]


def _settings(database_url: str | None) -> Settings:
    try:
        settings = from_environ()
    except SettingInvalid as error:
        raise Mistake(str(error)) from None
    if database_url:
        settings = replace(settings, database_url=database_url)
    if not settings.database_url:
        raise Mistake("give --database-url, or set PAYACCEPT_DATABASE_URL")
    return settings


def api(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 8080,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that serve requests.")] = 1,
    database_url: DatabaseUrl = None,
    metrics: figures.Option = None,
) -> None:
    """Run the signed API until SIGTERM; requests in flight are finished."""
    metrics_address = figures.address_of(metrics)
    if metrics_address is not None and metrics_address.port == port:
        raise Mistake("--metrics needs a port of its own: the API's is for its clients")
    kernel = "payaccept.api_wiring:api_kernel"
    counted = figures.served_for_api(metrics_address)
    _serve("api", kernel, Interfaces.RSGI, host, port, workers, database_url, counted)


def portal(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 8081,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that serve pages.")] = 1,
    database_url: DatabaseUrl = None,
) -> None:
    """Run the web pages until SIGTERM; requests in flight are finished."""
    _serve(
        "portal",
        "payaccept.portal_wiring:portal_app",
        Interfaces.ASGI,
        host,
        port,
        workers,
        database_url,
        nullcontext(),
    )


def _serve(
    process: str,
    factory: str,
    interface: Interfaces,
    host: str,
    port: int,
    workers: int,
    database_url: str | None,
    counted: AbstractContextManager[None],
) -> None:
    settings = _settings(database_url)
    _check_database(settings)
    os.environ.update(settings.to_environ())  # for the processes that serve
    logs.configure(process)
    server: Any = Server(
        factory,
        factory=True,
        address=host,
        port=port,
        interface=interface,
        loop=Loops.uvloop,
        http=HTTPModes.http1,
        workers=workers,
        websockets=False,
        backlog=2048,
        respawn_failed_workers=True,
        respawn_interval=0.2,
        workers_kill_timeout=GRACE_S,
        log_enabled=False,
    )
    with counted:
        server.serve()


def worker(database_url: DatabaseUrl = None, metrics: figures.Option = None) -> None:
    """Complete, expire and resolve payments; deliver webhooks. Until SIGTERM."""
    settings = _settings(database_url)
    metrics_address = figures.address_of(metrics)
    _check_database(settings)
    logs.configure("worker")
    try:
        uvloop.run(_work(settings, metrics_address))
    except (SettingInvalid, VaultError) as error:
        raise Mistake(str(error)) from None


def _check_database(settings: Settings) -> None:
    """Refuse a database of another version or environment; one that is away may come back by itself."""
    try:
        with contextlib.suppress(OutcomeOpen):
            asyncio.run(wiring.check_database(settings))
    except SchemaRefused as error:
        raise Failed(str(error)) from None


async def _work(settings: Settings, metrics_address: Address | None) -> None:
    # A thread that has made a signature wants the interpreter back to begin the next one; by default it
    # would wait for it 5 ms, twenty times as long as the signature took.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    process = wiring.WorkerProcess(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, process.stop)
    with figures.served(metrics_address, "worker", catalogue.WORKER, process.figures):
        await process.run()


def migrate(database_url: DatabaseUrl = None) -> None:
    """Bring the database to this version, and make the first provider key."""
    settings = _settings(database_url)
    applied = prepare_database(settings)
    for step in applied:
        terminal.say(f"applied {step.version:04d} {step.name}")
    if not applied:
        terminal.say("the database is up to date")


def prepare_database(settings: Settings) -> list[Any]:
    """Migrate and see that there is a provider key; what goes wrong ends in one line."""

    async def prepare() -> list[Any]:
        applied = await wiring.migrate(settings)
        await wiring.ensure_provider_key(settings)
        return applied

    try:
        return asyncio.run(prepare())
    except StoreUnavailable:
        raise Failed("the database cannot be reached") from None
    except (SchemaRefused, VaultError) as error:
        raise Failed(str(error)) from None
    except SettingInvalid as error:
        raise Mistake(str(error)) from None
