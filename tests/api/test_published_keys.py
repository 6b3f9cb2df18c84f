"""The two documents of the provider's keys, as the clock goes through a rotation."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import httpx
import pytest_asyncio

from deployment import NOW, after, run_sql
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.vault import Vault
from payaccept.api.documents import Documents
from payaccept.api.gate import Answer
from payaccept.domain.merchant import Environment
from payaccept.operations import provider_keys
from payaccept.operations.provider_keys import PublishedKey
from payaccept.sdk import WebhookKeys

PEM = "/.well-known/payaccept/webhook-keys"
JWKS = "/.well-known/jwks.json"


class Published:
    """The documents of a deployment whose first key has signed since NOW, at a time that is set by hand."""

    def __init__(self, store: PostgresMerchants, vault: Vault) -> None:
        self.store = store
        self.vault = vault
        self.now = NOW
        self._by_path: dict[str, Callable[[], Awaitable[Answer]]] = Documents(
            Environment.SANDBOX, self._ping, self._list, 300
        ).by_path()

    async def _ping(self) -> None:
        """The database is there."""

    async def _list(self) -> list[PublishedKey]:
        return await provider_keys.list_published(self.store, self.now)

    async def read(self, path: str = PEM) -> Any:
        answer = await self._by_path[path]()
        assert answer.status == 200
        assert dict(answer.headers)["cache-control"] == "public, max-age=300"
        return json.loads(answer.body)

    async def statuses(self, now: datetime) -> dict[int, str]:
        """What is published at a moment; both documents and the SDK have the same keys."""
        self.now = now
        listed = await self.read()
        versions = [key["keyVersion"] for key in listed]
        assert [int(key["kid"]) for key in (await self.read(JWKS))["keys"]] == versions
        known = WebhookKeys.from_json(json.dumps(listed).encode())
        assert all(known.find(version) for version in versions)
        return {key["keyVersion"]: key["status"] for key in listed}


@pytest_asyncio.fixture(loop_scope="session")
async def published(fresh_database, master_key_file) -> AsyncIterator[Published]:
    url = fresh_database()
    run_sql(url, f"UPDATE provider_keys SET created_at = '{NOW}', activates_at = '{NOW}'")  # noqa: S608
    store = PostgresMerchants(url, process="test")
    yield Published(store, Vault(master_key_file.read_bytes().strip()))
    await store.close()


async def test_the_next_key_is_published_first_and_the_old_one_for_the_time_to_keep_it(published):
    assert await published.statuses(NOW) == {1: "ACTIVE"}
    await provider_keys.rotate(published.store, published.vault, after(10), lead_s=60, keep_s=600)
    for seconds, told in [
        (10, {1: "ACTIVE", 2: "PUBLISHED"}),
        (69.999999, {1: "ACTIVE", 2: "PUBLISHED"}),
        (70, {1: "RETIRED", 2: "ACTIVE"}),
        (669.999999, {1: "RETIRED", 2: "ACTIVE"}),
        (670, {2: "ACTIVE"}),
        (10**8, {2: "ACTIVE"}),
    ]:
        assert await published.statuses(after(seconds)) == told, seconds


async def test_the_times_are_told(published):
    [only] = await published.read()
    assert list(only) == ["keyVersion", "status", "publicKeyPem", "createTime", "activateTime"]
    await provider_keys.rotate(published.store, published.vault, NOW, lead_s=60, keep_s=600)
    old, new = await published.read()
    assert old["retireTime"] == new["activateTime"] == "2026-03-01T12:01:00.000Z"
    assert old["withdrawTime"] == "2026-03-01T12:11:00.000Z"
    assert "retireTime" not in new
    assert "withdrawTime" not in new


async def test_a_key_that_is_withdrawn_by_hand_is_gone_from_both_documents_at_once(published):
    await provider_keys.rotate(published.store, published.vault, NOW, lead_s=60, keep_s=600)
    await provider_keys.withdraw(published.store, published.vault, after(5), 1)
    assert await published.statuses(after(5)) == {2: "ACTIVE"}
    await provider_keys.withdraw(published.store, published.vault, after(6), 2)
    assert await published.statuses(after(6)) == {3: "ACTIVE"}


async def test_the_service_publishes_them_with_a_lifetime_well_below_the_lead(
    api: httpx.AsyncClient, settings
):
    for path in (PEM, JWKS):
        answer = await api.get(path)
        assert answer.status_code == 200
        max_age_s = int(answer.headers["Cache-Control"].removeprefix("public, max-age="))
        assert max_age_s == settings.provider_keys_max_age_s <= settings.provider_key_lead_s / 4
