"""Provider private keys, encrypted at rest under a master key from a file or the environment."""

import os
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

KEY_BITS: Final = 2048


class VaultError(Exception):
    """The master key is missing, unreadable, or not the one the keys were sealed under."""


class Vault:
    """Seals and opens private keys (Fernet: AES-128-CBC with HMAC-SHA-256). Its repr shows nothing."""

    def __init__(self, master_key: bytes) -> None:
        try:
            self._fernet = Fernet(master_key)
        except ValueError:
            raise VaultError(
                "the master key must be 32 bytes in base64url, as `payaccept` makes it"
            ) from None
        self._opened: dict[bytes, RSAPrivateKey] = {}

    def new_key(self) -> tuple[str, bytes]:
        """Make a key pair: the public PEM, and the private key sealed."""
        private_key = generate_private_key(public_exponent=65537, key_size=KEY_BITS)
        public_pem = private_key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        der = private_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return public_pem.decode("ascii"), self._fernet.encrypt(der)

    def open(self, sealed: bytes) -> RSAPrivateKey:
        """Open a sealed private key; opened once, it stays in memory as long as this vault.

        Raises: VaultError.
        """
        opened = self._opened.get(sealed)
        if opened is not None:
            return opened
        try:
            der = self._fernet.decrypt(sealed)
        except InvalidToken:
            raise VaultError("the provider keys were sealed under another master key") from None
        private_key = load_der_private_key(der, password=None)
        if not isinstance(private_key, RSAPrivateKey):
            raise VaultError("a provider key is no RSA key")
        self._opened[sealed] = private_key
        return private_key


def read_master_key(path: Path) -> bytes:
    """Read the master key from a file.

    Raises: VaultError.
    """
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise VaultError(f"the master key file {path} cannot be read: {error.strerror}") from None


def make_master_key(path: Path) -> bytes:
    """Return the master key in a file, making it (mode 0600) when it is not there."""
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}")
        partial.touch(mode=0o600)
        with partial.open("wb") as file:
            file.write(Fernet.generate_key() + b"\n")
            file.flush()
            os.fsync(file.fileno())  # without it, the provider keys are lost
        partial.rename(path)
    return read_master_key(path)
