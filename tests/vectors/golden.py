"""The golden vectors and their key pair, for whoever tests with them."""

import base64
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

HERE = Path(__file__).parent
DOCUMENT: dict[str, Any] = json.loads((HERE / "vectors.json").read_text(encoding="utf-8"))
REQUESTS: list[dict[str, Any]] = DOCUMENT["requests"]
NOTIFICATIONS: list[dict[str, Any]] = DOCUMENT["notifications"]
KEY_VERSION: int = DOCUMENT["keyVersion"]
PRIVATE_KEY_FILE = HERE / DOCUMENT["privateKeyFile"]
PUBLIC_KEY_FILE = HERE / DOCUMENT["publicKeyFile"]


@cache
def private_key() -> rsa.RSAPrivateKey:
    key = load_pem_private_key(PRIVATE_KEY_FILE.read_bytes(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


@cache
def public_key() -> rsa.RSAPublicKey:
    key = load_pem_public_key(PUBLIC_KEY_FILE.read_bytes())
    assert isinstance(key, rsa.RSAPublicKey)
    return key


@cache
def another_private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def body(vector: dict[str, Any]) -> bytes:
    return base64.b64decode(vector["bodyBase64"])


def signed(vector: dict[str, Any]) -> bytes:
    return base64.b64decode(vector["signingStringBase64"])


def signature_text(vector: dict[str, Any]) -> str:
    found = re.fullmatch(
        r"algorithm=SHA256withRSA, keyVersion=\d+, signature=([A-Za-z0-9_-]{342})", vector["signatureHeader"]
    )
    assert found is not None
    return found[1]
