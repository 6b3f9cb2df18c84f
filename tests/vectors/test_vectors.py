"""Our signatures against the golden ones, and the golden ones against openssl and Node."""

import base64
import hashlib
import json
import shutil
import subprocess
from typing import Any

import pytest

from payaccept.wire import signing
from vectors import golden, make_vectors

ALL = golden.REQUESTS + golden.NOTIFICATIONS
NAMES = [vector["name"] for vector in ALL]
OPERATIONS = ("createQROrder", "retailPay", "linkPayCreate", "inquiryPayment")


def _signing_string(vector: dict[str, Any]) -> bytes:
    body = golden.body(vector)
    if "clientId" in vector:
        members = (vector["method"], vector["path"], vector["clientId"], vector["requestTime"])
        return signing.request_string(*members, body)
    return signing.notification_string(vector["path"], vector["requestTime"], body)


def test_there_are_enough_vectors_and_every_operation_has_one():
    assert len(golden.REQUESTS) >= 12
    assert len(golden.NOTIFICATIONS) >= 4
    assert {vector["path"] for vector in golden.REQUESTS} == {f"/v1/payments/{name}" for name in OPERATIONS}
    assert len(set(NAMES)) == len(ALL)


def test_the_generator_writes_exactly_the_committed_file():
    assert make_vectors.vectors(golden.private_key()) == golden.DOCUMENT


def test_the_key_files_are_one_pair_and_say_what_they_are():
    assert golden.private_key().public_key() == golden.public_key()
    assert golden.public_key().key_size == 2048
    assert golden.PRIVATE_KEY_FILE.name == "vectors-only-private-key.pem"
    first_line = golden.PRIVATE_KEY_FILE.read_text().splitlines()[0]
    assert "test vector" in first_line
    assert "never used in any deployment" in first_line


@pytest.mark.parametrize("vector", ALL, ids=NAMES)
def test_the_signing_string_is_the_golden_one(vector):
    assert _signing_string(vector) == golden.signed(vector)
    assert hashlib.sha256(golden.signed(vector)).hexdigest() == vector["signingStringSha256"]
    if vector["signingString"] is not None:
        assert vector["signingString"].encode() == golden.signed(vector)
        assert vector["body"].encode() == golden.body(vector)


@pytest.mark.parametrize("vector", ALL, ids=NAMES)
def test_signing_reproduces_the_golden_header(vector):
    signature = signing.sign(golden.private_key(), _signing_string(vector))
    assert signing.write_header(golden.KEY_VERSION, signature) == vector["signatureHeader"]


@pytest.mark.parametrize("vector", ALL, ids=NAMES)
def test_the_golden_header_verifies(vector):
    header = signing.parse_header(vector["signatureHeader"])
    assert header.key_version == golden.KEY_VERSION
    signing.verify(golden.public_key(), header.signature, _signing_string(vector))


def _command(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"the {name} command is not installed, so the vectors cannot be cross-checked with it")
    return found


@pytest.mark.parametrize("vector", ALL, ids=NAMES)
def test_openssl_makes_and_verifies_the_same_signature(vector, tmp_path):
    openssl = _command("openssl")
    string, signature = tmp_path / "string", tmp_path / "signature"
    string.write_bytes(golden.signed(vector))
    made = subprocess.run(
        [openssl, "dgst", "-sha256", "-sign", golden.PRIVATE_KEY_FILE, string],
        check=True,
        capture_output=True,
        timeout=30,
    ).stdout
    assert base64.urlsafe_b64encode(made).rstrip(b"=").decode() == golden.signature_text(vector)
    signature.write_bytes(made)
    verified = subprocess.run(
        [openssl, "dgst", "-sha256", "-verify", golden.PUBLIC_KEY_FILE, "-signature", signature, string],
        check=False,
        capture_output=True,
        timeout=30,
    )
    assert (verified.returncode, verified.stdout.strip()) == (0, b"Verified OK")


def test_node_makes_and_verifies_the_same_signatures():
    node = _command("node")
    script = golden.HERE / "check_vectors.mjs"
    printed = subprocess.run([node, script], check=True, capture_output=True, timeout=60).stdout
    verdicts = json.loads(printed)
    expected = {
        f"{kind}: {vector['name']}": {
            "signingStringBase64": vector["signingStringBase64"],
            "signature": golden.signature_text(vector),
            "verified": True,
        }
        for kind in ("requests", "notifications")
        for vector in golden.DOCUMENT[kind]
    }
    assert verdicts == expected
