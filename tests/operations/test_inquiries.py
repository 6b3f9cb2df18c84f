"""Asking how a payment stands: by which identifiers, and by whom."""

import asyncio
import json

import pytest

from deployment import NOW, fetch_all, merchant_made, payment_id_of
from merchant import new_request_id
from payaccept.domain.errors import PaymentNotFound


async def test_a_payment_is_found_by_either_identifier_and_by_its_acquirement(parts, shop):
    request_id = new_request_id()
    answer = json.loads(await parts.create(shop, "createQROrder", NOW, paymentRequestId=request_id))
    payment_id = answer["paymentId"]
    expected = await parts.inquire(shop, paymentId=payment_id)
    acquirement_id = "acq_" + payment_id[4:]
    for ids in (
        {"paymentRequestId": request_id},
        {"paymentId": acquirement_id},
        {"paymentId": payment_id, "paymentRequestId": request_id},
        {"paymentId": acquirement_id, "paymentRequestId": request_id},
    ):
        assert await parts.inquire(shop, **ids) == expected
    assert expected["paymentId"] == payment_id
    assert expected["paymentRequestId"] == request_id
    assert "paymentTime" not in expected


async def test_identifiers_of_two_payments_name_none(parts, shop):
    first, second = new_request_id(), new_request_id()
    answer = json.loads(await parts.create(shop, "createQROrder", NOW, paymentRequestId=first))
    await parts.create(shop, "createQROrder", NOW, paymentRequestId=second)
    for request_id in (second, new_request_id()):
        with pytest.raises(PaymentNotFound, match="different payments"):
            await parts.inquire(shop, paymentId=answer["paymentId"], paymentRequestId=request_id)


async def test_another_merchants_payment_is_like_none(parts, shop):
    other = merchant_made(NOW)
    request_id = new_request_id()
    answer = json.loads(await parts.create(shop, "createQROrder", NOW, paymentRequestId=request_id))
    nowhere = {"paymentId": "pay_" + "0" * 36}
    messages = set()
    for ids in (nowhere, {"paymentId": answer["paymentId"]}, {"paymentRequestId": request_id}):
        with pytest.raises(PaymentNotFound) as caught:
            await parts.inquire(other, **ids)
        messages.add(str(caught.value))
    both = {"paymentId": answer["paymentId"], "paymentRequestId": request_id}
    with pytest.raises(PaymentNotFound) as caught:
        await parts.inquire(other, **both)
    assert messages | {str(caught.value)} == {"there is no such payment"}


@pytest.mark.parametrize("payment_id", ["x", "pay_", "evt_" + "0" * 36, "pay_" + "F" * 36, "0" * 64])
async def test_what_is_no_identifier_of_ours_names_nothing(parts, shop, payment_id):
    with pytest.raises(PaymentNotFound):
        await parts.inquire(shop, paymentId=payment_id)


@pytest.mark.parametrize("spread", [1, 4, 256])
async def test_a_merchant_of_any_spread_finds_its_payments(parts, settings, spread):
    wide = merchant_made(NOW, base_bucket=250, spread=spread)
    ids = [new_request_id() for _ in range(40)]
    answers = await asyncio.gather(
        *(parts.create(wide, "createQROrder", NOW, paymentRequestId=request_id) for request_id in ids)
    )
    for request_id, answer in zip(ids, answers, strict=True):
        payment_id = payment_id_of(answer)
        assert (await parts.inquire(wide, paymentRequestId=request_id))["paymentId"] == payment_id
        assert (await parts.inquire(wide, paymentId=payment_id))["paymentRequestId"] == request_id
    rows = fetch_all(
        settings.database_url, "SELECT DISTINCT bucket FROM payments WHERE client_id = %s", wide.client_id
    )
    assert {bucket for (bucket,) in rows} <= {(250 + step) % 256 for step in range(spread)}
    assert len(rows) == 1 if spread == 1 else len(rows) > 1
