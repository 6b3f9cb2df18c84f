# ruff: noqa: ISC004
"""Write vectors.json (and, when it is missing, the key pair) beside this file.

    python tests/vectors/make_vectors.py

PKCS#1 v1.5 signatures are deterministic, so running it again changes nothing. The signatures are made by
the library under test; test_vectors.py has `openssl` and Node make them again and compares.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from payaccept.wire import signing

HERE = Path(__file__).parent
PRIVATE_KEY = HERE / "vectors-only-private-key.pem"
PUBLIC_KEY = HERE / "vectors-only-public-key.pem"
VECTORS = HERE / "vectors.json"

KEY_COMMENT = b"# A public test vector, made for this purpose; never used in any deployment.\n"
CLIENT_ID = "sandbox_5f0c9a3e7b1d2468ace02468"
CREATE, RETAIL = "/v1/payments/createQROrder", "/v1/payments/retailPay"
LINK, INQUIRY = "/v1/payments/linkPayCreate", "/v1/payments/inquiryPayment"

REQUESTS: list[tuple[str, str, str, str, bytes]] = [
    (
        "createQROrder, compact JSON",
        CREATE,
        CLIENT_ID,
        "2026-03-01T09:30:00Z",
        b'{"bizType":"ORDER_CODE","productCode":"51051000101000100031","codeType":"CGCP",'
        b'"paymentRequestId":"order-2026-000123","paymentAmount":{"currency":"EUR","value":1999}}',
    ),
    (
        "createQROrder, non-ASCII text as UTF-8",
        CREATE,
        CLIENT_ID,
        "2026-03-01T09:30:01Z",
        '{"bizType":"ORDER_CODE","productCode":"51051000101000100031","codeType":"CGCP",'
        '"paymentRequestId":"order-2026-000124","paymentAmount":{"currency":"EUR","value":1},'
        '"order":{"orderDescription":"Crème brûlée für zwei, Größe L, 日本茶","orderMemo":"Straße"}}'.encode(),
    ),
    (
        "createQROrder, emoji and combining characters",
        CREATE,
        CLIENT_ID,
        "2026-03-01T09:30:02.500Z",
        '{"bizType":"ORDER_CODE","productCode":"p","codeType":"CGCP","paymentRequestId":"emoji-1",'
        '"paymentAmount":{"currency":"EUR","value":250},"order":{"orderDescription":"☕️👩‍🍳 e\u0301 🇩🇪"}}'.encode(),
    ),
    (
        "createQROrder, JSON within a string and escapes kept as sent",
        CREATE,
        CLIENT_ID,
        "2026-03-01T09:30:03Z",
        rb'{"bizType":"ORDER_CODE","productCode":"p","codeType":"CGCP","paymentRequestId":"escapes-1",'
        rb'"paymentAmount":{"currency":"EUR","value":999999999999},"order":{"orderMemo":"tab\t nl\n '
        rb'quote\" slash\/ backslash\\ \u00e9\uD83D\uDE00"},'
        rb'"extendInfo":"{\"sandbox\":{\"outcome\":\"FAIL\",\"resultCode\":\"INSUFFICIENT_BALANCE\"}}"}',
    ),
    (
        "createQROrder, indented by two",
        CREATE,
        CLIENT_ID,
        "2026-03-01T09:30:04Z",
        b'{\n  "bizType": "ORDER_CODE",\n  "productCode": "p",\n  "codeType": "CGCP",\n'
        b'  "paymentRequestId": "pretty-1",\n  "paymentAmount": {\n    "currency": "JPY",\n    "value": 500\n  }\n}',
    ),
    (
        "createQROrder, CR LF within and a line feed after the body",
        CREATE,
        CLIENT_ID,
        "2026-03-01T09:30:05Z",
        b'{"bizType":"ORDER_CODE",\r\n"productCode":"p","codeType":"CGCP","paymentRequestId":"crlf-1",'
        b'"paymentAmount":{"currency":"EUR","value":7}}\n',
    ),
    (
        "retailPay",
        RETAIL,
        CLIENT_ID,
        "2026-03-01T09:31:00Z",
        b'{"productCode":"51051000101000100031","paymentRequestId":"till-4/0001",'
        b'"paymentAuthCode":"281012020262467128","paymentAmount":{"currency":"EUR","value":450},'
        b'"order":{"transactionAddress":"Berlin||Unter den Linden 1||10117||DE||Germany",'
        b'"merchant":{"store":{"externalStoreId":"berlin-01"}}}}',
    ),
    (
        "retailPay, Request-Time with nanoseconds",
        RETAIL,
        CLIENT_ID,
        "2024-02-29T23:59:59.123456789Z",
        b'{"productCode":"p","paymentRequestId":"leap-1","paymentAuthCode":"1","paymentAmount":'
        b'{"currency":"EUR","value":1}}',
    ),
    (
        "linkPayCreate",
        LINK,
        CLIENT_ID,
        "2026-03-01T09:32:00Z",
        b'{"productCode":"p","paymentRequestId":"link-1","paymentAmount":{"currency":"EUR","value":1250},'
        b'"order":{"orderDescription":"Two tickets"},"paymentNotifyUrl":"https://shop.example/hooks/pay",'
        b'"paymentRedirectUrl":"https://shop.example/thanks?order=1&lang=de"}',
    ),
    (
        "linkPayCreate, live Client-Id",
        LINK,
        "live_00112233445566778899aabb",
        "2026-12-31T23:59:59Z",
        b'{"productCode":"p","paymentRequestId":"link-2","paymentAmount":{"currency":"USD","value":100},'
        b'"order":{"orderDescription":"x"},"settlementStrategy":{"settlementCurrency":"EUR"}}',
    ),
    (
        "inquiryPayment by paymentRequestId",
        INQUIRY,
        CLIENT_ID,
        "2026-03-01T09:33:00Z",
        b'{"paymentRequestId":"order-2026-000123"}',
    ),
    (
        "inquiryPayment by both identifiers",
        INQUIRY,
        CLIENT_ID,
        "2026-03-01T09:33:01Z",
        b'{"paymentId":"pay_0195500d0b4042d3a1c9e7f2b8d4650c1f3e","paymentRequestId":"order-2026-000123"}',
    ),
    ("empty body: the string ends with the full stop", INQUIRY, CLIENT_ID, "2026-03-01T09:34:00Z", b""),
    ("smallest object", INQUIRY, CLIENT_ID, "2026-03-01T09:34:01Z", b"{}"),
    (
        "bytes that are not UTF-8: signatures are over bytes, the body is refused later",
        INQUIRY,
        CLIENT_ID,
        "2026-03-01T09:34:02Z",
        b'{"paymentRequestId":"caf\xe9"}',
    ),
]

_PAID = (
    '{"eventId":"evt_0195500d11f342aa00112233445566778899","eventType":"payment.succeeded",'
    '"createTime":"2026-03-01T09:30:02.104Z","environment":"sandbox","clientId":"' + CLIENT_ID + '",'
    '"paymentId":"pay_0195500d0b4042d3a1c9e7f2b8d4650c1f3e","acquirementId":"acq_0195500d0b4042d3a1c9e7f2b8d4650c1f3e",'
    '"paymentRequestId":"order-2026-000123","merchantTransId":"order-2026-000123","paymentStatus":"SUCCESS",'
    '"paymentTime":"2026-03-01T09:30:02.100Z","paymentAmount":{"currency":"EUR","value":1999},'
    '"result":{"resultStatus":"S","resultCode":"SUCCESS","resultMessage":"Success."}}'
).encode()
NOTIFICATIONS: list[tuple[str, str, str, bytes]] = [
    ("payment.succeeded", "/hooks/pay", "2026-03-01T09:30:02Z", _PAID),
    (
        "the same body again: a later attempt has a Request-Time of its own",
        "/hooks/pay",
        "2026-03-01T09:30:07Z",
        _PAID,
    ),
    (
        "payment.failed with a store and non-ASCII text",
        "/hooks/pay",
        "2026-03-01T09:45:00Z",
        _PAID.replace(b"payment.succeeded", b"payment.failed")
        .replace(b'"paymentStatus":"SUCCESS"', b'"paymentStatus":"FAIL"')
        .replace(
            b'"result":{"resultStatus":"S","resultCode":"SUCCESS","resultMessage":"Success."}}',
            '"result":{"resultStatus":"F","resultCode":"ORDER_EXPIRED","resultMessage":"The order was not paid '
            'in time."},"merchantData":{"externalStoreId":"Zürich-☕"}}'.encode(),
        ),
    ),
    ("endpoint at the root", "/", "2026-03-01T09:30:02.000Z", _PAID),
    ("escaped characters stay escaped in the path", "/caf%C3%A9/hooks%20pay/", "2026-03-01T09:30:03Z", _PAID),
    ("empty body", "/hooks/pay", "2026-03-01T09:30:04Z", b""),
]


def ensure_keys() -> None:
    """Make the key pair when there is none; an existing one is kept, so that signatures stay."""
    if PRIVATE_KEY.exists():
        return
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    PRIVATE_KEY.write_bytes(KEY_COMMENT + private)
    PUBLIC_KEY.write_bytes(public)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _vector(
    name: str, members: dict[str, Any], body: bytes, signed: bytes, key: rsa.RSAPrivateKey
) -> dict[str, Any]:
    return {
        "name": name,
        **members,
        "body": _text(body),
        "bodyBase64": base64.b64encode(body).decode(),
        "signingString": _text(signed),
        "signingStringBase64": base64.b64encode(signed).decode(),
        "signingStringSha256": hashlib.sha256(signed).hexdigest(),
        "signatureHeader": signing.write_header(3, signing.sign(key, signed)),
    }


def vectors(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    """Everything vectors.json holds."""
    requests = []
    for name, path, client_id, request_time, body in REQUESTS:
        members = {"method": "POST", "path": path, "clientId": client_id, "requestTime": request_time}
        signed = signing.request_string("POST", path, client_id, request_time, body)
        requests.append(_vector(name, members, body, signed, key))
    notifications = []
    for name, path, request_time, body in NOTIFICATIONS:
        members = {"method": "POST", "path": path, "requestTime": request_time}
        signed = signing.notification_string(path, request_time, body)
        notifications.append(_vector(name, members, body, signed, key))
    return {
        "about": "Golden signatures. `body` and `signingString` are null where the bytes are not UTF-8.",
        "keyVersion": 3,
        "privateKeyFile": PRIVATE_KEY.name,
        "publicKeyFile": PUBLIC_KEY.name,
        "requests": requests,
        "notifications": notifications,
    }


def main() -> None:
    ensure_keys()
    key = serialization.load_pem_private_key(PRIVATE_KEY.read_bytes(), password=None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TypeError(PRIVATE_KEY.name)
    VECTORS.write_text(json.dumps(vectors(key), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
