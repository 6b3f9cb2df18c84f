"""What a signature says about itself: under which key, padding and hash it was made, and over which digest.

An RSA signature can be opened with the public key. What comes out is the digest that was signed, so one
exponentiation per key lets any number of guesses about the signing string be tried at the price of a hash.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from payaccept.wire.signing import SIGNATURE_BYTES

MAX_KEYS: Final = 16
"""More versions than this are not looked at, so that the cost stays bounded."""

_PADDING: Final = PKCS1v15()
# DER of DigestInfo up to the digest (RFC 8017, section 9.2, note 1).
_DIGEST_INFO: Final = {
    bytes.fromhex("3031300d060960864801650304020105000420"): "sha256",
    bytes.fromhex("3021300906052b0e03021a05000414"): "sha1",
    bytes.fromhex("3051300d060960864801650304020305000440"): "sha512",
    bytes.fromhex("3041300d060960864801650304020205000430"): "sha384",
    bytes.fromhex("302d300d06096086480165030402040500041c"): "sha224",
    bytes.fromhex("3020300c06082a864886f70d020505000410"): "md5",
}
_BARE_DIGESTS: Final = {32: "sha256", 20: "sha1", 64: "sha512", 48: "sha384", 28: "sha224", 16: "md5"}
# The hash of the message and that of the mask: equal nearly everywhere, SHA-1 for the mask in older Java.
_PSS_HASHES: Final = (
    ("sha256", "sha256"),
    ("sha256", "sha1"),
    ("sha1", "sha1"),
    ("sha512", "sha512"),
    ("sha512", "sha1"),
    ("sha384", "sha384"),
)
_PSS_TRAILER: Final = 0xBC
# A wrong key yields random bytes; so many zero bytes of padding do not come by chance.
_ZEROS_THAT_PROVE: Final = 4


@dataclass(frozen=True, slots=True)
class Recovered:
    """One way to read an opened signature.

    `hash_name` is empty when the signed bytes themselves are in the signature; `has_digest_info` is
    false when the digest stands there without saying its algorithm; `proven` is false when the reading
    may be chance.
    """

    key_version: int
    hash_name: str
    value: bytes
    has_digest_info: bool = True
    is_pss: bool = False
    salt: bytes = b""
    proven: bool = True

    def is_of(self, signing_string: bytes) -> bool:
        """Tell whether this signature was made over these bytes."""
        if not self.hash_name:
            return self.value == signing_string
        digest = _digest(self.hash_name, signing_string)
        if self.is_pss:
            digest = _digest(self.hash_name, bytes(8) + digest + self.salt)
        return digest == self.value


def _digest(hash_name: str, data: bytes) -> bytes:
    if hash_name == "sha256":
        return hashlib.sha256(data).digest()
    # The weak ones serve to recognise a mistake, never to accept a signature.
    return hashlib.new(hash_name, data, usedforsecurity=False).digest()


def recover(signature: bytes, public_keys: Mapping[int, RSAPublicKey], named: int | None) -> list[Recovered]:
    """Open a signature with each key, the named keyVersion first; [] when no key here made it."""
    if len(signature) != SIGNATURE_BYTES:
        return []
    versions = sorted(public_keys, key=lambda version: (version != named, -version))[:MAX_KEYS]
    found: list[Recovered] = []
    for version in versions:
        key = public_keys[version]
        found += _as_pkcs1(version, key, signature) or _as_pss(version, key, signature)
    return found


def _as_pkcs1(version: int, key: RSAPublicKey, signature: bytes) -> list[Recovered]:
    try:
        data = key.recover_data_from_signature(signature, _PADDING, None)
    except (InvalidSignature, ValueError):
        return []
    for prefix, hash_name in _DIGEST_INFO.items():
        digest = data.removeprefix(prefix)
        if len(digest) < len(data) and _BARE_DIGESTS.get(len(digest)) == hash_name:
            return [Recovered(version, hash_name, digest)]
    readings = [Recovered(version, "", data, has_digest_info=False)]
    hash_name = _BARE_DIGESTS.get(len(data), "")
    if hash_name:
        readings.insert(0, Recovered(version, hash_name, data, has_digest_info=False))
    return readings


def _as_pss(version: int, key: RSAPublicKey, signature: bytes) -> list[Recovered]:
    numbers = key.public_numbers()
    size = key.key_size // 8
    opened = pow(int.from_bytes(signature, "big"), numbers.e, numbers.n)
    if key.key_size % 8 or opened.bit_length() >= key.key_size or opened & 0xFF != _PSS_TRAILER:
        return []
    return list(_pss_readings(version, opened.to_bytes(size, "big")))


def _pss_readings(version: int, encoded: bytes) -> Iterator[Recovered]:
    """RFC 8017, section 9.1.2, without the message: the salt and the hash under it."""
    for hash_name, mask_hash in _PSS_HASHES:
        length = len(_digest(hash_name, b""))
        masked, value = encoded[: -length - 1], encoded[-length - 1 : -1]
        mask = _mgf1(value, len(masked), mask_hash)
        block = bytes(a ^ b for a, b in zip(masked, mask, strict=True))
        block = bytes((block[0] & 0x7F,)) + block[1:]
        after_zeros = block.lstrip(b"\0")
        if after_zeros.startswith(b"\1"):
            zeros = len(block) - len(after_zeros)
            yield Recovered(
                version,
                hash_name,
                value,
                is_pss=True,
                salt=after_zeros[1:],
                proven=zeros >= _ZEROS_THAT_PROVE,
            )


def _mgf1(seed: bytes, length: int, hash_name: str) -> bytes:
    mask = b""
    counter = 0
    while len(mask) < length:
        mask += _digest(hash_name, seed + counter.to_bytes(4, "big"))
        counter += 1
    return mask[:length]
