"""When an event may be sent again, and where it goes then."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from payaccept.domain import identifiers
from payaccept.domain.delivery import DeliveryState
from payaccept.domain.event import (
    EVERY_STATUS,
    BodyGone,
    Changed,
    Event,
    EventDelivery,
    EventStatus,
    InFlight,
    Nowhere,
    Redelivery,
    Resend,
    endpoint_test,
    redeliver,
)
from payaccept.domain.merchant import DuplicatePolicy, Environment, Merchant, MerchantState
from payaccept.domain.payment import lane_of
from payaccept.wire.messages import TestNotification

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OWN, CONFIGURED = "https://till.example/hook", "https://shop.example/hook"


def event(state: DeliveryState | None, leased_until: datetime | None = None) -> Event:
    delivery = None
    if state is not None:
        pending = state is DeliveryState.PENDING
        delivery = EventDelivery(
            url="https://old.example/",
            lane="lane",
            state=state,
            attempts=3,
            attempts_before=0,
            next_at=NOW if pending else None,
            leased_until=leased_until,
            last_attempt_at=NOW,
            last_status=500,
            last_reason="HTTP 500",
            created_at=NOW,
            final_at=None if pending else NOW,
        )
    return Event(
        bucket=7,
        event_id="evt_1",
        client_id="sandbox_1",
        payment_id="pay_1",
        event_type="payment.succeeded",
        sequence=1,
        created_at=NOW,
        delivery=delivery,
    )


def decide(of: Event, **changes: Any) -> Redelivery:
    given = {
        "notify_url": None,
        "webhook_url": CONFIGURED,
        "body_kept": True,
        "statuses": EVERY_STATUS,
        "now": NOW,
    }
    return redeliver(of, **given | changes)


@pytest.mark.parametrize("state", [None, *DeliveryState])
def test_whatever_nobody_is_sending_is_sent_to_where_it_belongs_now(state):
    assert decide(event(state)) == Resend(CONFIGURED, lane_of("sandbox_1", CONFIGURED))
    assert decide(event(state), notify_url=OWN) == Resend(OWN, lane_of("sandbox_1", OWN))
    assert decide(event(state), webhook_url=None) == Nowhere()
    assert decide(event(state), body_kept=False) == BodyGone()


def test_a_lease_keeps_it_from_being_sent_twice_at_a_time_until_it_ends():
    until = NOW + timedelta(seconds=20)
    leased = event(DeliveryState.PENDING, until)
    assert decide(leased) == InFlight(until)
    assert isinstance(decide(leased, now=until), Resend)


@pytest.mark.parametrize("status", EventStatus)
def test_only_the_wanted_statuses_are_sent_again(status):
    of = event(
        None if status is EventStatus.UNSENT else DeliveryState(status.value), NOW + timedelta(seconds=1)
    )
    assert of.status is status
    assert decide(of, statuses=EVERY_STATUS - {status}) == Changed()
    assert decide(of, statuses={status}) != Changed()


@pytest.mark.parametrize("environment", Environment)
def test_a_test_says_whose_it_is_and_that_it_is_one(environment):
    merchant = Merchant(
        client_id="sandbox_1",
        name="Shop",
        state=MerchantState.ACTIVE,
        base_bucket=200,
        spread=4,
        duplicates=DuplicatePolicy.STRICT,
        webhook_url=CONFIGURED,
        rate_limit=None,
        created_at=NOW,
        updated_at=NOW,
    )
    test = endpoint_test(merchant, CONFIGURED, environment, NOW)
    assert (test.bucket, identifiers.bucket_of(test.event_id)) == (200, 200)
    assert (test.url, test.lane) == (CONFIGURED, lane_of("sandbox_1", CONFIGURED))
    told = msgspec.json.decode(test.body, type=TestNotification)
    assert told == TestNotification(
        event_id=test.event_id,
        event_type="webhook.test",
        create_time="2026-03-01T12:00:00.000Z",
        environment=environment.value,
        client_id="sandbox_1",
        test=True,
    )
    assert b'"test":true' in test.body
