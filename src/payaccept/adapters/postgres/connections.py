"""Connections that come back by themselves, and what a database error means for the outcome."""

import asyncio
import contextlib
import select
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from payaccept.adapters.postgres import columns
from payaccept.adapters.postgres.tallies import CONNECTIONS
from payaccept.domain.errors import OutcomeUnknown, Refusal, StoreUnavailable

CONNECT_TIMEOUT_S: Final = 2
STATEMENT_TIMEOUT_S: Final = 5.0
_QUIET_AFTER_FAILURE_S: Final = 0.2

# Hot statements join small arrays to large tables by index; no other way is ever right, whatever statistics say.
_HOT_OPTIONS: Final = (
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off"
    f" -c enable_material=off -c statement_timeout={int(STATEMENT_TIMEOUT_S * 1000)}"
)
# A plan that is kept was made for the table as it was: while that was small, for any order of the join. So a
# statement that reads a growing table is planned each time, for the size it has now; a plain insert is not.
_PLAN_ONCE: Final = " -c plan_cache_mode=force_generic_plan"
_PLAN_EACH: Final = " -c plan_cache_mode=force_custom_plan"


def conninfo(database_url: str, *, application: str, options: str = "") -> str:
    """Return the connection string of one of our connections."""
    return make_conninfo(
        database_url,
        application_name=f"payaccept-{application}",
        connect_timeout=CONNECT_TIMEOUT_S,
        options=options,
    )


def is_data_error(error: psycopg.Error) -> bool:
    """Tell whether the statement was refused for what it says: certainly nothing was done."""
    state = error.sqlstate or ""
    return state[:2] in {"22", "23"}


def meaning_of(error: Exception, connection: AsyncConnection[Any]) -> Refusal | None:
    """Return the refusal a failed statement amounts to, or None when it is a bug of ours.

    Only SQLSTATE decides, and whether the connection is still there. A broken connection, a shutdown,
    a deadlock or a timeout leaves it open whether the statement took effect.
    """
    if isinstance(error, TimeoutError):
        return OutcomeUnknown("the database did not answer in time")
    if not isinstance(error, psycopg.Error):
        return None
    state = error.sqlstate
    if state is None:
        # Without an answer of the server's: psycopg says so by several kinds of error.
        broke = connection.closed or isinstance(error, psycopg.OperationalError)
        return OutcomeUnknown("the connection to the database broke") if broke else None
    if state[:2] in {"08", "40", "53", "55", "57", "58"} or state == "XX000":
        return OutcomeUnknown(f"the database gave up ({state})")
    if state == "25006":
        return StoreUnavailable("the database is read-only")
    return None


class Line:
    """One connection, opened when it is first needed and opened again after it broke.

    Not to be shared by two tasks at a time. While the database is away, callers are refused at once
    for a moment after each failed attempt, so that nobody waits in a queue for a time-out.
    """

    def __init__(
        self, database_url: str, name: str, *, hot: bool = True, plan_once: bool = False, durable: bool = True
    ) -> None:
        options = _HOT_OPTIONS + (_PLAN_ONCE if plan_once else _PLAN_EACH) if hot else ""
        if not durable:  # for what may be lost in a crash: never for money
            options += " -c synchronous_commit=off"
        self.name = name
        self._conninfo = conninfo(database_url, application=name, options=options)
        self._connection: AsyncConnection[TupleRow] | None = None
        self._failed_at = float("-inf")

    async def get(self) -> AsyncConnection[TupleRow]:
        """Return a live connection.

        Raises: StoreUnavailable.
        """
        connection = self._connection
        if connection is not None and not connection.closed and not _is_spoken_to(connection):
            return connection
        await self.drop()
        if time.monotonic() - self._failed_at < _QUIET_AFTER_FAILURE_S:
            raise StoreUnavailable("the database is away")
        try:
            connection = await AsyncConnection.connect(self._conninfo, autocommit=True, prepare_threshold=0)
        except psycopg.Error as error:
            self._failed_at = time.monotonic()
            CONNECTIONS.failed += 1
            raise StoreUnavailable("the database is away") from error
        columns.register(connection)
        self._connection = connection
        CONNECTIONS.opened += 1
        CONNECTIONS.open += 1
        return connection

    async def drop(self) -> None:
        """Close the connection; the next caller gets a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            CONNECTIONS.open -= 1
            with contextlib.suppress(Exception):
                await connection.close()


def _is_spoken_to(connection: AsyncConnection[TupleRow]) -> bool:
    """Tell whether an idle connection has something to read: the server's farewell, or the end.

    Found out before the next statement, this costs a new connection; after it, an outcome nobody knows.
    """
    try:
        waiting = select.poll()
        waiting.register(connection.fileno(), select.POLLIN)
        return bool(waiting.poll(0))
    except (psycopg.Error, OSError, ValueError):  # it has lost its socket already
        return True


class SharedLine:
    """A line for occasional use by several tasks, one after the other."""

    def __init__(self, database_url: str, name: str, *, hot: bool = False, durable: bool = True) -> None:
        self._line = Line(database_url, name, hot=hot, durable=durable)
        self._free = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def connection(
        self, *, timeout_s: float = STATEMENT_TIMEOUT_S
    ) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend the connection; what the database's failures mean is told as a refusal.

        Raises: StoreUnavailable, OutcomeUnknown.
        """
        async with self._free:
            connection = await self._line.get()
            try:
                async with asyncio.timeout(timeout_s):
                    yield connection
            except (psycopg.Error, TimeoutError) as error:
                refusal = meaning_of(error, connection)
                if refusal is None:
                    raise
                await self._line.drop()
                raise refusal from error

    async def close(self) -> None:
        """Close the connection."""
        await self._line.drop()
