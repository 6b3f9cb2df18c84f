"""A merchant's backend, written from the protocol's description alone: it shares no code with the service."""

import base64
import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import httpx
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

PREFIX = "/v1/payments/"
OPERATIONS = ("createQROrder", "retailPay", "linkPayCreate", "inquiryPayment")
CREATES = OPERATIONS[:3]

_SIGNATURE = re.compile(r"algorithm=SHA256withRSA, keyVersion=(\d+), signature=([A-Za-z0-9_-]+)")


@cache
def private_key(number: int) -> rsa.RSAPrivateKey:
    """The session's key of this number: making one takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public_pem(key: rsa.RSAPrivateKey) -> bytes:
    """The public half of a key as PEM."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def base64url(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def at_now(offset_s: float = 0.0) -> str:
    """A Request-Time, so many seconds from now."""
    at = datetime.fromtimestamp(datetime.now(UTC).timestamp() + offset_s, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def new_request_id() -> str:
    """A paymentRequestId that was never used."""
    return f"order-{uuid.uuid4().hex}"


def compact(value: object) -> bytes:
    """JSON as it is sent and signed."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def request_of(operation: str, **changes: Any) -> dict[str, Any]:
    """A usual request of an operation; `changes` set members or, when None, leave them out.

    `sandbox` becomes the script in extendInfo.
    """
    value: dict[str, Any] = {"paymentRequestId": new_request_id()}
    if operation != "inquiryPayment":
        value |= {"productCode": "51051000101000100031", "paymentAmount": {"currency": "EUR", "value": 1999}}
    if operation == "createQROrder":
        value |= {"bizType": "ORDER_CODE", "codeType": "CGCP"}
    elif operation == "retailPay":
        value |= {"paymentAuthCode": "281012020262467128"}
    elif operation == "linkPayCreate":
        value |= {"order": {"orderDescription": "A pair of shoes"}}
    script = changes.pop("sandbox", None)
    if script is not None:
        value["extendInfo"] = json.dumps({"sandbox": script})
    value |= changes
    return {name: member for name, member in value.items() if member is not None}


class Merchant:
    """One merchant with its keys. `key_version` and `key` are what it signs with."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.keys: dict[int, rsa.RSAPrivateKey] = {}
        self.key_version = 0

    def use_key(self, key_version: int, key: rsa.RSAPrivateKey) -> None:
        """Sign with this key from now on."""
        self.keys[key_version] = key
        self.key_version = key_version

    @property
    def key(self) -> rsa.RSAPrivateKey:
        """The key it signs with."""
        return self.keys[self.key_version]

    def signature(self, path: str, request_time: str, body: bytes, method: str = "POST") -> str:
        """The signature of a request, base64url."""
        signed = f"{method} {path}\n{self.client_id}.{request_time}.".encode() + body
        return base64url(self.key.sign(signed, padding.PKCS1v15(), hashes.SHA256()))

    def headers(self, path: str, body: bytes, request_time: str | None = None) -> dict[str, str]:
        """The four headers of a signed POST."""
        request_time = request_time or at_now()
        signature = self.signature(path, request_time, body)
        return {
            "Client-Id": self.client_id,
            "Request-Time": request_time,
            "Signature": f"algorithm=SHA256withRSA, keyVersion={self.key_version}, signature={signature}",
            "Content-Type": "application/json",
        }

    async def send(
        self,
        api: httpx.AsyncClient,
        operation: str,
        body: bytes | Mapping[str, Any],
        *,
        request_time: str | None = None,
    ) -> httpx.Response:
        """Sign a body and send it to an operation."""
        content = body if isinstance(body, bytes) else compact(body)
        path = PREFIX + operation
        return await api.post(path, content=content, headers=self.headers(path, content, request_time))

    async def create(self, api: httpx.AsyncClient, operation: str, **changes: Any) -> httpx.Response:
        """Send a usual request of an operation with some members changed."""
        return await self.send(api, operation, request_of(operation, **changes))

    async def inquire(self, api: httpx.AsyncClient, **ids: str) -> httpx.Response:
        """Ask how a payment stands."""
        return await self.send(api, "inquiryPayment", ids)


def verify_notification(headers: Mapping[str, str], path: str, body: bytes, keys: Mapping[int, str]) -> None:
    """Verify a webhook under the provider's keys, PEM by version. Raises when it does not verify."""
    match = _SIGNATURE.fullmatch(headers["Signature"])
    if match is None:
        raise ValueError(f"malformed: {headers['Signature']}")
    key = load_pem_public_key(keys[int(match[1])].encode())
    assert isinstance(key, rsa.RSAPublicKey)
    signature = base64.urlsafe_b64decode(match[2] + "==")
    signed = f"POST {path}\n{headers['Request-Time']}.".encode() + body
    key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
