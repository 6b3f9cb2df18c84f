"""The codes of the simulated wallet: they work once, for sixty seconds."""

import asyncio
import json

import pytest

from deployment import NOW, Parts, after, merchant_made
from merchant import new_request_id
from payaccept.adapters.wallet_simulated import SimulatedWallet
from payaccept.domain.errors import OutcomeUnknown
from payaccept.domain.payment import Paid, WalletAnswer


class SilentWallet(SimulatedWallet):
    """It hears of the charge and never answers."""

    async def charge(self, *_: object) -> WalletAnswer:
        raise TimeoutError


async def test_an_issued_code_pays_once(parts, shop):
    code = await parts.wallet.issue_code(NOW)
    assert (len(code), code[:3], code.isdecimal()) == (18, "286", True)
    answers = [
        json.loads(await parts.create(shop, "retailPay", after(1), paymentAuthCode=code)) for _ in range(2)
    ]
    assert [answer["result"]["resultCode"] for answer in answers] == ["SUCCESS", "AUTH_CODE_ALREADY_USED"]


@pytest.mark.parametrize(
    ("age_s", "code"), [(0, "SUCCESS"), (59.999, "SUCCESS"), (60, "INVALID_CODE"), (3600, "INVALID_CODE")]
)
async def test_an_issued_code_lives_for_sixty_seconds(parts, shop, age_s, code):
    auth_code = await parts.wallet.issue_code(NOW)
    answer = json.loads(await parts.create(shop, "retailPay", after(age_s), paymentAuthCode=auth_code))
    assert answer["result"]["resultCode"] == code


async def test_of_two_tills_with_one_code_one_is_paid(parts, settings):
    async with Parts(settings) as other:
        for _ in range(5):
            auth_code = await parts.wallet.issue_code(NOW)
            answers = await asyncio.gather(
                *(
                    side.create(merchant_made(NOW), "retailPay", NOW, paymentAuthCode=auth_code)
                    for side in (parts, other)
                    for _ in range(4)
                )
            )
            codes = sorted(json.loads(answer)["result"]["resultCode"] for answer in answers)
            assert codes == ["AUTH_CODE_ALREADY_USED"] * 7 + ["SUCCESS"]


async def test_charging_a_payment_again_with_its_own_code_changes_nothing(parts, shop):
    auth_code = await parts.wallet.issue_code(NOW)
    request_id = new_request_id()
    await parts.create(shop, "retailPay", NOW, paymentAuthCode=auth_code, paymentRequestId=request_id)
    payment_id = (await parts.inquire(shop, paymentRequestId=request_id))["paymentId"]
    payment = await parts.store.find_payment_by_id(payment_id)
    assert await parts.wallet.charge(payment, auth_code, after(100)) == Paid()
    assert await parts.wallet.inquire(payment, after(100)) == Paid()


@pytest.mark.parametrize(
    "auth_code", ["281012020262467128", "x", "286", "2861234567890123", "é😀", "9" * 128, "286" + "x" * 15]
)
async def test_any_other_code_pays_at_once_and_again(parts, shop, auth_code):
    for _ in range(2):
        answer = json.loads(await parts.create(shop, "retailPay", NOW, paymentAuthCode=auth_code))
        assert answer["result"]["resultCode"] == "SUCCESS"


async def test_a_code_that_was_used_by_a_silent_wallet_pays_when_it_is_asked_again(parts, shop):
    auth_code = await parts.wallet.issue_code(NOW)
    request_id = new_request_id()
    with pytest.raises(OutcomeUnknown):
        await parts.create(
            shop,
            "retailPay",
            NOW,
            paymentAuthCode=auth_code,
            paymentRequestId=request_id,
            sandbox={"outcome": "UNKNOWN"},
        )
    await parts.look(after(120))
    assert (await parts.inquire(shop, paymentRequestId=request_id))["paymentStatus"] == "SUCCESS"


async def test_a_used_code_is_refused_also_when_the_wallet_is_asked_later(parts, shop, settings):
    auth_code = await parts.wallet.issue_code(NOW)
    await parts.create(shop, "retailPay", NOW, paymentAuthCode=auth_code)
    request_id = new_request_id()
    async with Parts(settings, wallet_type=SilentWallet) as silent:
        with pytest.raises(OutcomeUnknown):
            await silent.create(
                shop, "retailPay", NOW, paymentAuthCode=auth_code, paymentRequestId=request_id
            )
    await parts.look(after(10))
    found = await parts.inquire(shop, paymentRequestId=request_id)
    assert (found["paymentStatus"], found["failureCode"]) == ("FAIL", "AUTH_CODE_ALREADY_USED")
