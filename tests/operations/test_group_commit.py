"""Group commit over the real database: everybody gets their own outcome, whatever befalls their neighbours."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from msgspec.structs import replace

from deployment import Parts, fetch_all, merchant_made, run_sql, settings_for
from payaccept.adapters.postgres.group_commit import lane_per_bucket, one_lane
from payaccept.domain import identifiers
from payaccept.domain.errors import OutcomeOpen, OutcomeUnknown, StoreUnavailable
from payaccept.domain.merchant import Environment
from payaccept.domain.payment import Paid, Payment, PaymentState, settle

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def new_payment(number: int, bucket: int = 7, **changes: Any) -> Payment:
    values: dict[str, Any] = {
        "bucket": bucket,
        "payment_id": identifiers.new(identifiers.PAYMENT, bucket, 1_772_000_000_000),
        "client_id": "sandbox_1",
        "payment_request_id": f"order-{number}-{identifiers.new('', 0, 0)[:30]}",
        "operation": "createQROrder",
        "state": PaymentState.PROCESSING,
        "currency": "EUR",
        "amount_minor": 1 + number,
        "notify_url": None,
        "external_store_id": None,
        "extend_info": None,
        "request_body": b"{}",
        "answer": b"{}",
        "failure_code": None,
        "event_id": None,
        "created_at": NOW,
        "expires_at": NOW + timedelta(minutes=15),
        "due_at": NOW + timedelta(days=100),
        "final_at": None,
    }
    return Payment(**values | changes)


def settlement_of(payment: Payment, **changes: Any) -> Any:
    url = "http://127.0.0.1:1/"
    return replace(
        settle(payment, Paid(), now=NOW, environment=Environment.SANDBOX, webhook_url=url), **changes
    )


@pytest_asyncio.fixture(params=[one_lane, lane_per_bucket], ids=["one lane", "a lane for each bucket"])
async def parts(request, settings) -> AsyncIterator[Parts]:
    async with Parts(settings, routing=request.param) as opened:
        yield opened


BAD_ROWS: dict[str, dict[str, Any]] = {
    "no money": {"amount_minor": 0},
    "too much money": {"amount_minor": 10**12},
    "no currency": {"currency": "euro"},
    "no operation": {"operation": "refund"},
    "a NUL character": {"extend_info": "\0"},
}


@pytest.mark.parametrize("name", BAD_ROWS)
@pytest.mark.parametrize(
    "places", [(0,), (49,), (0, 24, 49), tuple(range(50))], ids=["first", "last", "three", "all"]
)
async def test_a_bad_row_fails_alone(parts, name, places):
    payments = [new_payment(number, bucket=number % 8) for number in range(50)]
    for place in places:
        payments[place] = replace(payments[place], **BAD_ROWS[name])
    outcomes = await asyncio.gather(
        *(parts.store.insert_payment(payment) for payment in payments), return_exceptions=True
    )
    for place, (payment, outcome) in enumerate(zip(payments, outcomes, strict=True)):
        stored = await parts.store.find_payment_by_id(payment.payment_id)
        if place in places:
            assert isinstance(outcome, psycopg.Error), outcome
            assert not isinstance(outcome, psycopg.OperationalError)
            assert stored is None
        else:
            assert outcome is True
            assert stored == payment


async def test_a_bad_settlement_fails_alone_and_its_payment_stays_open(parts, settings):
    payments = [new_payment(number, bucket=number % 3) for number in range(40)]
    assert all(await asyncio.gather(*(parts.store.insert_payment(payment) for payment in payments)))
    bad = {3, 20}
    settlements = [
        settlement_of(payment, **({"event_type": "payment.vanished"} if place in bad else {}))
        for place, payment in enumerate(payments)
    ]
    outcomes = await asyncio.gather(*(parts.store.settle(one) for one in settlements), return_exceptions=True)
    for place, (payment, outcome) in enumerate(zip(payments, outcomes, strict=True)):
        standing = await parts.store.find_standing_by_id(payment.payment_id)
        assert standing is not None
        rows = fetch_all(
            settings.database_url,
            "SELECT d.state FROM events AS e JOIN deliveries AS d USING (bucket, event_id) WHERE e.payment_id = %s",
            payment.payment_id,
        )
        if place in bad:
            assert isinstance(outcome, psycopg.errors.CheckViolation)
            assert (standing.state, rows) == (PaymentState.PROCESSING, [])
        else:
            assert outcome is True
            assert (standing.state, rows) == (PaymentState.SUCCESS, [("PENDING",)])


async def test_duplicates_within_one_batch_make_one_payment(parts):
    first = new_payment(1)
    twins = [
        replace(first, payment_id=identifiers.new(identifiers.PAYMENT, 7, number)) for number in range(60)
    ]
    outcomes = await asyncio.gather(*(parts.store.insert_payment(twin) for twin in twins))
    assert outcomes.count(True) == 1
    winner = twins[outcomes.index(True)]
    stored = await parts.store.find_payment_by_request(7, first.client_id, first.payment_request_id)
    assert stored == winner


async def test_everybody_is_answered_about_their_own_payment(parts):
    payments = [new_payment(number, bucket=number % 256) for number in range(600)]
    assert all(await asyncio.gather(*(parts.store.insert_payment(payment) for payment in payments)))
    found = await asyncio.gather(
        *(parts.store.find_payment_by_id(p.payment_id) for p in payments),
        *(parts.store.find_payment_by_request(p.bucket, p.client_id, p.payment_request_id) for p in payments),
    )
    assert found == payments + payments
    standings = await asyncio.gather(
        *(parts.store.find_standing_by_id(p.payment_id) for p in payments),
        *(
            parts.store.find_standing_by_request(p.bucket, p.client_id, p.payment_request_id)
            for p in payments
        ),
        *(
            parts.store.find_standing_by_request(p.bucket, "sandbox_2", p.payment_request_id)
            for p in payments
        ),
    )
    assert [s.payment_id if s else None for s in standings] == [p.payment_id for p in payments] * 2 + [
        None
    ] * 600
    assert [s.amount_minor for s in standings[:600]] == [p.amount_minor for p in payments]


async def test_of_settlements_of_one_payment_in_one_batch_one_wins(parts):
    payment = new_payment(1)
    await parts.store.insert_payment(payment)
    settlements = [settlement_of(payment) for _ in range(20)]
    outcomes = await asyncio.gather(*(parts.store.settle(one) for one in settlements), return_exceptions=True)
    assert outcomes.count(True) == 1
    assert outcomes.count(False) == 19
    stored = await parts.store.find_payment_by_id(payment.payment_id)
    assert stored is not None
    assert stored.event_id == settlements[outcomes.index(True)].event_id


def _kill_backends(database_url: str, name: str) -> int:
    rows = fetch_all(
        database_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE %s",
        f"payaccept-{name}",
    )
    return len(rows)


async def test_when_the_connection_breaks_callers_hear_unknown_and_the_next_call_recovers(parts, settings):
    url = settings.database_url
    assert await parts.store.insert_payment(new_payment(0))
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE payments IN EXCLUSIVE MODE")
        payments = [new_payment(number) for number in range(30)]
        calls = [asyncio.create_task(parts.store.insert_payment(payment)) for payment in payments]
        await asyncio.sleep(0.2)
        assert not any(call.done() for call in calls)
        assert _kill_backends(url, "test-create") >= 1
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        other.rollback()
    # Whoever was not sent yet goes out on the next connection; whoever was, cannot know.
    unknown = [outcome for outcome in outcomes if outcome is not True]
    assert unknown
    assert all(isinstance(outcome, OutcomeUnknown | StoreUnavailable) for outcome in unknown)
    for payment, outcome in zip(payments, outcomes, strict=True):
        again = await _until_known(lambda payment=payment: parts.store.insert_payment(payment))
        assert again is (outcome is not True), "the idempotency key settles it"


async def _until_known(call: Callable[[], Any]) -> Any:
    for _ in range(100):
        try:
            return await call()
        except OutcomeOpen:
            await asyncio.sleep(0.02)
    raise AssertionError("it did not recover")


async def test_a_settlement_that_was_broken_off_is_done_whole_or_not_at_all(parts, settings):
    url = settings.database_url
    payments = [new_payment(number) for number in range(10)]
    await asyncio.gather(*(parts.store.insert_payment(payment) for payment in payments))
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE deliveries IN EXCLUSIVE MODE")
        calls = [asyncio.create_task(parts.store.settle(settlement_of(payment))) for payment in payments]
        await asyncio.sleep(0.2)
        _kill_backends(url, "test-settle")
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        other.rollback()
    assert any(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
    for payment in payments:
        await _until_known(lambda payment=payment: parts.store.settle(settlement_of(payment)))
        [(events, deliveries)] = fetch_all(
            url,
            "SELECT count(e), count(d) FROM events AS e LEFT JOIN deliveries AS d USING (bucket, event_id)"
            " WHERE e.payment_id = %s",
            payment.payment_id,
        )
        assert (events, deliveries) == (1, 1)


@pytest.mark.parametrize("method", ["create", "settle", "inquire", "find", "payments"])
async def test_a_connection_that_broke_while_idle_is_replaced(parts, settings, method):
    payment = new_payment(1)
    await parts.store.insert_payment(payment)
    await parts.store.settle(settlement_of(payment))
    await parts.store.find_standing_by_id(payment.payment_id)
    await parts.store.find_payment_by_id(payment.payment_id)
    await parts.store.claim_due_payments(NOW - timedelta(days=1), NOW, 1)
    assert _kill_backends(settings.database_url, f"test-{method}") >= 1
    other = new_payment(2)
    await _until_known(lambda: parts.store.insert_payment(other))
    assert await _until_known(lambda: parts.store.find_payment_by_id(other.payment_id)) == other
    assert await _until_known(lambda: parts.store.find_standing_by_id(other.payment_id))
    await _until_known(lambda: parts.store.settle(settlement_of(other)))
    await _until_known(lambda: parts.store.claim_due_payments(NOW - timedelta(days=1), NOW, 1))


async def test_while_the_database_is_away_calls_are_refused_at_once_and_then_served_again(
    fresh_database, master_key_file
):
    url = fresh_database()
    name = url.partition("@/")[2].partition("?")[0]
    async with Parts(settings_for(url, master_key_file)) as parts:
        assert await parts.store.insert_payment(new_payment(0))
        admin = url.replace(f"/{name}?", "/postgres?")
        run_sql(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        fetch_all(admin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name)
        started = asyncio.get_running_loop().time()
        outcomes = await asyncio.gather(
            *(parts.store.insert_payment(new_payment(number)) for number in range(100)),
            return_exceptions=True,
        )
        assert all(isinstance(outcome, OutcomeOpen) for outcome in outcomes)
        assert asyncio.get_running_loop().time() - started < 1
        run_sql(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert await _until_known(lambda: parts.store.insert_payment(new_payment(1)))


async def test_both_routings_lead_to_the_same_payments(settings):
    """What one process wrote with one lane, another finds, settles and refuses with a lane per bucket."""
    shop = merchant_made(NOW, spread=256)
    async with Parts(settings, one_lane) as one, Parts(settings, lane_per_bucket) as other:
        ids = [f"order-{number}" for number in range(64)]
        answers = await asyncio.gather(
            *(
                (one, other)[number % 2].create(
                    shop, "createQROrder", NOW, paymentRequestId=request_id, sandbox={"outcome": "MANUAL"}
                )
                for number, request_id in enumerate(ids)
            )
        )
        for request_id, answer in zip(ids, answers, strict=True):
            found = [await side.inquire(shop, paymentRequestId=request_id) for side in (one, other)]
            assert found[0] == found[1]
            assert found[0]["paymentId"] == json.loads(answer)["paymentId"]
