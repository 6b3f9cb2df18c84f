"""Which public keys a merchant may register: one PEM of an RSA-2048 key with e = 65537, not a weak one."""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import badkeys
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from msgspec import Struct

from payaccept.domain.errors import KeyRefused
from payaccept.domain.merchant import KeyState, MerchantKey

KEY_BITS: Final = 2048
EXPONENT: Final = 65537
MAX_PEM_BYTES: Final = 16_384

_BLOCK: Final = re.compile(rb"-----BEGIN (?P<label>[A-Z0-9 ]+)-----\s.*?-----END (?P=label)-----", re.DOTALL)
# badkeys' checks that need nothing but what it ships.
_WEAKNESSES: Final = {
    "fermat": "its primes are too close together",
    "pattern": "its modulus has a pattern",
    "roca": "it was made by a generator with the ROCA flaw",
    "rsabias": "its modulus is not random",
    "rsainvalid": "its modulus is no product of two primes",
    "rsapoly": "its modulus has a pattern of zero bytes",
    "sharedprimes": "it shares a prime with a known key",
    "smalld": "its private exponent is small",
    "smallfactors": "its modulus has a small factor",
}


class AcceptedKey(Struct, frozen=True):
    """A key that may be registered: canonical PEM, and SHA-256 of its DER in hexadecimal."""

    public_key_pem: str
    fingerprint: str


def accept(data: bytes) -> AcceptedKey:
    """Accept or refuse what a merchant uploads as its public key.

    Raises: KeyRefused. The message never repeats any of `data`.
    """
    public_key = _read(data)
    numbers = public_key.public_numbers()
    if public_key.key_size != KEY_BITS:
        raise KeyRefused(f"the key has {public_key.key_size} bits; exactly {KEY_BITS} are required")
    if numbers.e != EXPONENT:
        raise KeyRefused(f"the key's public exponent is {numbers.e}; {EXPONENT} is required")
    if numbers.n % 2 == 0:
        raise KeyRefused("the key's modulus is even")
    _refuse_weak(numbers.n)
    der = public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pem = public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return AcceptedKey(pem.decode("ascii"), hashlib.sha256(der).hexdigest())


def next_key(
    client_id: str,
    keys: Sequence[MerchantKey],
    accepted: AcceptedKey,
    now: datetime,
    proof_nonce: str | None = None,
) -> MerchantKey:
    """Return the merchant's next key: active at once, or, with something to prove, PENDING.

    `keys` are all it has ever had: a version is never given out twice.
    """
    return MerchantKey(
        client_id=client_id,
        key_version=max((key.key_version for key in keys), default=0) + 1,
        state=KeyState.ACTIVE if proof_nonce is None else KeyState.PENDING,
        public_key_pem=accepted.public_key_pem,
        fingerprint=accepted.fingerprint,
        created_at=now,
        activated_at=now if proof_nonce is None else None,
        retired_at=None,
        proof_nonce=proof_nonce,
    )


def _read(data: bytes) -> RSAPublicKey:
    if b"PRIVATE KEY" in data:
        raise KeyRefused("this is a private key: keep it to yourself, and give its public half")
    if len(data) > MAX_PEM_BYTES:
        raise KeyRefused("this is too long for a public key")
    blocks = _BLOCK.findall(data)
    if not blocks:
        raise KeyRefused("this is no PEM: it must start with -----BEGIN PUBLIC KEY-----")
    if len(blocks) > 1 or data.count(b"-----BEGIN") > 1:
        raise KeyRefused("this holds more than one PEM block; give one public key")
    if blocks[0] not in {b"PUBLIC KEY", b"RSA PUBLIC KEY"}:
        raise KeyRefused(f"this is a {blocks[0].decode('ascii').lower()}; give a public key")
    try:
        public_key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyRefused("this PEM holds no readable public key") from None
    if not isinstance(public_key, RSAPublicKey):
        raise KeyRefused("this is no RSA key")
    return public_key


def _refuse_weak(modulus: int) -> None:
    for check, finding in badkeys.checkrsa(modulus, EXPONENT, checks=list(_WEAKNESSES)).items():
        if finding:
            raise KeyRefused(f"the key is weak: {_WEAKNESSES[check]}")
