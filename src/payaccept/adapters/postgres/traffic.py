"""What the API records of requests, in PostgreSQL: written by each API process, without waiting for the disk."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Bigints, Blobs, Integers, Texts, Timestamps
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.domain.traffic import KeyMinute, RefusalMinute, RefusedRequest

_SQL: Final = statements.load("traffic.sql")
_TIDYING_TIMEOUT_S: Final = 60.0


class PostgresTraffic:
    """The port TrafficStore."""

    def __init__(self, database_url: str, *, process: str) -> None:
        # A crash of the database may lose a second of this: it is for looking at, not for money.
        self._line = SharedLine(database_url, f"{process}-traffic", hot=True, durable=False)
        self._tidying = SharedLine(database_url, f"{process}-traffic-tidying", durable=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._line.close()
        await self._tidying.close()

    async def record(
        self,
        uses: Sequence[KeyMinute],
        refusals: Sequence[RefusalMinute],
        refused: Sequence[RefusedRequest],
    ) -> None:
        """Add to what is recorded; what names no merchant is left out. Raises: StoreUnavailable, OutcomeUnknown."""
        async with self._line.connection() as connection, connection.pipeline(), connection.transaction():
            if uses:
                columns = _use_columns(uses)
                await connection.execute(_SQL["add_key_minutes"], columns)
                await connection.execute(_SQL["add_key_uses"], columns)
            if refusals:
                await connection.execute(_SQL["add_refusal_minutes"], _refusal_columns(refusals))
            if refused:
                await connection.execute(_SQL["insert_refused_requests"], _refused_columns(refused))

    async def trim(self, client_ids: Sequence[str], keep: int) -> None:
        """Delete all but the newest refused requests of some merchants. Raises: StoreUnavailable, OutcomeUnknown."""
        async with self._line.connection() as connection:
            await connection.execute(
                _SQL["trim_refused_requests"], {"client_id": Texts(client_ids), "keep": keep}
            )

    async def expire(self, before: datetime, minutes_before: datetime) -> None:
        """Delete what is older, and minutes of keys that are. Raises: StoreUnavailable, OutcomeUnknown."""
        async with self._tidying.connection(timeout_s=_TIDYING_TIMEOUT_S) as connection:
            await connection.execute(_SQL["expire_refused_requests"], {"before": before})
            await connection.execute(_SQL["expire_refusal_minutes"], {"before": before})
            await connection.execute(_SQL["expire_key_minutes"], {"before": minutes_before})


def _use_columns(uses: Sequence[KeyMinute]) -> dict[str, Any]:
    return {
        "client_id": Texts([u.client_id for u in uses]),
        "minute": Timestamps([u.minute for u in uses]),
        "key_version": Integers([u.key_version for u in uses]),
        "uses": Bigints([u.uses for u in uses]),
        "first_used_at": Timestamps([u.first_used_at for u in uses]),
        "last_used_at": Timestamps([u.last_used_at for u in uses]),
        "least_skew_ms": Integers([u.least_skew_ms for u in uses]),
        "greatest_skew_ms": Integers([u.greatest_skew_ms for u in uses]),
    }


def _refusal_columns(refusals: Sequence[RefusalMinute]) -> dict[str, Any]:
    return {
        "client_id": Texts([r.client_id for r in refusals]),
        "minute": Timestamps([r.minute for r in refusals]),
        "result_code": Texts([r.result_code for r in refusals]),
        "refused": Bigints([r.refused for r in refusals]),
        "only_counted": Bigints([r.only_counted for r in refusals]),
    }


def _refused_columns(refused: Sequence[RefusedRequest]) -> dict[str, Any]:
    texts = (
        *("client_id", "request_id", "method", "target", "result_code", "message", "address", "host"),
        *("user_agent", "content_type", "request_time", "signature_header"),
    )
    return {
        **{name: Texts([getattr(r, name) for r in refused]) for name in texts},
        "received_at": Timestamps([r.received_at for r in refused]),
        "status": Integers([r.status for r in refused]),
        "skew_ms": Bigints([r.skew_ms for r in refused]),
        "body": Blobs([r.body for r in refused]),
        "body_bytes": Integers([r.body_bytes for r in refused]),
        "body_is_whole": Integers([int(r.body_is_whole) for r in refused]),
    }
