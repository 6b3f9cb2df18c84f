r"""Signing strings, the Signature header, `sign` and `verify`.

A request is signed over two lines joined by a line feed, a notification over two lines without a
Client-Id; `<BODY>` is the exact bytes sent:

    <HTTP_METHOD> <HTTP_PATH>                     POST <webhook_path>
    <Client-Id>.<Request-Time>.<BODY>             <Request-Time>.<BODY>

The signature is RSASSA-PKCS1-v1_5 with SHA-256 by a 2048-bit key, written base64url without padding:
always 342 characters. `verify` raises; it never returns a verdict that a caller could forget to read.
"""

import binascii
import re
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

ALGORITHM: Final = "SHA256withRSA"
SIGNATURE_BYTES: Final = 256
SIGNATURE_CHARACTERS: Final = 342

_PADDING: Final = PKCS1v15()
_HASH: Final = SHA256()

_URL_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_STANDARD_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
# 2048 bits are 341 characters of 6 bits and 2 bits over: the last character carries 4 zero bits.
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9_-]{341}[AQgw]", re.ASCII)
_USUAL_HEADER: Final = re.compile(
    r"algorithm=SHA256withRSA,[ \t]*keyVersion=([1-9][0-9]{0,8}),[ \t]*signature=([A-Za-z0-9_-]{341}[AQgw])",
    re.ASCII,
)
_PAIR: Final = re.compile(r"([A-Za-z]+)[ \t]*=[ \t]*(.*)", re.ASCII)
_KEY_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


class SignatureHeaderMalformed(ValueError):
    """The Signature header does not follow its grammar; the message says where."""


class KeyVersionMissing(SignatureHeaderMalformed):
    """The Signature header is well formed but for its keyVersion, which is absent or no number."""


class SignatureMismatch(ValueError):
    """The signature is not this key's signature of these bytes."""


class SignatureHeader(Struct, frozen=True):
    """A parsed Signature header: which key is said to have signed, and the 256 signature bytes."""

    key_version: int
    signature: bytes


def request_string(method: str, path: str, client_id: str, request_time: str, body: bytes) -> bytes:
    """What a merchant signs. `path` is without host and query; the method is in capitals."""
    return f"{method} {path}\n{client_id}.{request_time}.".encode() + body


def notification_string(path: str, request_time: str, body: bytes) -> bytes:
    """What the service signs when it notifies: the path of the merchant's endpoint, and no Client-Id."""
    return f"POST {path}\n{request_time}.".encode() + body


def encode_signature(signature: bytes) -> str:
    """Write signature bytes as base64url without padding."""
    encoded = binascii.b2a_base64(signature, newline=False)
    return encoded.translate(_STANDARD_TO_URL).rstrip(b"=").decode("ascii")


def decode_signature(text: str) -> bytes:
    """Read exactly 342 characters of canonical base64url; Python's own decoder is far too lenient.

    Raises: SignatureHeaderMalformed.
    """
    if _SIGNATURE.fullmatch(text) is None:
        raise SignatureHeaderMalformed(_why_not_base64url(text))
    return binascii.a2b_base64(text.encode("ascii").translate(_URL_TO_STANDARD) + b"==")


def _why_not_base64url(text: str) -> str:
    if text.endswith("="):
        return "signature is padded with '='; base64url without padding is required"
    if "+" in text or "/" in text:
        return "signature is standard base64 ('+' or '/'); base64url ('-' and '_') is required"
    if len(text) != SIGNATURE_CHARACTERS:
        return f"signature has {len(text)} characters; an RSA-2048 signature in base64url has 342"
    return "signature is not canonical base64url"


def parse_header(value: str) -> SignatureHeader:
    """Parse `algorithm=SHA256withRSA, keyVersion=<n>, signature=<base64url>`, in any order.

    Raises: KeyVersionMissing when only the keyVersion is at fault, SignatureHeaderMalformed otherwise.
    """
    usual = _USUAL_HEADER.fullmatch(value)
    if usual is not None:
        encoded = usual[2].encode("ascii").translate(_URL_TO_STANDARD)
        return SignatureHeader(int(usual[1]), binascii.a2b_base64(encoded + b"=="))
    return _parse_unusual_header(value)


def _parse_unusual_header(value: str) -> SignatureHeader:
    members: dict[str, str] = {}
    for part in value.split(","):
        pair = _PAIR.fullmatch(part.strip(" \t"))
        if pair is None:
            raise SignatureHeaderMalformed(
                "Signature must read algorithm=SHA256withRSA, keyVersion=<n>, signature=<base64url>"
            )
        name, content = pair[1], pair[2]
        if name not in {"algorithm", "keyVersion", "signature"}:
            raise SignatureHeaderMalformed(f"Signature has a member {name[:32]!r} that it does not take")
        if name in members:
            raise SignatureHeaderMalformed(f"Signature names {name} twice")
        members[name] = content
    for name in ("algorithm", "signature"):
        if name not in members:
            raise SignatureHeaderMalformed(f"Signature lacks {name}=")
    if members["algorithm"] != ALGORITHM:
        raise SignatureHeaderMalformed(f"algorithm must be {ALGORITHM}")
    signature = decode_signature(members["signature"])
    version = members.get("keyVersion", "")
    if _KEY_VERSION.fullmatch(version) is None:
        raise KeyVersionMissing("Signature lacks a keyVersion, the number the key was registered under")
    return SignatureHeader(int(version), signature)


def write_header(key_version: int, signature: bytes) -> str:
    """Write a Signature header."""
    return f"algorithm={ALGORITHM}, keyVersion={key_version}, signature={encode_signature(signature)}"


def sign(private_key: RSAPrivateKey, signing_string: bytes) -> bytes:
    """Sign a signing string: 256 bytes."""
    return private_key.sign(signing_string, _PADDING, _HASH)


def verify(public_key: RSAPublicKey, signature: bytes, signing_string: bytes) -> None:
    """Verify a signature over a signing string.

    Raises: SignatureMismatch.
    """
    try:
        public_key.verify(signature, signing_string, _PADDING, _HASH)
    except InvalidSignature:
        raise SignatureMismatch("the signature does not verify") from None
