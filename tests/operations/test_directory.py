"""What the administrator changes, a running API process honours within a second; keys once and for all."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import httpx
import pytest

from deployment import add_key, fetch_all
from merchant import new_request_id, private_key, public_pem, request_of
from payaccept.domain.errors import (
    FieldsIllegal,
    KeyNotFound,
    KeyRefused,
    MerchantNotFound,
    SettingRefused,
)
from payaccept.domain.merchant import DuplicatePolicy, KeyState, MerchantState
from payaccept.operations.merchants import Changes

CREATE = "createQROrder"
NOBODY = "sandbox_" + "0" * 24


def now() -> datetime:
    return datetime.now(UTC)


async def within_a_second(ask: Callable[[], Awaitable[httpx.Response]], status: int, code: str) -> None:
    """Ask until the answer is as expected."""
    started = time.monotonic()
    while True:
        answer = await ask()
        if (answer.status_code, answer.json()["result"]["resultCode"]) == (status, code):
            return
        assert time.monotonic() - started < 1, answer.text
        await asyncio.sleep(0.02)


async def test_a_deactivated_merchant_is_refused_and_an_activated_one_served(administration, api, register):
    merchant = await register()
    for _ in range(2):
        await within_a_second(lambda: merchant.create(api, CREATE), 200, "ACCEPTED")
        stored = await administration.merchants.deactivate(merchant.client_id, now())
        assert stored.state is MerchantState.INACTIVE
        await within_a_second(lambda: merchant.create(api, CREATE), 401, "INVALID_CLIENT_ID")
        await administration.merchants.activate(merchant.client_id, now())
    await within_a_second(lambda: merchant.create(api, CREATE), 200, "ACCEPTED")


async def test_a_merchant_that_was_asked_for_before_it_was_made_is_known_afterwards(
    administration, api, register
):
    merchant = await register(keys=0)
    merchant.use_key(1, private_key(1))
    await within_a_second(lambda: merchant.create(api, CREATE), 403, "ACCESS_DENIED")
    await add_key(administration, merchant)
    await within_a_second(lambda: merchant.create(api, CREATE), 200, "ACCEPTED")


async def test_keys_are_rotated_without_a_moment_of_refusal(administration, api, register):
    merchant = await register()
    await within_a_second(lambda: merchant.create(api, CREATE), 200, "ACCEPTED")
    old = merchant.key_version
    new = await add_key(administration, merchant)

    def signed_with(version: int) -> Awaitable[httpx.Response]:
        merchant.key_version = version
        return merchant.create(api, CREATE)

    await within_a_second(lambda: signed_with(new), 200, "ACCEPTED")
    await within_a_second(lambda: signed_with(old), 200, "ACCEPTED")
    retired = await administration.merchants.retire_key(merchant.client_id, old, now())
    assert (retired.state, retired.key_version) == (KeyState.RETIRED, old)
    await within_a_second(lambda: signed_with(old), 401, "INVALID_SIGNATURE")
    await within_a_second(lambda: signed_with(new), 200, "ACCEPTED")
    await administration.merchants.retire_key(merchant.client_id, new, now())
    await within_a_second(lambda: signed_with(new), 401, "INVALID_SIGNATURE")
    merchant.keys[99] = merchant.keys[old]
    await within_a_second(lambda: signed_with(99), 403, "ACCESS_DENIED")


async def test_the_policy_for_duplicates_changes_without_a_restart(administration, api, register):
    merchant = await register()
    request = request_of(CREATE)
    first = await merchant.send(api, CREATE, request)
    await within_a_second(lambda: merchant.send(api, CREATE, request), 409, "REPEAT_REQUEST")
    await administration.merchants.change(
        merchant.client_id, Changes(duplicates=DuplicatePolicy.REPLAY), now()
    )
    body = request
    await within_a_second(lambda: merchant.send(api, CREATE, body), 200, "ACCEPTED")
    assert (await merchant.send(api, CREATE, body)).content == first.content
    await administration.merchants.change(
        merchant.client_id, Changes(duplicates=DuplicatePolicy.STRICT), now()
    )
    await within_a_second(lambda: merchant.send(api, CREATE, body), 409, "REPEAT_REQUEST")


async def test_the_webhook_endpoint_changes_without_a_restart(administration, api, register, settings):
    merchant = await register()
    url = "http://127.0.0.1:1/hook"
    await merchant.create(api, "retailPay")
    await administration.merchants.change(merchant.client_id, Changes(webhook_url=url), now())
    await asyncio.sleep(1)
    await merchant.create(api, "retailPay")
    await administration.merchants.change(merchant.client_id, Changes(webhook_url=None), now())
    await asyncio.sleep(1)
    await merchant.create(api, "retailPay")
    rows = fetch_all(
        settings.database_url, "SELECT url FROM deliveries WHERE client_id = %s", merchant.client_id
    )
    assert rows == [(url,)]


async def test_two_changes_at_once_do_not_undo_each_other(administration, register):
    merchant = await register()
    verbs = administration.merchants
    for number in range(15):
        url = f"http://127.0.0.1:{number + 1}/"
        await verbs.activate(merchant.client_id, now())
        await asyncio.gather(
            verbs.change(merchant.client_id, Changes(webhook_url=url), now()),
            verbs.deactivate(merchant.client_id, now()),
            verbs.change(merchant.client_id, Changes(rate_limit=number + 1), now()),
        )
        stored = await verbs.get(merchant.client_id)
        assert (stored.state, stored.webhook_url, stored.rate_limit) == (
            MerchantState.INACTIVE,
            url,
            number + 1,
        )


# Merchants


async def test_merchants_are_listed_the_oldest_first(administration, register):
    made = [await register(f"Shop {number}", keys=0) for number in range(3)]
    listed = [merchant.client_id for merchant in await administration.merchants.list_all()]
    assert [client_id for client_id in listed if client_id in {m.client_id for m in made}] == [
        merchant.client_id for merchant in made
    ]


@pytest.mark.parametrize("name", ["S", "S" * 128, "Bäckerei Müller & Söhne ☕", "  padded  "])
async def test_a_merchant_has_a_printable_name(administration, name):
    made = await administration.merchants.create(name, now())
    assert made == await administration.merchants.get(made.client_id)
    assert made.name == name.strip()
    assert made.client_id.startswith("sandbox_")
    assert (made.spread, made.duplicates, made.webhook_url) == (1, DuplicatePolicy.STRICT, None)


@pytest.mark.parametrize("name", ["", "   ", "S" * 129, "a\nb", "a\0b", "a\x1b[31mb"])
async def test_any_other_name_is_refused(administration, name):
    with pytest.raises(SettingRefused):
        await administration.merchants.create(name, now())


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (Changes(rate_limit=0), SettingRefused),
        (Changes(rate_limit=-1), SettingRefused),
        (Changes(rate_limit=100_001), SettingRefused),
        (Changes(spread=0), SettingRefused),
        (Changes(spread=3), SettingRefused),
        (Changes(spread=512), SettingRefused),
        (Changes(webhook_url="ftp://x"), FieldsIllegal),
        (Changes(webhook_url=""), FieldsIllegal),
    ],
)
async def test_a_setting_out_of_bounds_is_refused(administration, register, changes, refusal):
    merchant = await register(keys=0)
    before = await administration.merchants.get(merchant.client_id)
    with pytest.raises(refusal):
        await administration.merchants.change(merchant.client_id, changes, now())
    assert await administration.merchants.get(merchant.client_id) == before


async def test_nobody_can_be_neither_shown_nor_changed(administration):
    verbs = administration.merchants
    for attempt in (
        verbs.get(NOBODY),
        verbs.activate(NOBODY, now()),
        verbs.deactivate(NOBODY, now()),
        verbs.change(NOBODY, Changes(rate_limit=1), now()),
        verbs.list_keys(NOBODY),
        verbs.add_key(NOBODY, public_pem(private_key(0)), now()),
        verbs.retire_key(NOBODY, 1, now()),
    ):
        with pytest.raises(MerchantNotFound):
            await attempt


async def test_the_spread_is_fixed_by_the_first_payment(administration, api, register):
    merchant = await register(spread=4)
    request_id = new_request_id()
    await within_a_second(lambda: merchant.create(api, CREATE, paymentRequestId=request_id), 200, "ACCEPTED")
    with pytest.raises(SettingRefused, match="its spread stays 4"):
        await administration.merchants.change(merchant.client_id, Changes(spread=8), now())
    await administration.merchants.change(merchant.client_id, Changes(spread=4, rate_limit=9), now())
    stored = await administration.merchants.get(merchant.client_id)
    assert (stored.spread, stored.rate_limit, stored.state) == (4, 9, MerchantState.ACTIVE)
    await within_a_second(lambda: merchant.inquire(api, paymentRequestId=request_id), 200, "SUCCESS")


async def test_before_it_the_spread_may_be_changed_and_payments_keep_being_found(
    administration, api, register
):
    merchant = await register()
    for spread in (256, 16):
        await administration.merchants.change(merchant.client_id, Changes(spread=spread), now())
    made = [(await merchant.create(api, CREATE)).json() for _ in range(20)]
    buckets = {answer["paymentId"][16:18] for answer in made}
    assert 1 < len(buckets) <= 16
    for answer in made:
        found = await merchant.inquire(api, paymentRequestId=answer["paymentRequestId"])
        assert found.json()["paymentId"] == answer["paymentId"]


# Keys


async def test_versions_count_up_and_are_never_assigned_again(administration, register):
    merchant = await register(keys=2)
    await administration.merchants.retire_key(merchant.client_id, 2, now())
    assert await add_key(administration, merchant) == 3
    keys = await administration.merchants.list_keys(merchant.client_id)
    assert [(key.key_version, key.state) for key in keys] == [
        (1, KeyState.ACTIVE),
        (2, KeyState.RETIRED),
        (3, KeyState.ACTIVE),
    ]
    assert [key.retired_at is None for key in keys] == [True, False, True]


async def test_a_key_is_registered_once_here_and_anywhere_even_after_it_is_retired(administration, register):
    merchant, other = await register(), await register(keys=0)
    pem = public_pem(merchant.key)
    for _ in range(2):
        with pytest.raises(KeyRefused, match="registered already, as keyVersion 1"):
            await administration.merchants.add_key(merchant.client_id, pem, now())
        with pytest.raises(KeyRefused) as caught:
            await administration.merchants.add_key(other.client_id, pem, now())
        assert str(caught.value) == "this key is registered already, to another merchant"
        if not (await administration.merchants.list_keys(merchant.client_id))[0].retired_at:
            await administration.merchants.retire_key(merchant.client_id, 1, now())


async def test_of_two_who_register_the_same_key_at_once_one_gets_it(administration, register):
    merchants = [await register(keys=0) for _ in range(4)]
    pem = public_pem(private_key(9_000))
    results = await asyncio.gather(
        *(administration.merchants.add_key(m.client_id, pem, now()) for m in merchants),
        return_exceptions=True,
    )
    assert sum(isinstance(result, KeyRefused) for result in results) == 3


async def test_a_version_is_retired_once(administration, register):
    merchant = await register()
    await administration.merchants.retire_key(merchant.client_id, 1, now())
    with pytest.raises(KeyNotFound, match="retired already"):
        await administration.merchants.retire_key(merchant.client_id, 1, now())
    with pytest.raises(KeyNotFound, match="no key of version 2"):
        await administration.merchants.retire_key(merchant.client_id, 2, now())


async def test_a_refused_key_leaves_nothing_behind(administration, register, settings):
    merchant = await register()
    for data in (b"", b"garbage", public_pem(merchant.key) * 2):
        with pytest.raises(KeyRefused):
            await administration.merchants.add_key(merchant.client_id, data, now())
    rows = fetch_all(
        settings.database_url, "SELECT FROM merchant_keys WHERE client_id = %s", merchant.client_id
    )
    assert len(rows) == 1
