"""Deliveries in PostgreSQL: found lane by lane, leased in batches, their outcomes written in group commits."""

import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from msgspec import Struct
from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Blobs, Integers, Texts, Timestamps, Uuids, by_bucket
from payaccept.adapters.postgres.connections import Line, SharedLine
from payaccept.adapters.postgres.group_commit import GroupCommit, Routing, one_lane
from payaccept.adapters.postgres.numbering import number_events
from payaccept.domain.delivery import (
    Acknowledged,
    Again,
    Answered,
    Attempt,
    Dead,
    Decision,
    Delivery,
    DeliveryState,
    kind_of,
    reason_of,
)
from payaccept.domain.lanes import Ask, FailingLane

GATHER_S: Final = 0.004
"""How long an outcome waits for others: a batch of one costs the worker half as much as one of sixty."""
MOST_FAILING_LANES: Final = 10_000
MAX_REASON: Final = 200
MAX_ANSWER_BYTES: Final = 4096
COUNTED_KEPT: Final = 10_000

_SQL = statements.load("deliveries.sql")
_log = logging.getLogger(__name__)

Connection = AsyncConnection[Any]


class _Outcome(Struct, frozen=True, kw_only=True):
    attempt: Attempt
    decision: Decision
    final_at: datetime | None

    @property
    def again(self) -> Again | None:
        """When and how it goes out again."""
        return self.decision if isinstance(self.decision, Again) else None


class PostgresDeliveries:
    """The store of deliveries: the port DeliveryStore."""

    def __init__(self, database_url: str, *, routing: Routing = one_lane) -> None:
        self._claims = SharedLine(database_url, "worker-claim", hot=True)
        self._walks = SharedLine(database_url, "worker-walk", hot=True)
        self._rest = SharedLine(database_url, "worker-deliveries", hot=True)
        self._outcomes = GroupCommit[_Outcome, bool](
            _record,
            [Line(database_url, "worker-outcome")],
            bucket_of=lambda outcome: outcome.attempt.delivery.bucket,
            routing=routing,
            gather_s=GATHER_S,
        )
        self._counted: set[str] = set()  # merchants whose events have been numbered: they have a counter
        self._told = False

    def start(self) -> None:
        """Start the group commit in the running loop."""
        self._outcomes.start()

    async def close(self) -> None:
        """Close all connections."""
        await self._outcomes.close()
        await self._claims.close()
        await self._walks.close()
        await self._rest.close()

    async def list_due_lanes(self, after: str, now: datetime, since: datetime, limit: int) -> list[str]:
        """Return the lanes behind `after`, in order, in which something fell due between `since` and `now`."""
        async with self._walks.connection() as connection:
            cursor = await connection.execute(
                _SQL["select_due_lanes"],
                {"after": after, "since": since, "now": now, "limit": limit},
                binary=True,
            )
            return [lane for (lane,) in await cursor.fetchall()]

    async def claim_due_deliveries(
        self,
        asks: Sequence[Ask],
        *,
        now: datetime,
        lease: timedelta,
        in_hand: Sequence[str],
        at: datetime,
    ) -> list[Delivery]:
        """Lease what is due in some lanes, counting the attempt."""
        times = {"now": now, "latest": now + 2 * lease}
        claim_id = uuid4()
        async with self._claims.connection() as connection:
            cursor = await connection.execute(
                _SQL["select_due_deliveries"],
                {
                    "lane": Texts([ask.lane for ask in asks]),
                    "room": Integers([ask.room for ask in asks]),
                    "since": Timestamps([ask.since for ask in asks]),
                    "in_hand": Texts(in_hand),
                    **times,
                },
                binary=True,
            )
            rows = await cursor.fetchall()
            if not rows:
                return []
            claim = {"claim_id": claim_id, "lease_until": now + lease, "at": at, **times}
            leased, bodies, sequences = await _lease(connection, rows, claim, self._counted)
        if len(self._counted) > COUNTED_KEPT:
            self._counted.clear()
        self._counted.update(row[2] for row in rows if row[1] in sequences)
        return [
            _delivery(row, bodies[row[1]], sequences.get(row[1]) or row[9], claim_id)
            for row in rows
            if row[1] in leased and row[1] in bodies
        ]

    async def record_outcome(self, attempt: Attempt, decision: Decision, now: datetime) -> bool:
        """Keep an attempt, and write what became of it; False when the lease was lost meanwhile."""
        again = isinstance(decision, Again)
        return await self._outcomes.submit(
            _Outcome(attempt=attempt, decision=decision, final_at=None if again else now)
        )

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """End leases as if they had not been taken, where they are still ours."""
        deliveries = sorted(deliveries, key=lambda delivery: (delivery.bucket, delivery.event_id))
        async with self._rest.connection() as connection:
            await connection.execute(
                _SQL["update_deliveries_given_back"],
                {
                    **_keys([(d.bucket, d.event_id) for d in deliveries]),
                    "claim_id": Uuids([d.claim_id for d in deliveries]),
                },
            )

    async def pull_in(self, now: datetime, latest: datetime) -> int:
        """Make due now what would be due after `latest`; returns how many there were."""
        async with self._rest.connection() as connection:
            cursor = await connection.execute(
                _SQL["update_deliveries_out_of_reach"], {"now": now, "latest": latest}
            )
            return cursor.rowcount

    async def list_failing_lanes(self) -> list[FailingLane]:
        """Return the destinations that are failing, those that failed last first."""
        async with self._rest.connection() as connection:
            cursor = await connection.execute(
                _SQL["select_failing_lanes"], {"limit": MOST_FAILING_LANES}, binary=True
            )
            return [
                FailingLane(**dict(zip(FailingLane.__struct_fields__, row, strict=True)))
                for row in await cursor.fetchall()
            ]

    async def record_lanes(self, failing: Sequence[FailingLane], well: Sequence[str], now: datetime) -> None:
        """Keep which destinations are failing, and forget those that answer again."""
        async with self._rest.connection() as connection:
            if failing:
                await connection.execute(
                    _SQL["insert_failing_lanes"],
                    {
                        "lane": Texts([f.lane for f in failing]),
                        "client_id": Texts([f.client_id for f in failing]),
                        "failures": Integers([f.failures for f in failing]),
                        "failing_since": Timestamps([f.failing_since for f in failing]),
                        "opened_at": Timestamps([f.opened_at for f in failing]),
                        "last_reason": Texts([f.last_reason[:MAX_REASON] for f in failing]),
                        "at": now,
                    },
                )
            if well:
                await self._forget(connection, "delete_failing_lanes", {"lane": Texts(well)})

    async def delete_failing_lanes(self, before: datetime) -> None:
        """Forget the destinations of which nothing has been kept since."""
        async with self._rest.connection() as connection:
            await self._forget(connection, "delete_failing_lanes_of_old", {"before": before})

    async def _forget(self, connection: Connection, name: str, values: dict[str, Any]) -> None:
        try:
            await connection.execute(_SQL[name], values)
        except psycopg.errors.InsufficientPrivilege:
            if not self._told:
                _log.warning(
                    "this role may not forget failing destinations: GRANT DELETE ON failing_lanes to it"
                )
            self._told = True


async def _lease(
    connection: Connection, rows: Sequence[tuple[Any, ...]], claim: dict[str, Any], counted: AbstractSet[str]
) -> tuple[set[str], dict[str, bytes], dict[str, int]]:
    """Lease what was found, number what has no number yet, and read what is to be sent."""
    rows = sorted(rows, key=lambda row: (row[0], row[1]))  # whoever locks several does so in this order
    keys = _keys([row[:2] for row in rows])
    async with connection.pipeline(), connection.transaction():
        updated = await connection.execute(
            _SQL["update_deliveries_leased"],
            {**keys, "attempts": Integers([row[5] for row in rows]), **claim},
            binary=True,
        )
        payloads = await connection.execute(_SQL["select_payloads"], keys, binary=True)
        leased = {event_id for (event_id,) in await updated.fetchall()}
        bodies: dict[str, bytes] = dict(await payloads.fetchall())
        unnumbered = [(row[0], row[1], row[2]) for row in rows if row[9] is None and row[1] in leased]
        sequences = await number_events(connection, unnumbered, counted) if unnumbered else {}
        gone = [row[:2] for row in rows if row[1] in leased and row[1] not in bodies]
        if gone:
            await connection.execute(
                _SQL["update_deliveries_without_payload"],
                {**_keys(gone), "claim_id": claim["claim_id"], "at": claim["at"]},
            )
    return leased, bodies, sequences


def _keys(keys: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {**by_bucket([key[0] for key in keys]), "event_id": Texts([key[1] for key in keys])}


def _delivery(row: tuple[Any, ...], body: bytes, sequence: int, claim_id: UUID) -> Delivery:
    bucket, event_id, client_id, url, lane, attempts, attempts_before, faults, created_at, *rest = row
    _, payment_id, due_at = rest
    return Delivery(
        bucket=bucket,
        event_id=event_id,
        client_id=client_id,
        url=url,
        lane=lane,
        body=body,
        attempt=attempts + 1,
        step=attempts + 1 - attempts_before,
        sequence=sequence,
        faults=tuple(faults),
        claim_id=claim_id,
        created_at=created_at,
        payment_id=payment_id,
        due_at=due_at,
    )


_STATES: Final[dict[type, DeliveryState]] = {
    Acknowledged: DeliveryState.ACKNOWLEDGED,
    Again: DeliveryState.PENDING,
    Dead: DeliveryState.DEAD,
}


async def _record(connection: Connection, outcomes: list[_Outcome]) -> list[bool]:
    written = await _write(connection, sorted(outcomes, key=_key))
    return [outcome.attempt.delivery.event_id in written for outcome in outcomes]


def _key(outcome: _Outcome) -> tuple[int, str]:
    return outcome.attempt.delivery.bucket, outcome.attempt.delivery.event_id


async def _write(connection: Connection, outcomes: Sequence[_Outcome]) -> set[str]:
    """Write a batch, in order. Returns: the events whose delivery was still ours."""
    attempts = [o.attempt for o in outcomes]
    deliveries = [a.delivery for a in attempts]
    answers = [a.exchange.outcome for a in attempts]
    timings = [a.exchange.timing for a in attempts]
    keys = _keys([(d.bucket, d.event_id) for d in deliveries])
    status = Integers([a.status if isinstance(a, Answered) else None for a in answers])
    reason = Texts([reason_of(a)[:MAX_REASON] for a in answers])
    async with connection.pipeline(), connection.transaction():
        updated = await connection.execute(
            _SQL["update_deliveries_outcome"],
            {
                **keys,
                "claim_id": Uuids([d.claim_id for d in deliveries]),
                "state": Texts([_STATES[type(o.decision)] for o in outcomes]),
                "next_at": Timestamps([o.again.at if o.again else None for o in outcomes]),
                "final_at": Timestamps([o.final_at for o in outcomes]),
                "last_status": status,
                "last_reason": reason,
                "faults": Texts([",".join(o.again.faults) if o.again else "" for o in outcomes]),
            },
            binary=True,
        )
        await connection.execute(
            _SQL["insert_attempts"],
            {
                **keys,
                "attempt": Integers([d.attempt for d in deliveries]),
                "client_id": Texts([d.client_id for d in deliveries]),
                "url": Texts([d.url for d in deliveries]),
                "started_at": Timestamps([a.started_at for a in attempts]),
                "key_version": Integers([a.key_version for a in attempts]),
                "outcome": Texts([kind_of(a) for a in answers]),
                "status": status,
                "reason": reason,
                "resolve_us": Integers([t.resolve_us for t in timings]),
                "connect_us": Integers([t.connect_us for t in timings]),
                "tls_us": Integers([t.tls_us for t in timings]),
                "first_byte_us": Integers([t.first_byte_us for t in timings]),
                "total_us": Integers([t.total_us for t in timings]),
                "answer": Blobs([a.exchange.answer[:MAX_ANSWER_BYTES] for a in attempts]),
            },
        )
    return {event_id for (event_id,) in await updated.fetchall()}
