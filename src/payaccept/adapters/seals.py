"""Seals on what passes through browsers or rests in the database, under keys derived from the master key.

Each purpose has keys of its own, so that a text sealed for one is worth nothing for another.
"""

import base64
import hashlib
import hmac
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Seals:
    """Seals (Fernet), proofs (HMAC-SHA-256) and digests of secrets. Its repr shows nothing."""

    def __init__(self, master_key: bytes) -> None:
        self._derive = lru_cache(maxsize=64)(lambda purpose: _derived(master_key, purpose))

    def mac(self, purpose: str, text: str) -> str:
        """Return what proves that we wrote the text, for this purpose; 43 characters that fit in a URL."""
        digest = hmac.digest(self._derive(f"mac {purpose}"), text.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")

    def seal(self, purpose: str, text: str) -> str:
        """Return the text unreadable and unchangeable, in characters that fit in a URL."""
        return self._fernet(purpose).encrypt(text.encode()).decode("ascii")

    def unseal(self, purpose: str, sealed: str, life_s: int | None = None) -> str | None:
        """Return the text that was sealed for this purpose, at most so long ago; None for anything else."""
        try:
            return self._fernet(purpose).decrypt(sealed.encode(), ttl=life_s).decode()
        except (InvalidToken, UnicodeError):
            return None

    def _fernet(self, purpose: str) -> Fernet:
        return Fernet(base64.urlsafe_b64encode(self._derive(f"seal {purpose}")))


def digest(secret: str) -> bytes:
    """Return what is stored of a secret with 128 random bits or more: nobody can guess it from that."""
    return hashlib.sha256(secret.encode()).digest()


def _derived(master_key: bytes, purpose: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=f"payaccept {purpose}".encode()).derive(master_key)
