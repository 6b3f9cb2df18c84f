"""A payment's step to its final state: the one event, written once, and where it goes."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.domain import identifiers
from payaccept.domain.merchant import Environment, bucket_for
from payaccept.domain.payment import (
    Declined,
    Paid,
    Payment,
    PaymentState,
    lane_of,
    result,
    settle,
)
from payaccept.wire.codes import PAYMENT_FAILURES, TABLE, ResultCode

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
PAYMENT_ID = identifiers.new(identifiers.PAYMENT, 7, 1_772_000_000_000)


def payment(**changes) -> Payment:
    values = {
        "bucket": 7,
        "payment_id": PAYMENT_ID,
        "client_id": "sandbox_1",
        "payment_request_id": "order-1",
        "operation": "createQROrder",
        "state": PaymentState.PROCESSING,
        "currency": "EUR",
        "amount_minor": 1999,
        "notify_url": None,
        "external_store_id": None,
        "extend_info": None,
        "request_body": b"{}",
        "answer": b"{}",
        "failure_code": None,
        "event_id": None,
        "created_at": NOW,
        "expires_at": NOW + timedelta(minutes=15),
        "due_at": NOW,
        "final_at": None,
    }
    return Payment(**values | changes)


def settled(outcome, now=NOW, **changes):
    webhook_url = changes.pop("webhook_url", None)
    faults = changes.pop("faults", ())
    return settle(
        payment(**changes),
        outcome,
        now=now,
        environment=Environment.SANDBOX,
        webhook_url=webhook_url,
        faults=faults,
    )


def test_a_paid_payment_succeeds_with_the_whole_notification():
    settlement = settled(Paid(), external_store_id="Zürich 1")
    assert (settlement.state, settlement.failure_code, settlement.final_at) == (
        PaymentState.SUCCESS,
        None,
        NOW,
    )
    assert settlement.event_type == "payment.succeeded"
    assert json.loads(settlement.event_body) == {
        "eventId": settlement.event_id,
        "eventType": "payment.succeeded",
        "createTime": "2026-03-01T12:00:00.123Z",
        "environment": "sandbox",
        "clientId": "sandbox_1",
        "paymentId": PAYMENT_ID,
        "acquirementId": "acq_" + PAYMENT_ID[4:],
        "paymentRequestId": "order-1",
        "merchantTransId": "order-1",
        "paymentStatus": "SUCCESS",
        "paymentTime": "2026-03-01T12:00:00.123Z",
        "paymentAmount": {"currency": "EUR", "value": 1999},
        "result": {"resultStatus": "S", "resultCode": "SUCCESS", "resultMessage": "Success."},
        "merchantData": {"externalStoreId": "Zürich 1"},
    }


@pytest.mark.parametrize("code", sorted(PAYMENT_FAILURES))
def test_a_declined_payment_fails_and_keeps_the_code(code):
    settlement = settled(Declined(ResultCode(code)))
    assert (settlement.state, settlement.failure_code) == (PaymentState.FAIL, code)
    notification = json.loads(settlement.event_body)
    assert (notification["eventType"], notification["paymentStatus"]) == ("payment.failed", "FAIL")
    assert notification["result"] == {
        "resultStatus": "F",
        "resultCode": code,
        "resultMessage": TABLE[ResultCode(code)].message,
    }
    assert "merchantData" not in notification


def test_an_event_has_an_identifier_of_its_own_in_the_payments_bucket():
    first, second = settled(Paid()), settled(Paid())
    assert first.event_id != second.event_id
    assert first.event_id.startswith("evt_")
    assert identifiers.bucket_of(first.event_id) == 7
    assert first.event_id[18:] != PAYMENT_ID[18:]


@pytest.mark.parametrize(
    ("notify_url", "webhook_url", "goes_to"),
    [
        (None, None, None),
        ("https://a.example/", None, "https://a.example/"),
        (None, "https://b.example/", "https://b.example/"),
        ("https://a.example/", "https://b.example/", "https://a.example/"),
    ],
)
def test_the_request_says_where_to_else_the_merchant_else_nobody(notify_url, webhook_url, goes_to):
    delivery = settled(Paid(), notify_url=notify_url, webhook_url=webhook_url).delivery
    assert (delivery.url if delivery else None) == goes_to
    if delivery:
        assert delivery.first_at == NOW


def test_a_late_notification_waits_and_the_other_faults_go_with_it():
    delivery = settled(Paid(), notify_url="https://a.example/", faults=("late", "duplicate")).delivery
    assert delivery.first_at == NOW + timedelta(seconds=10)
    assert delivery.faults == ("duplicate",)


@pytest.mark.parametrize(
    ("url", "lane"),
    [
        ("https://a.example/x?y#z", "c https://a.example:443"),
        ("https://A.EXAMPLE:443/", "c https://a.example:443"),
        ("http://a.example", "c http://a.example:80"),
        ("https://a.example:8443/", "c https://a.example:8443"),
        ("https://[::1]:9/", "c https://::1:9"),
    ],
)
def test_a_lane_is_merchant_scheme_host_and_port(url, lane):
    assert lane_of("c", url) == lane


@given(
    outcome=st.just(Paid())
    | st.sampled_from(sorted(PAYMENT_FAILURES)).map(lambda code: Declined(ResultCode(code))),
    now=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    amount_minor=st.integers(1, 999_999_999_999),
    request_id=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=64),
    store=st.none() | st.text(min_size=1, max_size=64),
)
def test_every_settlement_is_final_and_its_event_tells_of_it(outcome, now, amount_minor, request_id, store):
    settlement = settled(
        outcome, now, amount_minor=amount_minor, payment_request_id=request_id, external_store_id=store
    )
    assert settlement.state is not PaymentState.PROCESSING
    assert (settlement.failure_code is None) == (settlement.state is PaymentState.SUCCESS)
    notification = msgspec.json.decode(settlement.event_body)
    assert notification["paymentStatus"] == settlement.state
    assert notification["paymentAmount"] == {"currency": "EUR", "value": amount_minor}
    assert notification["paymentRequestId"] == notification["merchantTransId"] == request_id
    assert notification["paymentTime"] == notification["createTime"]
    assert len(notification["paymentTime"]) == len("2026-03-01T12:00:00.123Z")


def test_a_result_has_its_codes_message_unless_there_is_a_better_one():
    assert result(ResultCode.RISK_REJECT).result_message == TABLE[ResultCode.RISK_REJECT].message
    assert result(ResultCode.RISK_REJECT, "no").result_message == "no"


@given(base=st.integers(0, 255), bits=st.integers(0, 8), request_id=st.text(min_size=1, max_size=64))
def test_a_payment_lives_in_one_of_its_merchants_buckets(base, bits, request_id):
    spread = 1 << bits
    bucket = bucket_for(base, spread, request_id)
    assert bucket in {(base + step) % 256 for step in range(spread)}
    assert bucket == bucket_for(base, spread, request_id)


def test_the_buckets_of_a_wide_merchant_are_used_evenly():
    counts = [0] * 256
    for number in range(25_600):
        counts[bucket_for(200, 256, f"order-{number}")] += 1
    assert min(counts) > 50
    assert max(counts) < 200
