"""Which signing rule a wrong signature broke, told to the developer who has to mend it.

The signature is opened with the merchant's registered keys: what was signed is then compared with the
strings that programs are known to sign by mistake. That also tells the right key over other bytes from
a key that is not registered. The cost is bounded, no input raises, and neither the body nor a key ever
shows in an explanation.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from payaccept.wire import signing
from payaccept.wire.header_reading import Fault, HeaderReading, read_leniently
from payaccept.wire.signature_recovery import Recovered, recover
from payaccept.wire.signed_variants import Change, Sent, rightly, variants

_HASH_NAMES = {"sha256": "SHA-256", "sha1": "SHA-1", "sha512": "SHA-512", "sha384": "SHA-384", "md5": "MD5"}


@dataclass(frozen=True, slots=True)
class CapturedRequest:
    """A request as it arrived: `path` is the request target, `host` the Host header when it is known."""

    method: str
    path: str
    client_id: str
    request_time: str
    body: bytes
    signature_header: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """The broken rule, or several joined by `+`, and what was signed and how to mend it."""

    rule: str
    explanation: str


def diagnose(request: CapturedRequest, public_keys: Mapping[int, RSAPublicKey]) -> Finding | None:
    """Say which signing rule a request broke, given the merchant's registered keys by keyVersion.

    Returns: None when the signature verifies under the keyVersion that its header names.
    """
    sent = Sent(
        request.method, request.path, request.client_id, request.request_time, request.body, request.host
    )
    expected = rightly(sent).render()
    reading = read_leniently(request.signature_header)
    if reading.signature is None:
        return _together(reading.faults)
    if not reading.faults and _verifies(reading, expected, public_keys):
        return None
    if not public_keys:
        return Finding("no-registered-key", "This merchant has no registered public key: register one first.")
    opened = recover(reading.signature, public_keys, reading.key_version)
    for signed, changes in variants(sent) if opened else ():
        for way in opened:
            if way.is_of(signed):
                return _explained(reading, way, changes)
    proven = [way for way in opened if way.proven]
    if not proven:
        return _unregistered(reading, expected, may_be_pss=bool(opened))
    return _unexplained(reading, proven[0], expected)


def _verifies(reading: HeaderReading, expected: bytes, public_keys: Mapping[int, RSAPublicKey]) -> bool:
    key = public_keys.get(reading.key_version or 0)
    if key is None or reading.signature is None:
        return False
    try:
        signing.verify(key, reading.signature, expected)
    except signing.SignatureMismatch:
        return False
    return True


def _explained(reading: HeaderReading, way: Recovered, changes: tuple[Change, ...]) -> Finding:
    """Tell all that was wrong, the bytes that were signed being known."""
    faults = (*reading.faults, *_of_key_and_scheme(reading, way))
    sentences = [fault.text for fault in faults]
    if changes:
        signed = ", and ".join(change.signed for change in changes)
        mend = "; ".join(dict.fromkeys(change.mend for change in changes))
        sentences.append(f"The key of keyVersion {way.key_version} signed {signed}. {_capital(mend)}.")
    else:
        sentences.append("Everything else is right.")
    rules = dict.fromkeys([fault.rule for fault in faults] + [change.rule for change in changes])
    return Finding("+".join(rules), " ".join(sentences))


def _of_key_and_scheme(reading: HeaderReading, way: Recovered) -> list[Fault]:
    """Tell what is wrong with the key, the padding and the hash, apart from the bytes that were signed."""
    found = []
    named = reading.key_version
    if named is not None and named != way.key_version:
        text = f"The header names keyVersion {named}, but the key of keyVersion {way.key_version} signed."
        found.append(Fault("other-key-version", text))
    if way.is_pss:
        text = "The signature has PSS padding; PKCS#1 v1.5 (RSASSA-PKCS1-v1_5) is required."
        found.append(Fault("pss-padding", text))
    if not way.has_digest_info:
        text = (
            "The signature holds its data without the DigestInfo of PKCS#1 v1.5: the private key encrypted "
            "it as it was; call a SHA256withRSA signing function with the signing string."
        )
        found.append(Fault("missing-digest-info", text))
    if way.hash_name not in {"", "sha256"}:
        name = _HASH_NAMES.get(way.hash_name, way.hash_name.upper())
        text = f"The signature was made with {name}; SHA-256 is required."
        found.append(Fault("other-hash", text))
    return found


def _together(faults: Sequence[Fault]) -> Finding:
    rule = "+".join(dict.fromkeys(fault.rule for fault in faults))
    return Finding(rule, " ".join(fault.text for fault in faults))


def _measures(expected: bytes) -> str:
    return f"{len(expected)} bytes with SHA-256 {hashlib.sha256(expected).hexdigest()}"


def _unregistered(reading: HeaderReading, expected: bytes, *, may_be_pss: bool) -> Finding:
    unless = " unless it has PSS padding, where PKCS#1 v1.5 is required" if may_be_pss else ""
    fault = Fault(
        "unregistered-key",
        f"No key registered for this merchant made this signature{unless}: it was made with another private "
        "key, or its bytes were damaged. Check that your private key's public half (`openssl pkey -pubout`) "
        f"is the one registered; the string to sign is {_measures(expected)}.",
    )
    return _together((*reading.faults, fault))


def _unexplained(reading: HeaderReading, way: Recovered, expected: bytes) -> Finding:
    hashed = way.hash_name == "sha256" and not way.is_pss
    signed = f", what was signed has SHA-256 {way.value.hex()}" if hashed else ""
    fault = Fault(
        "unexplained",
        f"The private key of keyVersion {way.key_version} made this signature, but over other bytes, and in "
        "no way known here. Check that the body was not altered or serialised again after signing, and that "
        "the method, path, Client-Id and Request-Time signed are those sent: the string to sign is "
        f"{_measures(expected)}{signed}.",
    )
    return _together((*reading.faults, *_of_key_and_scheme(reading, way), fault))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
