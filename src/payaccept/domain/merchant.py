"""Merchants: who they are, where their payments live, how they want duplicates answered."""

import secrets
from datetime import datetime
from enum import StrEnum
from typing import Final
from zlib import crc32

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

BUCKETS: Final = 256
SANDBOX_RATE_LIMIT: Final = 100
RATE_WINDOW_S: Final = 60


class Environment(StrEnum):
    """The two environments; nothing is shared between them."""

    SANDBOX = "sandbox"
    PRODUCTION = "production"

    @property
    def client_id_prefix(self) -> str:
        """Client-Ids name their environment, so that the other's credentials are recognised."""
        return "sandbox_" if self is Environment.SANDBOX else "live_"

    @property
    def other(self) -> "Environment":
        """The environment that this one is not."""
        return Environment.PRODUCTION if self is Environment.SANDBOX else Environment.SANDBOX


class MerchantState(StrEnum):
    """PENDING waits for onboarding (production only); only ACTIVE takes payments."""

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"


class DuplicatePolicy(StrEnum):
    """How a repeated paymentRequestId is answered: always refused, or replayed when nothing differs."""

    STRICT = "strict"
    REPLAY = "replay"


class KeyState(StrEnum):
    """A PENDING key waits for a proof of possession; a DISCARDED one waited in vain.

    A retired key stays known, so that its use can be told from a version never assigned.
    """

    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"
    DISCARDED = "DISCARDED"


class Merchant(Struct, frozen=True, kw_only=True):
    """A merchant of this deployment. `rate_limit` is requests in any 60 s; None means no limit."""

    client_id: str
    name: str
    state: MerchantState
    base_bucket: int
    spread: int
    duplicates: DuplicatePolicy
    webhook_url: str | None
    rate_limit: int | None
    created_at: datetime
    updated_at: datetime


class MerchantKey(Struct, frozen=True, kw_only=True):
    """One public key of a merchant, under the version assigned when it was added."""

    client_id: str
    key_version: int
    state: KeyState
    public_key_pem: str
    fingerprint: str
    created_at: datetime
    activated_at: datetime | None
    retired_at: datetime | None
    proof_nonce: str | None


class PendingKey(Struct, frozen=True):
    """A key that a rightly signed request makes active."""

    public_key: RSAPublicKey
    fingerprint: str


class Credentials(Struct, frozen=True):
    """What a request is checked against: the merchant, its keys ready to verify, the versions of retired ones."""

    merchant: Merchant
    active_keys: dict[int, RSAPublicKey]
    retired_keys: frozenset[int]
    pending_keys: dict[int, PendingKey] = {}


def new_client_id(environment: Environment) -> str:
    """Make a Client-Id: the environment's prefix and 96 random bits."""
    return environment.client_id_prefix + secrets.token_hex(12)


def bucket_for(base_bucket: int, spread: int, payment_request_id: str) -> int:
    """Return the bucket of a payment: a small merchant has one bucket, a huge one many."""
    if spread == 1:
        return base_bucket
    return (base_bucket + crc32(payment_request_id.encode()) % spread) % BUCKETS


def buckets_of(merchant: Merchant) -> list[int]:
    """Return every bucket in which the merchant may have payments."""
    return [(merchant.base_bucket + step) % BUCKETS for step in range(merchant.spread)]
