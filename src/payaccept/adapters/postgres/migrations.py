"""Numbered, forward-only migrations: `sql/migrations_0001_core.sql` and on, under an advisory lock."""

import re
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final

from msgspec import Struct
from psycopg import AsyncConnection

from payaccept.domain.merchant import BUCKETS, Environment
from payaccept.domain.urls import UrlPolicy

_FILE: Final = re.compile(r"migrations_(?P<version>\d{4})_(?P<name>[a-z_]+)\.sql")
_LOCK: Final = 0x7061_7961  # "paya": only one process migrates at a time


class SchemaRefused(Exception):
    """The database cannot be used by this version, or for this environment; one line says why."""


class Migration(Struct, frozen=True, order=True):
    """One step of the schema."""

    version: int
    name: str
    sql: str


def available() -> list[Migration]:
    """Return the migrations this version knows, in order."""
    found = []
    for file in (resources.files(__package__) / "sql").iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            found.append(Migration(int(match["version"]), match["name"], file.read_text(encoding="utf-8")))
    return sorted(found)


async def migrate(
    connection: AsyncConnection[Any], environment: Environment, urls: UrlPolicy
) -> list[Migration]:
    """Bring the schema up to date and claim the database for one environment.

    Returns: the migrations applied now. Raises: SchemaRefused.
    """
    steps = available()
    await connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations ("
            " version integer CONSTRAINT schema_migrations_pkey PRIMARY KEY,"
            " name text NOT NULL, applied_at timestamptz NOT NULL)"
        )
        cursor = await connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations")
        [current] = await cursor.fetchone() or [0]
        if current > steps[-1].version:
            raise SchemaRefused(
                f"the database has schema version {current}, newer than this version of payaccept knows"
                f" ({steps[-1].version}): upgrade payaccept"
            )
        applied = [step for step in steps if step.version > current]
        for step in applied:
            async with connection.transaction():
                # Several statements at once go by the simple protocol only.
                await connection.execute(step.sql.encode(), prepare=False)
                await connection.execute(
                    "INSERT INTO schema_migrations (version, name, applied_at) VALUES (%s, %s, %s)",
                    [step.version, step.name, datetime.now(UTC)],
                )
        await connection.execute(
            "INSERT INTO deployment (environment, allow_http, allow_private, created_at)"
            " VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [environment.value, urls.allow_http, urls.allow_private, datetime.now(UTC)],
        )
        await check(connection, environment)
        await connection.execute(
            "UPDATE deployment SET allow_http = %s, allow_private = %s", [urls.allow_http, urls.allow_private]
        )
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])
    return applied


async def check(connection: AsyncConnection[Any], environment: Environment) -> UrlPolicy:
    """Assert what the statements rely on.

    Returns: the rule for URLs that the service was last started with. Raises: SchemaRefused.
    """
    cursor = await connection.execute("SELECT to_regclass('schema_migrations') IS NOT NULL")
    if await cursor.fetchone() != (True,):
        raise SchemaRefused("the database has no schema yet: run `payaccept migrate`")
    cursor = await connection.execute("SELECT max(version) FROM schema_migrations")
    [version] = await cursor.fetchone() or [0]
    known = available()[-1].version
    if version != known:
        remedy = "run `payaccept migrate`" if version < known else "upgrade payaccept"
        raise SchemaRefused(
            f"the database has schema version {version}, this version needs {known}: {remedy}"
        )
    cursor = await connection.execute("SELECT environment, allow_http, allow_private FROM deployment")
    [serves, allow_http, allow_private] = await cursor.fetchone() or ["", False, False]
    if serves != environment.value:
        raise SchemaRefused(f"the database serves the environment {serves}, not {environment.value}")
    # A missing row here would drop inserts without a word.
    cursor = await connection.execute("SELECT count(*) FROM buckets")
    if await cursor.fetchone() != (BUCKETS,):
        raise SchemaRefused("the table buckets must hold exactly the rows 0 to 255")
    return UrlPolicy(allow_http=allow_http, allow_private=allow_private)
