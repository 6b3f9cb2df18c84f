"""Payments in PostgreSQL: creates, inquiries and settlements in group commits."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct
from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Bigints, Blobs, Integers, Texts, Timestamps, by_bucket
from payaccept.adapters.postgres.connections import Line, SharedLine
from payaccept.adapters.postgres.group_commit import GroupCommit, Routing, one_lane
from payaccept.domain import identifiers
from payaccept.domain.payment import Payment, PaymentState, Settlement, Standing
from payaccept.wire.codes import ResultCode

_SQL = statements.load("payments.sql")

Connection = AsyncConnection[Any]


class _ByRequest(Struct, frozen=True):
    bucket: int
    client_id: str
    payment_request_id: str


class _ById(Struct, frozen=True):
    bucket: int
    payment_id: str


_Key = _ByRequest | _ById
_T = TypeVar("_T", Standing, Payment)


class PostgresPayments:
    """The store of payments: the ports PaymentStore and DuePayments."""

    def __init__(
        self, database_url: str, *, routing: Routing = one_lane, create_lines: int = 2, process: str = "api"
    ) -> None:
        def lines(method: str, count: int = 1, *, plan_once: bool = False) -> list[Line]:
            return [Line(database_url, f"{process}-{method}", plan_once=plan_once) for _ in range(count)]

        self._creates = GroupCommit[Payment, bool](
            _insert, lines("create", create_lines, plan_once=True), bucket_of=_bucket, routing=routing
        )
        self._settlements = GroupCommit[Settlement, bool](
            _settle, lines("settle"), bucket_of=_bucket, routing=routing
        )
        self._standings = GroupCommit[_Key, Standing | None](
            _find_standings, lines("inquire"), bucket_of=_bucket, routing=routing
        )
        self._payments = GroupCommit[_Key, Payment | None](
            _find_payments, lines("find"), bucket_of=_bucket, routing=routing
        )
        self._rest = SharedLine(database_url, f"{process}-payments", hot=True)

    def start(self) -> None:
        """Start the group commits in the running loop."""
        for method in (self._creates, self._settlements, self._standings, self._payments):
            method.start()

    async def close(self) -> None:
        """Close all connections."""
        for method in (self._creates, self._settlements, self._standings, self._payments):
            await method.close()
        await self._rest.close()

    async def insert_payment(self, payment: Payment) -> bool:
        """Store a new payment; False when its request id is taken."""
        return await self._creates.submit(payment)

    async def find_payment_by_request(
        self, bucket: int, client_id: str, payment_request_id: str
    ) -> Payment | None:
        """Return a whole payment by the merchant's own id."""
        return await self._payments.submit(_ByRequest(bucket, client_id, payment_request_id))

    async def find_payment_by_id(self, payment_id: str) -> Payment | None:
        """Return a whole payment by our id, whosever it is."""
        return await self._payments.submit(_ById(identifiers.bucket_of(payment_id), payment_id))

    async def find_standing_by_request(
        self, bucket: int, client_id: str, payment_request_id: str
    ) -> Standing | None:
        """Return how a payment stands, by the merchant's own id."""
        return await self._standings.submit(_ByRequest(bucket, client_id, payment_request_id))

    async def find_standing_by_id(self, payment_id: str) -> Standing | None:
        """Return how a payment stands, by our id, whosever it is."""
        return await self._standings.submit(_ById(identifiers.bucket_of(payment_id), payment_id))

    async def settle(self, settlement: Settlement) -> bool:
        """Make a payment final with its event and delivery; False when it was final already."""
        return await self._settlements.submit(settlement)

    async def record_answer(self, payment: Payment, answer: bytes | None, due_at: datetime) -> None:
        """Store the first answer of a payment that goes on, and when the worker looks at it."""
        async with self._rest.connection() as connection:
            await connection.execute(
                _SQL["update_payment_answer"],
                {
                    "answer": answer,
                    "due_at": due_at,
                    "bucket": payment.bucket,
                    "payment_id": payment.payment_id,
                },
            )

    async def claim_due_payments(
        self, now: datetime, lease_until: datetime, limit: int, buckets: Sequence[int] = range(256)
    ) -> list[Payment]:
        """Take payments whose time has come; nobody else gets them before the lease ends."""
        async with self._rest.connection() as connection, connection.transaction():
            cursor = await connection.execute(
                _SQL["select_due_payments"],
                {"bucket": Integers(buckets), "now": now, "limit": limit},
                binary=True,
            )
            payments = [_payment(row) for row in await cursor.fetchall()]
            if payments:
                await _reschedule(connection, [(payment, lease_until) for payment in payments])
        return payments

    async def reschedule_payments(self, due: Sequence[tuple[Payment, datetime]]) -> None:
        """Say when each payment is to be looked at again."""
        async with self._rest.connection() as connection:
            await _reschedule(connection, due)


def _bucket(item: Payment | Settlement | _Key) -> int:
    return item.bucket


async def _insert(connection: Connection, payments: list[Payment]) -> list[bool]:
    cursor = await connection.execute(
        _SQL["insert_payments"],
        {
            **by_bucket([p.bucket for p in payments]),
            "payment_id": Texts([p.payment_id for p in payments]),
            "client_id": Texts([p.client_id for p in payments]),
            "payment_request_id": Texts([p.payment_request_id for p in payments]),
            "operation": Texts([p.operation for p in payments]),
            "currency": Texts([p.currency for p in payments]),
            "amount_minor": Bigints([p.amount_minor for p in payments]),
            "notify_url": Texts([p.notify_url for p in payments]),
            "external_store_id": Texts([p.external_store_id for p in payments]),
            "extend_info": Texts([p.extend_info for p in payments]),
            "request_body": Blobs([p.request_body for p in payments]),
            "answer": Blobs([p.answer for p in payments]),
            "created_at": Timestamps([p.created_at for p in payments]),
            "expires_at": Timestamps([p.expires_at for p in payments]),
            "due_at": Timestamps([p.due_at for p in payments]),
            "request_time": Texts([p.request_time for p in payments]),
            "key_version": Integers([p.key_version for p in payments]),
            "signature": Blobs([p.signature for p in payments]),
        },
        binary=True,
    )
    inserted = {row[0] for row in await cursor.fetchall()}
    return [payment.payment_id in inserted for payment in payments]


async def _settle(connection: Connection, settlements: list[Settlement]) -> list[bool]:
    placed = by_bucket([s.bucket for s in settlements])
    event_id = Texts([s.event_id for s in settlements])
    payment_id = Texts([s.payment_id for s in settlements])
    client_id = Texts([s.client_id for s in settlements])
    final_at = Timestamps([s.final_at for s in settlements])
    sent = [(s, s.delivery) for s in settlements if s.delivery is not None]
    async with connection.pipeline(), connection.transaction():
        updated = await connection.execute(
            _SQL["update_payments_final"],
            {
                **placed,
                "payment_id": payment_id,
                "state": Texts([s.state for s in settlements]),
                "failure_code": Texts([s.failure_code for s in settlements]),
                "event_id": event_id,
                "final_at": final_at,
                "answer": Blobs([s.answer for s in settlements]),
            },
        )
        await connection.execute(
            _SQL["insert_events_of_settled"],
            {
                **placed,
                "event_id": event_id,
                "client_id": client_id,
                "payment_id": payment_id,
                "event_type": Texts([s.event_type for s in settlements]),
                "created_at": final_at,
            },
        )
        await connection.execute(
            _SQL["insert_payloads_of_events"],
            {**placed, "event_id": event_id, "body": Blobs([s.event_body for s in settlements])},
        )
        if sent:
            await connection.execute(
                _SQL["insert_deliveries_of_events"],
                {
                    **by_bucket([s.bucket for s, _ in sent]),
                    "event_id": Texts([s.event_id for s, _ in sent]),
                    "client_id": Texts([s.client_id for s, _ in sent]),
                    "url": Texts([d.url for _, d in sent]),
                    "lane": Texts([d.lane for _, d in sent]),
                    "next_at": Timestamps([d.first_at for _, d in sent]),
                    "faults": Texts([",".join(d.faults) for _, d in sent]),
                    "created_at": Timestamps([s.final_at for s, _ in sent]),
                },
            )
    settled = {row[0] for row in await updated.fetchall()}
    return [settlement.event_id in settled for settlement in settlements]


async def _reschedule(connection: Connection, due: Sequence[tuple[Payment, datetime]]) -> None:
    await connection.execute(
        _SQL["update_payments_due"],
        {
            **by_bucket([p.bucket for p, _ in due]),
            "payment_id": Texts([p.payment_id for p, _ in due]),
            "due_at": Timestamps([at for _, at in due]),
        },
    )


async def _rows(connection: Connection, what: str, keys: Sequence[_Key]) -> list[tuple[Any, ...]]:
    """Read the rows of both kinds of key: one statement for each kind that occurs."""
    rows: list[tuple[Any, ...]] = []
    by_id = [key for key in keys if isinstance(key, _ById)]
    by_request = [key for key in keys if isinstance(key, _ByRequest)]
    if by_id:
        cursor = await connection.execute(
            _SQL[f"select_{what}_by_id"],
            {
                **by_bucket([k.bucket for k in by_id]),
                "payment_id": Texts([k.payment_id for k in by_id]),
            },
            binary=True,
        )
        rows += await cursor.fetchall()
    if by_request:
        cursor = await connection.execute(
            _SQL[f"select_{what}_by_request"],
            {
                **by_bucket([k.bucket for k in by_request]),
                "client_id": Texts([k.client_id for k in by_request]),
                "payment_request_id": Texts([k.payment_request_id for k in by_request]),
            },
            binary=True,
        )
        rows += await cursor.fetchall()
    return rows


async def _find_standings(connection: Connection, keys: list[_Key]) -> list[Standing | None]:
    rows = await _rows(connection, "standings", keys)
    return _match(keys, [_standing(row) for row in rows])


async def _find_payments(connection: Connection, keys: list[_Key]) -> list[Payment | None]:
    rows = await _rows(connection, "payments", keys)
    return _match(keys, [_payment(row) for row in rows])


def _match(keys: list[_Key], found: list[_T]) -> list[_T | None]:
    by_id = {row.payment_id: row for row in found}
    by_request = {(row.client_id, row.payment_request_id): row for row in found}
    return [
        by_id.get(key.payment_id)
        if isinstance(key, _ById)
        else by_request.get((key.client_id, key.payment_request_id))
        for key in keys
    ]


def _standing(row: tuple[Any, ...]) -> Standing:
    payment_id, client_id, request_id, state, currency, amount_minor, failure_code, final_at = row
    return Standing(
        payment_id,
        client_id,
        request_id,
        PaymentState(state),
        currency,
        amount_minor,
        ResultCode(failure_code) if failure_code else None,
        final_at,
    )


_COLUMNS = Payment.__struct_fields__


def _payment(row: tuple[Any, ...]) -> Payment:
    members = dict(zip(_COLUMNS, row, strict=True))
    members["state"] = PaymentState(members["state"])
    if members["failure_code"] is not None:
        members["failure_code"] = ResultCode(members["failure_code"])
    return Payment(**members)
