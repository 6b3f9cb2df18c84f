"""The rate limit over the real store: exact across processes, and a change is heard within a second."""

import asyncio
import time
from datetime import UTC, datetime

import httpx
import pytest

from deployment import client_of, fetch_all, opened_kernel
from merchant import Merchant, new_request_id
from payaccept.adapters.postgres.rate_limits import PostgresRateLimits
from payaccept.operations.merchants import Changes

CREATE = "createQROrder"


async def statuses(merchant: Merchant, apis: list[httpx.AsyncClient], count: int) -> list[int]:
    """Send so many inquiries at once, to the APIs in turn."""
    answers = await asyncio.gather(
        *(
            merchant.inquire(apis[number % len(apis)], paymentRequestId=new_request_id())
            for number in range(count)
        )
    )
    return [answer.status_code for answer in answers]


async def test_a_new_merchant_of_the_sandbox_has_100_requests_in_any_60_seconds(administration):
    made = await administration.merchants.create("New", datetime.now(UTC))
    assert made.rate_limit == 100


@pytest.mark.parametrize("limit", [1, 7, 100])
async def test_the_limit_is_exact_across_two_processes_under_concurrent_requests(settings, register, limit):
    merchant = await register("Shop", rate_limit=limit)
    async with opened_kernel(settings) as one, opened_kernel(settings) as other:
        apis = [client_of(one), client_of(other)]
        got = await statuses(merchant, apis, limit + 60)
        assert (got.count(404), got.count(429)) == (limit, 60)
        got = await statuses(merchant, apis, 10)
        assert got == [429] * 10
    [(times,)] = fetch_all(
        settings.database_url, "SELECT times_us FROM rate_windows WHERE client_id = %s", merchant.client_id
    )
    assert len(times) == limit
    assert times == sorted(times)


async def test_requests_of_every_operation_count_and_so_do_refused_bodies(api, register):
    merchant = await register("Shop", rate_limit=4)
    answers = [
        await merchant.create(api, CREATE),
        await merchant.create(api, CREATE, bizType="X"),
        await merchant.inquire(api, paymentRequestId="x"),
        await merchant.send(api, "retailPay", b"not JSON"),
        await merchant.create(api, CREATE),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 404, 400, 429]


async def test_one_merchants_limit_is_no_matter_to_another(settings, register):
    limited, free = await register("Limited", rate_limit=1), await register("Free")
    async with opened_kernel(settings) as kernel:
        api = client_of(kernel)
        got = await asyncio.gather(statuses(limited, [api], 20), statuses(free, [api], 20))
    assert (got[0].count(429), got[1].count(429)) == (19, 0)


async def test_without_a_limit_nothing_is_counted(api, register, settings):
    merchant = await register("Shop", rate_limit=None)
    assert (await statuses(merchant, [api], 150)).count(429) == 0
    assert not fetch_all(
        settings.database_url, "SELECT FROM rate_windows WHERE client_id = %s", merchant.client_id
    )


@pytest.mark.parametrize(("before", "after"), [(2, None), (2, 5), (None, 2), (3, 2)])
async def test_a_changed_limit_holds_within_a_second_also_where_the_old_one_was_reached(
    administration, api, register, before, after
):
    merchant = await register("Shop", rate_limit=before)
    first = await statuses(merchant, [api], 4)
    assert first.count(429) == (0 if before is None else 4 - before)
    await administration.merchants.change(merchant.client_id, Changes(rate_limit=after), datetime.now(UTC))
    await asyncio.sleep(1)
    used = 0 if before is None else before
    admitted = 10 if after is None else max(0, after - used)
    got = await statuses(merchant, [api], 10)
    assert got.count(404) == min(10, admitted)


async def test_a_refused_merchant_does_not_burden_the_database(database_url, register):
    merchant = await register("Shop", rate_limit=1)
    limits = PostgresRateLimits(database_url)
    limits.start()
    try:
        assert (await limits.admit(merchant.client_id, 1)).admitted
        started = time.perf_counter()
        for _ in range(5000):
            verdict = await limits.admit(merchant.client_id, 1)
            assert (verdict.admitted, verdict.remaining) == (False, 0)
            assert 0 < verdict.wait_s <= 60.1
        assert time.perf_counter() - started < 1, "what is known to be full is refused from memory"
        limits.forget()
        assert not (await limits.admit(merchant.client_id, 1)).admitted
        assert (await limits.admit(merchant.client_id, 2)).admitted is False, "still remembered as full"
        limits.forget()
        assert (await limits.admit(merchant.client_id, 2)).admitted
    finally:
        await limits.close()


async def test_the_verdict_tells_how_many_remain(database_url, register):
    merchant = await register("Shop", rate_limit=3)
    limits = PostgresRateLimits(database_url)
    limits.start()
    try:
        verdicts = [await limits.admit(merchant.client_id, 3) for _ in range(4)]
        assert [(v.admitted, v.remaining) for v in verdicts] == [(True, 2), (True, 1), (True, 0), (False, 0)]
        assert verdicts[0].wait_s == 0
    finally:
        await limits.close()
