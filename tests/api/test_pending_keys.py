"""A key that waits for its proof: the first rightly signed request under it is the proof, and nothing else is."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest_asyncio

from deployment import client_of, fetch_all, opened_kernel, run_sql, settings_for
from draft import Draft
from merchant import Merchant, at_now, private_key, public_pem
from payaccept.domain.merchant import KeyState
from payaccept.domain.user import Actor
from payaccept.operations.key_proofs import KeyProofs
from payaccept.wiring import Administration

BY = Actor(user_id=None, name="dev@shop.example", address="192.0.2.9")
fresh = itertools.count(6000)


@pytest_asyncio.fixture(loop_scope="session")
async def shop(administration, register) -> Merchant:
    """A merchant that signs with a key it has just uploaded."""
    merchant = await register(keys=0)
    await offer(administration, merchant)
    return merchant


async def offer(administration: Administration, merchant: Merchant, at: datetime | None = None) -> int:
    key = private_key(next(fresh))
    proofs = KeyProofs(administration.store)
    stored = await proofs.offer(merchant.client_id, public_pem(key), at or datetime.now(UTC), BY)
    merchant.use_key(stored.key_version, key)
    return stored.key_version


async def state_of(administration: Administration, merchant: Merchant, key_version: int = 1) -> KeyState:
    keys = await administration.merchants.list_keys(merchant.client_id)
    return next(key.state for key in keys if key.key_version == key_version)


async def test_the_first_signed_request_is_the_proof_and_is_done(administration, settings, api, shop):
    answer = await shop.create(api, "createQROrder")
    assert answer.status_code == 200, answer.text
    assert await state_of(administration, shop) is KeyState.ACTIVE
    rows = fetch_all(
        settings.database_url,
        "SELECT actor, address, before, after FROM audit_log WHERE client_id = %s AND action = 'key.activated'",
        shop.client_id,
    )
    assert rows == [
        (
            "a signed request",
            "192.0.2.1",
            {"state": "PENDING"},
            {"state": "ACTIVE", "proof": "a signed request"},
        )
    ]
    assert (await shop.create(api, "createQROrder")).status_code == 200


async def test_an_inquiry_that_finds_nothing_is_a_proof_too(administration, api, shop):
    answer = await shop.inquire(api, paymentRequestId="nothing-of-this-name")
    assert answer.json()["result"]["resultCode"] == "ORDER_NOT_EXIST"
    assert await state_of(administration, shop) is KeyState.ACTIVE


async def test_a_wrong_signature_proves_nothing_and_is_explained(administration, kernel, shop):
    answer = await Draft(shop, signed_body=b"{}").send(kernel)
    assert answer.code == "INVALID_SIGNATURE"
    assert "keyVersion 1" in answer.message
    assert await state_of(administration, shop) is KeyState.PENDING


async def test_a_signature_of_another_time_proves_nothing(administration, kernel, shop):
    for offset_s in (-301, 301):
        assert (await Draft(shop, request_time=at_now(offset_s)).send(kernel)).code == "TIMESTAMP_INVALID"
    assert await state_of(administration, shop) is KeyState.PENDING


async def test_a_request_under_an_active_version_does_not_activate_the_pending_one(
    administration, register, api
):
    merchant = await register(keys=1)
    await offer(administration, merchant)
    merchant.use_key(1, merchant.keys[1])
    assert (await merchant.create(api, "createQROrder")).status_code == 200
    assert await state_of(administration, merchant, 2) is KeyState.PENDING


async def test_requests_that_come_together_prove_a_key_once(administration, settings, api, shop):
    answers = await asyncio.gather(*(shop.create(api, "createQROrder") for _ in range(30)))
    assert {answer.status_code for answer in answers} == {200}
    query = "SELECT FROM audit_log WHERE client_id = %s AND action = 'key.activated'"
    assert len(fetch_all(settings.database_url, query, shop.client_id)) == 1


async def test_a_lapsed_key_is_refused_and_makes_no_payment(administration, settings, register, api):
    merchant = await register(keys=0)
    await offer(administration, merchant, datetime.now(UTC) - timedelta(days=7, minutes=1))
    answer = await merchant.create(api, "createQROrder")
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (403, "ACCESS_DENIED")
    assert "upload the key again" in answer.text
    assert (
        fetch_all(settings.database_url, "SELECT FROM payments WHERE client_id = %s", merchant.client_id)
        == []
    )


async def test_a_discarded_key_is_as_if_it_had_never_been(administration, api, shop):
    await KeyProofs(administration.store).discard(shop.client_id, 1, datetime.now(UTC), BY)
    answer = await shop.create(api, "createQROrder")
    assert (answer.status_code, answer.json()["result"]["resultCode"]) == (403, "ACCESS_DENIED")


async def test_nothing_is_done_when_the_proof_cannot_be_kept(fresh_database, master_key_file):
    settings = settings_for(fresh_database(), master_key_file)
    async with Administration(settings) as administration, opened_kernel(settings) as kernel:
        made = await administration.merchants.create("Shop", datetime.now(UTC))
        merchant = Merchant(made.client_id)
        await offer(administration, merchant)
        run_sql(settings.database_url, "ALTER TABLE audit_log RENAME TO gone")
        answer = await merchant.create(client_of(kernel), "createQROrder")
        assert answer.status_code == 500
        run_sql(settings.database_url, "ALTER TABLE gone RENAME TO audit_log")
        assert await state_of(administration, merchant) is KeyState.PENDING
        assert fetch_all(settings.database_url, "SELECT FROM payments") == []
        assert (await merchant.create(client_of(kernel), "createQROrder")).status_code == 200
