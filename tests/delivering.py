"""A worker's deliveries driven by hand: the real store, time that passes when told to, endpoints made of functions."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from deployment import NOW
from payaccept.adapters.postgres.deliveries import PostgresDeliveries
from payaccept.adapters.postgres.membership import PostgresMembership
from payaccept.domain.delivery import (
    RETRY_SCHEDULE_S,
    Answered,
    AttemptOutcome,
    Exchange,
    Timing,
    Unreachable,
)
from payaccept.domain.places import Limits
from payaccept.operations.deliveries import Deliveries
from payaccept.operations.provider_keys import Signer
from payaccept.operations.sending import Sending

WELL = Answered(200)
UNWELL = Answered(500)


class Time:
    """The wall clock, which may be set, and one that is never set. Both stand still until told."""

    def __init__(self, wall: datetime = NOW) -> None:
        self.wall = wall
        self.monotonic_s = 5000.0
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def read_wall(self) -> datetime:
        """What the wall clock shows."""
        return self.wall

    def read_monotonic(self) -> float:
        """What a clock shows that is never set."""
        return self.monotonic_s

    def go_on(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += timedelta(seconds=seconds)
        self.monotonic_s += seconds
        for at_s, future in self._waiting:
            if at_s <= self.monotonic_s and not future.done():
                future.set_result(None)
        self._waiting = [each for each in self._waiting if not each[1].done()]

    async def sleep(self, seconds: float) -> None:
        """Wait until so much time was let pass."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((self.monotonic_s + seconds, future))
        await future

    def set_by(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.wall += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Post:
    """One attempt as it arrived; `at_s` is by the clock that is never set."""

    host: str
    event_id: str
    attempt: int
    sequence: int
    body: bytes
    request_time: str
    at_s: float


Behaviour = Callable[[Post], AttemptOutcome | Awaitable[AttemptOutcome]]


@dataclass
class Endpoints:
    """Every merchant's endpoints: what each host does, and a journal of all that arrived there."""

    time: Time
    behaviour: dict[str, Behaviour] = field(default_factory=dict)
    journal: list[Post] = field(default_factory=list)
    in_flight: dict[str, int] = field(default_factory=dict)
    most_in_flight: dict[str, int] = field(default_factory=dict)

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Exchange:
        """Take one notification."""
        host = url.split("/")[2]
        arrived = Post(
            host,
            headers["Event-Id"],
            int(headers["Delivery-Attempt"]),
            int(headers["Event-Sequence"]),
            body,
            headers["Request-Time"],
            self.time.monotonic_s,
        )
        self.journal.append(arrived)
        self.in_flight[host] = self.in_flight.get(host, 0) + 1
        self.most_in_flight[host] = max(self.most_in_flight.get(host, 0), self.in_flight[host])
        try:
            answer = self.behaviour.get(host, lambda _arrived: WELL)(arrived)
            outcome = await answer if isinstance(answer, Awaitable) else answer
        finally:
            self.in_flight[host] -= 1
        return Exchange(outcome, Timing(total_us=1000), b"{}")

    async def hang(self, _arrived: Post) -> AttemptOutcome:
        """Let an attempt time out."""
        await self.time.sleep(10)
        return Unreachable("no complete answer within 10 s")

    def at(self, host: str) -> list[Post]:
        """What arrived at a host, in order."""
        return [arrived for arrived in self.journal if arrived.host == host]


class Hand:
    """One worker's sending, one step at a time."""

    def __init__(
        self,
        database_url: str,
        time: Time,
        endpoints: Endpoints,
        *,
        limits: Limits | None = None,
        schedule_s: Sequence[float] = RETRY_SCHEDULE_S,
        timeout_s: float = 10.0,
    ) -> None:
        self.time = time
        self.endpoints = endpoints
        self.told: list[dict[str, Any]] = []
        self.store = PostgresDeliveries(database_url)
        self.membership = PostgresMembership(database_url)
        self.deliveries = Deliveries(
            self.store,
            endpoints.post,
            _sign,
            schedule_s=schedule_s,
            timeout_s=timeout_s,
            user_agent="payaccept/test",
            clock=time.read_wall,
            log=lambda **members: self.told.append(members),
            monotonic=time.read_monotonic,
        )
        self.sending = Sending(
            self.deliveries,
            self.membership,
            _signer,
            limits or Limits(),
            on_room=lambda: None,
            monotonic=time.read_monotonic,
        )

    async def step(self) -> None:
        """Claim what fits, and see it through as far as the endpoints let it."""
        self.sending.look()
        await self.sending.walk()
        await self.sending.fill()
        await self.settle_down()

    async def settle_down(self) -> None:
        """Wait until nothing moves any more but what an endpoint holds up."""
        # Signing and posting take a few turns of the loop; recording ends when its task does.
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            held = sum(self.endpoints.in_flight.values())
            if len(self.sending._tasks) <= held:
                return
            await asyncio.sleep(0.002)

    async def steps(self, seconds: float, every_s: float) -> None:
        """Do that again and again while time passes."""
        for _ in range(round(seconds / every_s)):
            await self.step()
            self.time.go_on(every_s)

    async def close(self) -> None:
        """End as a killed process does, but for the connections."""
        for task in list(self.sending._tasks):
            task.cancel()
        await asyncio.gather(*self.sending._tasks, return_exceptions=True)
        await self.store.close()
        await self.membership.close()


async def _signer() -> Signer:
    return Signer(1, None)  # type: ignore[arg-type]


async def _sign(_signer: Signer, strings: Sequence[bytes]) -> list[bytes]:
    return [bytes(256)] * len(strings)


@asynccontextmanager
async def at_hand(
    database_url: str, time: Time, endpoints: Endpoints | None = None, **options: Any
) -> AsyncIterator[Hand]:
    """A worker's sending, open while the block lasts."""
    hand = Hand(database_url, time, endpoints or Endpoints(time), **options)
    hand.store.start()
    try:
        yield hand
    finally:
        await hand.close()


_MAKE = """
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
    SELECT
        n %% 256 AS bucket, 'pay_' || n || '_' || %(mark)s AS payment_id, client_id, host,
        'evt_' || lpad(to_hex(%(ms)s), 12, '0') || lpad(to_hex(n), 8, '0') || %(mark)s AS event_id
    FROM (
        SELECT w.client_id, w.host, row_number() OVER () AS n
        FROM unnest(%(client_id)s::text[], %(host)s::text[]) AS w (client_id, host)
        CROSS JOIN generate_series(1, %(count)s)
    ) AS wanted;
INSERT INTO payments (
    bucket, payment_id, client_id, payment_request_id, operation, state, currency, amount_minor, request_body,
    event_id, created_at, expires_at, final_at
)
    SELECT
        bucket, payment_id, client_id, payment_id, 'retailPay', 'SUCCESS', 'EUR', 1, '', event_id, %(at)s, %(at)s,
        %(at)s
    FROM made;
INSERT INTO events (bucket, event_id, client_id, payment_id, event_type, created_at)
    SELECT bucket, event_id, client_id, payment_id, 'payment.succeeded', %(at)s FROM made;
INSERT INTO payloads (bucket, event_id, body)
    SELECT bucket, event_id, convert_to('{"eventId":"' || event_id || '"}', 'UTF8') FROM made;
INSERT INTO deliveries (bucket, event_id, client_id, url, lane, state, next_at, created_at)
    SELECT
        bucket, event_id, client_id, 'https://' || host || '/hook', client_id || ' https://' || host || ':443',
        'PENDING', %(at)s, %(at)s
    FROM made
"""
_marks = itertools.count(1)


def insert_due(
    database_url: str, destinations: Mapping[str, str] | tuple[str, str], count: int = 1, at: datetime = NOW
) -> None:
    """Make so many events for each destination, to be delivered from a time on.

    destinations: merchants by their host, or one merchant and its host.
    """
    pairs = [destinations] if isinstance(destinations, tuple) else [(m, h) for h, m in destinations.items()]
    values = {
        "client_id": [client_id for client_id, _ in pairs],
        "host": [host for _, host in pairs],
        "count": count,
        "at": at,
        "ms": int(at.timestamp() * 1000),
        "mark": f"{next(_marks):016x}",
    }
    with psycopg.connect(database_url) as connection:
        for statement in _MAKE.split(";"):
            connection.execute(statement.encode(), values)
