"""Keys that merchants upload themselves: pending, proved, discarded, lapsed; and who may claim a key."""

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from deployment import NOW, after, fetch_all
from merchant import private_key, public_pem
from payaccept.domain.errors import KeyNotFound, KeyRefused, ProofRefused
from payaccept.domain.key_proofs import MAX_PENDING, text_to_sign
from payaccept.domain.merchant import KeyState, MerchantKey
from payaccept.domain.user import Actor
from payaccept.operations.key_proofs import KeyProofs

BY = Actor(user_id=None, name="dev@shop.example", address="192.0.2.9")
fresh = itertools.count(5000)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def proofs(administration) -> AsyncIterator[KeyProofs]:
    yield KeyProofs(administration.store)


@pytest_asyncio.fixture(loop_scope="session")
async def client_id(administration) -> str:
    return (await administration.merchants.create("Shop", NOW)).client_id


@pytest.fixture
def private() -> rsa.RSAPrivateKey:
    return private_key(next(fresh))


def proof(key: MerchantKey, private: rsa.RSAPrivateKey) -> str:
    signed = private.sign(text_to_sign(key).encode(), padding.PKCS1v15(), hashes.SHA256())
    return base64.b64encode(signed).decode()


async def test_an_uploaded_key_is_pending_until_its_text_is_signed(
    proofs, administration, client_id, private
):
    offered = await proofs.offer(client_id, public_pem(private), NOW, BY)
    assert (offered.state, offered.key_version) == (KeyState.PENDING, 1)
    proved = await proofs.prove_by_text(client_id, 1, proof(offered, private), after(60), BY)
    assert (proved.state, proved.activated_at, proved.proof_nonce) == (KeyState.ACTIVE, after(60), None)
    assert await administration.merchants.list_keys(client_id) == [proved]


async def test_a_wrong_proof_leaves_the_key_pending(proofs, administration, client_id, private):
    offered = await proofs.offer(client_id, public_pem(private), NOW, BY)
    with pytest.raises(ProofRefused):
        await proofs.prove_by_text(client_id, 1, proof(offered, private_key(1)), NOW, BY)
    assert await administration.merchants.list_keys(client_id) == [offered]


async def test_every_change_of_a_key_is_in_the_audit_log(
    proofs, administration, settings, client_id, private
):
    offered = await proofs.offer(client_id, public_pem(private), NOW, BY)
    await proofs.prove_by_text(client_id, 1, proof(offered, private), after(1), BY)
    await proofs.prove_by_text(client_id, 1, proof(offered, private), after(2), BY)
    await administration.merchants.retire_key(client_id, 1, after(3), BY)
    await proofs.offer(client_id, public_pem(private_key(next(fresh))), after(4), BY)
    await proofs.discard(client_id, 2, after(5), BY)
    rows = fetch_all(
        settings.database_url,
        "SELECT actor, address, action, subject, before, after FROM audit_log"
        " WHERE client_id = %s AND action LIKE 'key.%%' ORDER BY entry_id",
        client_id,
    )
    assert {row[:2] for row in rows} == {("dev@shop.example", "192.0.2.9")}
    assert [(action, subject, after["state"]) for _, _, action, subject, _, after in rows] == [
        ("key.added", "keyVersion 1", "PENDING"),
        ("key.activated", "keyVersion 1", "ACTIVE"),
        ("key.retired", "keyVersion 1", "RETIRED"),
        ("key.added", "keyVersion 2", "PENDING"),
        ("key.discarded", "keyVersion 2", "DISCARDED"),
    ]
    assert rows[0][5]["fingerprint"] == offered.fingerprint
    assert rows[1][5]["proof"] == "a signed text"


async def test_requests_at_the_same_time_prove_a_key_once(proofs, settings, client_id, private):
    offered = await proofs.offer(client_id, public_pem(private), NOW, BY)
    other_process = KeyProofs(proofs._store)
    await asyncio.gather(
        *(
            each.prove_by_request(client_id, 1, offered.fingerprint, after(1), "192.0.2.1")
            for each in (proofs, other_process)
            for _ in range(20)
        )
    )
    rows = fetch_all(
        settings.database_url,
        "SELECT actor, address FROM audit_log WHERE client_id = %s AND action = 'key.activated'",
        client_id,
    )
    assert rows == [("a signed request", "192.0.2.1")]


async def test_the_proof_of_one_key_is_none_of_another_under_its_version(proofs, client_id, private):
    await proofs.offer(client_id, public_pem(private), NOW, BY)
    with pytest.raises(ProofRefused, match="another key"):
        await proofs.prove_by_request(client_id, 1, "0" * 64, NOW, "192.0.2.1")


async def test_a_key_that_waited_too_long_lapses(proofs, client_id, private):
    offered = await proofs.offer(client_id, public_pem(private), NOW, BY)
    late = NOW + timedelta(days=7)
    with pytest.raises(ProofRefused, match="lapsed"):
        await proofs.prove_by_text(client_id, 1, proof(offered, private), late, BY)
    with pytest.raises(ProofRefused, match="lapsed"):
        await proofs.prove_by_request(client_id, 1, offered.fingerprint, late, "192.0.2.1")


async def test_a_discarded_key_may_be_offered_again_under_a_new_version(proofs, client_id, private):
    offered = await proofs.offer(client_id, public_pem(private), NOW, BY)
    await proofs.discard(client_id, 1, NOW, BY)
    with pytest.raises(KeyNotFound, match="discarded"):
        await proofs.discard(client_id, 1, NOW, BY)
    with pytest.raises(ProofRefused, match="discarded"):
        await proofs.prove_by_text(client_id, 1, proof(offered, private), NOW, BY)
    again = await proofs.offer(client_id, public_pem(private), NOW, BY)
    assert again.key_version == 2


async def test_an_active_key_is_retired_not_discarded(proofs, administration, client_id, private):
    await administration.merchants.add_key(client_id, public_pem(private), NOW)
    with pytest.raises(KeyNotFound, match="active"):
        await proofs.discard(client_id, 1, NOW, BY)
    with pytest.raises(KeyNotFound, match="no key of version 2"):
        await proofs.discard(client_id, 2, NOW, BY)


async def test_a_pending_key_is_not_retired_but_discarded(proofs, administration, client_id, private):
    await proofs.offer(client_id, public_pem(private), NOW, BY)
    with pytest.raises(KeyNotFound, match="pending"):
        await administration.merchants.retire_key(client_id, 1, NOW)


async def test_only_so_many_keys_wait_at_a_time(proofs, client_id):
    for _ in range(MAX_PENDING):
        await proofs.offer(client_id, public_pem(private_key(next(fresh))), NOW, BY)
    with pytest.raises(KeyRefused, match="waiting"):
        await proofs.offer(client_id, public_pem(private_key(next(fresh))), NOW, BY)


async def test_the_same_key_waits_once(proofs, client_id, private):
    await proofs.offer(client_id, public_pem(private), NOW, BY)
    with pytest.raises(KeyRefused, match="waiting for its proof of possession already, as keyVersion 1"):
        await proofs.offer(client_id, public_pem(private), NOW, BY)


async def test_nobody_can_claim_anothers_key_by_uploading_it(proofs, administration, client_id, private):
    squatter = (await administration.merchants.create("Squatter", NOW)).client_id
    squatted = await proofs.offer(squatter, public_pem(private), NOW, BY)
    offered = await proofs.offer(client_id, public_pem(private), NOW, BY)
    await proofs.prove_by_text(client_id, 1, proof(offered, private), NOW, BY)
    with pytest.raises(KeyRefused, match="to another merchant"):
        await proofs.prove_by_text(squatter, 1, proof(squatted, private), NOW, BY)
    with pytest.raises(KeyRefused, match="to another merchant"):
        await proofs.offer(squatter, public_pem(private), NOW, BY)


async def test_the_command_line_adds_keys_that_are_active_at_once(administration, client_id, private):
    key = await administration.merchants.add_key(client_id, public_pem(private), NOW)
    assert (key.state, key.activated_at) == (KeyState.ACTIVE, NOW)
