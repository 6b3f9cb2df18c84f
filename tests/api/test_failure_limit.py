"""The limiter of unauthenticated failures per source address."""

import pytest

from deployment import client_of, opened_kernel, register_with, settings_for
from merchant import PREFIX, Merchant, compact, request_of
from payaccept.api.failure_limit import AddressFailureLimit
from payaccept.wiring import Administration

CREATE = "createQROrder"


def test_failures_are_counted_by_address_in_windows_of_a_minute():
    now_s = 0.0
    limit = AddressFailureLimit(2, clock=lambda: now_s)
    assert [limit.count("a") for _ in range(3)] == [False, False, True]
    assert limit.is_exceeded("a")
    assert not limit.is_exceeded("b")
    assert not limit.count("b")
    now_s = 59.9
    assert limit.count("a")
    now_s = 60.0
    assert not limit.count("a")
    assert not limit.is_exceeded("a")


def test_without_a_limit_nothing_is_counted():
    limit = AddressFailureLimit(None)
    assert not any(limit.count("a") for _ in range(1000))
    assert not limit.is_exceeded("a")


def test_a_flood_of_addresses_does_not_fill_the_memory():
    limit = AddressFailureLimit(1, clock=lambda: 0.0)
    for number in range(25_000):
        limit.count(f"192.0.2.{number}")
    assert len(limit._counts) <= 10_000


@pytest.mark.parametrize("kind", ["signature", "client", "time", "environment"])
async def test_beyond_it_failures_are_answered_in_fewer_words_but_good_requests_pass(
    database_url, master_key_file, kind
):
    settings = settings_for(database_url, master_key_file, failure_limit=3)
    async with Administration(settings) as administration, opened_kernel(settings) as kernel:
        merchant, api = await register_with(administration)(), client_of(kernel)
        body = compact(request_of(CREATE))
        headers = merchant.headers(PREFIX + CREATE, body + b"\n")
        if kind == "client":
            headers["Client-Id"] = "sandbox_" + "0" * 24
        elif kind == "environment":
            headers["Client-Id"] = "live_" + "0" * 24
        elif kind == "time":
            headers["Request-Time"] = "yesterday"
        answers = [await api.post(PREFIX + CREATE, content=body, headers=headers) for _ in range(5)]
        assert [answer.status_code for answer in answers[3:]] == [429, 429]
        assert all(answer.status_code in {401, 403} for answer in answers[:3])
        assert answers[3].json()["result"]["resultCode"] == "REQUEST_TRAFFIC_EXCEED_LIMIT"
        assert answers[3].headers["retry-after"] == "60"
        assert set(answers[3].json()) == {"result"}
        for _ in range(3):
            assert (await merchant.create(api, CREATE)).status_code == 200


async def test_failures_of_authentication_do_not_use_up_a_merchants_rate_limit(api, register):
    shop = await register("Attacked", rate_limit=2)
    forger = Merchant(shop.client_id)
    forger.use_key(1, (await register("Forger")).key)
    for _ in range(10):
        assert (await forger.create(api, CREATE)).status_code == 401
    assert [(await shop.create(api, CREATE)).status_code for _ in range(3)] == [200, 200, 429]
