"""Every answer that can be provoked is one that the description has: status, headers, body, to the letter."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jsonschema_rs
import pytest
import pytest_asyncio

from deployment import Register, client_of, fetch_all, opened_kernel, settings_for
from merchant import CREATES, OPERATIONS, PREFIX, Merchant, at_now, compact, new_request_id, request_of
from payaccept.api import openapi
from payaccept.api.kernel import Kernel
from payaccept.config import Settings
from payaccept.wire.codes import PAYMENT_FAILURES, TABLE, ResultCode

DOCUMENT: dict[str, Any] = json.loads(openapi.document())
COMPONENTS = DOCUMENT["components"]


def resolve(value: dict[str, Any]) -> dict[str, Any]:
    found: Any = value
    if "$ref" in value:
        found = DOCUMENT
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
    return found


def check(schema: dict[str, Any], value: Any) -> None:
    jsonschema_rs.Draft202012Validator({**schema, "components": COMPONENTS}, validate_formats=True).validate(
        value
    )


def check_against(described: dict[str, Any], answer: httpx.Response) -> None:
    """Check an answer against a response of the description."""
    assert answer.headers["content-type"] == "application/json"
    headers = {name.lower(): resolve(header) for name, header in described["headers"].items()}
    ours = set(answer.headers) - {"content-type", "content-length"}
    assert ours <= set(headers), "a header that is not described"
    for name, header in headers.items():
        assert name in ours or not header.get("required"), name
        if name in ours:
            text = answer.headers[name]
            check(header["schema"], int(text) if header["schema"]["type"] == "integer" else text)
    check(described["content"]["application/json"]["schema"], answer.json())


def check_described(answer: httpx.Response, *, code: str | None = None, status: int | None = None) -> Any:
    """Check an answer against its operation's description, and return its body."""
    assert status is None or answer.status_code == status, answer.text
    item = DOCUMENT["paths"][answer.request.url.path]
    responses = item[answer.request.method.lower()]["responses"]
    check_against(resolve(responses[str(answer.status_code)]), answer)
    body = answer.json()
    if code is not None:
        assert body["result"]["resultCode"] == code, answer.text
        assert TABLE[ResultCode(code)].http == answer.status_code
    return body


# 200


@pytest.mark.parametrize("operation", CREATES)
async def test_a_usual_request(operation: str, api: httpx.AsyncClient, merchant: Merchant):
    check_described(await merchant.create(api, operation), status=200)


@pytest.mark.parametrize("code", sorted(PAYMENT_FAILURES))
async def test_a_declined_retail_payment(code: str, api: httpx.AsyncClient, merchant: Merchant):
    asked = request_of("retailPay", sandbox={"outcome": "FAIL", "resultCode": code})
    check_described(await merchant.send(api, "retailPay", asked), code=code)
    inquired = await merchant.inquire(api, paymentRequestId=asked["paymentRequestId"])
    assert check_described(inquired, status=200)["failureCode"] == code


async def test_a_retail_payment_that_waits(api: httpx.AsyncClient, merchant: Merchant):
    asked = request_of("retailPay", sandbox={"outcome": "MANUAL"})
    answered = check_described(await merchant.send(api, "retailPay", asked), code="ACCEPTED")
    inquired = check_described(await merchant.inquire(api, paymentId=answered["paymentId"]), status=200)
    assert inquired["paymentStatus"] == "PROCESSING"


async def test_a_retail_payment_that_is_paid(api: httpx.AsyncClient, merchant: Merchant):
    answered = check_described(await merchant.create(api, "retailPay"), code="SUCCESS")
    inquired = check_described(await merchant.inquire(api, paymentId=answered["paymentId"]), status=200)
    assert inquired["paymentStatus"] == "SUCCESS"


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_the_example_requests(operation: str, api: httpx.AsyncClient, register: Register):
    merchant = await register(operation)
    asked = DOCUMENT["paths"][PREFIX + operation]["post"]["requestBody"]["content"]["application/json"]
    for name, example in asked["examples"].items():
        answer = await merchant.send(api, operation, example["value"])
        if operation == "inquiryPayment":
            check_described(answer, code="ORDER_NOT_EXIST")
        elif name == "declined":
            check_described(answer, code="USER_REJECTED")
        else:
            check_described(answer, status=200)


async def test_a_replayed_answer(api: httpx.AsyncClient, register: Register):
    merchant = await register("Replays", duplicates="replay")
    for operation in CREATES:
        body = compact(request_of(operation))
        first = check_described(await merchant.send(api, operation, body), status=200)
        assert check_described(await merchant.send(api, operation, body), status=200) == first


# The refusals


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_refusals_of_every_operation(
    operation: str, api: httpx.AsyncClient, merchant: Merchant, register: Register
):
    path, body = PREFIX + operation, compact(request_of(operation))

    async def post(content: bytes = body, **changes: str) -> httpx.Response:
        headers = merchant.headers(path, content) | {
            name.replace("_", "-"): value for name, value in changes.items()
        }
        return await api.post(path, content=content, headers=headers)

    check_described(await post(b"{}"), code="PARAM_ILLEGAL")
    check_described(await post(b"not JSON"), code="PARAM_ILLEGAL")
    check_described(await post(Signature="x"), code="INVALID_SIGNATURE")
    check_described(await post(Request_Time="x"), code="TIMESTAMP_INVALID")
    check_described(await post(Request_Time=at_now(-400)), code="TIMESTAMP_INVALID")
    check_described(await post(Client_Id="x"), code="INVALID_CLIENT_ID")
    check_described(await post(Client_Id="live_" + 24 * "0"), code="ACCESS_DENIED")
    check_described(await post(Content_Type="text/plain"), code="UNSUPPORTED_MEDIA_TYPE")
    check_described(await post(b" " * (64 * 1024 + 1)), code="PAYLOAD_TOO_LARGE")
    limited = await register("Limited", rate_limit=1)
    await limited.send(api, operation, b"{}")
    check_described(await limited.send(api, operation, b"{}"), code="REQUEST_TRAFFIC_EXCEED_LIMIT")


@pytest.mark.parametrize("operation", CREATES)
async def test_a_duplicate(operation: str, api: httpx.AsyncClient, merchant: Merchant):
    body = compact(request_of(operation))
    await merchant.send(api, operation, body)
    check_described(await merchant.send(api, operation, body), code="REPEAT_REQUEST")


async def test_a_payment_that_is_not_there(api: httpx.AsyncClient, merchant: Merchant):
    answer = await merchant.inquire(api, paymentRequestId=new_request_id())
    check_described(answer, code="ORDER_NOT_EXIST")


async def test_a_wallet_that_does_not_answer(api: httpx.AsyncClient, merchant: Merchant):
    answer = await merchant.create(api, "retailPay", sandbox={"outcome": "UNKNOWN"})
    check_described(answer, code="SYSTEM_BUSY")


async def test_too_many_failures_from_an_address(settings: Settings):
    changed = settings_for(settings.database_url, settings.master_key_file, failure_limit=1)
    async with opened_kernel(changed) as kernel, client_of(kernel) as api:
        path = PREFIX + "retailPay"
        check_described(await api.post(path, content=b""), code="INVALID_CLIENT_ID")
        check_described(await api.post(path, content=b""), code="REQUEST_TRAFFIC_EXCEED_LIMIT")


async def test_a_bug(kernel: Kernel, api: httpx.AsyncClient, merchant: Merchant, monkeypatch):
    async def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    for operation in OPERATIONS:
        monkeypatch.setitem(kernel._endpoints, PREFIX + operation, fail)
        check_described(await merchant.create(api, operation), code="UNKNOWN_EXCEPTION")


# Paths, methods, documents


async def test_paths_and_methods_that_are_not_described(api: httpx.AsyncClient):
    responses = COMPONENTS["responses"]
    for path in ("/", "/v1/payments/", "/v1/payments/createQROrder/", "/v2/payments/retailPay"):
        answer = await api.post(path)
        assert answer.status_code == 404
        check_against(responses["UnknownPath"], answer)
    for path, item in DOCUMENT["paths"].items():
        for method in {"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} - {name.upper() for name in item}:
            answer = await api.request(method, path)
            assert answer.status_code == 405
            check_against(responses["MethodNotAllowed"], answer)


@pytest.mark.parametrize("path", [path for path, item in DOCUMENT["paths"].items() if "get" in item])
async def test_documents(path: str, api: httpx.AsyncClient):
    check_described(await api.get(path), status=200)
    head = await api.head(path)
    assert head.status_code == 200
    assert head.content == b""


# While the database is away


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cut_off(master_key_file) -> AsyncIterator[httpx.AsyncClient]:
    """An API process whose database cannot be reached."""
    settings = settings_for("postgresql://nobody@127.0.0.1:1/none", master_key_file)
    async with opened_kernel(settings) as kernel, client_of(kernel) as client:
        yield client


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_operations_without_a_database(operation: str, cut_off: httpx.AsyncClient, merchant: Merchant):
    check_described(await merchant.create(cut_off, operation), code="SYSTEM_BUSY")


@pytest.mark.parametrize("path", [path for path, item in DOCUMENT["paths"].items() if "get" in item])
async def test_documents_without_a_database(path: str, cut_off: httpx.AsyncClient):
    answer = await cut_off.get(path)
    check_described(answer, status=200 if path in {"/healthz", "/openapi.json"} else 503)


# The webhook


async def test_notifications(api: httpx.AsyncClient, merchant: Merchant, database_url: str):
    webhook = DOCUMENT["webhooks"]["payment"]["post"]
    schema = webhook["requestBody"]["content"]["application/json"]["schema"]
    for changes in (
        {},
        {"order": {"merchant": {"store": {"externalStoreId": "berlin-01"}}}},
        *({"sandbox": {"outcome": "FAIL", "resultCode": code}} for code in sorted(PAYMENT_FAILURES)),
    ):
        await merchant.create(api, "retailPay", **changes)
    bodies = [bytes(row[0]) for row in fetch_all(database_url, "SELECT body FROM payloads")]
    assert len(bodies) >= 12
    for body in bodies:
        check(schema, json.loads(body))
    (event_id,) = [resolve(p)["schema"]["pattern"] for p in webhook["parameters"] if "Event-Id" in str(p)]
    assert all(re.fullmatch(event_id, json.loads(body)["eventId"]) for body in bodies)
