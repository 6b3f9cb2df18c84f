"""The log of events: what was notified, how far its delivery has got, and when it may be sent again."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from payaccept.domain import identifiers
from payaccept.domain.delivery import AttemptKind, DeliveryState, Timing
from payaccept.domain.merchant import Environment, Merchant
from payaccept.domain.payment import lane_of
from payaccept.wire import messages as m
from payaccept.wire import timestamps

_encode: Final = msgspec.json.Encoder().encode


class EventStatus(StrEnum):
    """How far an event has got: as its delivery has it, or UNSENT while there was nowhere to send it."""

    UNSENT = "UNSENT"
    PENDING = "PENDING"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    DEAD = "DEAD"


EVERY_STATUS: Final = frozenset(EventStatus)


class EventDelivery(Struct, frozen=True, kw_only=True):
    """The delivery of an event. `next_at` is None once it is final, `leased_until` while no worker has it.

    `attempts_before` is how many attempts had been made when somebody last had it sent again.
    """

    url: str
    lane: str
    state: DeliveryState
    attempts: int
    attempts_before: int
    next_at: datetime | None
    leased_until: datetime | None
    last_attempt_at: datetime | None
    last_status: int | None
    last_reason: str | None
    created_at: datetime
    final_at: datetime | None


class Event(Struct, frozen=True, kw_only=True):
    """An event. `payment_id` is None for a test, `sequence` for the moment until it has its number."""

    bucket: int
    event_id: str
    client_id: str
    payment_id: str | None
    event_type: m.EventType | m.TestEventType
    sequence: int | None
    created_at: datetime
    delivery: EventDelivery | None

    @property
    def status(self) -> EventStatus:
        """How far it has got."""
        return EventStatus.UNSENT if self.delivery is None else EventStatus(self.delivery.state.value)


class AttemptMade(Struct, frozen=True, kw_only=True):
    """One attempt as the log keeps it. `answer` is None for who may not see it; its size anybody may."""

    attempt: int
    url: str
    started_at: datetime
    key_version: int
    outcome: AttemptKind
    status: int | None
    reason: str
    timing: Timing
    answer_bytes: int
    answer: bytes | None


class EndpointTest(Struct, frozen=True, kw_only=True):
    """A test event on its way to a merchant's endpoint."""

    bucket: int
    event_id: str
    client_id: str
    body: bytes
    url: str
    lane: str
    created_at: datetime


def endpoint_test(merchant: Merchant, url: str, environment: Environment, now: datetime) -> EndpointTest:
    """Write a test event for a merchant's endpoint."""
    event_id = identifiers.new(identifiers.EVENT, merchant.base_bucket, int(now.timestamp() * 1000))
    notification = m.TestNotification(
        event_id=event_id,
        event_type=m.TEST_EVENT,
        create_time=timestamps.write(now),
        environment=environment.value,
        client_id=merchant.client_id,
        test=True,
    )
    return EndpointTest(
        bucket=merchant.base_bucket,
        event_id=event_id,
        client_id=merchant.client_id,
        body=_encode(notification),
        url=url,
        lane=lane_of(merchant.client_id, url),
        created_at=now,
    )


# What becomes of an event that somebody asks to be sent again


class Resend(Struct, frozen=True, tag=True):
    """To be sent now, to this destination: a new delivery, or another run through the schedule, or sooner."""

    url: str
    lane: str


class InFlight(Struct, frozen=True, tag=True):
    """A worker is sending it just now, at the latest until then; nothing was changed."""

    until: datetime


class Nowhere(Struct, frozen=True, tag=True):
    """Neither its payment nor its merchant names an endpoint."""


class BodyGone(Struct, frozen=True, tag=True):
    """Its body is not kept any more, so the same bytes cannot be sent again."""


class Changed(Struct, frozen=True, tag=True):
    """It is not any more in a state in which it was wanted, or was sent since somebody looked."""


Redelivery = Resend | InFlight | Nowhere | BodyGone | Changed


def redeliver(
    event: Event,
    *,
    notify_url: str | None,
    webhook_url: str | None,
    body_kept: bool,
    statuses: Collection[EventStatus],
    now: datetime,
    seen_attempts: int | None = None,
) -> Redelivery:
    """Decide whether an event can be sent again at once.

    `notify_url` is what its payment named, `webhook_url` the merchant's endpoint as it is configured now;
    `statuses` are those in which it is wanted again, and `seen_attempts` how many attempts whoever wants it has
    seen: a second click does not send again what the first one has sent already.
    """
    if event.status not in statuses:
        return Changed()
    delivery = event.delivery
    if delivery is not None and delivery.leased_until is not None and delivery.leased_until > now:
        return InFlight(delivery.leased_until)
    if seen_attempts is not None and seen_attempts != (0 if delivery is None else delivery.attempts):
        return Changed()
    if not body_kept:
        return BodyGone()
    url = notify_url or webhook_url
    if url is None:
        return Nowhere()
    return Resend(url, lane_of(event.client_id, url))
