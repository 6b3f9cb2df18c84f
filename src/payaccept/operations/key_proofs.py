"""Keys that merchants upload themselves: pending until their possession is proved, then active."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from payaccept.domain import key_proofs, merchant_keys
from payaccept.domain.errors import KeyNotFound, KeyRefused, ProofRefused
from payaccept.domain.merchant import KeyState, MerchantKey
from payaccept.domain.user import Actor
from payaccept.operations.merchants import key_entry
from payaccept.operations.ports import MerchantStore

BY_REQUEST: Final = "a signed request"
BY_TEXT: Final = "a signed text"
_MAX_REMEMBERED: Final = 1000


class KeyProofs:
    """The business verbs of pending keys."""

    def __init__(self, store: MerchantStore) -> None:
        self._store = store
        self._one_at_a_time = asyncio.Lock()
        self._proved: set[str] = set()

    async def offer(self, client_id: str, pem: bytes, now: datetime, by: Actor) -> MerchantKey:
        """Register a public key under the next version, to be proved. Raises: MerchantNotFound, KeyRefused."""
        accepted = merchant_keys.accept(pem)

        def decide(keys: list[MerchantKey]) -> MerchantKey:
            waiting = [key for key in keys if key.state is KeyState.PENDING]
            if len(waiting) >= key_proofs.MAX_PENDING:
                raise KeyRefused(
                    f"{len(waiting)} keys are waiting for their proof already: prove or discard one of them first"
                )
            return merchant_keys.next_key(client_id, keys, accepted, now, key_proofs.new_nonce())

        return await self._store.insert_key(
            client_id, decide, lambda key: key_entry(by, now, "key.added", None, key)
        )

    async def prove_by_text(
        self, client_id: str, key_version: int, signature: str, now: datetime, by: Actor
    ) -> MerchantKey:
        """Make a key active whose owner has signed the text. Raises: KeyNotFound, KeyRefused, ProofRefused."""

        def check(key: MerchantKey) -> None:
            key_proofs.check_signed_text(key, signature)

        return await self._activate(client_id, key_version, check, now, by, BY_TEXT)

    async def prove_by_request(
        self, client_id: str, key_version: int, fingerprint: str, now: datetime, address: str
    ) -> None:
        """Make a key active under which a request has just verified.

        Other requests under the same key may have done so since this process last looked: that is remembered.
        Raises: KeyNotFound, KeyRefused, ProofRefused, OutcomeOpen.
        """

        def check(key: MerchantKey) -> None:
            if key.fingerprint != fingerprint:
                raise ProofRefused(f"keyVersion {key_version} is another key by now")

        by = Actor(user_id=None, name=BY_REQUEST, address=address)
        async with self._one_at_a_time:
            if fingerprint not in self._proved:
                await self._activate(client_id, key_version, check, now, by, BY_REQUEST)
                if len(self._proved) >= _MAX_REMEMBERED:
                    self._proved.clear()
                self._proved.add(fingerprint)

    async def discard(self, client_id: str, key_version: int, now: datetime, by: Actor) -> MerchantKey:
        """Give up a key that was not proved; its version is not given out again. Raises: KeyNotFound."""

        def decide(key: MerchantKey) -> MerchantKey:
            if key.state is not KeyState.PENDING:
                raise KeyNotFound(f"keyVersion {key_version} is {key.state.lower()}: it waits for nothing")
            return msgspec.structs.replace(key, state=KeyState.DISCARDED, retired_at=now, proof_nonce=None)

        return await self._store.change_key(
            client_id,
            key_version,
            decide,
            lambda before, after: key_entry(by, now, "key.discarded", before, after),
            now,
        )

    async def _activate(
        self,
        client_id: str,
        key_version: int,
        check: Callable[[MerchantKey], None],
        now: datetime,
        by: Actor,
        proof: str,
    ) -> MerchantKey:
        def decide(key: MerchantKey) -> MerchantKey:
            if key.state is KeyState.ACTIVE:
                return key  # somebody was faster, and proved the same
            if key.state is not KeyState.PENDING:
                raise ProofRefused(f"keyVersion {key_version} is {key.state.lower()}")
            if key_proofs.is_lapsed(key, now):
                raise ProofRefused(
                    f"keyVersion {key_version} has waited {key_proofs.PENDING_LIFE.days} days for its proof of"
                    " possession, and has lapsed: upload the key again"
                )
            check(key)
            return msgspec.structs.replace(key, state=KeyState.ACTIVE, activated_at=now, proof_nonce=None)

        return await self._store.change_key(
            client_id,
            key_version,
            decide,
            lambda before, after: key_entry(by, now, "key.activated", before, after, proof=proof),
            now,
        )
