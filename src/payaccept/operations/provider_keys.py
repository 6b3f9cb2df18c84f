"""The keys the service signs its notifications with."""

import asyncio
import logging
from asyncio import get_running_loop
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from msgspec import UNSET, Struct, UnsetType

from payaccept.domain import provider_key
from payaccept.domain.audit import Entry, entry
from payaccept.domain.provider_key import (
    ProviderKey,
    ProviderKeyStatus,
    SealedPair,
    published_keys,
    retires_at,
    signing_key,
    status_of,
)
from payaccept.domain.user import COMMAND_LINE, Actor
from payaccept.operations.ports import ProviderKeyStore
from payaccept.wire import timestamps

KEYS_KEPT_S: Final = 0.5
"""Whoever signs looks at the keys this often, so a withdrawn one is used no longer than that."""

_log = logging.getLogger(__name__)


class KeyVault(Protocol):
    """Seals and opens private keys."""

    def new_key(self) -> SealedPair:
        """Make a key pair."""

    def open(self, sealed: bytes) -> RSAPrivateKey:
        """Open a sealed private key."""


class PublishedKey(Struct, frozen=True, rename="camel"):
    """A provider key as everybody may see it.

    It signs from `activate_time` until `retire_time`, and is published until `withdraw_time`; the two are absent
    while they are not known.
    """

    key_version: int
    status: ProviderKeyStatus
    public_key_pem: str
    create_time: str
    activate_time: str
    retire_time: str | UnsetType = UNSET
    withdraw_time: str | UnsetType = UNSET


def show(keys: Sequence[ProviderKey], now: datetime) -> list[PublishedKey]:
    """Show every key without its private half, the withdrawn ones too."""
    return [
        PublishedKey(
            key.key_version,
            status_of(key, keys, now),
            key.public_key_pem,
            timestamps.write(key.created_at),
            timestamps.write(key.activates_at),
            _written(retires_at(key, keys)),
            _written(key.withdraws_at),
        )
        for key in keys
    ]


def _written(at: datetime | None) -> str | UnsetType:
    return UNSET if at is None else timestamps.write(at)


async def ensure_first_key(store: ProviderKeyStore, vault: KeyVault, now: datetime) -> None:
    """Make the first key at the first start; one process wins where several try."""
    if not await store.list_provider_keys():
        pair = vault.new_key()
        await store.change_provider_keys(lambda keys: keys or [provider_key.first_key(pair, now)])


async def list_published(store: ProviderKeyStore, now: datetime) -> list[PublishedKey]:
    """Return what merchants may verify under at `now`, the youngest last: no key that is withdrawn."""
    keys = await store.list_provider_keys()
    published = {key.key_version for key in published_keys(keys, now)}
    return [key for key in show(keys, now) if key.key_version in published]


async def rotate(
    store: ProviderKeyStore,
    vault: KeyVault,
    now: datetime,
    *,
    lead_s: float,
    keep_s: float,
    by: Actor = COMMAND_LINE,
) -> list[ProviderKey]:
    """Publish a new key that signs `lead_s` seconds from now on; returns all keys, the new one last.

    The one before it stays published for `keep_s` seconds after that. Raises: KeyRefused.
    """
    pair = await asyncio.to_thread(vault.new_key)

    def entry_of(keys: list[ProviderKey]) -> Entry:
        signs = {"activateTime": timestamps.write(keys[-1].activates_at)}
        return entry(by, now, "provider key.published", _subject(keys[-1].key_version), after=signs)

    keys = await store.change_provider_keys(
        lambda keys: provider_key.rotate(keys, pair, now, lead_s=lead_s, keep_s=keep_s), entry_of
    )
    _log.info(
        "provider key published",
        extra={"keyVersion": keys[-1].key_version, "activateTime": timestamps.write(keys[-1].activates_at)},
    )
    return keys


async def withdraw(
    store: ProviderKeyStore,
    vault: KeyVault | None,
    now: datetime,
    key_version: int,
    by: Actor = COMMAND_LINE,
    reason: str | None = None,
) -> list[ProviderKey]:
    """Take a key out of use at once: not published, not signing, for good; returns all keys.

    With a vault the key may be the one that signs: another one does so at once.
    Raises: KeyNotFound, KeyRefused.
    """
    replacement = None if vault is None else await asyncio.to_thread(vault.new_key)

    def entry_of(keys: list[ProviderKey]) -> Entry:
        # A key may come from a clock ahead of ours.
        signing = signing_key(keys, max([now, *(key.created_at for key in keys)]))
        after = {"signs": _subject(signing.key_version)}
        why = {} if reason is None else {"reason": reason}
        return entry(by, now, "provider key.withdrawn", _subject(key_version), after=after | why)

    keys = await store.change_provider_keys(
        lambda keys: provider_key.withdraw(keys, key_version, now, replacement), entry_of
    )
    _log.info("provider key withdrawn", extra={"keyVersion": key_version})
    return keys


def _subject(key_version: int) -> str:
    return f"provider keyVersion {key_version}"


class Signer(Struct, frozen=True):
    """The key that signs at a moment."""

    key_version: int
    private_key: RSAPrivateKey

    def __repr__(self) -> str:
        """Leave out the private key."""
        return f"Signer(key_version={self.key_version})"


class CurrentSigner:
    """Knows the key that signs now: to the moment when that is a matter of time, else within half a second.

    What becomes of any key goes to the log, whoever has brought it about.
    """

    def __init__(self, store: ProviderKeyStore, vault: KeyVault, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._vault = vault
        self._clock = clock
        self._keys: Sequence[ProviderKey] = ()
        self._read_at_s: float | None = None
        self._told: dict[int, ProviderKeyStatus] = {}
        self._signer: Signer | None = None

    async def __call__(self) -> Signer:
        """Return it. Raises: OutcomeOpen; LookupError while there is none."""
        now_s = get_running_loop().time()
        if self._read_at_s is None or now_s - self._read_at_s >= KEYS_KEPT_S:
            self._keys = await self._store.list_provider_keys()
            self._read_at_s = now_s
        now = self._clock()
        key = signing_key(self._keys, now)
        self._tell(now)
        if self._signer is None or self._signer.key_version != key.key_version:
            self._signer = Signer(key.key_version, self._vault.open(key.sealed_private_key))
        return self._signer

    def _tell(self, now: datetime) -> None:
        for key in self._keys:
            status = status_of(key, self._keys, now)
            # Those that were withdrawn before we started are no news.
            if self._told.get(key.key_version, ProviderKeyStatus.WITHDRAWN) is not status:
                _log.info("provider key", extra={"keyVersion": key.key_version, "status": status})
            self._told[key.key_version] = status
