"""Deliveries in PostgreSQL: leased in batches, their outcomes written in group commits."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from msgspec import Struct
from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Integers, Texts, Timestamps, Uuids, by_bucket
from payaccept.adapters.postgres.connections import Line, SharedLine
from payaccept.adapters.postgres.group_commit import GroupCommit, Routing, one_lane
from payaccept.domain.delivery import (
    Acknowledged,
    Again,
    Claim,
    Dead,
    Decision,
    Delivery,
    DeliveryState,
    Lanes,
)

_SQL = statements.load("deliveries.sql")


class _Outcome(Struct, frozen=True, kw_only=True):
    bucket: int
    event_id: str
    claim_id: UUID
    state: DeliveryState
    next_at: datetime | None
    final_at: datetime | None
    status: int | None
    reason: str
    faults: tuple[str, ...]


class PostgresDeliveries:
    """The store of deliveries: the port DeliveryStore."""

    def __init__(self, database_url: str, *, routing: Routing = one_lane) -> None:
        self._claims = SharedLine(database_url, "worker-claim", hot=True)
        self._outcomes = GroupCommit[_Outcome, bool](
            _record,
            [Line(database_url, "worker-outcome")],
            bucket_of=lambda outcome: outcome.bucket,
            routing=routing,
        )

    def start(self) -> None:
        """Start the group commit in the running loop."""
        self._outcomes.start()

    async def close(self) -> None:
        """Close all connections."""
        await self._outcomes.close()
        await self._claims.close()

    async def claim_due_deliveries(
        self,
        now: datetime,
        lease_until: datetime,
        limit: int,
        lanes: Lanes,
        buckets: Sequence[int] = range(256),
    ) -> Claim:
        """Lease deliveries whose time has come and whose lane has room, counting the attempt."""
        claim_id = uuid4()
        async with self._claims.connection() as connection, connection.transaction():
            cursor = await connection.execute(
                _SQL["select_due_deliveries"],
                {"bucket": Integers(buckets), "now": now, "limit": limit, "full_lanes": Texts(lanes.full())},
                binary=True,
            )
            found = await cursor.fetchall()
            rows = [
                row for row, fits in zip(found, lanes.fitting([row[4] for row in found]), strict=True) if fits
            ]
            if rows:
                await connection.execute(
                    _SQL["update_deliveries_leased"],
                    {
                        **by_bucket([row[0] for row in rows]),
                        "event_id": Texts([row[1] for row in rows]),
                        "claim_id": claim_id,
                        "lease_until": lease_until,
                        "now": now,
                    },
                )
        return Claim([_delivery(row, claim_id) for row in rows], more=len(found) == limit)

    async def record_outcome(
        self, delivery: Delivery, decision: Decision, *, status: int | None, reason: str, now: datetime
    ) -> bool:
        """Write what became of an attempt; False when the lease was lost meanwhile."""
        again = decision if isinstance(decision, Again) else None
        return await self._outcomes.submit(
            _Outcome(
                bucket=delivery.bucket,
                event_id=delivery.event_id,
                claim_id=delivery.claim_id,
                state=_STATES[type(decision)],
                next_at=again.at if again else None,
                final_at=None if again else now,
                status=status,
                reason=reason[:200],
                faults=again.faults if again else (),
            )
        )


def _delivery(row: tuple[Any, ...], claim_id: UUID) -> Delivery:
    bucket, event_id, client_id, url, lane, attempts, faults, body = row
    return Delivery(
        bucket=bucket,
        event_id=event_id,
        client_id=client_id,
        url=url,
        lane=lane,
        body=body,
        attempt=attempts + 1,
        faults=tuple(faults),
        claim_id=claim_id,
    )


_STATES: Final[dict[type, DeliveryState]] = {
    Acknowledged: DeliveryState.ACKNOWLEDGED,
    Again: DeliveryState.DUE,
    Dead: DeliveryState.DEAD,
}


async def _record(connection: AsyncConnection[Any], outcomes: list[_Outcome]) -> list[bool]:
    cursor = await connection.execute(
        _SQL["update_deliveries_outcome"],
        {
            **by_bucket([o.bucket for o in outcomes]),
            "event_id": Texts([o.event_id for o in outcomes]),
            "claim_id": Uuids([o.claim_id for o in outcomes]),
            "state": Texts([o.state for o in outcomes]),
            "next_at": Timestamps([o.next_at for o in outcomes]),
            "final_at": Timestamps([o.final_at for o in outcomes]),
            "last_status": Integers([o.status for o in outcomes]),
            "last_reason": Texts([o.reason for o in outcomes]),
            "faults": Texts([",".join(o.faults) for o in outcomes]),
        },
        binary=True,
    )
    written = {row[0] for row in await cursor.fetchall()}
    return [outcome.event_id in written for outcome in outcomes]
