"""Sending notifications: signed afresh for every attempt, the outcome written only under our own claim."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol
from urllib.parse import urlsplit

from payaccept.domain.delivery import (
    Answered,
    AttemptOutcome,
    Claim,
    Delivery,
    Lanes,
    after_attempt,
    reason_of,
)
from payaccept.domain.errors import OutcomeOpen
from payaccept.operations.ports import DeliveryStore
from payaccept.operations.provider_keys import Signer
from payaccept.wire import signing, timestamps

LEASE_S: Final = 30.0


class Post(Protocol):
    """Posts a body to a merchant's endpoint."""

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> AttemptOutcome:
        """Return how it went; never raises for what a merchant does."""


Sign = Callable[[Signer, Sequence[bytes]], Awaitable[Sequence[bytes]]]


class Deliveries:
    """The business verbs of deliveries. `sign` runs outside the event loop's thread."""

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
    ) -> None:
        self._store = store
        self._post = post
        self._sign = sign
        self._schedule_s = schedule_s
        # A lease outlives its attempt, whatever the time-out is set to.
        self._lease = timedelta(seconds=max(LEASE_S, 2 * timeout_s))
        self._user_agent = user_agent
        self._clock = clock
        self._log = log

    async def claim(self, limit: int, lanes: Lanes) -> Claim:
        """Lease deliveries that are due. Raises: OutcomeOpen."""
        now = self._clock()
        return await self._store.claim_due_deliveries(now, now + self._lease, limit, lanes)

    async def sign(self, deliveries: Sequence[Delivery], signer: Signer) -> list[dict[str, str]]:
        """Make the headers of one attempt of each delivery, which is to follow at once."""
        request_time = timestamps.write_seconds(self._clock())
        strings = [
            signing.notification_string(urlsplit(delivery.url).path or "/", request_time, delivery.body)
            for delivery in deliveries
        ]
        signatures = await self._sign(signer, strings)
        return [
            {
                "Content-Type": "application/json",
                "User-Agent": self._user_agent,
                "Request-Time": request_time,
                "Signature": signing.write_header(signer.key_version, signature),
                "Event-Id": delivery.event_id,
                "Delivery-Attempt": str(delivery.attempt),
            }
            for delivery, signature in zip(deliveries, signatures, strict=True)
        ]

    async def attempt(self, delivery: Delivery, headers: dict[str, str]) -> None:
        """Send a notification once and write what became of it."""
        body = _tamper(delivery.body) if "tampered" in delivery.faults else delivery.body
        outcome = await self._post(delivery.url, body, headers)
        now = self._clock()
        decision = after_attempt(
            delivery,
            outcome,
            now,
            schedule_s=self._schedule_s,
            chance=random.random(),  # noqa: S311 - jitter, not a secret
        )
        try:
            written = await self._store.record_outcome(
                delivery,
                decision,
                status=outcome.status if isinstance(outcome, Answered) else None,
                reason=reason_of(outcome),
                now=now,
            )
        except OutcomeOpen:
            written = False  # the lease runs out, and the notification goes again: at least once
        self._log(
            eventId=delivery.event_id,
            clientId=delivery.client_id,
            attempt=delivery.attempt,
            outcome=reason_of(outcome),
            decision=type(decision).__name__,
            recorded=written,
        )


def _tamper(body: bytes) -> bytes:
    """Change the amount by its first digit: the signature must not verify any more."""
    head, mark, tail = body.partition(b'"value":')
    changed = b"2" if tail[:1] == b"1" else b"1"
    return head + mark + changed + tail[1:]
