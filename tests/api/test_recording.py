"""What the API records of the requests it answers, for their merchant to see; and that nobody waits for that."""

import asyncio
import base64
import time
from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest

from deployment import fetch_all, opened_kernel, register_with, run_sql, settings_for
from draft import CREATE, PATH, Draft
from merchant import at_now, compact, request_of
from payaccept.wiring import Administration
from raw_asgi import exchange

CODE = "286012020262467128"
PATIENCE_S = 10.0


async def until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline, "it was not recorded"
        await asyncio.sleep(0.05)


def refused_of(url: str, client_id: str) -> list[tuple]:
    return fetch_all(
        url,
        "SELECT result_code, status, target, message, skew_ms, body, body_is_whole, request_id, address, method"
        " FROM refused_requests WHERE client_id = %s ORDER BY request_id",
        client_id,
    )


async def test_a_refused_request_can_be_seen_within_a_second_or_two(settings, register, kernel):
    shop = await register()
    draft = Draft(shop, body=compact({"paymentRequestId": "order-1"}))
    answer = await draft.send(kernel)
    await until(lambda: refused_of(settings.database_url, shop.client_id))
    [(code, status, target, message, skew_ms, body, whole, request_id, address, method)] = refused_of(
        settings.database_url, shop.client_id
    )
    assert (code, status, target, method) == ("PARAM_ILLEGAL", 400, PATH, "POST")
    assert message == answer.message
    assert -10_000 < skew_ms < 1000
    assert (body, whole) == (draft.body, True)
    assert (request_id, address) == (answer.header("request-id"), "192.0.2.7")


async def test_every_kind_of_refusal_is_recorded(settings, register, kernel):
    shop = await register(rate_limit=5)
    right = await Draft(shop).send(kernel)
    assert right.status == 200
    wrong = {
        "NOT_FOUND": Draft(shop, path="/v1/payment/createQROrder"),
        "METHOD_NOT_ALLOWED": Draft(shop, method="GET"),
        "PAYLOAD_TOO_LARGE": Draft(shop, body=b" " * 70_000),
        "UNSUPPORTED_MEDIA_TYPE": Draft(shop, content_type="text/plain"),
        "TIMESTAMP_INVALID": Draft(shop, request_time=at_now(-400)),
        "INVALID_SIGNATURE": Draft(shop, signed_body=b"{}"),
        "ACCESS_DENIED": Draft(shop, key_version=9),
        "PARAM_ILLEGAL": Draft(shop, body=b"{"),
    }
    for code, draft in wrong.items():
        assert (await draft.send(kernel)).code == code
    await until(lambda: len(refused_of(settings.database_url, shop.client_id)) == len(wrong))
    rows = refused_of(settings.database_url, shop.client_id)
    assert sorted(row[0] for row in rows) == sorted(wrong)
    by_code = {row[0]: row for row in rows}
    assert by_code["TIMESTAMP_INVALID"][4] == pytest.approx(-400_000, abs=10_000)
    assert by_code["INVALID_SIGNATURE"][3].startswith("unexplained: ")


async def test_only_requests_that_verified_are_uses_of_a_key(settings, register, kernel):
    shop = await register(keys=2)
    for _ in range(3):
        assert (await Draft(shop).send(kernel)).status == 200
    await Draft(shop, signed_body=b"{}").send(kernel)
    await Draft(shop, request_time=at_now(150)).send(kernel)
    query = "SELECT key_version, uses, greatest_skew_ms FROM key_minutes WHERE client_id = %s"
    await until(lambda: sum(row[1] for row in fetch_all(settings.database_url, query, shop.client_id)) == 4)
    rows = fetch_all(settings.database_url, query, shop.client_id)
    assert {row[0] for row in rows} == {2}
    assert max(row[2] for row in rows) == pytest.approx(150_000, abs=10_000)


async def test_an_auth_code_is_recorded_nowhere(settings, register, kernel):
    shop = await register()
    request = request_of("retailPay", paymentAuthCode=CODE, bizType=CODE, paymentAmount=None)
    sent = [
        Draft(shop, path="/v1/payments/retailPay", body=compact(request)),
        Draft(shop, path="/v1/payments/retailPay", body=compact(request)[:-40]),
        Draft(shop, path="/v1/payments/createQROrder", body=compact(request | {"codeType": CODE})),
        Draft(shop, path="/v1/payments/retailPay", query=f"?paymentAuthCode={CODE}", request_time="now"),
        Draft(shop, path=f"/v1/payments/{CODE}", body=compact(request)),
    ]
    for draft in sent:
        assert (await draft.send(kernel)).status >= 400
    await until(lambda: len(refused_of(settings.database_url, shop.client_id)) == len(sent))
    rows = fetch_all(
        settings.database_url,
        "SELECT r::text, encode(body, 'escape') FROM refused_requests AS r WHERE client_id = %s",
        shop.client_id,
    )
    assert not [row for row in rows if CODE in row[0] or CODE in row[1]]


async def test_what_the_merchant_signed_is_kept_with_the_payment(settings, register, kernel):
    shop = await register()
    draft = Draft(shop, request_time=at_now(-3))
    answer = await draft.send(kernel)
    assert answer.status == 200
    [(request_time, key_version, signature, body, operation)] = fetch_all(
        settings.database_url,
        "SELECT request_time, key_version, signature, request_body, operation FROM payments"
        " WHERE client_id = %s",
        shop.client_id,
    )
    assert (request_time, key_version, body) == (draft.request_time, shop.key_version, draft.body)
    assert operation == CREATE
    expected = shop.signature(PATH, draft.request_time, draft.body)
    assert base64.urlsafe_b64encode(signature).decode().rstrip("=") == expected


async def test_requests_are_answered_as_ever_when_nothing_can_be_recorded(fresh_database, master_key_file):
    settings = settings_for(fresh_database(), master_key_file)
    async with Administration(settings) as administration, opened_kernel(settings) as kernel:
        shop = await register_with(administration)()
        run_sql(settings.database_url, "ALTER TABLE key_minutes RENAME TO gone")
        for _ in range(3):
            assert (await Draft(shop).send(kernel)).status == 200
            assert (await Draft(shop, signed_body=b"{}").send(kernel)).code == "INVALID_SIGNATURE"
        await kernel._refusals.flush()
        assert (await Draft(shop).send(kernel)).status == 200


async def test_nobody_waits_for_the_recording(fresh_database, master_key_file):
    """A table that is locked holds the records up, and no request."""
    settings = settings_for(fresh_database(), master_key_file)
    async with Administration(settings) as administration, opened_kernel(settings) as kernel:
        shop = await register_with(administration)()
        await Draft(shop).send(kernel)
        with psycopg.connect(settings.database_url) as holder:
            holder.execute("LOCK TABLE key_minutes, refused_requests, refusal_minutes")
            started = time.monotonic()
            until_s = started + 1.5  # longer than a flush takes to begin
            while time.monotonic() < until_s:
                before = time.monotonic()
                assert (await Draft(shop).send(kernel)).status == 200
                assert (await Draft(shop, signed_body=b"{}").send(kernel)).code == "INVALID_SIGNATURE"
                assert time.monotonic() - before < 1.0


async def test_a_request_that_names_nobody_is_not_kept(kernel):
    before = dict(kernel._refusals._counts)
    answer = await exchange(kernel, "POST", PATH, [("Content-Type", "application/json")], b"{}")
    assert answer.code == "INVALID_CLIENT_ID"
    assert kernel._refusals._counts.keys() <= before.keys()


async def test_a_bug_in_the_recording_costs_nobody_the_answer(settings, register, kernel, caplog):
    class Broken:
        def refused(self, _request: object) -> None:
            raise ZeroDivisionError

    shop = await register()
    proper, kernel._refusals = kernel._refusals, Broken()
    try:
        assert (await Draft(shop, signed_body=b"{}").send(kernel)).code == "INVALID_SIGNATURE"
    finally:
        kernel._refusals = proper
    assert "keeping a refused request failed" in caplog.text


def test_the_part_of_a_request_that_is_recording_takes_microseconds(kernel):
    """The budget is 3 µs on a quiet machine; a busy one gets ten times that."""
    recorder = kernel._refusals
    now = datetime.now(UTC)
    skew = now - now
    best = min(_timed(lambda: recorder.used("sandbox_bench", 1, now, skew)) for _ in range(5))
    recorder._tallies.clear()
    assert best < 30e-6


def _timed(call: Callable[[], None], times: int = 2000) -> float:
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) / times
