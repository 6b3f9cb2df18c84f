"""Payments as a merchant sees them: signed requests to an API process, with a worker beside it."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import pytest_asyncio

from deployment import running_worker
from merchant import CREATES, Merchant, new_request_id, request_of
from payaccept.domain.merchant import DuplicatePolicy
from payaccept.domain.payment import Declined, Paid
from payaccept.wire.codes import ResultCode

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
ID = r"[0-9a-f]{36}"


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def worker(settings) -> AsyncIterator[None]:
    async with running_worker(settings):
        yield


async def final(
    api: httpx.AsyncClient, merchant: Merchant, request_id: str, timeout_s: float = 3
) -> dict[str, Any]:
    """Poll until the payment is final."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = (await merchant.inquire(api, paymentRequestId=request_id)).json()
        if answer["paymentStatus"] != "PROCESSING":
            return answer
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_a_qr_order_shows_its_code_and_completes(api, merchant, settings):
    request = request_of("createQROrder")
    answer = (await merchant.send(api, "createQROrder", request)).json()
    assert set(answer) == {"result", "paymentRequestId", "paymentId", "qrCode"}
    assert answer["paymentRequestId"] == request["paymentRequestId"]
    assert re.fullmatch(f"pay_{ID}", answer["paymentId"])
    web_host = settings.web_base_url.partition("://")[2]
    assert answer["qrCode"] == f"https://{web_host}/q/{answer['paymentId']}"
    found = await final(api, merchant, request["paymentRequestId"])
    assert set(found) == {
        "result",
        "paymentStatus",
        "paymentId",
        "paymentRequestId",
        "paymentAmount",
        "paymentTime",
    }
    assert found["paymentStatus"] == "SUCCESS"
    assert found["paymentAmount"] == request["paymentAmount"]
    assert re.fullmatch(TIME, found["paymentTime"])


async def test_a_link_leads_to_the_wallet_and_completes(api, merchant, settings):
    request = request_of("linkPayCreate", paymentRedirectUrl="https://shop.example/thanks?x=1#y")
    answer = (await merchant.send(api, "linkPayCreate", request)).json()
    assert set(answer) == {"result", "merchantTransId", "redirectUrl", "appLinks", "acquirementId"}
    assert answer["merchantTransId"] == request["paymentRequestId"]
    assert re.fullmatch(f"acq_{ID}", answer["acquirementId"])
    payment_id = "pay_" + answer["acquirementId"][4:]
    assert answer["redirectUrl"] == f"{settings.web_base_url}/pay/{payment_id}"
    links = answer["appLinks"]
    assert set(links) == {"android", "ios"}
    for platform in links.values():
        assert platform["targetPath"] == f"/pay/{payment_id}"
        assert platform["shortUrl"] == f"{settings.web_base_url}/s/{payment_id}"
        assert platform["applicationId"]
    assert links["ios"]["bundleId"]
    found = await final(api, merchant, request["paymentRequestId"])
    assert (found["paymentId"], found["paymentStatus"]) == (payment_id, "SUCCESS")
    by_acquirement = await merchant.inquire(api, paymentId=answer["acquirementId"])
    assert by_acquirement.json() == found


async def test_a_retail_pay_is_done_when_it_is_answered(api, merchant):
    request = request_of("retailPay")
    answer = (await merchant.send(api, "retailPay", request)).json()
    assert set(answer) == {"result", "paymentRequestId", "paymentId", "paymentTime", "paymentAmount"}
    assert re.fullmatch(TIME, answer["paymentTime"])
    found = await final(api, merchant, request["paymentRequestId"])
    assert (found["paymentStatus"], found["paymentTime"]) == ("SUCCESS", answer["paymentTime"])


@pytest.mark.parametrize("operation", ["createQROrder", "linkPayCreate"])
@pytest.mark.parametrize("code", ["INSUFFICIENT_BALANCE", "QR_EXPIRED"])
async def test_a_scripted_failure_is_told_by_inquiry(api, merchant, operation, code):
    request = request_of(operation, sandbox={"outcome": "FAIL", "resultCode": code})
    assert (await merchant.send(api, operation, request)).status_code == 200
    found = await final(api, merchant, request["paymentRequestId"])
    assert (found["result"]["resultStatus"], found["result"]["resultCode"]) == ("S", "SUCCESS")
    assert (found["paymentStatus"], found["failureCode"]) == ("FAIL", code)
    assert found["failureMessage"] == ResultCode(code).meaning.message


@pytest.mark.parametrize("operation", CREATES)
@pytest.mark.parametrize(
    ("outcome", "status"), [(Paid(), "SUCCESS"), (Declined(ResultCode.USER_REJECTED), "FAIL")]
)
async def test_the_customer_decides_a_manual_payment(
    api, merchant, administration, operation, outcome, status
):
    request = request_of(operation, sandbox={"outcome": "MANUAL"})
    answer = (await merchant.send(api, operation, request)).json()
    assert answer["result"]["resultStatus"] == "A"
    await asyncio.sleep(0.3)
    found = (await merchant.inquire(api, paymentRequestId=request["paymentRequestId"])).json()
    assert found["paymentStatus"] == "PROCESSING"
    assert "paymentTime" not in found
    await administration.payments.play_customer(
        found["paymentId"], outcome, administration.webhook_url_of, datetime.now(UTC)
    )
    found = await final(api, merchant, request["paymentRequestId"])
    assert found["paymentStatus"] == status


async def test_an_unknown_retail_pay_is_resolved_by_the_worker_and_replayed_as_it_ended(api, register):
    merchant = await register(duplicates=DuplicatePolicy.REPLAY)
    request = request_of("retailPay", sandbox={"outcome": "UNKNOWN"})
    answer = await merchant.send(api, "retailPay", request)
    assert (answer.status_code, answer.json()["result"]["resultStatus"]) == (503, "U")
    found = await final(api, merchant, request["paymentRequestId"])
    assert found["paymentStatus"] == "SUCCESS"
    again = await merchant.send(api, "retailPay", request)
    assert (again.status_code, again.json()["paymentTime"]) == (200, found["paymentTime"])


async def test_a_delay_is_waited_for(api, merchant):
    request = request_of("createQROrder", sandbox={"delayMs": 700})
    started = time.monotonic()
    await merchant.send(api, "createQROrder", request)
    await final(api, merchant, request["paymentRequestId"])
    assert 0.6 < time.monotonic() - started < 2


async def test_identifiers_that_disagree_find_nothing(api, merchant, register):
    first = (await merchant.create(api, "createQROrder")).json()
    second = (await merchant.create(api, "createQROrder")).json()
    stranger = await register()
    for sender, ids in (
        (merchant, {"paymentId": first["paymentId"], "paymentRequestId": second["paymentRequestId"]}),
        (merchant, {"paymentId": first["paymentId"], "paymentRequestId": new_request_id()}),
        (stranger, {"paymentId": first["paymentId"]}),
        (stranger, {"paymentRequestId": first["paymentRequestId"]}),
        (stranger, {"paymentId": first["paymentId"], "paymentRequestId": first["paymentRequestId"]}),
    ):
        answer = await sender.inquire(api, **ids)
        assert (answer.status_code, answer.json()["result"]["resultCode"]) == (404, "ORDER_NOT_EXIST")
        assert set(answer.json()) == {"result"}


@pytest.mark.parametrize("operation", CREATES)
async def test_replay_gives_the_same_bytes_again_also_to_many_at_once(api, register, operation):
    merchant = await register(duplicates=DuplicatePolicy.REPLAY)
    request = request_of(operation)
    answers = await asyncio.gather(*(merchant.send(api, operation, request) for _ in range(16)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    request["productCode"] = "another"
    answer = await merchant.send(api, operation, request)
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (409, "REPEAT_REQUEST")
    assert "a different body" in answer.text
