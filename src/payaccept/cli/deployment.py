"""Which deployment an administrator's command works on: a data directory, or a database by its URL."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from msgspec.structs import replace

from payaccept.adapters.postgres.embedded import EmbeddedPostgresError, default_data_dir, socket_url
from payaccept.adapters.postgres.migrations import SchemaRefused
from payaccept.adapters.vault import VaultError
from payaccept.cli.terminal import Failed, Mistake
from payaccept.config import SettingInvalid, Settings, from_environ
from payaccept.domain.errors import StoreUnavailable
from payaccept.wire import timestamps
from payaccept.wiring import Administration, now_utc

A = TypeVar("A")
T = TypeVar("T")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", envvar="PAYACCEPT_DATA_DIR", metavar="DIR", help="The sandbox's data directory."
    ),
]
DatabaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="PAYACCEPT_DATABASE_URL",
        metavar="URL",
        show_envvar=True,
        help="Any PostgreSQL, instead of the data directory's own.",
    ),
]
MASTER_KEY = "master.key"
SANDBOX_KEY_LEAD_S = 60.0
"""How long a local sandbox publishes a new provider key before it signs."""


def settings_of(data_dir: Path | None, database_url: str | None) -> Settings:
    """Return the settings of the deployment that is meant.

    Raises: SettingInvalid, Mistake.
    """
    settings = from_environ(
        defaults=None if database_url else Settings(provider_key_lead_s=SANDBOX_KEY_LEAD_S)
    )
    directory = data_dir or default_data_dir()
    if database_url:
        settings = replace(settings, database_url=database_url)
    else:
        if not (directory / "postgres").is_dir():
            raise Mistake(
                f"there is no sandbox in {directory}: start `payaccept sandbox`, or give --data-dir"
            )
        try:
            settings = replace(settings, database_url=socket_url(directory))
        except EmbeddedPostgresError as error:
            raise Failed(str(error)) from None
    master_key = directory / MASTER_KEY
    if settings.master_key_file is None and "PAYACCEPT_MASTER_KEY" not in os.environ and master_key.exists():
        settings = replace(settings, master_key_file=master_key)
    return settings


def administer(
    data_dir: Path | None, database_url: str | None, work: Callable[[Administration, datetime], Awaitable[T]]
) -> T:
    """Do an administrator's work on a deployment; what goes wrong ends in one line."""
    return run_with(Administration, data_dir, database_url, work)


def run_with(
    opened: Callable[[Settings], AbstractAsyncContextManager[A]],
    data_dir: Path | None,
    database_url: str | None,
    work: Callable[[A, datetime], Awaitable[T]],
) -> T:
    """Do work on a deployment with what `opened` makes of its settings; what goes wrong ends in one line."""

    async def run() -> T:
        async with opened(settings) as administration:
            return await work(administration, now_utc())

    try:
        settings = settings_of(data_dir, database_url)
        return asyncio.run(run())
    except SettingInvalid as error:
        raise Mistake(str(error)) from None
    except StoreUnavailable:
        raise Failed("the database cannot be reached: is the service running?") from None
    except (SchemaRefused, VaultError) as error:
        raise Failed(str(error)) from None


def when(at: datetime | None) -> str | None:
    """Write an instant for a person."""
    return None if at is None else timestamps.write_seconds(at)
