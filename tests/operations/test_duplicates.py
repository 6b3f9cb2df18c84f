"""One paymentRequestId, one payment: strict, or replayed byte for byte."""

import asyncio
import json
from datetime import datetime

import pytest

from deployment import NOW, Parts, after, fetch_all, merchant_made, payment_id_of
from merchant import CREATES, new_request_id
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.domain.errors import DuplicateRequest, OutcomeUnknown
from payaccept.domain.merchant import DuplicatePolicy
from payaccept.domain.payment import Paid, Payment, WalletAnswer


@pytest.mark.parametrize("first", CREATES)
@pytest.mark.parametrize("second", CREATES)
@pytest.mark.parametrize("policy", DuplicatePolicy)
async def test_a_request_id_is_used_once_across_all_operations(parts, first, second, policy):
    shop = merchant_made(NOW, duplicates=policy)
    request_id = new_request_id()
    await parts.create(shop, first, NOW, paymentRequestId=request_id)
    with pytest.raises(DuplicateRequest) as caught:
        await parts.create(shop, second, after(1), paymentRequestId=request_id, productCode="another")
    assert str(caught.value) == f"paymentRequestId was already used by {first}, with a different body"
    if first != second or policy is DuplicatePolicy.STRICT:
        return
    with pytest.raises(DuplicateRequest):
        await parts.create(
            shop,
            second,
            after(1),
            paymentRequestId=request_id,
            order={"orderMemo": "x"} | {"orderDescription": "y"},
        )


@pytest.mark.parametrize("operation", CREATES)
async def test_by_default_even_the_same_body_is_refused(parts, shop, operation):
    request_id = new_request_id()
    await parts.create(shop, operation, NOW, paymentRequestId=request_id)
    with pytest.raises(DuplicateRequest) as caught:
        await parts.create(shop, operation, after(1), paymentRequestId=request_id)
    assert str(caught.value) == f"paymentRequestId was already used by {operation}, with the same body"


@pytest.mark.parametrize("operation", CREATES)
@pytest.mark.parametrize("script", [{"outcome": "SUCCESS"}, {"outcome": "FAIL"}, {"outcome": "MANUAL"}])
async def test_with_replay_the_same_body_gets_the_first_answer_again(parts, operation, script):
    shop = merchant_made(NOW, duplicates=DuplicatePolicy.REPLAY)
    request_id = new_request_id()
    first = await parts.create(shop, operation, NOW, paymentRequestId=request_id, sandbox=script)
    again = await parts.create(shop, operation, after(5), paymentRequestId=request_id, sandbox=script)
    assert again == first
    payment_id = (await parts.inquire(shop, paymentRequestId=request_id))["paymentId"]
    if script["outcome"] == "MANUAL":
        await parts.payments.play_customer(payment_id, Paid(), parts.webhook_url_of, after(6))
    await parts.look(after(7))
    assert await parts.create(shop, operation, after(8), paymentRequestId=request_id, sandbox=script) == first


class HastyWallet(SimulatedWallet):
    """Its customer decides before it has answered that they are asked."""

    parts: Parts

    async def charge(self, payment: Payment, auth_code: str, now: datetime) -> WalletAnswer:
        answer = await super().charge(payment, auth_code, now)
        await self.parts.payments.finish(payment, Paid(), None, now)
        return answer


async def test_the_first_answer_is_replayed_also_when_the_customer_was_faster(settings):
    shop = merchant_made(NOW, duplicates=DuplicatePolicy.REPLAY)
    request_id = new_request_id()
    script = {"outcome": "MANUAL"}
    async with Parts(settings, wallet_type=HastyWallet) as parts:
        parts.wallet.parts = parts
        first = await parts.create(shop, "retailPay", NOW, paymentRequestId=request_id, sandbox=script)
        again = await parts.create(shop, "retailPay", after(1), paymentRequestId=request_id, sandbox=script)
        assert json.loads(first)["result"]["resultStatus"] == "A"
        assert again == first
        assert (await parts.inquire(shop, paymentRequestId=request_id))["paymentStatus"] == "SUCCESS"


async def test_a_retail_pay_that_stayed_unknown_is_replayed_with_what_became_of_it(parts):
    shop = merchant_made(NOW, duplicates=DuplicatePolicy.REPLAY)
    request_id = new_request_id()
    script = {"outcome": "UNKNOWN"}
    with pytest.raises(OutcomeUnknown):
        await parts.create(shop, "retailPay", NOW, paymentRequestId=request_id, sandbox=script)
    await parts.look(after(1))
    again = await parts.create(shop, "retailPay", after(2), paymentRequestId=request_id, sandbox=script)
    assert json.loads(again)["result"]["resultStatus"] == "S"
    assert json.loads(again)["paymentTime"] == "2026-03-01T12:00:01.000Z"


@pytest.mark.parametrize("operation", CREATES)
async def test_the_same_request_id_is_free_for_another_merchant(parts, operation):
    request_id = new_request_id()
    made = {
        payment_id_of(await parts.create(merchant_made(NOW), operation, NOW, paymentRequestId=request_id))
        for _ in range(3)
    }
    assert len(made) == 3


@pytest.mark.parametrize("operation", CREATES)
@pytest.mark.parametrize("policy", DuplicatePolicy)
async def test_of_many_identical_creates_at_once_exactly_one_makes_a_payment(
    parts, settings, operation, policy
):
    shop = merchant_made(NOW, duplicates=policy)
    request_id = new_request_id()
    async with Parts(settings) as other:
        answers = await asyncio.gather(
            *(
                side.create(shop, operation, NOW, paymentRequestId=request_id)
                for side in (parts, other)
                for _ in range(16)
            ),
            return_exceptions=True,
        )
    made = [answer for answer in answers if isinstance(answer, bytes)]
    refused = [answer for answer in answers if isinstance(answer, DuplicateRequest)]
    if policy is DuplicatePolicy.STRICT:
        assert (len(made), len(refused)) == (1, 31)
        assert {str(refusal) for refusal in refused} == {
            f"paymentRequestId was already used by {operation}, with the same body"
        }
    else:
        assert (len(made), len(set(made))) == (32, 1)
    rows = fetch_all(settings.database_url, "SELECT FROM payments WHERE client_id = %s", shop.client_id)
    assert len(rows) == 1
