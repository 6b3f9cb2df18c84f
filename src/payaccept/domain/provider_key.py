"""The service's own keys: published when made, signing from a set time until a younger one signs."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct


class ProviderKeyStatus(StrEnum):
    """PUBLISHED will sign later, ACTIVE signs now, RETIRED has signed before and still verifies."""

    PUBLISHED = "PUBLISHED"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"


class ProviderKey(Struct, frozen=True, kw_only=True):
    """One key. The private half is sealed and does not show in a repr."""

    key_version: int
    public_key_pem: str
    sealed_private_key: bytes
    created_at: datetime
    activates_at: datetime

    def __repr__(self) -> str:
        """Leave out even the sealed private key."""
        return f"ProviderKey(key_version={self.key_version}, activates_at={self.activates_at.isoformat()})"


def signing_key(keys: Sequence[ProviderKey], now: datetime) -> ProviderKey:
    """Return the key that signs at `now`: the youngest whose time has come. Raises: LookupError."""
    ready = [key for key in keys if key.activates_at <= now]
    if not ready:
        raise LookupError("no provider key signs yet")
    return max(ready, key=lambda key: key.key_version)


def status_of(key: ProviderKey, keys: Sequence[ProviderKey], now: datetime) -> ProviderKeyStatus:
    """Return what a key is at `now`."""
    if key.activates_at > now:
        return ProviderKeyStatus.PUBLISHED
    if key.key_version == signing_key(keys, now).key_version:
        return ProviderKeyStatus.ACTIVE
    return ProviderKeyStatus.RETIRED
