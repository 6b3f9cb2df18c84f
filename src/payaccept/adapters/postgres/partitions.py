"""Daily partitions of payloads and attempts: made before they are needed, dropped when they are too old.

What no day's partition takes goes to the default one, so nothing here is ever needed by a payment: it may
fail, come late, or be told a wrong time. What could not be done is done the next time.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

import psycopg
from msgspec import Struct
from psycopg import AsyncConnection, sql

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Texts, by_bucket
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.domain import identifiers

DAYS_AHEAD: Final = 3
LOCK_TIMEOUT_MS: Final = 100
_LOCK: Final = 0x7061_7962  # "payb": one process after the other, to save them the trouble
_QUEUE_MS: Final = 10_000
PATIENCE_S: Final = 300.0
LARGE_BYTES: Final = 16 * 1024 * 1024
_EXPIRED_AT_ONCE: Final = 500
_EXPIRED_AT_MOST: Final = 50_000
_DAY: Final = timedelta(days=1)

# Told by SQLSTATE: another process was faster, or the day's first row was; or the table is in use just now.
_OVERTAKEN: Final = frozenset({"42P07", "42710", "42P17", "42P01", "42704", "23505", "23514"})
_BUSY: Final = frozenset({"55P03", "40P01", "57014"})
_NOT_ALLOWED: Final = "42501"

_SQL: Final = statements.load("partitions.sql")
_log = logging.getLogger(__name__)

Connection = AsyncConnection[Any]


class _Kind(Struct, frozen=True):
    """A table in daily partitions: the column they go by, and a day's beginning as that column has it."""

    table: str
    column: str
    beginning: Callable[[date], str]
    keep: timedelta

    @property
    def default(self) -> str:
        return f"{self.table}_default"

    @property
    def making(self) -> str:
        """The constraint that tells of a large default partition that it holds nothing of a day."""
        return f"{self.table}_default_making"

    def partition(self, day: date) -> str:
        return f"{self.table}_{day:%Y%m%d}"

    def day_of(self, partition: str) -> date | None:
        """Return the day of a partition; None for one that is not ours to make and drop."""
        digits = partition.removeprefix(f"{self.table}_")
        try:
            day = datetime.strptime(digits, "%Y%m%d").replace(tzinfo=UTC).date()
        except ValueError:
            return None
        return day if self.partition(day) == partition else None

    def range(self, day: date) -> dict[str, str]:
        return {"first": self.beginning(day), "end": self.beginning(day + _DAY)}


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _first_event(day: date) -> str:
    return identifiers.least(identifiers.EVENT, _midnight(day))


def _first_instant(day: date) -> str:
    return _midnight(day).isoformat()


class PostgresPartitions:
    """Keeps the partitions; any number of processes may do so at once."""

    def __init__(self, database_url: str, *, process: str, payload_days: int, attempt_days: int) -> None:
        self._line = SharedLine(database_url, f"{process}-partitions")
        self._kinds = (
            _Kind("payloads", "event_id", _first_event, timedelta(days=payload_days)),
            _Kind("attempts", "started_at", _first_instant, timedelta(days=attempt_days)),
        )
        self._told: set[str] = set()

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()

    async def maintain(self, now: datetime) -> None:
        """Make the partitions of yesterday to three days ahead, and drop what is older than is kept.

        Raises: StoreUnavailable, OutcomeUnknown.
        """
        async with self._line.connection(timeout_s=PATIENCE_S) as connection:
            try:
                await _wait_at_most(connection, _QUEUE_MS)
                await connection.execute(_SQL["lock_maintenance"], {"key": _LOCK})
            except psycopg.errors.LockNotAvailable:
                return
            await _wait_at_most(connection, LOCK_TIMEOUT_MS)
            try:
                await self._maintain_all(connection, now)
            finally:
                await connection.execute(_SQL["unlock_maintenance"], {"key": _LOCK})

    async def _maintain_all(self, connection: Connection, now: datetime) -> None:
        cursor = await connection.execute(_SQL["select_database_time"])
        [database_time] = await cursor.fetchone() or [now]
        # What is dropped is gone, so two clocks have to agree that it is time.
        earliest = min(now, database_time)
        for kind in self._kinds:
            try:
                await self._maintain(connection, kind, now, earliest - kind.keep)
            except psycopg.Error as error:
                self._tell_failure(kind, error)

    async def _maintain(self, connection: Connection, kind: _Kind, now: datetime, cutoff: datetime) -> None:
        names = await _partitions(connection, kind)
        today = now.astimezone(UTC).date()
        wanted = [today + step * _DAY for step in range(-1, DAYS_AHEAD + 1)]
        missing = [day for day in wanted if kind.partition(day) not in names]
        made = [kind.partition(day) for day in missing if await self._make(connection, kind, day, today)]
        if made:
            _log.info("partitions made", extra={"partitions": made})
        for name in sorted(names):
            day = kind.day_of(name)
            if day is not None and _midnight(day + _DAY) <= cutoff:
                await self._drop(connection, kind, day)
        deleted = await _delete_expired(connection, kind, cutoff)
        if deleted:
            _log.info("expired rows deleted", extra={"table": kind.default, "rows": deleted})

    async def _make(self, connection: Connection, kind: _Kind, day: date, today: date) -> bool:
        """Make a day's partition; False when it is not to be made, or not by us."""
        cursor = await connection.execute(_SQL["select_default_size"], {"table": kind.default})
        [size] = await cursor.fetchone() or [0]
        large = size > LARGE_BYTES
        cursor = await connection.execute(_SQL[f"{kind.default}_holds"], kind.range(day))
        # A day that is in a large default partition already may be written to it at this moment.
        if await cursor.fetchone() != (False,) or (large and day <= today):
            self._tell_once(f"{kind.partition(day)} is left to the default partition, which has rows of it")
            return False
        try:
            if large:
                await _vouch(connection, kind, day)
            try:
                async with connection.transaction():
                    await connection.execute(_create(kind, day))
                    await connection.execute(_attach(kind, day))
            finally:
                if large:
                    await connection.execute(_take_back(kind))
        except psycopg.Error as error:
            if error.sqlstate in _OVERTAKEN:
                return False
            raise
        return True

    async def _drop(self, connection: Connection, kind: _Kind, day: date) -> None:
        cursor = await connection.execute(_SQL[f"{kind.table}_awaited"], kind.range(day))
        if await cursor.fetchone() != (False,):
            self._tell_once(f"{kind.partition(day)} is kept: some of it is still to be sent")
            return
        name = kind.partition(day)
        try:
            await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
        except psycopg.Error as error:
            if error.sqlstate not in _OVERTAKEN:
                raise
        else:
            _log.info("partition dropped", extra={"partition": name})

    def _tell_failure(self, kind: _Kind, error: psycopg.Error) -> None:
        """Log what may be tried again; raise what says that the database is away, or that we are wrong."""
        if error.sqlstate in _BUSY:
            _log.info("partitions are in use, trying again later", extra={"table": kind.table})
        elif error.sqlstate == _NOT_ALLOWED:
            self._tell_once(
                f"this role may not change {kind.table}: run `payaccept migrate` once a day as its owner"
            )
        else:
            raise error

    def _tell_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            _log.warning(message)


async def _wait_at_most(connection: Connection, lock_timeout_ms: int) -> None:
    await connection.execute(_SQL["set_lock_timeout"], {"lock_timeout": f"{lock_timeout_ms}ms"})


async def _partitions(connection: Connection, kind: _Kind) -> set[str]:
    """Return the names of a table's partitions, having cleared away what a killed process left behind."""
    cursor = await connection.execute(_SQL["select_partitions"], {"table": kind.table, "making": kind.making})
    rows = await cursor.fetchall()
    if any(constraint is not None for _, constraint in rows):
        await connection.execute(_take_back(kind))
    return {name for name, _ in rows}


def _create(kind: _Kind, day: date) -> sql.Composed:
    # Made apart and then attached: unlike CREATE … PARTITION OF, that keeps nobody from the table.
    return sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(
        sql.Identifier(kind.partition(day)), sql.Identifier(kind.table)
    )


def _attach(kind: _Kind, day: date) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({first}) TO ({end})").format(
        sql.Identifier(kind.table), sql.Identifier(kind.partition(day)), **_literals(kind, day)
    )


async def _vouch(connection: Connection, kind: _Kind, day: date) -> None:
    """Prove that a large default partition has nothing of a day while it goes on being written to.

    Without the proof, attaching the day's partition would read all of it with everybody locked out.
    """
    column = sql.Identifier(kind.column)
    names = {"default": sql.Identifier(kind.default), "making": sql.Identifier(kind.making), "column": column}
    await connection.execute(
        sql.SQL(
            "ALTER TABLE {default} ADD CONSTRAINT {making}"
            " CHECK ({column} < {first} OR {column} >= {end}) NOT VALID"
        ).format(**names, **_literals(kind, day))
    )
    try:
        await connection.execute(
            sql.SQL("ALTER TABLE {default} VALIDATE CONSTRAINT {making}").format(**names)
        )
    except psycopg.Error:
        await connection.execute(_take_back(kind))
        raise


def _take_back(kind: _Kind) -> sql.Composed:
    return sql.SQL("ALTER TABLE {} DROP CONSTRAINT IF EXISTS {}").format(
        sql.Identifier(kind.default), sql.Identifier(kind.making)
    )


def _literals(kind: _Kind, day: date) -> dict[str, sql.Literal]:
    return {name: sql.Literal(value) for name, value in kind.range(day).items()}


async def _delete_expired(connection: Connection, kind: _Kind, cutoff: datetime) -> int:
    """Delete from the default partition what is too old, a few hundred events at a time."""
    event_end = identifiers.least(identifiers.EVENT, cutoff)
    bounds = {
        "event_end": event_end,
        "end": event_end if kind.table == "payloads" else cutoff.isoformat(),
    }
    deleted = 0
    while deleted < _EXPIRED_AT_MOST:
        cursor = await connection.execute(
            _SQL[f"select_expired_{kind.table}"], bounds | {"limit": _EXPIRED_AT_ONCE}
        )
        expired: Sequence[tuple[int, str]] = await cursor.fetchall()
        if not expired:
            break
        cursor = await connection.execute(
            _SQL[f"delete_{kind.table}"],
            bounds | by_bucket([b for b, _ in expired]) | {"event_id": Texts([e for _, e in expired])},
        )
        deleted += cursor.rowcount
    return deleted
