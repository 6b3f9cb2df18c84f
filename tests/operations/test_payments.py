"""A payment's life over the real store and wallet, hour by hour with the clock passed in."""

import asyncio
import json

import pytest

from deployment import NOW, Parts, after, fetch_all, merchant_made, payment_id_of
from merchant import CREATES, new_request_id
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.domain.errors import OutcomeUnknown, PaymentFinal, PaymentNotFound
from payaccept.domain.payment import Declined, Paid, WalletAnswer
from payaccept.wire.codes import PAYMENT_FAILURES, ResultCode

ORDERS = ("createQROrder", "linkPayCreate")


def events_of(parts_url: str, payment_id: str) -> list[tuple[str, str]]:
    rows = fetch_all(
        parts_url,
        "SELECT e.event_type, convert_from(p.body, 'UTF8') FROM events AS e JOIN payloads AS p USING (bucket, event_id)"
        " WHERE e.payment_id = %s",
        "pay_" + payment_id[4:],
    )
    return [(kind, body) for kind, body in rows]


async def standing(parts: Parts, shop, payment_id: str) -> tuple[str, str | None, str | None]:
    answer = await parts.inquire(shop, paymentId=payment_id)
    return answer["paymentStatus"], answer.get("failureCode"), answer.get("paymentTime")


# Completing


@pytest.mark.parametrize("operation", ORDERS)
async def test_an_order_completes_by_itself_after_the_delay(parts, shop, settings, operation):
    payment_id = payment_id_of(await parts.create(shop, operation, NOW))
    await parts.look(after(0.09))
    assert await standing(parts, shop, payment_id) == ("PROCESSING", None, None)
    await parts.look(after(0.1))
    assert await standing(parts, shop, payment_id) == ("SUCCESS", None, "2026-03-01T12:00:00.100Z")
    [(kind, body)] = events_of(settings.database_url, payment_id)
    assert kind == "payment.succeeded"
    assert json.loads(body)["paymentTime"] == "2026-03-01T12:00:00.100Z"


@pytest.mark.parametrize("code", sorted(PAYMENT_FAILURES))
@pytest.mark.parametrize("operation", ORDERS)
async def test_an_order_fails_with_the_code_of_its_script(parts, shop, settings, operation, code):
    script = {"outcome": "FAIL", "resultCode": code}
    payment_id = payment_id_of(await parts.create(shop, operation, NOW, sandbox=script))
    await parts.look(after(0.1))
    assert (await standing(parts, shop, payment_id))[:2] == ("FAIL", code)
    [(kind, body)] = events_of(settings.database_url, payment_id)
    assert (kind, json.loads(body)["result"]["resultCode"]) == ("payment.failed", code)


@pytest.mark.parametrize("operation", CREATES)
async def test_a_delay_of_its_own_replaces_the_deployments(parts, shop, operation):
    payment_id = payment_id_of(await parts.create(shop, operation, NOW, sandbox={"delayMs": 5000}))
    await parts.look(after(4.999))
    assert (await standing(parts, shop, payment_id))[0] == "PROCESSING"
    await parts.look(after(5))
    assert (await standing(parts, shop, payment_id))[0] == "SUCCESS"


@pytest.mark.parametrize("operation", ORDERS)
async def test_without_any_delay_the_first_look_completes(parts, shop, operation):
    payment_id = payment_id_of(await parts.create(shop, operation, NOW, sandbox={"delayMs": 0}))
    await parts.look(NOW)
    assert (await standing(parts, shop, payment_id))[0] == "SUCCESS"


@pytest.mark.parametrize("operation", ORDERS)
async def test_an_unknown_outcome_of_an_order_is_resolved_after_the_delay(parts, shop, operation):
    script = {"outcome": "UNKNOWN", "resultCode": "RISK_REJECT"}
    payment_id = payment_id_of(await parts.create(shop, operation, NOW, sandbox=script))
    await parts.look(after(0.1))
    assert (await standing(parts, shop, payment_id))[:2] == ("FAIL", "RISK_REJECT")


# Retail


async def test_a_retail_pay_is_paid_at_once_and_its_event_is_born_with_it(parts, shop, settings):
    answer = json.loads(await parts.create(shop, "retailPay", NOW))
    assert answer["result"]["resultStatus"] == "S"
    assert answer["paymentTime"] == "2026-03-01T12:00:00.000Z"
    assert answer["paymentAmount"] == {"currency": "EUR", "value": 1999}
    assert await standing(parts, shop, answer["paymentId"]) == ("SUCCESS", None, answer["paymentTime"])
    assert [kind for kind, _ in events_of(settings.database_url, answer["paymentId"])] == [
        "payment.succeeded"
    ]


async def test_a_declined_retail_pay_says_so_and_can_be_inquired(parts, shop):
    request_id = new_request_id()
    script = {"outcome": "FAIL", "resultCode": "INSUFFICIENT_BALANCE"}
    answer = json.loads(
        await parts.create(shop, "retailPay", NOW, sandbox=script, paymentRequestId=request_id)
    )
    assert set(answer) == {"result"}
    assert answer["result"]["resultCode"] == "INSUFFICIENT_BALANCE"
    found = await parts.inquire(shop, paymentRequestId=request_id)
    assert (found["paymentStatus"], found["failureCode"]) == ("FAIL", "INSUFFICIENT_BALANCE")
    assert found["paymentTime"] == "2026-03-01T12:00:00.000Z"


@pytest.mark.parametrize(
    "script", [{"outcome": "UNKNOWN"}, {"outcome": "UNKNOWN", "resultCode": "USER_REJECTED"}]
)
async def test_a_silent_wallet_leaves_a_retail_pay_open_until_it_is_asked_again(
    parts, shop, settings, script
):
    request_id = new_request_id()
    with pytest.raises(OutcomeUnknown):
        await parts.create(shop, "retailPay", NOW, sandbox=script, paymentRequestId=request_id)
    found = await parts.inquire(shop, paymentRequestId=request_id)
    assert found["paymentStatus"] == "PROCESSING"
    await parts.look(after(0.05))
    assert (await standing(parts, shop, found["paymentId"]))[0] == "PROCESSING"
    await parts.look(after(0.1))
    expected = ("SUCCESS", None) if len(script) == 1 else ("FAIL", "USER_REJECTED")
    assert (await standing(parts, shop, found["paymentId"]))[:2] == expected
    assert len(events_of(settings.database_url, found["paymentId"])) == 1


class Dying(BaseException):
    """The process ends here."""


class DyingWallet(SimulatedWallet):
    """Its caller dies before the wallet hears of the charge."""

    async def charge(self, *_: object) -> WalletAnswer:
        raise Dying


async def test_a_retail_pay_whose_process_died_is_resolved_by_the_worker(parts, shop, settings):
    request_id = new_request_id()
    async with Parts(settings, wallet_type=DyingWallet) as dying:
        with pytest.raises(Dying):
            await dying.create(shop, "retailPay", NOW, paymentRequestId=request_id)
    await parts.look(after(9))
    assert (await parts.inquire(shop, paymentRequestId=request_id))["paymentStatus"] == "PROCESSING"
    await parts.look(after(10))
    assert (await parts.inquire(shop, paymentRequestId=request_id))["paymentStatus"] == "SUCCESS"


# The customer


@pytest.mark.parametrize("operation", CREATES)
@pytest.mark.parametrize(
    "outcome", [Paid(), Declined(ResultCode.USER_REJECTED), Declined(ResultCode.RISK_REJECT)]
)
async def test_a_manual_payment_waits_for_its_customer(parts, shop, settings, operation, outcome):
    answer = await parts.create(shop, operation, NOW, sandbox={"outcome": "MANUAL"})
    assert json.loads(answer)["result"]["resultStatus"] == "A"
    payment_id = payment_id_of(answer)
    await parts.look(after(600))
    assert (await standing(parts, shop, payment_id))[0] == "PROCESSING"
    await parts.payments.play_customer(payment_id, outcome, parts.webhook_url_of, after(601))
    code = outcome.code if isinstance(outcome, Declined) else None
    assert (await standing(parts, shop, payment_id))[:2] == ("FAIL" if code else "SUCCESS", code)
    with pytest.raises(PaymentFinal, match="final already"):
        await parts.payments.play_customer(payment_id, Paid(), parts.webhook_url_of, after(602))
    assert len(events_of(settings.database_url, payment_id)) == 1


async def test_the_customer_finds_the_payment_by_what_is_shown_to_them(parts, shop):
    texts = []
    qr = json.loads(await parts.create(shop, "createQROrder", NOW, sandbox={"outcome": "MANUAL"}))
    texts.append((qr["paymentId"], qr["qrCode"]))
    link = json.loads(await parts.create(shop, "linkPayCreate", NOW, sandbox={"outcome": "MANUAL"}))
    texts.append((link["acquirementId"], link["redirectUrl"]))
    again = json.loads(await parts.create(shop, "linkPayCreate", NOW, sandbox={"outcome": "MANUAL"}))
    texts.append((again["acquirementId"], again["appLinks"]["ios"]["shortUrl"] + "/"))
    for payment_id, text in texts:
        await parts.payments.play_customer(text, Paid(), parts.webhook_url_of, after(1))
        assert (await standing(parts, shop, payment_id))[0] == "SUCCESS"


@pytest.mark.parametrize(
    "text", ["", "pay_", "https://pay.example/q/", "pay_" + "0" * 36, "acq_" + "f" * 36, "x" * 5000]
)
async def test_a_customer_with_another_code_finds_nothing(parts, text):
    with pytest.raises(PaymentNotFound):
        await parts.payments.play_customer(text, Paid(), parts.webhook_url_of, NOW)


# Expiry


@pytest.mark.parametrize("operation", CREATES)
@pytest.mark.parametrize("script", [{"outcome": "MANUAL"}, {"delayMs": 86_400_000}])
async def test_an_unpaid_order_expires_at_its_deadline(parts, shop, settings, operation, script):
    payment_id = payment_id_of(await parts.create(shop, operation, NOW, sandbox=script))
    await parts.look(after(899.9))
    assert (await standing(parts, shop, payment_id))[0] == "PROCESSING"
    await parts.look(after(900))
    assert await standing(parts, shop, payment_id) == ("FAIL", "ORDER_EXPIRED", "2026-03-01T12:15:00.000Z")
    assert [kind for kind, _ in events_of(settings.database_url, payment_id)] == ["payment.failed"]


async def test_the_deadline_survives_a_restart(settings, shop):
    async with Parts(settings) as before:
        answer = await before.create(shop, "createQROrder", NOW, sandbox={"outcome": "MANUAL"})
    async with Parts(settings) as later:
        await later.look(after(3600))
        assert (await standing(later, shop, payment_id_of(answer)))[1] == "ORDER_EXPIRED"


async def test_a_customer_cannot_pay_after_the_deadline_even_before_the_worker_has_looked(parts, shop):
    payment_id = payment_id_of(await parts.create(shop, "createQROrder", NOW, sandbox={"outcome": "MANUAL"}))
    with pytest.raises(PaymentFinal, match="expired"):
        await parts.payments.play_customer(payment_id, Paid(), parts.webhook_url_of, after(900))
    await parts.look(after(901))
    assert (await standing(parts, shop, payment_id))[:2] == ("FAIL", "ORDER_EXPIRED")


async def test_a_payment_that_was_paid_while_the_worker_was_away_is_not_expired(parts, shop):
    """It was to complete a moment after its creation; the wallet is asked before the deadline is applied."""
    payment_id = payment_id_of(await parts.create(shop, "createQROrder", NOW))
    await parts.look(after(5000))
    assert (await standing(parts, shop, payment_id))[0] == "SUCCESS"


# Once


@pytest.mark.parametrize("operation", CREATES)
async def test_of_many_who_settle_at_once_exactly_one_wins_and_there_is_one_event(
    parts, shop, settings, operation
):
    answer = await parts.create(shop, operation, NOW, sandbox={"outcome": "MANUAL"})
    payment_id = "pay_" + payment_id_of(answer)[4:]
    payment = await parts.store.find_payment_by_id(payment_id)
    outcomes = [Paid() if number % 2 else Declined(ResultCode.USER_REJECTED) for number in range(24)]
    async with Parts(settings) as other:
        won = await asyncio.gather(
            *(
                side.payments.finish(payment, outcome, None, after(number))
                for number, outcome in enumerate(outcomes)
                for side in (parts, other)
            )
        )
    assert sum(won) == 1
    winner = won.index(True) // 2
    final = ("SUCCESS", None) if winner % 2 else ("FAIL", "USER_REJECTED")
    assert (await standing(parts, shop, payment_id))[:2] == final
    [(_, body)] = events_of(settings.database_url, payment_id)
    assert json.loads(body)["paymentStatus"] == final[0]


async def test_a_final_payment_is_not_looked_at_again(parts, shop):
    answer = json.loads(await parts.create(shop, "retailPay", NOW))
    assert answer["paymentId"] not in await parts.look(after(100_000))


async def test_two_workers_do_not_take_the_same_payment(parts, shop, settings):
    made = {payment_id_of(await parts.create(shop, "createQROrder", NOW)) for _ in range(30)}
    async with Parts(settings) as other:
        first, second = await asyncio.gather(
            parts.store.claim_due_payments(after(1), after(31), 500),
            other.store.claim_due_payments(after(1), after(31), 500),
        )
        taken = [payment.payment_id for payment in [*first, *second]]
        assert len(taken) == len(set(taken))
        assert made <= set(taken)
        assert not made & {
            payment.payment_id for payment in await other.store.claim_due_payments(after(30), after(60), 500)
        }
        again = {
            payment.payment_id for payment in await other.store.claim_due_payments(after(31), after(61), 500)
        }
        assert made <= again, "a worker that died gives back what it took"
        await other.look(after(62))


# What is stored


@pytest.mark.parametrize("operation", CREATES)
async def test_the_body_and_the_answer_are_stored_byte_for_byte(parts, shop, settings, operation):
    request_id = new_request_id()
    answer = await parts.create(
        shop,
        operation,
        NOW,
        paymentRequestId=request_id,
        order={"orderDescription": "Schuhe ☕", "merchant": {"store": {"externalStoreId": "s1"}}},
    )
    [(stored_operation, body, stored, store_id)] = fetch_all(
        settings.database_url,
        "SELECT operation, request_body, answer, external_store_id FROM payments WHERE payment_request_id = %s",
        request_id,
    )
    assert (stored_operation, stored, store_id) == (operation, answer, "s1")
    assert json.loads(body)["paymentRequestId"] == request_id
    assert "☕".encode() in body


@pytest.mark.parametrize(
    ("notify_url", "webhook_url", "goes_to"),
    [
        (None, None, None),
        ("http://127.0.0.1:1/a", None, "http://127.0.0.1:1/a"),
        (None, "http://127.0.0.1:1/b", "http://127.0.0.1:1/b"),
        ("http://127.0.0.1:1/a", "http://127.0.0.1:1/b", "http://127.0.0.1:1/a"),
    ],
)
async def test_a_notification_goes_where_the_request_or_the_merchant_says(
    settings, notify_url, webhook_url, goes_to
):
    shop = merchant_made(NOW)
    async with Parts(settings) as own:
        own.webhook_url = webhook_url
        payment_id = payment_id_of(await own.create(shop, "createQROrder", NOW, paymentNotifyUrl=notify_url))
        await own.look(after(1))
    rows = fetch_all(
        settings.database_url,
        "SELECT d.url FROM events AS e LEFT JOIN deliveries AS d USING (bucket, event_id) WHERE e.payment_id = %s",
        payment_id,
    )
    assert rows == [(goes_to,)], "the event is recorded even when it has nowhere to go"
