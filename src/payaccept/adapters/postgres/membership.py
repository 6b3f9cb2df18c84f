"""Which workers live, as the database sees it: each holds an advisory lock on a connection of its own.

A process that was killed loses its session at once. One that hangs, or whose machine is lost, has not spoken on
that connection for a while: so each asks who lives every half a second.
"""

import random
from typing import Any, Final

from psycopg import AsyncConnection

from payaccept.adapters.postgres.connections import SharedLine

_LOCKS: Final = 0x7061_776B  # "pawk": our lock numbers begin with it
SILENT_S: Final = 10.0
"""After so long without a word a worker does not count as living."""


class PostgresMembership:
    """One worker's place among the others: the port Workers."""

    def __init__(self, database_url: str, *, silent_s: float = SILENT_S) -> None:
        self._line = SharedLine(database_url, "worker-membership")
        self._silent_s = silent_s
        self._locked_on: AsyncConnection[Any] | None = None
        self._me = 0

    async def list_workers(self) -> tuple[int, frozenset[int]]:
        """Return this worker's number, and those of all that live.

        Raises: StoreUnavailable, OutcomeUnknown.
        """
        async with self._line.connection() as connection:
            while self._locked_on is not connection:
                self._me = random.getrandbits(31)
                cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCKS, self._me])
                if await cursor.fetchone() == (True,):
                    self._locked_on = connection
            # Other sessions' times are not shown to a role that is neither theirs nor a monitor's.
            cursor = await connection.execute(
                "SELECT l.objid::bigint FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid"
                " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = %s::oid"
                " AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())"
                " AND coalesce(a.state_change > clock_timestamp() - make_interval(secs => %s), true)",
                [_LOCKS, self._silent_s],
            )
            return self._me, frozenset(number for (number,) in await cursor.fetchall())

    async def close(self) -> None:
        """Leave: others take over at once."""
        await self._line.close()
