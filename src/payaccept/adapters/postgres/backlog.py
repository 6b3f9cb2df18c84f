"""What is left to do, counted for the figures. Never in the way of those who do it."""

from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.connections import SharedLine

LATE: Final = timedelta(seconds=60)
"""From when on what is due is late."""

_SQL: Final = statements.load("backlog.sql")


class Backlog(Struct, frozen=True, kw_only=True):
    """How much there is at a moment, and since when the oldest is due; None where nothing is.

    `due` includes what is leased. A lane is open when its circuit breaker is; late, when it is not and yet
    something in it is.
    """

    due: int
    leased: int
    waiting: int
    dead: int
    oldest_due_at: datetime | None
    oldest_due_in_open_lanes_at: datetime | None
    due_lanes: int
    late_lanes: int
    failing_lanes: int
    open_lanes: int
    unnumbered_events: int
    oldest_payment_at: datetime | None


class PostgresBacklog:
    """Reads the backlog, on a connection of its own."""

    def __init__(self, database_url: str, *, process: str) -> None:
        # "hot": along indexes whatever the planner thinks, and given up after five seconds.
        self._line = SharedLine(database_url, f"{process}-backlog", hot=True)

    async def read(self, now: datetime) -> Backlog:
        """Count. Raises: StoreUnavailable, OutcomeUnknown."""
        async with self._line.connection() as connection:

            async def rows(name: str) -> list[tuple[Any, ...]]:
                cursor = await connection.execute(_SQL[name], {"now": now, "late": now - LATE})
                return await cursor.fetchall()

            by_breaker = {is_open: rest for is_open, *rest in await rows("select_due")}
            nothing = [0, 0, 0, 0, None]
            closed, opened = by_breaker.get(False, nothing), by_breaker.get(True, nothing)
            [(waiting,)] = await rows("count_waiting")
            [(dead,)] = await rows("count_dead")
            [(unnumbered,)] = await rows("count_unnumbered")
            [(failing_lanes, open_lanes)] = await rows("count_failing_lanes")
            [(oldest_payment_at,)] = await rows("select_oldest_due_payment")
        return Backlog(
            due=closed[2] + opened[2],
            leased=closed[3] + opened[3],
            waiting=waiting,
            dead=dead,
            oldest_due_at=closed[4],
            oldest_due_in_open_lanes_at=opened[4],
            due_lanes=closed[0] + opened[0],
            late_lanes=closed[1],
            failing_lanes=failing_lanes,
            open_lanes=open_lanes,
            unnumbered_events=unnumbered,
            oldest_payment_at=oldest_payment_at,
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()
