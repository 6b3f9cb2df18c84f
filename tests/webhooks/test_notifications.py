"""What a webhook is: its headers, its body, where it goes, and what the sandbox's scripts do to it."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from cryptography.exceptions import InvalidSignature

from processes import Sandbox, eventually
from traffic import Arrival, Receiver, Till, verify

Ended = Callable[..., Awaitable[tuple[str, int, str]]]

MEMBERS = (
    "eventId", "eventType", "createTime", "environment", "clientId", "paymentId", "acquirementId",
    "paymentRequestId", "merchantTransId", "paymentStatus", "paymentTime", "paymentAmount", "result",
)  # fmt: skip
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z")
LATE_S = 10.0


async def the_one_at(receiver: Receiver, path: str) -> Arrival:
    arrivals = await eventually(lambda: receiver.at(path), f"a webhook at {path}")
    assert len(arrivals) == 1
    return arrivals[0]


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def late(till: Till) -> AsyncIterator[tuple[Receiver, str]]:
    """A payment whose webhook is held back, begun before all other tests so that nobody waits for it."""
    async with Receiver() as receiver:
        url = f"{receiver.base_url}/late"
        answer = await till.create("retailPay", paymentNotifyUrl=url, sandbox={"webhook": ["late"]})
        assert answer.code == "SUCCESS"
        yield receiver, answer.value["paymentRequestId"]


@pytest.mark.parametrize("operation", ["createQROrder", "retailPay", "linkPayCreate"])
async def test_the_notification_of_a_payment_tells_everything(
    operation: str, till: Till, keys: dict[int, str], receiver: Receiver
) -> None:
    order = {"orderDescription": "Two coffees", "merchant": {"store": {"externalStoreId": "store-7"}}}
    answer = await till.create(
        operation,
        paymentNotifyUrl=f"{receiver.base_url}/told",
        paymentAmount={"currency": "JPY", "value": 999_999_999_999},
        order=order,
    )
    arrival = await the_one_at(receiver, "/told")
    verify(arrival, keys)
    told = arrival.json
    assert set(told) == {*MEMBERS, "merchantData"}
    asked = (await till.inquire(paymentId=told["paymentId"])).value
    assert told["paymentStatus"] == asked["paymentStatus"] == "SUCCESS"
    assert told["eventType"] == "payment.succeeded"
    assert told["environment"] == "sandbox"
    assert told["clientId"] == till.merchant.client_id
    assert told["merchantTransId"] == told["paymentRequestId"] == asked["paymentRequestId"]
    assert told["paymentAmount"] == asked["paymentAmount"] == {"currency": "JPY", "value": 999_999_999_999}
    assert told["paymentTime"] == asked["paymentTime"]
    assert told["result"] == {**told["result"], "resultStatus": "S", "resultCode": "SUCCESS"}
    assert told["merchantData"] == {"externalStoreId": "store-7"}
    assert told["eventId"].startswith("evt_")
    assert told["acquirementId"] == told["paymentId"].replace("pay_", "acq_")
    assert answer.value.get("paymentId", told["paymentId"]) == told["paymentId"]
    assert answer.value.get("acquirementId", told["acquirementId"]) == told["acquirementId"]
    for name in ("createTime", "paymentTime"):
        assert TIME.fullmatch(told[name])
        assert abs((datetime.fromisoformat(told[name]) - arrival.at).total_seconds()) < 10


async def test_a_failed_payment_tells_its_reason_and_only_what_is_known(
    till: Till, keys: dict[int, str], receiver: Receiver
) -> None:
    script = {"outcome": "FAIL", "resultCode": "INSUFFICIENT_BALANCE"}
    answer = await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/no", sandbox=script)
    assert answer.code == "INSUFFICIENT_BALANCE"
    arrival = await the_one_at(receiver, "/no")
    verify(arrival, keys)
    assert set(arrival.json) == set(MEMBERS)
    assert arrival.json["eventType"] == "payment.failed"
    assert arrival.json["paymentStatus"] == "FAIL"
    assert arrival.json["result"]["resultStatus"] == "F"
    assert arrival.json["result"]["resultCode"] == "INSUFFICIENT_BALANCE"


async def test_the_headers_are_those_of_the_contract(
    till: Till, keys: dict[int, str], receiver: Receiver
) -> None:
    await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/headers")
    arrival = await the_one_at(receiver, "/headers")
    headers = {name.lower(): value for name, value in arrival.headers.items()}
    assert set(headers) == {
        "host", "content-length", "content-type", "user-agent", "request-time", "signature", "event-id",
        "event-sequence", "delivery-attempt",
    }  # fmt: skip
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("payaccept/")
    assert headers["event-id"] == arrival.json["eventId"]
    assert int(headers["event-sequence"]) > 0
    assert headers["delivery-attempt"] == "1"
    said = datetime.strptime(headers["request-time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((arrival.at - said).total_seconds()) < 5


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("/hook?shop=7&x=%7E", "/hook?shop=7&x=%7E"),
        ("/caf%C3%A9/%7Euser/a%2fb", "/caf%C3%A9/%7Euser/a%2fb"),
        ("/a/../b//c/./d", "/a/../b//c/./d"),
        ("/a|b/[c]/(d);p=1", "/a|b/[c]/(d);p=1"),
        ("/100%", "/100%"),
        ("/with#fragment", "/with"),
        ("", "/"),
        ("?only=query", "/?only=query"),
    ],
)
async def test_the_path_goes_out_exactly_as_given_for_it_is_signed(
    given: str, sent: str, till: Till, keys: dict[int, str], receiver: Receiver
) -> None:
    answer = await till.create("retailPay", paymentNotifyUrl=receiver.base_url + given)
    assert answer.status == 200
    arrival = await eventually(lambda: receiver.journal, f"a webhook for {given}")
    assert arrival[0].path == sent
    verify(arrival[0], keys)


async def test_without_a_url_in_the_request_the_merchants_own_is_used_and_without_both_none(
    sandbox: Sandbox, till: Till, keys: dict[int, str], receiver: Receiver
) -> None:
    client_id = till.merchant.client_id
    nowhere = await till.create("retailPay")
    await sandbox.acli("merchant", "set", client_id, "--webhook-url", f"{receiver.base_url}/configured")
    await asyncio.sleep(1)  # what a change may take
    try:
        retail = await till.create("retailPay")
        qr = await till.create("createQROrder")
        named = await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/named")
        await eventually(lambda: len(receiver.journal) == 3, "three webhooks")
    finally:
        await sandbox.acli("merchant", "set", client_id, "--webhook-url", "none")
    where = {arrival.json["paymentId"]: arrival.path for arrival in receiver.journal}
    assert where == {
        retail.value["paymentId"]: "/configured",
        qr.value["paymentId"]: "/configured",
        named.value["paymentId"]: "/named",
    }
    for arrival in receiver.journal:
        verify(arrival, keys)
    [(events, deliveries)] = sandbox.sql(
        "SELECT count(e.event_id), count(d.event_id) FROM events AS e LEFT JOIN deliveries AS d"
        " USING (bucket, event_id) WHERE e.payment_id = %s",
        nowhere.value["paymentId"],
    )
    assert (events, deliveries) == (1, 0)


async def test_the_script_duplicate_sends_an_acknowledged_webhook_once_more(
    till: Till, keys: dict[int, str], ended: Ended, receiver: Receiver
) -> None:
    url = f"{receiver.base_url}/twice"
    await till.create("retailPay", paymentNotifyUrl=url, sandbox={"webhook": ["duplicate"]})
    assert (await ended(url))[:2] == ("ACKNOWLEDGED", 2)
    first, second = receiver.at("/twice")
    assert first.body == second.body
    assert (first.attempt, second.attempt) == (1, 2)
    for arrival in (first, second):
        verify(arrival, keys)


async def test_the_script_tampered_sends_a_changed_body_first_and_the_true_one_after_it(
    till: Till, keys: dict[int, str], ended: Ended, receiver: Receiver
) -> None:
    url = f"{receiver.base_url}/tampered"
    await till.create("createQROrder", paymentNotifyUrl=url, sandbox={"webhook": ["tampered"]})
    assert (await ended(url))[:2] == ("ACKNOWLEDGED", 2)
    tampered, true = receiver.at("/tampered")
    with pytest.raises(InvalidSignature):
        verify(tampered, keys)
    verify(true, keys)
    assert tampered.json["paymentAmount"]["value"] != true.json["paymentAmount"]["value"] == 1999


async def test_the_script_late_holds_a_webhook_back(
    late: tuple[Receiver, str], till: Till, keys: dict[int, str]
) -> None:
    receiver, request_id = late
    assert (await till.inquire(paymentRequestId=request_id)).value["paymentStatus"] == "SUCCESS"
    arrival = await the_one_at(receiver, "/late")
    verify(arrival, keys)
    late_s = (arrival.at - datetime.fromisoformat(arrival.json["paymentTime"])).total_seconds()
    assert LATE_S - 0.01 <= late_s <= LATE_S + 5
