"""What proves that a merchant holds the private half of a key, and what each failed attempt is told."""

import base64
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from merchant import private_key, public_pem
from payaccept.domain import key_proofs, merchant_keys
from payaccept.domain.errors import ProofRefused
from payaccept.domain.merchant import KeyState, MerchantKey

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLIENT_ID = "sandbox_" + "1" * 24
OWN = private_key(1)


@pytest.fixture(scope="module")
def key() -> MerchantKey:
    accepted = merchant_keys.accept(public_pem(OWN))
    return merchant_keys.next_key(CLIENT_ID, [], accepted, NOW, key_proofs.new_nonce())


def signature(
    text: str,
    private: rsa.RSAPrivateKey = OWN,
    how: padding.AsymmetricPadding | None = None,
    hashed: hashes.HashAlgorithm | None = None,
) -> bytes:
    return private.sign(text.encode(), how or padding.PKCS1v15(), hashed or hashes.SHA256())


def standard(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_key_to_be_proved_is_pending_under_the_next_version(key):
    assert (key.state, key.key_version, key.activated_at) == (KeyState.PENDING, 1, None)
    assert (
        merchant_keys.next_key(CLIENT_ID, [key], merchant_keys.accept(public_pem(OWN)), NOW).key_version == 2
    )


def test_the_text_names_client_version_and_something_new(key):
    text = key_proofs.text_to_sign(key)
    assert CLIENT_ID in text
    assert "keyVersion=1" in text
    assert text.isprintable()
    assert key_proofs.text_to_sign(replace(key, proof_nonce=key_proofs.new_nonce())) != text


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize(
    "write",
    [
        standard,
        lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
        lambda data: base64.encodebytes(data).decode(),
        lambda data: base64.encodebytes(data).decode().replace("\n", "\r\n"),
        lambda data: f"  {standard(data)}\n\n",
        bytes.hex,
    ],
    ids=["base64", "base64url", "lines", "crlf", "blanks", "hex"],
)
def test_the_signed_text_is_taken_in_any_usual_writing(key, write, end):
    key_proofs.check_signed_text(key, write(signature(key_proofs.text_to_sign(key) + end)))


def test_the_command_on_the_page_makes_the_proof(key, tmp_path):
    path = tmp_path / "private.pem"
    path.write_bytes(OWN.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    command = f"printf %s '{key_proofs.text_to_sign(key)}' | openssl dgst -sha256 -sign {path} | base64"
    printed = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout
    key_proofs.check_signed_text(key, printed)


def refusal(key: MerchantKey, given: str) -> str:
    with pytest.raises(ProofRefused) as caught:
        key_proofs.check_signed_text(key, given)
    return str(caught.value)


def test_each_failed_attempt_is_told_what_is_wrong(key):
    text = key_proofs.text_to_sign(key)
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    assert "nothing here" in refusal(key, "  \n")
    assert "too long" in refusal(key, "A" * 5000)
    assert "no signature in base64" in refusal(key, "what do I paste here?")
    assert "128 bytes; RSA-2048 makes 256: the key has 1024 bits" in refusal(key, standard(bytes(128)))
    assert "another private key" in refusal(key, standard(signature(text, private_key(2))))
    assert "over another text" in refusal(key, standard(signature(text + "x")))
    assert "PSS" in refusal(key, standard(signature(text, how=pss)))
    assert "sha512" in refusal(key, standard(signature(text, hashed=hashes.SHA512())))


def test_the_text_of_another_key_proves_nothing(key):
    other = replace(key, key_version=2)
    assert "over another text" in refusal(key, standard(signature(key_proofs.text_to_sign(other))))


def test_a_private_key_is_told_to_be_spoilt_and_never_repeated(key):
    pem = OWN.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    told = refusal(key, pem)
    assert "make a new pair" in told
    assert pem.splitlines()[1] not in told


def test_a_key_waits_seven_days(key):
    assert not key_proofs.is_lapsed(key, NOW + timedelta(days=7) - timedelta(seconds=1))
    assert key_proofs.is_lapsed(key, NOW + timedelta(days=7))
