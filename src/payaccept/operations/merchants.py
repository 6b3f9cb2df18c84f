"""Merchants and their keys: made, changed, rotated."""

import asyncio
import secrets
from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType

from payaccept.domain import merchant_keys
from payaccept.domain.audit import Entry, entry
from payaccept.domain.errors import FieldsIllegal, KeyNotFound, SettingRefused
from payaccept.domain.merchant import (
    BUCKETS,
    SANDBOX_RATE_LIMIT,
    DuplicatePolicy,
    Environment,
    KeyState,
    Merchant,
    MerchantKey,
    MerchantState,
    new_client_id,
)
from payaccept.domain.urls import UrlPolicy
from payaccept.domain.user import COMMAND_LINE, Actor
from payaccept.operations.ports import MerchantStore

MAX_NAME = 128
MAX_URL = 2048  # as in requests
MAX_RATE_LIMIT = 100_000
QUIESCENCE_S = 2.0  # every process hears of a change within a second; then what is under way ends


class Changes(Struct, frozen=True, kw_only=True):
    """New values of a merchant's settings; what is UNSET stays."""

    webhook_url: str | UnsetType | None = UNSET
    duplicates: DuplicatePolicy | UnsetType = UNSET
    rate_limit: int | UnsetType | None = UNSET
    spread: int | UnsetType = UNSET


class Merchants:
    """The business verbs of merchants."""

    def __init__(self, store: MerchantStore, environment: Environment, urls: UrlPolicy) -> None:
        self._store = store
        self._environment = environment
        self._urls = urls

    async def create(self, name: str, now: datetime, by: Actor = COMMAND_LINE) -> Merchant:
        """Make a merchant. Raises: SettingRefused."""
        merchant = self.draft(name, now)
        await self._store.insert_merchant(merchant, created(merchant, by))
        return merchant

    def draft(self, name: str, now: datetime) -> Merchant:
        """Return a merchant as it is made: ACTIVE in the sandbox, PENDING in production. Raises: SettingRefused."""
        name = name.strip()
        if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
            raise SettingRefused(f"a merchant's name has 1 to {MAX_NAME} printable characters")
        sandbox = self._environment is Environment.SANDBOX
        return Merchant(
            client_id=new_client_id(self._environment),
            name=name,
            state=MerchantState.ACTIVE if sandbox else MerchantState.PENDING,
            base_bucket=secrets.randbelow(BUCKETS),
            spread=1,
            duplicates=DuplicatePolicy.STRICT,
            webhook_url=None,
            rate_limit=SANDBOX_RATE_LIMIT if sandbox else None,
            created_at=now,
            updated_at=now,
        )

    async def list_all(self) -> list[Merchant]:
        """Return all merchants, oldest first."""
        return await self._store.list_merchants()

    async def get(self, client_id: str) -> Merchant:
        """Return a merchant. Raises: MerchantNotFound."""
        return await self._store.get_merchant(client_id)

    async def activate(self, client_id: str, now: datetime, by: Actor = COMMAND_LINE) -> Merchant:
        """Let the merchant take payments. Raises: MerchantNotFound."""
        return await self._move(client_id, MerchantState.ACTIVE, now, by)

    async def deactivate(self, client_id: str, now: datetime, by: Actor = COMMAND_LINE) -> Merchant:
        """Stop the merchant from taking payments; what is under way goes on. Raises: MerchantNotFound."""
        return await self._move(client_id, MerchantState.INACTIVE, now, by)

    async def _move(self, client_id: str, state: MerchantState, now: datetime, by: Actor) -> Merchant:
        def decide(merchant: Merchant) -> Merchant:
            return msgspec.structs.replace(merchant, state=state, updated_at=now)

        return await self._store.change_merchant(client_id, decide, _changed(by, now))

    async def change(
        self, client_id: str, changes: Changes, now: datetime, by: Actor = COMMAND_LINE
    ) -> Merchant:
        """Change settings. Raises: MerchantNotFound, SettingRefused, FieldsIllegal."""
        if changes.webhook_url not in {UNSET, None}:
            problem = self.webhook_problem(str(changes.webhook_url))
            if problem is not None:
                raise FieldsIllegal(f"webhookUrl {problem}")
        if isinstance(changes.rate_limit, int) and not 1 <= changes.rate_limit <= MAX_RATE_LIMIT:
            raise SettingRefused(f"a rate limit is 1 to {MAX_RATE_LIMIT} requests in 60 s, or none")
        if changes.spread is not UNSET and changes.spread not in {1 << bits for bits in range(9)}:
            raise SettingRefused("a spread is a power of two from 1 to 256")
        merchant = await self._store.get_merchant(client_id)
        respread = changes.spread not in {UNSET, merchant.spread}
        if respread and merchant.state is MerchantState.ACTIVE and await self._has_keys(client_id):
            return await self._respread(client_id, changes, now, by)
        return await self._apply(client_id, changes, now, by)

    def webhook_problem(self, url: str) -> str | None:
        """Say what keeps a URL from being an endpoint, as what the URL does; None when nothing does."""
        if len(url) > MAX_URL:
            return f"must have at most {MAX_URL} characters"
        return self._urls.problem(url)

    async def _apply(self, client_id: str, changes: Changes, now: datetime, by: Actor) -> Merchant:
        given = {
            name: value
            for name in Changes.__struct_fields__
            if (value := getattr(changes, name)) is not UNSET
        }

        def decide(merchant: Merchant) -> Merchant:
            return msgspec.structs.replace(merchant, updated_at=now, **given)

        return await self._store.change_merchant(client_id, decide, _changed(by, now))

    async def _has_keys(self, client_id: str) -> bool:
        return any(key.state is KeyState.ACTIVE for key in await self._store.list_keys(client_id))

    async def _respread(self, client_id: str, changes: Changes, now: datetime, by: Actor) -> Merchant:
        """Change the spread while no request is under way.

        One taken under the old spread has another bucket, where the idempotency key would not meet its
        repetition.
        """

        def resume(merchant: Merchant) -> Merchant:
            ours = merchant.updated_at == now  # else somebody has changed it meanwhile, and knows why
            return msgspec.structs.replace(merchant, state=MerchantState.ACTIVE) if ours else merchant

        await self._move(client_id, MerchantState.INACTIVE, now, by)
        try:
            await asyncio.sleep(QUIESCENCE_S)
            await self._apply(client_id, changes, now, by)
        finally:
            merchant = await self._store.change_merchant(client_id, resume, _changed(by, now))
        return merchant

    async def add_key(
        self, client_id: str, pem: bytes, now: datetime, by: Actor = COMMAND_LINE
    ) -> MerchantKey:
        """Register a public key under the next version, active at once. Raises: MerchantNotFound, KeyRefused."""
        accepted = merchant_keys.accept(pem)
        return await self._store.insert_key(
            client_id,
            lambda keys: merchant_keys.next_key(client_id, keys, accepted, now),
            lambda key: key_entry(by, now, "key.added", None, key),
        )

    async def list_keys(self, client_id: str) -> list[MerchantKey]:
        """Return a merchant's keys by version. Raises: MerchantNotFound."""
        return await self._store.list_keys(client_id)

    async def retire_key(
        self, client_id: str, key_version: int, now: datetime, by: Actor = COMMAND_LINE
    ) -> MerchantKey:
        """Refuse a key from now on. Raises: MerchantNotFound, KeyNotFound."""

        def decide(key: MerchantKey) -> MerchantKey:
            if key.state is not KeyState.ACTIVE:
                raise KeyNotFound(f"keyVersion {key_version} of {client_id} is {key.state.lower()} already")
            return msgspec.structs.replace(key, state=KeyState.RETIRED, retired_at=now)

        return await self._store.change_key(
            client_id,
            key_version,
            decide,
            lambda before, after: key_entry(by, now, "key.retired", before, after),
            now,
        )


def key_entry(
    by: Actor, now: datetime, action: str, before: MerchantKey | None, after: MerchantKey, **more: object
) -> Entry:
    """Return the entry of what happened to a key."""
    new = before is None
    values = {"state": after.state, **({"fingerprint": after.fingerprint} if new else {}), **more}
    return entry(
        by,
        now,
        action,
        f"keyVersion {after.key_version}",
        client_id=after.client_id,
        before=None if before is None else {"state": before.state},
        after=values,
    )


def created(merchant: Merchant, by: Actor) -> Entry:
    """Return the entry of a merchant's creation."""
    return entry(
        by,
        merchant.created_at,
        "merchant.created",
        merchant.client_id,
        client_id=merchant.client_id,
        after=_shown(merchant),
    )


def _changed(by: Actor, now: datetime) -> Callable[[Merchant, Merchant], Entry]:
    def entry_of(before: Merchant, after: Merchant) -> Entry:
        subject = before.client_id
        values = {"before": _shown(before), "after": _shown(after)}
        return entry(by, now, "merchant.changed", subject, client_id=subject, **values)

    return entry_of


def _shown(merchant: Merchant) -> dict[str, object]:
    """Return what an entry tells of a merchant, in the API's spelling."""
    return {
        "name": merchant.name,
        "state": merchant.state,
        "webhookUrl": merchant.webhook_url,
        "duplicates": merchant.duplicates,
        "rateLimit": merchant.rate_limit,
        "spread": merchant.spread,
    }
