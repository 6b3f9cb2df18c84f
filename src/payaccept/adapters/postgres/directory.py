"""Merchants and keys as the running processes see them: cached, and never staler than a second.

Every change to a merchant or a key counts up one row's version in its own transaction, so versions become
visible in order. Each process reads that version several times a second and forgets what has changed.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.connections import Line, SharedLine
from payaccept.adapters.postgres.group_commit import GroupCommit
from payaccept.adapters.postgres.merchants import key_of, merchant_of
from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.key_proofs import public_key_of
from payaccept.domain.merchant import Credentials, KeyState, Merchant, MerchantKey, PendingKey

POLL_S: Final = 0.3
MAX_CACHED: Final = 20_000

_SQL: Final = statements.load("merchants.sql")
_log = logging.getLogger(__name__)


class PostgresDirectory:
    """The port Directory, and a call to whoever else keeps something of the directory."""

    def __init__(self, database_url: str, *, process: str) -> None:
        self._line = SharedLine(database_url, f"{process}-directory")
        self._reads = GroupCommit[str, Credentials | None](
            _find_credentials, [Line(database_url, f"{process}-credentials")], bucket_of=lambda _: 0
        )
        self._cached: OrderedDict[str, Credentials | None] = OrderedDict()
        self._version = -1
        self._task: asyncio.Task[None] | None = None
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back after every change of the directory."""
        self._on_change.append(callback)

    def start(self) -> None:
        """Start reading in the running loop."""
        self._reads.start()
        self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop, and close the connections."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._reads.close()
        await self._line.close()

    async def find_credentials(self, client_id: str) -> Credentials | None:
        """Return a merchant with its keys; None when there is no such merchant.

        Raises: StoreUnavailable, OutcomeUnknown.
        """
        if client_id in self._cached:
            return self._cached[client_id]
        version = self._version
        credentials = await self._reads.submit(client_id)
        if version == self._version:  # else it may be stale already: use it once, do not keep it
            self._cached[client_id] = credentials
            if len(self._cached) > MAX_CACHED:
                self._cached.popitem(last=False)
        return credentials

    def knows(self, client_id: str) -> bool:
        """Tell whether this is a merchant's, as far as that is known without asking."""
        return self._cached.get(client_id) is not None

    def forget(self, client_id: str) -> None:
        """Read a merchant anew when it is asked for next: this process has just changed it."""
        self._cached.pop(client_id, None)

    async def _watch(self) -> None:
        while True:
            try:
                await self._refresh()
            except (OutcomeOpen, psycopg.Error):
                pass  # the database is away: requests hear so themselves
            except Exception:  # noqa: BLE001 - a bug here must not end the watch
                _log.exception("reading the directory failed")
            await asyncio.sleep(POLL_S)

    async def _refresh(self) -> None:
        async with self._line.connection() as connection:
            cursor = await connection.execute(_SQL["select_directory_version"])
            [version] = await cursor.fetchone() or [0]
            if version == self._version:
                return
            cursor = await connection.execute(_SQL["select_changed_merchants"], {"version": self._version})
            changed = [row[0] for row in await cursor.fetchall()]
        # First the version: a read under way now must not be kept.
        self._version = version
        for client_id in changed:
            self._cached.pop(client_id, None)
        for callback in self._on_change:
            callback()


async def _find_credentials(
    connection: AsyncConnection[Any], client_ids: list[str]
) -> Sequence[Credentials | None]:
    # Keys before merchants would let a merchant appear without its first key; this order cannot.
    wanted = {"client_id": list(set(client_ids))}
    cursor = await connection.execute(_SQL["select_merchants"], wanted)
    merchants = {merchant.client_id: merchant for merchant in map(merchant_of, await cursor.fetchall())}
    cursor = await connection.execute(_SQL["select_keys"], wanted)
    keys: dict[str, list[MerchantKey]] = {client_id: [] for client_id in merchants}
    for key in map(key_of, await cursor.fetchall()):
        keys.setdefault(key.client_id, []).append(key)
    return [
        credentials_of(merchants[client_id], keys[client_id]) if client_id in merchants else None
        for client_id in client_ids
    ]


def credentials_of(merchant: Merchant, keys: Sequence[MerchantKey]) -> Credentials:
    """Make ready what requests are checked against."""
    active: dict[int, RSAPublicKey] = {}
    pending: dict[int, PendingKey] = {}
    for key in keys:
        if key.state is KeyState.ACTIVE:
            active[key.key_version] = public_key_of(key)
        elif key.state is KeyState.PENDING:
            pending[key.key_version] = PendingKey(public_key_of(key), key.fingerprint)
    retired = frozenset(key.key_version for key in keys if key.state is KeyState.RETIRED)
    return Credentials(merchant, active, retired, pending)
