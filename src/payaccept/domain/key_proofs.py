"""Proof of possession: a merchant shows that it holds the private half of a key before the key becomes active.

Either it signs the text shown in the portal, or it sends a request signed under the key's version. Both name the
Client-Id, so neither can be made, or be passed on, by the owner of a key for somebody else's account.
"""

import secrets
from datetime import datetime, timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from payaccept.domain.errors import ProofRefused
from payaccept.domain.merchant import MerchantKey
from payaccept.wire import signing
from payaccept.wire.header_reading import read_leniently
from payaccept.wire.signature_recovery import recover

PENDING_LIFE: Final = timedelta(days=7)
MAX_PENDING: Final = 3
MAX_SIGNATURE: Final = 4096
_LINE_ENDS: Final = ("", "\n", "\r\n")


def new_nonce() -> str:
    """Make what is new in every text to sign: 128 random bits."""
    return secrets.token_hex(16)


def is_lapsed(key: MerchantKey, now: datetime) -> bool:
    """Tell whether a key has waited too long for its proof."""
    return now >= key.created_at + PENDING_LIFE


def text_to_sign(key: MerchantKey) -> str:
    """Return the text that proves possession when it is signed.

    It can be taken neither for a request's signing string, which begins with a method, nor for another key's.
    """
    return f"payaccept key proof {key.client_id} keyVersion={key.key_version} {key.proof_nonce}"


def check_signed_text(key: MerchantKey, given: str) -> None:
    """Check the signature of the text: in base64 of either alphabet or hexadecimal, in one line or several.

    Raises: ProofRefused. The message never repeats any of `given`.
    """
    if "PRIVATE KEY" in given:
        raise ProofRefused(
            "this is a private key, and it has now left your machine: make a new pair, and paste the signature only"
        )
    if not given.strip():
        raise ProofRefused("there is nothing here: paste the line that the command printed")
    if len(given) > MAX_SIGNATURE:
        raise ProofRefused("this is too long for a signature")
    reading = read_leniently(f"signature={given.strip()}")
    if reading.signature is None:
        reason = next((fault.text for fault in reading.faults if fault.rule == "signature-length"), "")
        raise ProofRefused(reason[:1].lower() + reason[1:].rstrip(".") or "this is no signature in base64")
    public_key = public_key_of(key)
    texts = [(text_to_sign(key) + end).encode() for end in _LINE_ENDS]
    for text in texts:
        try:
            signing.verify(public_key, reading.signature, text)
        except signing.SignatureMismatch:
            continue
        return
    raise ProofRefused(_why_not(public_key, reading.signature, texts))


def public_key_of(key: MerchantKey) -> RSAPublicKey:
    """Return the key, ready to verify. Raises: TypeError, which no stored key does."""
    public_key = load_pem_public_key(key.public_key_pem.encode())
    if not isinstance(public_key, RSAPublicKey):
        raise TypeError("a merchant's key is no RSA key")
    return public_key


def _why_not(public_key: RSAPublicKey, signature: bytes, texts: list[bytes]) -> str:
    ways = recover(signature, {1: public_key}, 1)
    for way in ways:
        if any(way.is_of(text) for text in texts):
            made = "with PSS padding" if way.is_pss else f"with {way.hash_name or 'no hash'}"
            return f"the right key signed the right text, but {made}: use SHA-256 and PKCS#1 v1.5"
    if any(way.proven for way in ways):
        return (
            "the right key made this signature, but over another text: copy the text from this page once more"
        )
    return "this signature was made with another private key than the one whose public half you uploaded"
