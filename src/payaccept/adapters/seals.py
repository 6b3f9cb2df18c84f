"""Seals on what passes through browsers or rests in the database, under keys derived from the master key.

Each purpose has keys of its own, so that a text sealed for one is worth nothing for another.
"""

import base64
import hmac
from datetime import datetime
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Seals:
    """Seals (Fernet) and proofs (HMAC-SHA-256). Its repr shows nothing."""

    def __init__(self, master_key: bytes) -> None:
        self._derive = lru_cache(maxsize=64)(lambda purpose: _derived(master_key, purpose))

    def mac(self, purpose: str, text: str) -> str:
        """Return what proves that we wrote the text, for this purpose; 43 characters that fit in a URL."""
        digest = hmac.digest(self._derive(f"mac {purpose}"), text.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")

    def seal(self, purpose: str, text: str, now: datetime) -> str:
        """Return the text unreadable and unchangeable, in characters that fit in a URL."""
        return self._fernet(purpose).encrypt_at_time(text.encode(), int(now.timestamp())).decode("ascii")

    def unseal(self, purpose: str, sealed: str, now: datetime, life_s: int | None = None) -> str | None:
        """Return the text that was sealed for this purpose, at most so long ago; None for anything else."""
        fernet = self._fernet(purpose)
        try:
            if life_s is None:
                return fernet.decrypt(sealed.encode()).decode()
            return fernet.decrypt_at_time(sealed.encode(), life_s, int(now.timestamp())).decode()
        except (InvalidToken, UnicodeError):
            return None

    def _fernet(self, purpose: str) -> Fernet:
        return Fernet(base64.urlsafe_b64encode(self._derive(f"seal {purpose}")))


def _derived(master_key: bytes, purpose: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=f"payaccept {purpose}".encode()).derive(master_key)
