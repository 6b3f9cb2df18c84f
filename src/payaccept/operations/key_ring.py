"""The provider's keys with all that changing them takes, for a process that stays: the operator's pages."""

from datetime import datetime

from msgspec import Struct

from payaccept.domain import provider_key
from payaccept.domain.provider_key import ProviderKey, Rotation, SealedPair
from payaccept.domain.user import Actor
from payaccept.operations import provider_keys
from payaccept.operations.ports import ProviderKeyStore
from payaccept.operations.provider_keys import KeyVault

_NOBODY_S: SealedPair = ("", b"")


class Times(Struct, frozen=True, kw_only=True):
    """How long a new key is published before it signs, an old one after, and a merchant's copy of the list is good.

    In seconds.
    """

    lead_s: float
    keep_s: float
    max_age_s: float


class KeyRing:
    """The verbs of the provider's keys."""

    def __init__(self, store: ProviderKeyStore, vault: KeyVault, times: Times) -> None:
        self._store = store
        self._vault = vault
        self.times = times

    async def list_keys(self) -> list[ProviderKey]:
        """Return all keys by version, the withdrawn ones too."""
        return await self._store.list_provider_keys()

    async def plan_rotation(self, now: datetime) -> Rotation:
        """Return what a rotation would bring now. Raises: KeyRefused while one is under way."""
        keys = await self._store.list_provider_keys()
        return provider_key.plan_rotation(keys, now, lead_s=self.times.lead_s, keep_s=self.times.keep_s)

    async def rotate(self, now: datetime, by: Actor) -> ProviderKey:
        """Publish a new key, and return it; it signs when merchants have had the time to fetch it.

        Raises: KeyRefused while a rotation is under way.
        """
        keys = await provider_keys.rotate(
            self._store, self._vault, now, lead_s=self.times.lead_s, keep_s=self.times.keep_s, by=by
        )
        return keys[-1]

    async def plan_withdrawal(self, key_version: int, now: datetime) -> int:
        """Return which key will sign when one is withdrawn now. Raises: KeyNotFound, KeyRefused."""
        keys = await self._store.list_provider_keys()
        after = provider_key.withdraw(keys, key_version, now, _NOBODY_S)
        return provider_key.signing_key(after, max([now, *(key.created_at for key in after)])).key_version

    async def withdraw(self, key_version: int, now: datetime, by: Actor, reason: str) -> list[ProviderKey]:
        """Take a key out of use at once and for good, the one that signs too: then another one does so at once.

        Returns: all keys. Raises: KeyNotFound, KeyRefused.
        """
        return await provider_keys.withdraw(self._store, self._vault, now, key_version, by, reason)
