"""Numbers of events: 1, 2, 3 for each merchant without a gap, given after the payment has committed.

A payment's own transaction never touches the merchant's counter, so payments of one merchant never queue
behind each other. Who numbers takes the counter; number and counter are written in one transaction, so one
that is taken back leaves no gap. The same transaction adds the payments to the totals of their days: an event
is numbered once, so its payment is counted once.
"""

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Bigints, Texts, by_bucket
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.domain import identifiers

BATCH: Final = 1000
BATCHES: Final = 20
RECENT: Final = timedelta(seconds=120)
SWEEP_EVERY_S: Final = 5.0

_SQL: Final = statements.load("numbering.sql")

Connection = AsyncConnection[Any]


async def number_events(
    connection: Connection,
    events: Sequence[tuple[int, str, str]],
    counted: AbstractSet[str] = frozenset(),
) -> dict[str, int]:
    """Number events, given by bucket, id and merchant, in the caller's transaction.

    Each merchant's in the order of their ids. One that has got its number meanwhile keeps it. `counted` are
    merchants that are known to have a counter: it is never taken away.

    Returns: the numbers by event id.
    """
    if not events:
        return {}
    clients = {client_id for _, _, client_id in events}
    return await _number(connection, events, "select_counters", uncounted=clients - counted)


class PostgresNumbering:
    """Numbers the events that nobody else has numbered: those that are not sent anywhere, above all."""

    def __init__(self, database_url: str, *, process: str = "worker") -> None:
        self._line = SharedLine(database_url, f"{process}-number", hot=True)
        self._swept_at = float("-inf")

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()

    async def number_waiting(self, now: datetime) -> int:
        """Number the events that wait for their number, the oldest first, some thousands at the most.

        Only those of the last two minutes, and every few seconds all there are: while somebody holds a
        transaction open, the index keeps an entry of each event numbered since, and they are not to be read
        through again and again. Merchants whose counter another worker has are left to it.

        Returns: how many were numbered. Raises: StoreUnavailable, OutcomeUnknown.
        """
        started = asyncio.get_running_loop().time()
        sweep = started - self._swept_at >= SWEEP_EVERY_S
        after = "" if sweep else identifiers.least(identifiers.EVENT, now - RECENT)
        numbered = 0
        for _ in range(BATCHES):
            async with self._line.connection() as connection, connection.transaction():
                cursor = await connection.execute(
                    _SQL["select_waiting_events"], {"after": after, "limit": BATCH}, binary=True
                )
                waiting = await cursor.fetchall()
                numbers = await self._number(connection, waiting)
            numbered += len(numbers)
            if sweep and len(waiting) < BATCH:
                self._swept_at = started
            if not numbers or len(waiting) < BATCH:
                break
        return numbered

    async def _number(
        self, connection: Connection, waiting: Sequence[tuple[int, str, str]]
    ) -> dict[str, int]:
        if not waiting:
            return {}
        clients = {client_id for _, _, client_id in waiting}
        cursor = await connection.execute(
            _SQL["select_counted_clients"], {"client_id": Texts(clients)}, binary=True
        )
        uncounted = clients - {client_id for (client_id,) in await cursor.fetchall()}
        return await _number(connection, waiting, "select_counters_at_hand", uncounted=uncounted)


async def _number(
    connection: Connection,
    events: Sequence[tuple[int, str, str]],
    select_counters: str,
    *,
    uncounted: AbstractSet[str],
) -> dict[str, int]:
    """Number events; `uncounted` are merchants that may have no counter yet."""
    clients = {"client_id": Texts(sorted({client_id for _, _, client_id in events}))}
    keys = {**by_bucket([bucket for bucket, _, _ in events]), "event_id": Texts([e for _, e, _ in events])}
    async with connection.pipeline():
        if uncounted:
            await connection.execute(_SQL["insert_counters"], {"client_id": Texts(sorted(uncounted))})
        counters = await connection.execute(_SQL[select_counters], clients, binary=True)
        sequences = await connection.execute(_SQL["select_sequences"], keys, binary=True)
        last: dict[str, int] = dict(await counters.fetchall())
        numbers: dict[str, int | None] = dict(await sequences.fetchall())
    given: dict[str, int] = {event_id: number for event_id, number in numbers.items() if number is not None}
    fresh: list[tuple[int, str, int]] = []
    taken = dict(last)
    for bucket, event_id, client_id in sorted(events, key=lambda event: event[1]):
        if event_id in numbers and event_id not in given and client_id in taken:
            taken[client_id] += 1
            given[event_id] = taken[client_id]
            fresh.append((bucket, event_id, taken[client_id]))
    if fresh:
        changed = [client_id for client_id, number in taken.items() if number != last[client_id]]
        numbered = {
            **by_bucket([bucket for bucket, _, _ in fresh]),
            "event_id": Texts([event_id for _, event_id, _ in fresh]),
        }
        async with connection.pipeline():
            await connection.execute(
                _SQL["update_event_sequences"],
                {**numbered, "sequence": Bigints([number for _, _, number in fresh])},
            )
            await connection.execute(
                _SQL["update_counters"],
                {
                    "client_id": Texts(changed),
                    "last_sequence": Bigints([taken[client_id] for client_id in changed]),
                },
            )
            await connection.execute(_SQL["add_day_totals"], numbered)
    return given
