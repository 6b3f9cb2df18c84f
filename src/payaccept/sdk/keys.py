"""RSA-2048 keys: make a pair, and read either half, refusing whatever the service would refuse."""

from pathlib import Path
from typing import Final, NamedTuple

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from payaccept.sdk.errors import CredentialsUnusable

KEY_BITS: Final = 2048
_PUBLIC_EXPONENT: Final = 65537
_MAX_PEM_BYTES: Final = 16 * 1024


class KeyPair(NamedTuple):
    """A key pair as PEM: PKCS#8 without a passphrase, and SubjectPublicKeyInfo."""

    private_pem: bytes
    public_pem: bytes


def generate() -> KeyPair:
    """Make an RSA-2048 key pair. The private half never leaves the merchant."""
    key = rsa.generate_private_key(_PUBLIC_EXPONENT, KEY_BITS)
    return KeyPair(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), public_pem(key.public_key())
    )


def public_pem(key: RSAPublicKey) -> bytes:
    """Write a public key as the portal and `payaccept key add` take it."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def load_private(source: RSAPrivateKey | bytes | Path) -> RSAPrivateKey:
    """Return the private key: itself, from PEM bytes, or from the PEM file at a path.

    Raises: CredentialsUnusable.
    """
    if isinstance(source, RSAPrivateKey):
        key: object = source
        name = "the private key"
    else:
        pem, name = _read(source, "the private key")
        try:
            key = load_pem_private_key(pem, password=None)
        except TypeError:
            raise CredentialsUnusable(f"{name} is protected by a passphrase; load it yourself") from None
        except (ValueError, UnsupportedAlgorithm):
            raise CredentialsUnusable(f"{name} is not a private key in PEM") from None
    if not isinstance(key, RSAPrivateKey) or key.key_size != KEY_BITS:
        raise CredentialsUnusable(f"{name} is not an RSA key of {KEY_BITS} bits")
    return key


def load_public(source: RSAPublicKey | bytes | Path) -> RSAPublicKey:
    """Return the public key: itself, from PEM bytes, or from the PEM file at a path.

    Raises: CredentialsUnusable.
    """
    if isinstance(source, RSAPublicKey):
        key: object = source
        name = "the public key"
    else:
        pem, name = _read(source, "the public key")
        if b"PRIVATE KEY" in pem:
            raise CredentialsUnusable(f"{name} holds a private key; give its public half")
        try:
            key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise CredentialsUnusable(f"{name} is not a public key in PEM") from None
    if not isinstance(key, RSAPublicKey) or key.key_size != KEY_BITS:
        raise CredentialsUnusable(f"{name} is not an RSA key of {KEY_BITS} bits")
    return key


def _read(source: bytes | Path, name: str) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, name
    if not isinstance(source, Path):
        # A str could be either, and a mistaken path would end up in a message about PEM.
        raise TypeError(f"{name} must be a key, PEM bytes or a pathlib.Path, not {type(source).__name__}")
    try:
        with source.open("rb") as file:
            return file.read(_MAX_PEM_BYTES), f"{name} {source}"
    except OSError as error:
        raise CredentialsUnusable(f"{name} {source} cannot be read: {error.strerror}") from None
