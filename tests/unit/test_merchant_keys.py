"""Which public keys a merchant may register, and that nothing of a refused one is repeated."""

import base64
import contextlib
import random
import re
import secrets
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from hypothesis import given
from hypothesis import strategies as st

from merchant import private_key, public_pem
from payaccept.domain.errors import KeyRefused
from payaccept.domain.merchant_keys import accept

GOOD = private_key(0)
PEM = public_pem(GOOD)
REPRODUCIBLE = random.Random(5)  # noqa: S311 - for numbers that are to be refused


def refusal(data: bytes) -> str:
    """The message with which a key is refused; it repeats nothing of the key."""
    with pytest.raises(KeyRefused) as caught:
        accept(data)
    message = str(caught.value)
    assert len(message) < 150
    for line in re.findall(rb"[A-Za-z0-9+/=]{20,}", data):
        assert line.decode() not in message
    return message


def pem_of_modulus(modulus: int) -> bytes:
    """A PEM of any 2048-bit number as the modulus, even where no library would write one."""
    der = GOOD.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    numbers = GOOD.public_key().public_numbers()
    lines = base64.encodebytes(der.replace(numbers.n.to_bytes(256), modulus.to_bytes(256)))
    return b"-----BEGIN PUBLIC KEY-----\n" + lines + b"-----END PUBLIC KEY-----\n"


# Accepted


def test_an_rsa_2048_public_key_is_accepted_and_written_canonically():
    accepted = accept(PEM)
    assert accepted.public_key_pem.encode() == PEM
    assert re.fullmatch(r"[0-9a-f]{64}", accepted.fingerprint)


def test_the_same_key_in_another_form_is_the_same_key():
    pkcs1 = GOOD.public_key().public_bytes(Encoding.PEM, PublicFormat.PKCS1)
    forms = [
        pkcs1,
        PEM.replace(b"\n", b"\r\n"),
        b"\n\n" + PEM + b"\n\n",
        PEM.rstrip(b"\n"),
        b"my key\n" + PEM,
        pem_of_modulus(GOOD.public_key().public_numbers().n),
    ]
    assert {accept(form) for form in forms} == {accept(PEM)}


def test_two_keys_have_two_fingerprints():
    assert accept(public_pem(private_key(1))).fingerprint != accept(PEM).fingerprint


# Refused for what they are


@pytest.mark.parametrize("bits", [1024, 2047, 2049, 3072, 4096])
def test_another_size_is_refused(bits):
    # Its factors do not matter: the size is looked at first.
    modulus = REPRODUCIBLE.getrandbits(bits) | 1 | 1 << (bits - 1)
    key = rsa.RSAPublicNumbers(65537, modulus).public_key()
    message = refusal(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert message == f"the key has {bits} bits; exactly 2048 are required"


@pytest.mark.parametrize("exponent", [3, 17, 65539])
def test_another_exponent_is_refused(exponent):
    key = rsa.RSAPublicNumbers(exponent, GOOD.public_key().public_numbers().n).public_key()
    message = refusal(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert message == f"the key's public exponent is {exponent}; 65537 is required"


def test_an_even_modulus_is_refused():
    message = refusal(pem_of_modulus(GOOD.public_key().public_numbers().n - 1))
    assert "modulus is even" in message or "no readable public key" in message


PRIVATE_FORMS = [
    GOOD.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    GOOD.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    GOOD.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    GOOD.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
]


@pytest.mark.parametrize("data", PRIVATE_FORMS, ids=["PKCS#8", "PKCS#1", "OpenSSH", "encrypted"])
def test_a_private_key_is_refused_as_such_wherever_it_stands(data):
    for upload in (data, PEM + data, data + PEM, data.replace(b"\n", b"\r\n"), data[:80], data * 50):
        assert refusal(upload) == "this is a private key: keep it to yourself, and give its public half"


def test_a_private_key_in_der_is_no_pem():
    for encoding in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        assert "no PEM" in refusal(GOOD.private_bytes(Encoding.DER, encoding, NoEncryption()))


def _spki(key) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    "data",
    [
        _spki(ec.generate_private_key(ec.SECP256R1())),
        _spki(ed25519.Ed25519PrivateKey.generate()),
        _spki(x25519.X25519PrivateKey.generate()),
        b"-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n",
    ],
    ids=["EC", "Ed25519", "X25519", "nothing known"],
)
def test_a_key_of_another_kind_is_refused(data):
    assert refusal(data) in {"this is no RSA key", "this PEM holds no readable public key"}


def _certificate() -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "shop")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(GOOD.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return builder.sign(GOOD, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_a_certificate_is_refused_by_its_name():
    assert refusal(_certificate()) == "this is a certificate; give a public key"


def test_two_keys_at_once_are_refused():
    other = public_pem(private_key(1))
    for upload in (PEM + other, PEM + PEM, PEM + b"-----BEGIN PUBLIC KEY-----\n", PEM + _certificate()):
        assert "more than one" in refusal(upload)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 100,
        b"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ shop",
        b"-----BEGIN PUBLIC KEY-----",
        b"-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----",
        b"-----BEGIN PUBLIC KEY-----\n%%%%\n-----END PUBLIC KEY-----",
        b"-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        b"-----BEGIN PUBLIC KEY-----\nMIIB\n-----END RSA PUBLIC KEY-----",
        PEM.replace(b"BEGIN", b"begin"),
        PEM[:200] + b"\n-----END PUBLIC KEY-----\n",
        PEM.replace(b"-----BEGIN PUBLIC KEY-----\n", b""),
        b'{"kty":"RSA"}',
        PEM + b"x" * 20_000,
        GOOD.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ],
)
def test_what_is_no_public_key_is_refused(data):
    assert refusal(data)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda data: PEM[:100] + data + PEM[100:]))
def test_no_upload_does_anything_but_be_accepted_or_refused(data):
    with contextlib.suppress(KeyRefused):
        accepted = accept(data)
        key = load_pem_public_key(accepted.public_key_pem.encode())
        assert isinstance(key, rsa.RSAPublicKey)


# Refused for how they were made

SMALL_PRIMES = [n for n in range(2, 710) if all(n % d for d in range(2, n))]


def is_prime(number: int) -> bool:
    """Miller and Rabin's test, a few rounds."""
    if any(number % prime == 0 for prime in SMALL_PRIMES):
        return number in SMALL_PRIMES
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(8):
        x = pow(secrets.randbelow(number - 3) + 2, odd, number)
        if x not in {1, number - 1} and all((x := x * x % number) != number - 1 for _ in range(twos - 1)):
            return False
    return True


def next_prime(number: int) -> int:
    number |= 1
    while not is_prime(number):
        number += 2
    return number


@cache
def close_primes() -> int:
    prime = GOOD.private_numbers().p
    return prime * next_prime(prime + 2)  # 2048 bits: the two highest of a prime are set


@cache
def roca() -> int:
    """Both primes of the form k·M + 65537^a mod M, M the product of the first 126 primes."""
    product = 1
    for prime in SMALL_PRIMES[:126]:
        product *= prime
    primes: list[int] = []
    while len(primes) < 2:
        k = REPRODUCIBLE.randrange((3 << 1022) // product + 1, (1 << 1024) // product)
        candidate = k * product + pow(65537, REPRODUCIBLE.getrandbits(64), product)
        if is_prime(candidate):
            primes.append(candidate)
    return primes[0] * primes[1]


def _times(factor: int) -> int:
    """A 2048-bit multiple of a small factor, otherwise without a pattern."""
    return factor * (REPRODUCIBLE.randrange((1 << 2047) // factor + 1, (1 << 2048) // factor) | 1)


@pytest.mark.parametrize(
    ("modulus", "words"),
    [
        (close_primes, "too close together"),
        (lambda: GOOD.private_numbers().p ** 2, ""),
        (roca, "ROCA"),
        (lambda: _times(3), "small factor"),
        (lambda: _times(641), "small factor"),
        (lambda: int.from_bytes(b"\xa5\x5b" * 128), ""),
        (lambda: 2**2048 - 1, ""),
        (lambda: 2**2047 + 1, ""),
    ],
    ids=["close primes", "a square", "ROCA", "3", "641", "a pattern", "all ones", "two ones"],
)
def test_a_weak_key_is_refused(modulus, words):
    message = refusal(pem_of_modulus(modulus()))
    assert message.startswith("the key is weak: ")
    assert words in message
