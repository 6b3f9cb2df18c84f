"""The keys the service signs its notifications with."""

from datetime import datetime, timedelta
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from msgspec import Struct

from payaccept.domain.provider_key import ProviderKey, ProviderKeyStatus, signing_key, status_of
from payaccept.operations.ports import ProviderKeyStore
from payaccept.wire import timestamps


class KeyVault(Protocol):
    """Seals and opens private keys."""

    def new_key(self) -> tuple[str, bytes]:
        """Make a key pair: the public PEM, and the private key sealed."""

    def open(self, sealed: bytes) -> RSAPrivateKey:
        """Open a sealed private key."""


class PublishedKey(Struct, frozen=True, rename="camel"):
    """A provider key as everybody may see it; it signs from `activate_time` on."""

    key_version: int
    status: ProviderKeyStatus
    public_key_pem: str
    create_time: str
    activate_time: str


async def ensure_first_key(store: ProviderKeyStore, vault: KeyVault, now: datetime) -> None:
    """Make the first key at the first start; one process wins where several try."""
    if not await store.list_provider_keys():
        public_pem, sealed = vault.new_key()
        await store.insert_first_provider_key(public_pem, sealed, now)


async def list_published(store: ProviderKeyStore, now: datetime) -> list[PublishedKey]:
    """Return every key, the youngest last; all of them verify."""
    keys = await store.list_provider_keys()
    return [published(key, keys, now) for key in keys]


def published(key: ProviderKey, keys: list[ProviderKey], now: datetime) -> PublishedKey:
    """Show one key."""
    return PublishedKey(
        key.key_version,
        status_of(key, keys, now),
        key.public_key_pem,
        timestamps.write(key.created_at),
        timestamps.write(key.activates_at),
    )


async def rotate(store: ProviderKeyStore, vault: KeyVault, now: datetime, lead_s: float) -> ProviderKey:
    """Publish a new key that signs `lead_s` seconds from now on. Raises: KeyRefused."""
    public_pem, sealed = vault.new_key()
    return await store.insert_provider_key(public_pem, sealed, now, now + timedelta(seconds=lead_s))


class Signer(Struct, frozen=True):
    """The key that signs at a moment, and when that may change (None: by a rotation only)."""

    key_version: int
    private_key: RSAPrivateKey
    until: datetime | None

    def __repr__(self) -> str:
        """Leave out the private key."""
        return f"Signer(key_version={self.key_version})"


async def current_signer(store: ProviderKeyStore, vault: KeyVault, now: datetime) -> Signer:
    """Return the key that signs now. Raises: LookupError while there is none."""
    keys = await store.list_provider_keys()
    key = signing_key(keys, now)
    later = [other.activates_at for other in keys if other.activates_at > now]
    return Signer(key.key_version, vault.open(key.sealed_private_key), min(later, default=None))
