"""Sending notifications: signed afresh for every attempt, the outcome written only under our own claim."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from payaccept.domain.delivery import (
    JITTER,
    RETRY_AFTER_AT_MOST,
    Acknowledged,
    Attempt,
    Decision,
    Delivery,
    Exchange,
    after_attempt,
    kind_of,
    reason_of,
)
from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.lanes import Ask, FailingLane
from payaccept.domain.steady_clock import SteadyClock
from payaccept.operations.ports import DeliveryStore
from payaccept.operations.provider_keys import Signer
from payaccept.wire import signing, timestamps

LEASE_S: Final = 30.0
RECENT: Final = timedelta(seconds=15)
"""How far back one looks for what has fallen due, but for a sweep every few seconds."""
RECORD_AGAIN_AFTER_S: Final = (0.2, 0.8, 2.0)
LANES_KEPT: Final = timedelta(days=3)
"""How long a failing destination is remembered beyond the longest time between two attempts."""
_LATE_AT_MOST: Final = timedelta(hours=1)


class Post(Protocol):
    """Posts a body to a merchant's endpoint."""

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Exchange:
        """Return how it went; never raises for what a merchant does."""


class Numbered(Protocol):
    """What is told of an attempt besides its signature."""

    @property
    def event_id(self) -> str:
        """Names the event."""

    @property
    def sequence(self) -> int:
        """The event's number."""

    @property
    def attempt(self) -> int:
        """Counts the attempts, from 1."""


class Signed(Struct, frozen=True):
    """The headers of one attempt, signed."""

    headers: dict[str, str]
    key_version: int


Sign = Callable[[Signer, Sequence[bytes]], Awaitable[Sequence[bytes]]]


class Deliveries:
    """The business verbs of deliveries. `sign` runs outside the event loop's thread.

    Two clocks: `clock` shows what is signed and written down, and may be set; schedules and leases go by one
    made of it and of `monotonic` that is never set back.
    """

    def __init__(
        self,
        store: DeliveryStore,
        post: Post,
        sign: Sign,
        *,
        schedule_s: Sequence[float],
        timeout_s: float,
        user_agent: str,
        clock: Callable[[], datetime],
        log: Callable[..., None],
        lease_s: float = LEASE_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._post = post
        self._sign = sign
        self._schedule_s = schedule_s
        # A lease outlives its attempt, whatever the time-out is set to, and the time it waits for its turn.
        self._lease = timedelta(seconds=max(lease_s, 3 * timeout_s))
        self.sent_within_s = self._lease.total_seconds() - 2 * timeout_s
        self._user_agent = user_agent
        self._clock = clock
        self._log = log
        self._monotonic = monotonic
        self._steady = SteadyClock()

    def _now(self) -> datetime:
        return self._steady.read(self._clock(), self._monotonic())

    def since(self) -> datetime:
        """Return how far back one looks for what has fallen due, but for a sweep."""
        # What the API has made due goes by its wall clock, which may be behind this one.
        return min(self._now(), self._clock()) - RECENT

    async def list_due_lanes(self, after: str, since: datetime, limit: int) -> list[str]:
        """Return lanes in which something fell due after `since`, in order. Raises: OutcomeOpen."""
        return await self._store.list_due_lanes(after, self._now(), since, limit)

    async def claim(self, asks: Sequence[Ask], in_hand: Sequence[str]) -> list[Delivery]:
        """Lease deliveries that are due. Raises: OutcomeOpen."""
        return await self._store.claim_due_deliveries(
            asks, now=self._now(), lease=self._lease, in_hand=in_hand, at=self._clock()
        )

    async def sign(self, deliveries: Sequence[Delivery], signer: Signer) -> list[Signed]:
        """Make the headers of one attempt of each delivery, which is to follow at once."""
        request_time = timestamps.write_seconds(self._clock())
        strings = [
            signing.notification_string(urlsplit(delivery.url).path or "/", request_time, delivery.body)
            for delivery in deliveries
        ]
        signatures = await self._sign(signer, strings)
        return [
            Signed(
                headers_of(delivery, self._user_agent, request_time, signer.key_version, signature),
                signer.key_version,
            )
            for delivery, signature in zip(deliveries, signatures, strict=True)
        ]

    async def post(self, delivery: Delivery, signed: Signed) -> Attempt:
        """Send a notification once."""
        started_at = self._clock()
        body = _tamper(delivery.body) if "tampered" in delivery.faults else delivery.body
        exchange = await self._post(delivery.url, body, signed.headers)
        return Attempt(
            delivery=delivery, started_at=started_at, key_version=signed.key_version, exchange=exchange
        )

    async def record(self, attempt: Attempt) -> None:
        """Decide what becomes of a delivery after an attempt, and write it."""
        decision = after_attempt(
            attempt.delivery,
            attempt.exchange.outcome,
            self._now(),
            schedule_s=self._schedule_s,
            chance=random.random(),  # noqa: S311 - jitter, not a secret
        )
        now = self._clock()
        written = await self._write(attempt, decision, now)
        self._tell(attempt, decision, now, recorded=written)

    async def _write(self, attempt: Attempt, decision: Decision, now: datetime) -> bool:
        # Written twice it is the same. Not written, the lease runs out, and the notification goes again:
        # at least once, but a database that was away for a moment is no reason to.
        for wait_s in (*RECORD_AGAIN_AFTER_S, None):
            try:
                return await self._store.record_outcome(attempt, decision, now)
            except OutcomeOpen:
                if wait_s is not None:
                    await asyncio.sleep(wait_s)
        return False

    def _tell(self, attempt: Attempt, decision: Decision, now: datetime, *, recorded: bool) -> None:
        delivery = attempt.delivery
        told: dict[str, object] = {
            "eventId": delivery.event_id,
            "clientId": delivery.client_id,
            "attempt": delivery.attempt,
            "kind": kind_of(attempt.exchange.outcome),
            "outcome": reason_of(attempt.exchange.outcome),
            "decision": type(decision).__name__,
            "recorded": recorded,
            "durationMs": attempt.exchange.timing.total_us / 1000,
        }
        if delivery.payment_id is not None:
            told["paymentId"] = delivery.payment_id
        if delivery.attempt == 1:
            told["firstAttemptAfterMs"] = _ms(attempt.started_at - delivery.created_at)
        sent_again_by_hand = delivery.step != delivery.attempt
        if isinstance(decision, Acknowledged) and not sent_again_by_hand:
            told["acknowledgedAfterMs"] = _ms(now - delivery.created_at)
        self._log(**told)

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """Give back what was claimed and not sent. Raises: OutcomeOpen: then the leases run out."""
        await self._store.give_back(deliveries)

    async def pull_in(self) -> int:
        """Make due now what a clock that was wrong has put off beyond any schedule. Raises: OutcomeOpen."""
        now = self._now()
        return await self._store.pull_in(now, max(now, self._clock()) + self._longest() + _LATE_AT_MOST)

    async def list_failing_lanes(self) -> list[FailingLane]:
        """Return the destinations that were failing when that was last written. Raises: OutcomeOpen."""
        return await self._store.list_failing_lanes()

    async def record_lanes(self, failing: Sequence[FailingLane], well: Sequence[str]) -> None:
        """Write which destinations are failing, and which are not any more. Raises: OutcomeOpen."""
        await self._store.record_lanes(failing, well, self._clock())

    async def forget_lanes(self) -> None:
        """Forget failing destinations to which nothing is sent any more. Raises: OutcomeOpen."""
        await self._store.delete_failing_lanes(self._clock() - self._longest() - LANES_KEPT)

    def _longest(self) -> timedelta:
        return timedelta(seconds=max(self._schedule_s) * max(RETRY_AFTER_AT_MOST, 1 + JITTER))

    def read_clock(self) -> datetime:
        """Return the wall clock's time, to be written down."""
        return self._clock()


def headers_of(
    sent: Numbered, user_agent: str, request_time: str, key_version: int, signature: bytes
) -> dict[str, str]:
    """Return the headers of one attempt, but for those that the client sets."""
    return {
        "Content-Type": "application/json",
        "User-Agent": user_agent,
        "Request-Time": request_time,
        "Signature": signing.write_header(key_version, signature),
        "Event-Id": sent.event_id,
        "Event-Sequence": str(sent.sequence),
        "Delivery-Attempt": str(sent.attempt),
    }


def _ms(duration: timedelta) -> float:
    return round(duration.total_seconds() * 1000, 3)


def _tamper(body: bytes) -> bytes:
    """Change the amount by its first digit: the signature must not verify any more."""
    head, mark, tail = body.partition(b'"value":')
    changed = b"2" if tail[:1] == b"1" else b"1"
    return head + mark + changed + tail[1:]
