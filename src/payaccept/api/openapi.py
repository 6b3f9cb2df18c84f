"""The OpenAPI 3.1 description of the API, generated from the wire types and the table of result codes.

    python -m payaccept.api.openapi > openapi.json

writes the copy that is kept beside the code; the API serves the same bytes at /openapi.json.
"""

import json
import sys
from functools import cache
from typing import Any, Final

from payaccept.api import openapi_examples as examples
from payaccept.api import openapi_responses as answers
from payaccept.api.openapi_headers import parameter, parameters
from payaccept.api.openapi_schemas import ref, schemas
from payaccept.domain.delivery import RETRY_AFTER_AT_MOST, RETRY_SCHEDULE_S
from payaccept.wire import messages as m
from payaccept.wire.codes import ResultStatus

Json = dict[str, Any]

VERSION: Final = "1.0.0"
"""The description's own version: a change that readers of answers notice raises it."""

_ABOUT: Final = """\
Take payments: a QR code to show (`createQROrder`), a code to scan (`retailPay`), a link into the wallet
app (`linkPayCreate`), and how a payment stands (`inquiryPayment`). The outcome comes as a signed webhook.

**Two answers in one.** The HTTP status tells what happened to the *request*; `result` tells what happened
to the *payment*: `S` done, `F` failed, `A` accepted and decided later, `U` unknown, so inquire. A
failure's body holds `result` alone. A path that is not described answers 404 `NOT_FOUND`, a method that
is not described 405 `METHOD_NOT_ALLOWED` with the header `Allow`.

**Amounts** are integers of minor units. **Instants** are ISO 8601 in UTC with `Z`. Unknown members of a
request are ignored. The body is one JSON object in UTF-8 of at most 64 KiB and 16 levels, without
duplicate members, NaN, Infinity or NUL characters. A query string is ignored.

**Idempotency.** `paymentRequestId` is yours, and used once: of any number of identical requests one makes
a payment, the others are answered `REPEAT_REQUEST` (or, where a merchant has chosen *replay*, with the
first answer again).

**Two environments**, sandbox and production, share nothing: neither addresses, credentials, keys nor
payments. In the sandbox payments complete by themselves and nothing settles.

**Versions.** This description has a version of its own. Readers should ignore members that they do not
know. An operation that is to be withdrawn says so with the headers `Deprecation` and `Sunset` at least 12
months before.
"""
_SIGNING: Final = """\
Every request is signed with the merchant's RSA-2048 key. The signing string has two lines, joined by one
line feed:

```text
POST <path>
<Client-Id>.<Request-Time>.<body>
```

`<path>` is without host and query; `<Client-Id>` and `<Request-Time>` are the texts of these headers;
`<body>` is the request's body byte for byte as it is sent, and nothing follows it. The signature is
RSASSA-PKCS1-v1_5 with SHA-256 over its UTF-8 bytes, written as base64url without padding: 342 characters.

Checked in this order: path, method and size; the headers, each there once; `Request-Time`, within 5
minutes of our clock, both ends included; `Client-Id`; the grammar of `Signature`; its keyVersion and the
signature; the rate limit; the body. The first check that fails answers.
"""
_SUMMARIES: Final = {
    "createQROrder": (
        "Create an order that is paid by QR code",
        (
            "Answers with a QR code to show to the customer. An order that is not paid in time (15"
            " minutes, unless the deployment says otherwise) fails with ORDER_EXPIRED."
        ),
    ),
    "retailPay": (
        "Charge a code scanned from the customer's wallet",
        (
            "A wallet code lives 60 seconds and works once. When the wallet does not answer in time the"
            " answer is 503 with `U`: the payment exists and stays PROCESSING until it is resolved with"
            " the wallet, so inquire. It is never charged twice."
        ),
    ),
    "linkPayCreate": (
        "Create an order that is paid through a link",
        (
            "Answers with a link that opens the wallet app. After paying, the customer goes to"
            " paymentRedirectUrl exactly as given. An order that is not paid in time fails with"
            " ORDER_EXPIRED."
        ),
    ),
    "inquiryPayment": (
        "Ask how a payment stands",
        (
            "By paymentId (or acquirementId), by paymentRequestId, or by both when they name the same"
            " payment. The inquiry of a failed payment is itself a success: failureCode tells why the"
            " payment failed."
        ),
    ),
}


@cache
def document() -> bytes:
    """Return the description as JSON."""
    return json.dumps(_describe(), indent=2, ensure_ascii=False).encode() + b"\n"


def _describe() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Payment Acceptance API",
            "summary": "RSA-signed JSON in, durable payments and signed webhooks out.",
            "description": _ABOUT,
            "version": VERSION,
            "contact": {"name": "The payaccept developers"},
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {"url": "/", "description": "The deployment that serves this description."},
            {"url": "http://127.0.0.1:8080", "description": "A local sandbox: `payaccept sandbox`."},
        ],
        "tags": [
            {"name": "Payments", "description": "The signed operations."},
            {"name": "Webhooks", "description": "What we send, and the keys it verifies under."},
            {"name": "Service", "description": "The deployment's health and its description. Not signed."},
        ],
        "security": [],
        "paths": {m.PATH_PREFIX + name: {"post": _operation(name)} for name in m.REQUESTS} | _documents(),
        "webhooks": {"payment": {"post": _webhook()}, "test": {"post": _test_webhook()}},
        "components": {
            "securitySchemes": {
                "requestSignature": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Signature",
                    "description": _SIGNING,
                }
            },
            "parameters": parameters(),
            "headers": answers.headers(),
            "responses": answers.responses(),
            "schemas": schemas(),
        },
    }


def _operation(name: str) -> Json:
    summary, description = _SUMMARIES[name]
    inquiry = name == "inquiryPayment"
    success = answers.success_of(name)
    if not inquiry:
        success["links"] = {
            "inquire": {
                "operationId": "inquiryPayment",
                "requestBody": {"paymentRequestId": "$request.body#/paymentRequestId"},
                "description": "The payment can be inquired at once.",
            }
        }
    return {
        "operationId": name,
        "tags": ["Payments"],
        "summary": summary,
        "description": description,
        "security": [{"requestSignature": []}],
        "parameters": [parameter(header) for header in ("Client-Id", "Request-Time", "Signature")],
        "requestBody": {
            "description": (
                "`Content-Type` is `application/json`; `charset=utf-8` may follow. The bytes sent are the"
                " bytes signed."
            ),
            "required": True,
            "content": {
                "application/json": {
                    "schema": ref(m.REQUESTS[name].__name__),
                    "examples": examples.REQUESTS[name],
                }
            },
        },
        "responses": {"200": success} | answers.refusals(answers.INQUIRE if inquiry else answers.CREATE),
    }


def _documents() -> Json:
    """Return the paths that need no signature."""
    success: Json = {
        "type": "object",
        "properties": {
            "result": {**ref("Result"), "properties": {"resultStatus": {"const": ResultStatus.S.value}}}
        },
        "required": ["result"],
        "additionalProperties": False,
    }
    health = success | {
        "properties": success["properties"]
        | {
            "version": {"type": "string"},
            "environment": {"type": "string", "enum": ["sandbox", "production"]},
        },
        "required": ["result", "version", "environment"],
    }
    cached = ("Cache-Control",)
    return {
        "/healthz": _document(
            "healthz", "Service", "Whether this process answers", answers.ok("It does.", health)
        ),
        "/readyz": _document(
            "readyz",
            "Service",
            "Whether payments can be taken now",
            answers.ok("They can. While the database is away the answer is 503.", success),
        ),
        "/openapi.json": _document(
            "openapi",
            "Service",
            "This description",
            answers.ok("An OpenAPI 3.1 document.", {"type": "object"}, names=cached),
        ),
        "/.well-known/payaccept/webhook-keys": _document(
            "webhookKeys",
            "Webhooks",
            "The keys that notifications verify under, as PEM",
            answers.ok(
                "All of them verify: a PUBLISHED key signs later, a RETIRED one signed before. A WITHDRAWN"
                " one is not among them.",
                {"type": "array", "items": ref("PublishedKey")},
                names=cached,
            ),
        ),
        "/.well-known/jwks.json": _document(
            "jwks",
            "Webhooks",
            "The same keys as a JSON Web Key Set",
            answers.ok("The `kid` is the keyVersion.", ref("JsonWebKeySet"), names=cached),
        ),
    }


def _document(name: str, tag: str, summary: str, success: Json) -> Json:
    return {
        "get": {
            "operationId": name,
            "tags": [tag],
            "summary": summary,
            "responses": {"200": success} | answers.refusals(answers.DOCUMENT),
        }
    }


def _webhook() -> Json:
    steps = ", ".join(f"{step:g}" for step in RETRY_SCHEDULE_S)
    return {
        "operationId": "paymentNotification",
        "tags": ["Webhooks"],
        "summary": "The outcome of a payment",
        "description": (
            "Sent once the payment is final to the request's paymentNotifyUrl, else to the merchant's"
            " configured endpoint. It is authoritative. At least once, in no promised order, with the"
            " same body on every attempt: verify the signature over the raw body, then act on each"
            " eventId once. Answer within 10 seconds; of the answer's body 4 KiB are read. What is not"
            f" acknowledged is sent again after {steps} seconds, each ±20 %; then it is kept, and can be"
            " sent again for 90 days, with the same eventId and body."
        ),
        "parameters": _webhook_headers(),
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": ref("Notification"), "examples": examples.NOTIFICATIONS}
            },
        },
        "responses": _webhook_answers(),
    }


def _test_webhook() -> Json:
    return {
        "operationId": "testNotification",
        "tags": ["Webhooks"],
        "summary": "A test, sent when somebody asks for it",
        "description": (
            "Sent to the merchant's configured endpoint, signed, numbered and sent again like any other"
            " notification. It has no member of a payment. Acknowledge it, and act on nothing."
        ),
        "parameters": _webhook_headers(),
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": ref("TestNotification"),
                    "examples": examples.TEST_NOTIFICATIONS,
                }
            },
        },
        "responses": _webhook_answers(),
    }


def _webhook_headers() -> list[Json]:
    return [
        parameter(name)
        for name in (
            "Notification-Request-Time",
            "Notification-Signature",
            "Event-Id",
            "Event-Sequence",
            "Delivery-Attempt",
            "User-Agent",
        )
    ]


def _webhook_answers() -> Json:
    refusal: Json = {"application/json": {"schema": {"type": "object"}}}
    return {
        "2XX": {
            "description": (
                "Acknowledged, with any body or none, unless the body is JSON whose"
                " result.resultStatus is not S."
            ),
            "content": {
                "application/json": {
                    "schema": _acknowledgement(),
                    "example": {"result": {"resultStatus": ResultStatus.S.value}},
                }
            },
        },
        "3XX": {"description": "Redirects are not followed: not acknowledged, sent again."},
        "429": _later(),
        "503": _later(),
        "default": {"description": "Not acknowledged: sent again.", "content": refusal},
    }


def _acknowledgement() -> Json:
    status = {"type": "object", "properties": {"resultStatus": {"const": ResultStatus.S.value}}}
    return {"type": "object", "properties": {"result": status}}


def _later() -> Json:
    return {
        "description": (
            "Not acknowledged: sent again after Retry-After, but no sooner than the schedule's step and no"
            f" later than {RETRY_AFTER_AT_MOST:g} times it."
        ),
        "headers": {
            "Retry-After": {
                "description": "Seconds, or an HTTP date.",
                "schema": {"type": "string"},
                "example": "120",
            }
        },
    }


if __name__ == "__main__":
    sys.stdout.buffer.write(document())
