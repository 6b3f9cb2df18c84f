"""Deliveries that were given up, as the provider's staff sees them over all merchants."""

from datetime import datetime

from msgspec import Struct


class DeadCount(Struct, frozen=True, kw_only=True):
    """Deliveries of a merchant that were given up for the same reason."""

    client_id: str
    merchant_name: str
    reason: str
    deliveries: int
    first_at: datetime
    last_at: datetime


class DeadDelivery(Struct, frozen=True, kw_only=True):
    """A delivery that was given up at `final_at`."""

    event_id: str
    client_id: str
    merchant_name: str
    payment_id: str | None
    url: str
    attempts: int
    last_status: int | None
    last_reason: str | None
    created_at: datetime
    final_at: datetime


class Place(Struct, frozen=True):
    """Where a page of dead deliveries begins: behind this one."""

    final_at: datetime
    event_id: str
