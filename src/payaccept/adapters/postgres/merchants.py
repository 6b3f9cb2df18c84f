"""Merchants, their keys and the provider's keys: one transaction a change, on a line of their own."""

import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection

from payaccept.adapters.postgres import audit, statements
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.domain.audit import Entry
from payaccept.domain.errors import KeyNotFound, KeyRefused, MerchantNotFound, SettingRefused
from payaccept.domain.merchant import (
    DuplicatePolicy,
    KeyState,
    Merchant,
    MerchantKey,
    MerchantState,
    buckets_of,
)
from payaccept.domain.provider_key import ProviderKey

_SQL: Final = statements.load("merchants.sql")
_PROVIDER_SQL: Final = statements.load("provider_keys.sql")

Connection = AsyncConnection[Any]


class PostgresMerchants:
    """The ports MerchantStore and ProviderKeyStore."""

    def __init__(self, database_url: str, *, process: str) -> None:
        self._line = SharedLine(database_url, f"{process}-merchants")

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()

    @contextlib.asynccontextmanager
    async def _change(self) -> AsyncIterator[tuple[Connection, int]]:
        """Open a transaction that changes the directory: yields the connection and the new version."""
        async with self._line.connection() as connection, connection.transaction():
            cursor = await connection.execute(_SQL["bump_directory"])
            [version] = await cursor.fetchone() or [0]
            yield connection, version

    async def insert_merchant(self, merchant: Merchant, entry: Entry) -> None:
        """Store a new merchant."""
        async with self._line.connection() as connection, connection.transaction():
            await insert(connection, merchant)
            await audit.record(connection, entry)

    async def get_merchant(self, client_id: str) -> Merchant:
        """Return a merchant. Raises: MerchantNotFound."""
        async with self._line.connection() as connection:
            return await _get_merchant(connection, client_id)

    async def list_merchants(self) -> list[Merchant]:
        """Return all merchants, oldest first."""
        async with self._line.connection() as connection:
            cursor = await connection.execute(_SQL["select_all_merchants"])
            return [merchant_of(row) for row in await cursor.fetchall()]

    async def change_merchant(
        self,
        client_id: str,
        decide: Callable[[Merchant], Merchant],
        entry_of: Callable[[Merchant, Merchant], Entry],
    ) -> Merchant:
        """Read a merchant, decide, and write it, in one transaction.

        Raises: MerchantNotFound; SettingRefused for another spread once it has payments.
        """
        async with self._change() as (connection, version):
            stored = await _get_merchant(connection, client_id)
            merchant = decide(stored)
            if stored.spread != merchant.spread:
                cursor = await connection.execute(
                    _SQL["has_payments"], {"bucket": buckets_of(stored), "client_id": client_id}
                )
                if await cursor.fetchone() == (True,):
                    raise SettingRefused(f"{client_id} has taken payments: its spread stays {stored.spread}")
            await connection.execute(_SQL["update_merchant"], _members(merchant, version))
            await audit.record(connection, entry_of(stored, merchant))
        return merchant

    async def list_keys(self, client_id: str) -> list[MerchantKey]:
        """Return a merchant's keys, whatever their state, by version. Raises: MerchantNotFound."""
        async with self._line.connection() as connection:
            await _get_merchant(connection, client_id)
            return await _list_keys(connection, client_id)

    async def insert_key(
        self,
        client_id: str,
        decide: Callable[[list[MerchantKey]], MerchantKey],
        entry_of: Callable[[MerchantKey], Entry],
    ) -> MerchantKey:
        """Store the key that follows from those there are. Raises: MerchantNotFound, KeyRefused."""
        async with self._change() as (connection, version):
            await _get_merchant(connection, client_id)
            key = decide(await _list_keys(connection, client_id))
            await _require_unclaimed(connection, key)
            await connection.execute(
                _SQL["insert_key"], {name: getattr(key, name) for name in key.__struct_fields__}
            )
            await _touch(connection, client_id, version, key.created_at)
            await audit.record(connection, entry_of(key))
        return key

    async def change_key(
        self,
        client_id: str,
        key_version: int,
        decide: Callable[[MerchantKey], MerchantKey],
        entry_of: Callable[[MerchantKey, MerchantKey], Entry],
        now: datetime,
    ) -> MerchantKey:
        """Read a key, decide, and write its state, in one transaction.

        Raises: MerchantNotFound; KeyNotFound; KeyRefused when it becomes active and is registered already;
        and what `decide` raises.
        """
        async with self._change() as (connection, version):
            await _get_merchant(connection, client_id)
            stored = next(
                (k for k in await _list_keys(connection, client_id) if k.key_version == key_version), None
            )
            if stored is None:
                raise KeyNotFound(f"{client_id} has no key of version {key_version}")
            key = decide(stored)
            if key != stored:
                if key.state is KeyState.ACTIVE:
                    await _require_unclaimed(connection, key)
                await connection.execute(
                    _SQL["update_key"], {name: getattr(key, name) for name in key.__struct_fields__}
                )
                await _touch(connection, client_id, version, now)
                await audit.record(connection, entry_of(stored, key))
        return key

    async def list_provider_keys(self) -> list[ProviderKey]:
        """Return all keys that sign notifications, by version."""
        async with self._line.connection() as connection:
            return await _list_provider_keys(connection)

    async def change_provider_keys(
        self,
        decide: Callable[[list[ProviderKey]], list[ProviderKey]],
        entry_of: Callable[[list[ProviderKey]], Entry] | None = None,
    ) -> list[ProviderKey]:
        """Read the keys, decide, and write those that are new or changed, in one transaction.

        Returns: all of them, by version. Raises: what `decide` raises, and nothing is written.
        """
        async with self._change() as (connection, _):
            stored = {key.key_version: key for key in await _list_provider_keys(connection)}
            keys = sorted(decide(list(stored.values())), key=lambda key: key.key_version)
            for key in keys:
                before = stored.get(key.key_version)
                if key != before:
                    statement = "insert_provider_key" if before is None else "update_provider_key"
                    await connection.execute(
                        _PROVIDER_SQL[statement], {name: getattr(key, name) for name in key.__struct_fields__}
                    )
            await audit.record(connection, None if entry_of is None else entry_of(keys))
        return keys


async def insert(connection: Connection, merchant: Merchant) -> None:
    """Store a new merchant in an open transaction."""
    cursor = await connection.execute(_SQL["bump_directory"])
    [version] = await cursor.fetchone() or [0]
    await connection.execute(_SQL["insert_merchant"], _members(merchant, version))


def _members(merchant: Merchant, version: int) -> dict[str, Any]:
    members = {name: getattr(merchant, name) for name in merchant.__struct_fields__}
    return members | {"directory_version": version}


def merchant_of(row: tuple[Any, ...]) -> Merchant:
    """Read a merchant's row."""
    members = dict(zip(Merchant.__struct_fields__, row, strict=True))
    members["state"] = MerchantState(members["state"])
    members["duplicates"] = DuplicatePolicy(members["duplicates"])
    return Merchant(**members)


def key_of(row: tuple[Any, ...]) -> MerchantKey:
    """Read a key's row."""
    members = dict(zip(MerchantKey.__struct_fields__, row, strict=True))
    members["state"] = KeyState(members["state"])
    return MerchantKey(**members)


async def _get_merchant(connection: Connection, client_id: str) -> Merchant:
    cursor = await connection.execute(_SQL["select_merchants"], {"client_id": [client_id]})
    row = await cursor.fetchone()
    if row is None:
        raise MerchantNotFound(f"there is no merchant {client_id[:64]}")
    return merchant_of(row)


async def _list_keys(connection: Connection, client_id: str) -> list[MerchantKey]:
    cursor = await connection.execute(_SQL["select_keys"], {"client_id": [client_id]})
    return [key_of(row) for row in await cursor.fetchall()]


async def _require_unclaimed(connection: Connection, key: MerchantKey) -> None:
    """See that a key is registered nowhere else. Raises: KeyRefused."""
    wanted = {"fingerprint": key.fingerprint, "client_id": key.client_id, "key_version": key.key_version}
    cursor = await connection.execute(_SQL["select_other_claims"], wanted)
    for client_id, key_version, state in await cursor.fetchall():
        if client_id != key.client_id:
            raise KeyRefused("this key is registered already, to another merchant")
        if state == KeyState.PENDING:
            raise KeyRefused(
                f"this key is waiting for its proof of possession already, as keyVersion {key_version}"
            )
        raise KeyRefused(f"this key is registered already, as keyVersion {key_version}")


async def _touch(connection: Connection, client_id: str, version: int, now: datetime) -> None:
    await connection.execute(
        _SQL["touch_merchant"], {"client_id": client_id, "directory_version": version, "updated_at": now}
    )


async def _list_provider_keys(connection: Connection) -> list[ProviderKey]:
    cursor = await connection.execute(_PROVIDER_SQL["select_provider_keys"])
    rows = await cursor.fetchall()
    return [ProviderKey(**dict(zip(ProviderKey.__struct_fields__, row, strict=True))) for row in rows]
