"""Every row of the table of result codes, provoked over HTTP."""

import asyncio
import json
import logging
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from deployment import client_of, opened_kernel, recorder_of, register_with, run_sql, settings_for
from merchant import OPERATIONS, PREFIX, Merchant, at_now, compact, new_request_id, request_of
from payaccept.adapters.postgres.embedded import EmbeddedPostgres
from payaccept.api.failure_limit import AddressFailureLimit
from payaccept.api.gate import Gate
from payaccept.api.kernel import Kernel
from payaccept.domain.merchant import Environment
from payaccept.wire.codes import PAYMENT_FAILURES, TABLE
from payaccept.wiring import Administration, ensure_provider_key, migrate
from raw_asgi import exchange

CREATE = "createQROrder"
provoked: set[str] = set()


def assert_answer(answer: httpx.Response, status: int, letter: str, code: str) -> str:
    """Check what every answer has and what a failure lacks; returns the message."""
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (status, code), answer.text
    result = answer.json()["result"]
    assert result["resultStatus"] == letter
    assert set(result) == {"resultStatus", "resultCode", "resultMessage"}
    assert answer.headers["content-type"] == "application/json"
    assert re.fullmatch(r"req_[0-9a-f]{28}", answer.headers["request-id"])
    if letter in {"F", "U"}:
        assert set(answer.json()) == {"result"}
    provoked.add(code)
    return result["resultMessage"]


@pytest.mark.parametrize(
    ("operation", "letter", "code"),
    [("createQROrder", "A", "ACCEPTED"), ("linkPayCreate", "A", "ACCEPTED"), ("retailPay", "S", "SUCCESS")],
)
async def test_a_good_request_is_accepted_or_done(api, merchant, operation, letter, code):
    assert_answer(await merchant.create(api, operation), 200, letter, code)


async def test_a_retail_pay_that_waits_for_the_customer_is_accepted(api, merchant):
    answer = await merchant.create(api, "retailPay", sandbox={"outcome": "MANUAL"})
    assert_answer(answer, 200, "A", "ACCEPTED")
    assert "paymentTime" not in answer.json()


async def test_an_answered_inquiry_is_a_success(api, merchant):
    made = await merchant.create(api, CREATE)
    answer = await merchant.inquire(api, paymentId=made.json()["paymentId"])
    assert_answer(answer, 200, "S", "SUCCESS")


async def test_an_illegal_field_names_its_path(api, merchant):
    request = request_of(CREATE, paymentAmount={"currency": "EUR", "value": 0}, productCode="")
    message = assert_answer(await merchant.send(api, CREATE, request), 400, "F", "PARAM_ILLEGAL")
    assert message.startswith("productCode ")
    assert "paymentAmount.value " in message


async def test_a_signature_of_other_bytes_is_invalid(api, merchant):
    body = compact(request_of(CREATE))
    headers = merchant.headers(PREFIX + CREATE, body + b" ")
    assert_answer(
        await api.post(PREFIX + CREATE, content=body, headers=headers), 401, "F", "INVALID_SIGNATURE"
    )


async def test_a_stale_request_time_tells_the_measured_skew(api, merchant):
    answer = await merchant.send(api, CREATE, request_of(CREATE), request_time=at_now(-400))
    message = assert_answer(answer, 401, "F", "TIMESTAMP_INVALID")
    assert re.search(r"40[01] s behind", message)
    answer = await merchant.send(api, CREATE, request_of(CREATE), request_time=at_now(400))
    assert re.search(r"(400|399) s ahead", assert_answer(answer, 401, "F", "TIMESTAMP_INVALID"))


async def test_an_unknown_client_is_told_so(api, merchant):
    stranger = Merchant("sandbox_" + "0" * 24)
    stranger.use_key(1, merchant.key)
    assert_answer(await stranger.create(api, CREATE), 401, "F", "INVALID_CLIENT_ID")


async def test_a_client_of_the_other_environment_is_denied(api, merchant):
    stranger = Merchant("live_" + "0" * 24)
    stranger.use_key(1, merchant.key)
    message = assert_answer(await stranger.create(api, CREATE), 403, "F", "ACCESS_DENIED")
    assert "production" in message


async def test_an_inquiry_for_nothing_finds_nothing(api, merchant):
    answer = await merchant.inquire(api, paymentRequestId=new_request_id())
    assert_answer(answer, 404, "F", "ORDER_NOT_EXIST")


async def test_a_used_request_id_is_a_repeated_request(api, merchant):
    request = request_of(CREATE)
    await merchant.send(api, CREATE, request)
    message = assert_answer(await merchant.send(api, CREATE, request), 409, "F", "REPEAT_REQUEST")
    assert "createQROrder" in message
    assert "the same body" in message


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("POST", "/v1/payments/"),
        ("POST", "/v1/payments/createqrorder"),
        ("POST", "/v1/payments/createQROrder/"),
        ("POST", "/v2/payments/createQROrder"),
        ("GET", "/nothing"),
        ("DELETE", "/v1/payments"),
        ("POST", "//v1/payments/createQROrder"),
        ("POST", "/v1/payments/%2e%2e/payments/createQROrder"),
    ],
)
async def test_an_unknown_path_is_not_found(api, method, path):
    assert_answer(await api.request(method, path), 404, "F", "NOT_FOUND")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_takes_post_only(kernel, operation):
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "post", "Post", "QUERY", "X" * 100):
        answer = await exchange(kernel, method, PREFIX + operation)
        assert (answer.status, answer.code) == (405, "METHOD_NOT_ALLOWED")
        assert set(json.loads(answer.body)) == {"result"}
        assert answer.header("allow") == "POST"
        assert answer.header("content-type") == "application/json"
        assert answer.message.endswith(f"takes POST, not {method[:16]}")
    provoked.add("METHOD_NOT_ALLOWED")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/.well-known/jwks.json"])
async def test_a_document_takes_get_and_head_only(api, path):
    answer = await api.post(path)
    assert_answer(answer, 405, "F", "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "GET, HEAD"
    for method in ("GET", "HEAD"):
        answer = await api.request(method, path)
        assert answer.status_code == 200
        assert (answer.content == b"") == (method == "HEAD")


async def test_head_of_an_operation_is_refused_without_a_body(api):
    answer = await api.head(PREFIX + CREATE)
    assert (answer.status_code, answer.content, answer.headers["allow"]) == (405, b"", "POST")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/json; charset=latin-1", "application/jsonp", "application/json, text/plain"],
)
async def test_another_media_type_is_unsupported(api, merchant, content_type):
    body = compact(request_of(CREATE))
    headers = merchant.headers(PREFIX + CREATE, body) | {"Content-Type": content_type}
    answer = await api.post(PREFIX + CREATE, content=body, headers=headers)
    assert_answer(answer, 415, "F", "UNSUPPORTED_MEDIA_TYPE")


async def test_a_body_over_the_cap_is_too_large(api, merchant):
    body = b" " * (64 * 1024 + 1)
    answer = await merchant.send(api, CREATE, body)
    assert_answer(answer, 413, "F", "PAYLOAD_TOO_LARGE")


async def test_beyond_the_rate_limit_the_headers_say_when_to_come_back(api, register):
    limited = await register("Limited", rate_limit=2)
    for _ in range(2):
        await limited.create(api, CREATE)
    answer = await limited.create(api, CREATE)
    assert_answer(answer, 429, "F", "REQUEST_TRAFFIC_EXCEED_LIMIT")
    wait_s = int(answer.headers["retry-after"])
    assert 55 <= wait_s <= 61
    assert answer.headers["ratelimit-policy"] == '"merchant";q=2;w=60'
    assert answer.headers["ratelimit"] == f'"merchant";r=0;t={wait_s}'


@pytest.mark.parametrize("code", sorted(PAYMENT_FAILURES))
async def test_a_declined_payment_is_a_good_request_with_its_own_code(api, merchant, code):
    request = request_of("retailPay", sandbox={"outcome": "FAIL", "resultCode": code})
    answer = await merchant.send(api, "retailPay", request)
    assert_answer(answer, 200, "F", code)
    standing = (await merchant.inquire(api, paymentRequestId=request["paymentRequestId"])).json()
    assert (standing["paymentStatus"], standing["failureCode"]) == ("FAIL", code)
    assert standing["failureMessage"] == TABLE[code].message
    assert standing["paymentTime"].endswith("Z")


async def test_a_silent_wallet_leaves_the_outcome_unknown(api, merchant):
    answer = await merchant.create(api, "retailPay", sandbox={"outcome": "UNKNOWN"})
    assert_answer(answer, 503, "U", "SYSTEM_BUSY")
    assert answer.headers["retry-after"].isdecimal()


async def test_a_bug_is_told_to_the_log_and_never_to_the_client(settings, merchant, caplog, capfd):
    class BrokenDirectory:
        async def find_credentials(self, _client_id: str) -> Any:
            raise ZeroDivisionError("the secret detail")

        def forget(self, _client_id: str) -> None: ...

    class NoLifespan:
        async def open(self) -> None: ...
        async def close(self) -> None: ...

    class Lines(list[dict[str, object]]):
        def write(self, **members: object) -> None:
            self.append(members)

    async def endpoint(*_: object) -> Any:
        raise AssertionError("the request must not come so far")

    log = Lines()
    limits: Any = None
    proofs: Any = None
    recorder = recorder_of(settings.database_url)
    failures = AddressFailureLimit(None)
    gate = Gate(Environment.SANDBOX, BrokenDirectory(), limits, failures, proofs=proofs, uses=recorder)
    kernel = Kernel(
        gate,
        {PREFIX + CREATE: endpoint},
        {},
        lifespan=NoLifespan(),
        log=log,
        refusals=recorder,
        deadline_s=5,
    )
    with caplog.at_level(logging.ERROR):
        answer = await merchant.create(client_of(kernel), CREATE)
    assert_answer(answer, 500, "U", "UNKNOWN_EXCEPTION")
    request_id = answer.headers["request-id"]
    assert request_id in answer.json()["result"]["resultMessage"]
    for hint in ("secret", "ZeroDivision", "Traceback"):
        assert hint not in answer.text
    [record] = [record for record in caplog.records if record.exc_info]
    assert record.requestId == request_id
    assert "the secret detail" in caplog.text
    assert [(line["requestId"], line["status"], line["resultCode"]) for line in log] == [
        (request_id, 500, "UNKNOWN_EXCEPTION")
    ]


async def test_a_bug_in_the_store_of_payments_is_told_the_same_way(
    settings, fresh_database, master_key_file, caplog
):
    """A column that is gone: SQLSTATE 42703, which no refusal covers."""
    settings = settings_for(fresh_database(), master_key_file)
    async with Administration(settings) as administration, opened_kernel(settings) as kernel:
        merchant = await register_with(administration)()
        run_sql(settings.database_url, "ALTER TABLE payments RENAME COLUMN extend_info TO extended_info")
        answer = await merchant.create(client_of(kernel), CREATE)
        message = assert_answer(answer, 500, "U", "UNKNOWN_EXCEPTION")
        assert "extend_info" not in message
        assert "extend_info" in caplog.text
        run_sql(settings.database_url, "ALTER TABLE payments RENAME COLUMN extended_info TO extend_info")
        assert_answer(await merchant.create(client_of(kernel), CREATE), 200, "A", "ACCEPTED")


async def test_a_request_that_takes_too_long_is_answered_at_its_deadline(
    settings, fresh_database, master_key_file
):
    settings = settings_for(fresh_database(), master_key_file, request_deadline_s=0.3)
    async with Administration(settings) as administration, opened_kernel(settings) as kernel:
        merchant = await register_with(administration)()
        api = client_of(kernel)
        await merchant.create(api, CREATE)
        with psycopg.connect(settings.database_url) as other:
            other.execute("LOCK TABLE payments IN ACCESS EXCLUSIVE MODE")
            started = time.monotonic()
            answer = await merchant.create(api, CREATE)
            assert_answer(answer, 503, "U", "SYSTEM_BUSY")
            assert time.monotonic() - started < 1


async def test_while_the_database_is_away_the_answer_is_busy_at_once_and_then_it_recovers(master_key_file):
    directory = Path(tempfile.mkdtemp(prefix="payaccept-tests-away-"))
    try:
        with EmbeddedPostgres(directory / "data") as server:
            settings = settings_for(server.url(), master_key_file)
            await migrate(settings)
            await ensure_provider_key(settings)
            async with Administration(settings) as administration, opened_kernel(settings) as kernel:
                register = register_with(administration)
                merchant, limited, unseen = (
                    await register(),
                    await register(rate_limit=1000),
                    await register(),
                )
                api = client_of(kernel)
                before = request_of(CREATE)
                assert_answer(await merchant.send(api, CREATE, before), 200, "A", "ACCEPTED")
                assert_answer(await limited.create(api, CREATE), 200, "A", "ACCEPTED")
                assert (await api.get("/readyz")).status_code == 200

                await asyncio.to_thread(server.stop)
                await asyncio.gather(
                    *(
                        _is_busy_quickly(merchant.create(api, operation))
                        for operation in ("retailPay", CREATE)
                    ),
                    _is_busy_quickly(merchant.inquire(api, paymentRequestId=before["paymentRequestId"])),
                    _is_busy_quickly(limited.create(api, CREATE)),
                    _is_busy_quickly(unseen.create(api, CREATE)),
                    _is_busy_quickly(api.get("/readyz")),
                    _is_busy_quickly(api.get("/.well-known/payaccept/webhook-keys")),
                    _is_busy_quickly(api.get("/.well-known/jwks.json")),
                )
                await _is_busy_quickly(merchant.create(api, CREATE))
                assert (await api.get("/healthz")).status_code == 200
                assert (await api.get("/openapi.json")).status_code == 200

                await asyncio.to_thread(server.start)
                await asyncio.to_thread(server.wait_ready)
                await _comes_back(lambda: merchant.create(api, CREATE))
                await _comes_back(lambda: merchant.create(api, "retailPay"))
                await _comes_back(lambda: limited.create(api, CREATE))
                await _comes_back(lambda: unseen.create(api, CREATE))
                await _comes_back(lambda: api.get("/readyz"))
                await _comes_back(lambda: api.get("/.well-known/payaccept/webhook-keys"))
                answer = await _comes_back(
                    lambda: merchant.inquire(api, paymentRequestId=before["paymentRequestId"])
                )
                assert answer.json()["paymentStatus"] == "PROCESSING"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _is_busy_quickly(request: Any) -> None:
    started = time.monotonic()
    answer = await request
    assert time.monotonic() - started < 1
    assert_answer(answer, 503, "U", "SYSTEM_BUSY")
    assert int(answer.headers["retry-after"]) >= 1


async def _comes_back(ask: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    deadline = time.monotonic() + 2
    while (answer := await ask()).status_code != 200:
        assert_answer(answer, 503, "U", "SYSTEM_BUSY")
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    return answer


async def test_what_the_request_log_keeps_of_a_request(settings, merchant, kernel, capfd):
    async with opened_kernel(settings) as own:
        body = request_of("retailPay", paymentAuthCode="secret-auth-code", productCode="secret-product")
        answer = await merchant.send(client_of(own), "retailPay", body)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "requestId" in line]
    [line] = [line for line in lines if line["requestId"] == answer.headers["request-id"]]
    assert line["clientId"] == merchant.client_id
    assert (line["status"], line["resultCode"], line["method"]) == (200, "SUCCESS", "POST")
    assert "secret" not in json.dumps(line)


def test_the_tests_above_have_provoked_every_row(request):
    selected = {item.function.__name__ for item in request.session.items if item.path == request.path}
    if {name for name in globals() if name.startswith("test_")} - selected:
        pytest.skip("only some of them were run")
    assert provoked == set(TABLE)
