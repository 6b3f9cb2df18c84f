"""Lanes to deliver to, and deliveries that are due, put straight into the tables: no API and no load generator runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import Any, Final, NamedTuple

import psycopg

from bench import merchant
from payaccept.domain import identifiers, payment
from payaccept.domain.merchant import Environment, new_client_id
from payaccept.domain.payment import Paid, Payment, PaymentState

Connection = psycopg.Connection[Any]

_FIRST_ADDRESS: Final = int(IPv4Address("127.16.0.1"))
_BUCKETS: Final = 256

# A row for each delivery to be; what an identifier needs besides is in `tail`: time, bucket, then what differs.
_SEEDED: Final = """
CREATE TEMPORARY TABLE seeded ON COMMIT DROP AS
SELECT
    n, l.bucket, l.client_id, l.url, l.lane, %(due)s::timestamptz + n * interval '1 microsecond' AS next_at,
    to_char(n, 'FM00000000') AS number,
    lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || lpad(to_hex(l.bucket), 2, '0') || substr(md5(%(run)s || n), 1, 22) AS tail
FROM generate_series(0, %(count)s - 1) AS n
JOIN unnest(
    %(number)s::int[], %(bucket)s::int[], %(client_id)s::text[], %(url)s::text[], %(lane)s::text[]
) AS l (number, bucket, client_id, url, lane) ON l.number = n %% %(lanes)s
"""
_PAYMENTS: Final = """
INSERT INTO payments (
    bucket, payment_id, client_id, payment_request_id, operation, state, currency, amount_minor, notify_url,
    request_body, answer, event_id, created_at, expires_at, final_at
)
SELECT
    bucket, 'pay_' || tail, client_id, %(run)s || number, 'createQROrder', 'SUCCESS', 'EUR', 1999, url,
    %(request_body)s, %(request_body)s, 'evt_' || tail, %(now)s, %(now)s, %(now)s
FROM seeded
"""
_EVENTS: Final = """
INSERT INTO events (bucket, event_id, client_id, payment_id, event_type, created_at)
SELECT bucket, 'evt_' || tail, client_id, 'pay_' || tail, 'payment.succeeded', %(now)s FROM seeded
"""
_PAYLOADS: Final = """
INSERT INTO payloads (bucket, event_id, body)
SELECT bucket, 'evt_' || tail, convert_to(
    replace(replace(%(body)s, %(sample_tail)s, tail), %(sample_client_id)s, client_id), 'UTF8'
)
FROM seeded
"""
_DELIVERIES: Final = """
INSERT INTO deliveries (bucket, event_id, client_id, url, lane, state, next_at, created_at)
SELECT bucket, 'evt_' || tail, client_id, url, lane, 'PENDING', next_at, %(now)s FROM seeded
"""
_MERCHANTS: Final = """
INSERT INTO merchants (
    client_id, name, state, base_bucket, spread, duplicates, created_at, updated_at, directory_version
)
SELECT client_id, 'Benchmark', 'ACTIVE', bucket, 1, 'strict', %(now)s, %(now)s, 0
FROM unnest(%(bucket)s::int[], %(client_id)s::text[]) AS u (bucket, client_id)
ON CONFLICT DO NOTHING
"""


class Lane(NamedTuple):
    """A destination of a merchant."""

    client_id: str
    bucket: int
    url: str


def make(count: int, port: int, *, first: int = 0) -> list[Lane]:
    """Return lanes to so many addresses from the first on, each of a merchant of its own."""
    return [
        Lane(new_client_id(Environment.SANDBOX), number % _BUCKETS, url(number, port))
        for number in range(first, first + count)
    ]


def url(number: int, port: int) -> str:
    """Return the URL at an address of its own in 127/8."""
    return f"http://{IPv4Address(_FIRST_ADDRESS + number)}:{port}/webhooks"


def seed(database_url: str, lanes: Sequence[Lane], count: int, *, overdue_s: float = 0.0) -> None:
    """Put in so many deliveries in turn for the lanes, due for so long: as left by payments that were settled."""
    now = datetime.now(UTC)
    sample = _sample(now)
    values = {
        "now": now,
        "due": now - timedelta(seconds=overdue_s),
        "run": f"seed-{now.timestamp():.6f}-",
        "count": count,
        "lanes": len(lanes),
        "number": list(range(len(lanes))),
        "bucket": [lane.bucket for lane in lanes],
        "client_id": [lane.client_id for lane in lanes],
        "url": [lane.url for lane in lanes],
        "lane": [payment.lane_of(lane.client_id, lane.url) for lane in lanes],
        "request_body": merchant.qr_order("seed-000001", lanes[0].url),
        "body": sample.event_body.decode().replace(sample.event_id[4:], sample.payment_id[4:]),
        "sample_tail": sample.payment_id[4:],
        "sample_client_id": sample.client_id,
    }
    with psycopg.connect(database_url) as connection:
        # What is put in is consistent, and the machine is to be left as soon as possible to what is measured.
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("SET LOCAL synchronous_commit = off")
        for statement in (_SEEDED, _MERCHANTS, _PAYMENTS, _EVENTS, _PAYLOADS, _DELIVERIES):
            connection.execute(statement, values)


def settle_down(database_url: str) -> None:
    """Have done now what PostgreSQL would do in the background after a bulk load."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


@contextmanager
def held_transaction(database_url: str) -> Iterator[None]:
    """Hold a transaction open whose snapshot keeps every row that dies from now on."""
    with psycopg.connect(database_url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM buckets")
        yield
        connection.rollback()


def rows(database_url: str, query: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return connection.execute(query.encode(), values).fetchall()


def _sample(now: datetime) -> payment.Settlement:
    """Settle a payment as the service does; its ids are replaced in the event's body for each that is seeded."""
    tail = identifiers.new("", 0, int(now.timestamp() * 1000))
    whole = Payment(
        bucket=0,
        payment_id=identifiers.PAYMENT + tail,
        client_id=new_client_id(Environment.SANDBOX),
        payment_request_id="seed-000001",
        operation="createQROrder",
        state=PaymentState.PROCESSING,
        currency="EUR",
        amount_minor=1999,
        notify_url=None,
        external_store_id=None,
        extend_info=None,
        request_body=b"",
        answer=None,
        failure_code=None,
        event_id=None,
        created_at=now,
        expires_at=now,
        due_at=now,
        final_at=None,
    )
    return payment.settle(whole, Paid(), now=now, environment=Environment.SANDBOX, webhook_url=None)
