"""The provider's keys in the database: rotated one at a time, signing and published to the moment."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime
from itertools import pairwise

import pytest
import pytest_asyncio

from deployment import NOW, after, fetch_all, run_sql
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.vault import Vault
from payaccept.domain.errors import KeyNotFound, KeyRefused, StoreUnavailable
from payaccept.domain.provider_key import ProviderKey, ProviderKeyStatus, status_of
from payaccept.operations import provider_keys
from payaccept.operations.provider_keys import KEYS_KEPT_S, CurrentSigner
from payaccept.sdk.keys import load_public
from payaccept.wire import signing

LEAD_S, KEEP_S = 60.0, 600.0


@pytest.fixture
def url(fresh_database) -> str:
    """A database whose first key has signed since NOW."""
    url = fresh_database()
    run_sql(url, f"UPDATE provider_keys SET created_at = '{NOW}', activates_at = '{NOW}'")  # noqa: S608
    return url


@pytest_asyncio.fixture(loop_scope="session")
async def store(url) -> AsyncIterator[PostgresMerchants]:
    opened = PostgresMerchants(url, process="test")
    yield opened
    await opened.close()


@pytest.fixture
def vault(master_key_file) -> Vault:
    return Vault(master_key_file.read_bytes().strip())


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


async def rotate(store: PostgresMerchants, vault: Vault, seconds: float = 0, **changes: float) -> ProviderKey:
    times = {"lead_s": LEAD_S, "keep_s": KEEP_S} | changes
    return (await provider_keys.rotate(store, vault, after(seconds), **times))[-1]


def statuses(keys: list[ProviderKey], seconds: float) -> list[str]:
    return [status_of(key, keys, after(seconds)).value for key in keys]


async def test_what_a_rotation_decides_is_what_is_stored(store, vault):
    decided = await provider_keys.rotate(store, vault, NOW, lead_s=LEAD_S, keep_s=KEEP_S)
    assert await store.list_provider_keys() == decided
    old, new = decided
    assert (new.created_at, new.activates_at, new.withdraws_at) == (NOW, after(60), None)
    assert old.withdraws_at == after(660)
    assert old.public_key_pem != new.public_key_pem
    assert vault.open(new.sealed_private_key).key_size == 2048


async def test_of_many_rotations_at_once_one_is_done(store, url, vault):
    others = [PostgresMerchants(url, process="test") for _ in range(5)]
    try:
        done = await asyncio.gather(*(rotate(other, vault) for other in others), return_exceptions=True)
    finally:
        for other in others:
            await other.close()
    assert sum(isinstance(result, ProviderKey) for result in done) == 1
    assert sum(isinstance(result, KeyRefused) for result in done) == 4
    assert [key.key_version for key in await store.list_provider_keys()] == [1, 2]


async def test_of_a_withdrawal_and_its_repetition_one_is_done(store, url, vault):
    await rotate(store, vault)
    others = [PostgresMerchants(url, process="test") for _ in range(3)]
    try:
        done = await asyncio.gather(
            *(provider_keys.withdraw(other, vault, after(1), 1) for other in others), return_exceptions=True
        )
    finally:
        for other in others:
            await other.close()
    assert sum(isinstance(result, KeyRefused) for result in done) == 2
    assert statuses(await store.list_provider_keys(), 1) == ["WITHDRAWN", "ACTIVE"]


async def test_what_is_refused_changes_nothing(store, vault):
    await rotate(store, vault)
    before = await store.list_provider_keys()
    for refused in (
        rotate(store, vault, 59),
        provider_keys.withdraw(store, None, after(59), 1),
        provider_keys.withdraw(store, None, after(59), 3),
    ):
        with pytest.raises((KeyRefused, KeyNotFound)):
            await refused
    assert await store.list_provider_keys() == before


async def test_only_the_times_of_a_key_ever_change(store, url, vault):
    query = "SELECT key_version, public_key_pem, sealed_private_key, created_at FROM provider_keys ORDER BY 1"
    await rotate(store, vault)
    before = fetch_all(url, query)
    await provider_keys.withdraw(store, vault, after(1), 1)
    await rotate(store, vault, 2)
    await provider_keys.withdraw(store, None, after(3), 3)
    assert fetch_all(url, query)[:2] == before


async def test_a_withdrawn_key_is_listed_and_not_published(store, vault):
    await rotate(store, vault, lead_s=0)
    keys = await provider_keys.withdraw(store, None, after(5), 1)
    assert [key.key_version for key in await provider_keys.list_published(store, after(5))] == [2]
    shown = provider_keys.show(keys, after(5))
    assert [(key.key_version, key.status.value) for key in shown] == [(1, "WITHDRAWN"), (2, "ACTIVE")]
    assert shown[0].withdraw_time == "2026-03-01T12:00:05.000Z"
    assert shown[0].retire_time == "2026-03-01T12:00:00.000Z"


async def test_nothing_that_is_shown_holds_a_private_key(store, vault, caplog):
    caplog.set_level(logging.DEBUG)
    keys = await provider_keys.rotate(store, vault, NOW, lead_s=LEAD_S, keep_s=KEEP_S)
    signer = await CurrentSigner(store, vault, Clock())()
    sealed = keys[0].sealed_private_key.decode()
    assert sealed[:12] not in caplog.text + repr(keys) + repr(signer) + repr(provider_keys.show(keys, NOW))


# The key that signs


async def test_the_signer_changes_on_time_without_a_look_at_the_database(store, url, vault):
    await rotate(store, vault)
    clock = Clock()
    current = CurrentSigner(store, vault, clock)
    signed = {}
    # The database would not give the answer: what counts is what was read before.
    for seconds in (0, 59.999999, 60, 61):
        clock.now = after(seconds)
        signed[seconds] = (await current()).key_version
        run_sql(
            url,
            "UPDATE provider_keys SET activates_at = activates_at + interval '1 day' WHERE key_version > 1",
        )
    assert signed == {0: 1, 59.999999: 1, 60: 2, 61: 2}


async def test_a_key_that_signs_at_once_is_used_within_half_a_second(store, vault):
    clock = Clock()
    current = CurrentSigner(store, vault, clock)
    assert (await current()).key_version == 1
    await rotate(store, vault, lead_s=0)
    await asyncio.sleep(KEYS_KEPT_S)
    assert (await current()).key_version == 2
    await provider_keys.withdraw(store, vault, clock.now, 2)
    await asyncio.sleep(KEYS_KEPT_S)
    signer = await current()
    assert signer.key_version == 3
    assert signer is await current()


async def test_what_is_signed_verifies_under_what_is_published_then_and_for_as_long_as_it_is_kept(
    store, vault
):
    """A key signs and another is published, every 7 seconds over four rotations."""
    clock = Clock()
    signed: list[tuple[float, int, str]] = []
    for seconds in range(0, 1600, 7):
        clock.now = after(seconds)
        if seconds % 490 == 0:
            await rotate(store, vault, seconds, keep_s=300)
        signer = await CurrentSigner(store, vault, clock)()
        signature = signing.sign(signer.private_key, b"webhook")
        published = await provider_keys.list_published(store, clock.now)
        signed.append((seconds, signer.key_version, signature))
        assert 1 <= len(published) <= 3
        pem = {key.key_version: key.public_key_pem for key in published}
        for at, version, made in signed:
            if seconds - at <= 300:
                signing.verify(load_public(pem[version].encode()), made, b"webhook")
    versions = [version for _, version, _ in signed]
    assert versions == sorted(versions)
    assert set(versions) == {1, 2, 3, 4, 5}
    switches = [at for (_, one, _), (at, other, _) in pairwise(signed) if one != other]
    assert switches == [63, 553, 1043, 1533]


async def test_every_change_of_a_key_is_logged_whoever_made_it(store, url, vault, caplog):
    caplog.set_level(logging.INFO, "payaccept.operations.provider_keys")
    clock = Clock()
    current = CurrentSigner(store, vault, clock)

    async def logged(seconds: float) -> list[tuple[int, str]]:
        clock.now = after(seconds)
        current._read_at_s = None
        caplog.clear()
        await current()
        return [(record.keyVersion, record.status) for record in caplog.records]

    assert await logged(0) == [(1, "ACTIVE")]
    other = PostgresMerchants(url, process="test")
    await rotate(other, vault)
    assert await logged(1) == [(2, "PUBLISHED")]
    assert await logged(60) == [(1, "RETIRED"), (2, "ACTIVE")]
    assert await logged(61) == []
    await provider_keys.withdraw(other, None, after(62), 1)
    await other.close()
    assert await logged(62) == [(1, "WITHDRAWN")]
    assert await _logged_by_a_new_one(store, vault, clock, caplog) == [(2, ProviderKeyStatus.ACTIVE)]


async def _logged_by_a_new_one(store, vault, clock, caplog):
    caplog.clear()
    await CurrentSigner(store, vault, clock)()
    return [(record.keyVersion, record.status) for record in caplog.records]


async def test_while_the_database_is_away_nothing_is_signed_for_long(vault, tmp_path):
    away = PostgresMerchants(f"postgresql://x@/x?host={tmp_path}", process="test")
    with pytest.raises(StoreUnavailable):
        await CurrentSigner(away, vault, Clock())()
    await away.close()


async def test_sending_goes_on_when_the_clock_is_set_back_before_the_only_key(store, vault):
    clock = Clock()
    clock.now = after(-86_400)
    signer = await CurrentSigner(store, vault, clock)()
    assert signer.key_version == 1
    assert statuses(await store.list_provider_keys(), -86_400) == ["ACTIVE"]
