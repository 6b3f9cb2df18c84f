"""The log of events in PostgreSQL: a merchant's events, their attempts, and what is sent again."""

import contextlib
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection

from payaccept.adapters.postgres import audit, statements
from payaccept.adapters.postgres.columns import Integers, Texts, by_bucket
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain import identifiers
from payaccept.domain.audit import Entry
from payaccept.domain.delivery import AttemptKind, DeliveryState, Timing
from payaccept.domain.event import (
    EVERY_STATUS,
    AttemptMade,
    EndpointTest,
    Event,
    EventDelivery,
    EventStatus,
    Redelivery,
    Resend,
    redeliver,
)
from payaccept.domain.lanes import FailingLane, WaitingLane

LONG_S: Final = 60.0
"""What reads through a merchant's whole log may take so long: nobody's payment waits for it."""
MOST_FAILING_LANES: Final = 1000

_SQL: Final = statements.load("events.sql")
_ONLY_DEAD: Final = frozenset({EventStatus.DEAD})

Connection = AsyncConnection[Any]
Key = tuple[int, str]


class PostgresEvents:
    """The ports EventStore and EventListStore, on at most so many connections."""

    def __init__(self, database_url: str, *, process: str, connections: int = 1) -> None:
        self._lines = LinePool(database_url, f"{process}-events", size=connections, hot=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._lines.close()

    @contextlib.asynccontextmanager
    async def _patient(self) -> AsyncIterator[Connection]:
        async with self._lines.connection(timeout_s=LONG_S) as connection:
            await connection.execute(_SQL["set_statement_timeout"], {"statement_timeout": f"{LONG_S:.0f}s"})
            yield connection

    async def list_events(
        self,
        client_id: str,
        buckets: Sequence[int],
        *,
        after: int | None,
        statuses: Collection[EventStatus],
        limit: int,
    ) -> list[Event]:
        """Return a merchant's events by number: the first after `after`, or the last ones."""
        what = "dead" if frozenset(statuses) == _ONLY_DEAD else "events"
        async with self._patient() as connection:
            cursor = await connection.execute(
                _SQL[f"select_{what}_{'latest' if after is None else 'after'}"],
                {
                    "client_id": client_id,
                    "buckets": Integers(buckets),
                    "after": after,
                    "statuses": Texts(statuses),
                    "limit": limit,
                },
                binary=True,
            )
            found = [_event(row) for row in await cursor.fetchall()]
        return found[::-1] if after is None else found

    async def last_sequence(self, client_id: str) -> int:
        """Return the last number that was given to an event of a merchant; 0 before the first."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(
                _SQL["select_last_sequence"], {"client_id": client_id}, binary=True
            )
            row = await cursor.fetchone()
        return 0 if row is None else int(row[0])

    async def count_unnumbered(self, client_id: str) -> int:
        """Return how many events of a merchant wait for their number, among the first of all that do."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_unnumbered"], {"client_id": client_id})
            return len(await cursor.fetchall())

    async def find_event(self, event_id: str) -> Event | None:
        """Return an event, whosever it is."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_event"], _key(event_id), binary=True)
            row = await cursor.fetchone()
        return None if row is None else _event(row)

    async def find_event_of_payment(self, payment_id: str) -> Event | None:
        """Return the event of a payment, whosever it is; None while the payment is not final."""
        values = {"bucket": identifiers.bucket_of(payment_id), "payment_id": payment_id}
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_event_of_payment"], values, binary=True)
            row = await cursor.fetchone()
        return None if row is None else _event(row)

    async def list_before(
        self,
        client_id: str,
        buckets: Sequence[int],
        *,
        before: int,
        floor: int,
        statuses: Collection[EventStatus],
        limit: int,
    ) -> list[Event]:
        """Return a merchant's events with numbers below `before` and above `floor`, the latest first."""
        values = {
            "client_id": client_id,
            "buckets": Integers(buckets),
            "before": before,
            "floor": floor,
            "statuses": Texts(statuses),
            "limit": limit,
        }
        return await self._list("select_events_before", values)

    async def list_dead_before(self, client_id: str, before_id: str, limit: int) -> list[Event]:
        """Return a merchant's events that were given up, older than one, the latest first."""
        values = {"client_id": client_id, "before_id": before_id, "limit": limit}
        return await self._list("select_dead_before", values)

    async def count_dead(self, client_id: str, limit: int) -> int:
        """Return how many events of a merchant were given up; `limit` when there are more."""
        async with self._lines.connection() as connection:
            values = {"client_id": client_id, "limit": limit}
            cursor = await connection.execute(_SQL["count_dead"], values, binary=True)
            [count] = await cursor.fetchone() or [0]
        return int(count)

    async def _list(self, statement: str, values: dict[str, Any]) -> list[Event]:
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL[statement], values, binary=True)
            return [_event(row) for row in await cursor.fetchall()]

    async def find_body(self, event_id: str) -> bytes | None:
        """Return the body of an event, byte for byte, while it is kept."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_payload"], _key(event_id), binary=True)
            row = await cursor.fetchone()
        return None if row is None else bytes(row[0])

    async def list_attempts(self, event_id: str, *, answers: bool) -> list[AttemptMade]:
        """Return the attempts at an event that are still kept, in order; `answers`: with what was answered."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(
                _SQL["select_attempts"], {**_key(event_id), "answers": answers}, binary=True
            )
            return [_attempt(row) for row in await cursor.fetchall()]

    async def list_ids_between(
        self,
        client_id: str,
        buckets: Sequence[int],
        after: str,
        end: str,
        statuses: Collection[EventStatus],
        limit: int,
    ) -> list[str]:
        """Return the ids of a merchant's events between two ids, both left out, the oldest first."""
        what = "dead_" if frozenset(statuses) == _ONLY_DEAD else ""
        between = _between(client_id, buckets, after, end, statuses)
        async with self._patient() as connection:
            cursor = await connection.execute(
                _SQL[f"select_{what}ids_between"], between | {"limit": limit}, binary=True
            )
            return [event_id for _, event_id in await cursor.fetchall()]

    async def count_between(
        self,
        client_id: str,
        buckets: Sequence[int],
        after: str,
        end: str,
        statuses: Collection[EventStatus],
    ) -> int:
        """Return how many events of a merchant there are between two ids, both left out."""
        what = "dead_" if frozenset(statuses) == _ONLY_DEAD else ""
        between = _between(client_id, buckets, after, end, statuses)
        async with self._patient() as connection:
            cursor = await connection.execute(_SQL[f"count_{what}between"], between, binary=True)
            [count] = await cursor.fetchone() or [0]
        return int(count)

    async def resend(
        self,
        event_ids: Sequence[str],
        webhook_url: str | None,
        now: datetime,
        statuses: Collection[EventStatus] = EVERY_STATUS,
        *,
        seen_attempts: int | None = None,
        entry: Entry | None = None,
    ) -> dict[str, Redelivery | None]:
        """Have events sent again at once, and tell of each what became of it.

        None for one that a worker was just writing: ask again. An event that does not exist is left out.
        A single event is waited for. With `seen_attempts` only what has had just so many attempts is sent;
        `entry` is written if anything is.
        """
        if not event_ids:
            return {}
        keys = [(identifiers.bucket_of(event_id), event_id) for event_id in sorted(event_ids)]
        columns = _columns(keys)
        async with self._lines.connection() as connection, connection.transaction():
            locked = await _lock(connection, keys)
            cursor = await connection.execute(
                _SQL["select_resendable"], {**columns, "first": keys[0][1], "last": keys[-1][1]}, binary=True
            )
            decided: dict[str, Redelivery | None] = {}
            again: list[tuple[Event, Resend]] = []
            for *members, notify_url, body_kept in await cursor.fetchall():
                event = _event(tuple(members))
                if event.delivery is not None and event.event_id not in locked:
                    decided[event.event_id] = None
                    continue
                decision = redeliver(
                    event,
                    notify_url=notify_url,
                    webhook_url=webhook_url,
                    body_kept=body_kept,
                    statuses=statuses,
                    seen_attempts=seen_attempts,
                    now=now,
                )
                decided[event.event_id] = decision
                if isinstance(decision, Resend):
                    again.append((event, decision))
            await _write(connection, again, now)
            await audit.record(connection, entry if again else None)
        return decided

    async def insert_test(self, test: EndpointTest, entry: Entry) -> None:
        """Store a test event with its delivery."""
        members = {name: getattr(test, name) for name in test.__struct_fields__}
        async with (
            self._lines.connection() as connection,
            connection.pipeline(),
            connection.transaction(),
        ):
            for statement in ("insert_test_event", "insert_test_payload", "insert_test_delivery"):
                await connection.execute(_SQL[statement], members)
            await audit.record(connection, entry)

    async def list_failing_lanes(self) -> list[FailingLane]:
        """Return the destinations that are failing, those with an open circuit breaker first."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(
                _SQL["select_failing_lanes"], {"limit": MOST_FAILING_LANES}, binary=True
            )
            return [_lane(row) for row in await cursor.fetchall()]

    async def list_failing_lanes_of(self, client_id: str, most_waiting: int) -> list[WaitingLane]:
        """Return a merchant's failing destinations with what waits for them, the longest failing first."""
        values = {"client_id": client_id, "most_waiting": most_waiting, "limit": MOST_FAILING_LANES}
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_failing_lanes_of_merchant"], values, binary=True)
            return [
                WaitingLane(lane=_lane(members), waiting=waiting, next_at=next_at)
                for *members, waiting, next_at in await cursor.fetchall()
            ]

    async def find_longest_failing_lane(self, client_id: str) -> FailingLane | None:
        """Return the destination of a merchant that has been failing the longest."""
        async with self._lines.connection() as connection:
            values = {"client_id": client_id}
            cursor = await connection.execute(_SQL["select_longest_failing_lane"], values, binary=True)
            row = await cursor.fetchone()
        return None if row is None else _lane(row)


async def _lock(connection: Connection, keys: Sequence[Key]) -> set[str]:
    if len(keys) == 1:
        cursor = await connection.execute(_SQL["lock_delivery"], _key(keys[0][1]))
    else:
        cursor = await connection.execute(_SQL["lock_deliveries"], _columns(keys))
    return {event_id for _, event_id in await cursor.fetchall()}


async def _write(connection: Connection, again: Sequence[tuple[Event, Resend]], now: datetime) -> None:
    for statement, some in (
        ("update_deliveries_again", [pair for pair in again if pair[0].delivery is not None]),
        ("insert_deliveries_again", [pair for pair in again if pair[0].delivery is None]),
    ):
        if some:
            await connection.execute(
                _SQL[statement],
                {
                    **_columns([(event.bucket, event.event_id) for event, _ in some]),
                    "client_id": Texts([event.client_id for event, _ in some]),
                    "url": Texts([resend.url for _, resend in some]),
                    "lane": Texts([resend.lane for _, resend in some]),
                    "now": now,
                },
            )


def _key(event_id: str) -> dict[str, Any]:
    return {"bucket": identifiers.bucket_of(event_id), "event_id": event_id}


def _columns(keys: Sequence[Key]) -> dict[str, Any]:
    return {**by_bucket([bucket for bucket, _ in keys]), "event_id": Texts([e for _, e in keys])}


def _between(
    client_id: str, buckets: Sequence[int], after: str, end: str, statuses: Collection[EventStatus]
) -> dict[str, Any]:
    return {
        "client_id": client_id,
        "buckets": Integers(buckets),
        "after": after,
        "end": end,
        "statuses": Texts(statuses),
    }


_EVENT_COLUMNS: Final = tuple(name for name in Event.__struct_fields__ if name != "delivery")
_DELIVERY_COLUMNS: Final = EventDelivery.__struct_fields__


def _event(row: tuple[Any, ...]) -> Event:
    members = dict(zip(_EVENT_COLUMNS, row[: len(_EVENT_COLUMNS)], strict=True))
    told = dict(zip(_DELIVERY_COLUMNS, row[len(_EVENT_COLUMNS) :], strict=True))
    if told["state"] is None:
        return Event(**members, delivery=None)
    told["state"] = DeliveryState(told["state"])
    return Event(**members, delivery=EventDelivery(**told))


def _lane(row: Sequence[Any]) -> FailingLane:
    return FailingLane(**dict(zip(FailingLane.__struct_fields__, row, strict=True)))


def _attempt(row: tuple[Any, ...]) -> AttemptMade:
    attempt, url, started_at, key_version, outcome, status, reason, *timing, answer_bytes, answer = row
    return AttemptMade(
        attempt=attempt,
        url=url,
        started_at=started_at,
        key_version=key_version,
        outcome=AttemptKind(outcome),
        status=status,
        reason=reason,
        timing=Timing(**dict(zip(Timing.__struct_fields__, timing, strict=True))),
        answer_bytes=answer_bytes,
        answer=answer,
    )
