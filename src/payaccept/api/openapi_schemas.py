"""The schemas of the OpenAPI description: the wire types as JSON Schema 2020-12.

Lengths, patterns and enumerations come from the types alone. What a type cannot say is added here in words,
in formats, and in the combinations that an answer can have. Requests may carry members of their own, which
are ignored; answers have no members but those described.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from payaccept.domain.scenario import Scenario
from payaccept.operations.provider_keys import PublishedKey
from payaccept.wire import messages as m
from payaccept.wire.codes import PAYMENT_FAILURES, TABLE, ResultCode

Json = dict[str, Any]

REF: Final = "#/components/schemas/{name}"
MAX_ID: Final = 64

_TYPES: Final = (
    *m.REQUESTS.values(),
    m.CreateQROrderResponse,
    m.RetailPayResponse,
    m.LinkPayCreateResponse,
    m.InquiryPaymentResponse,
    m.ErrorResponse,
    m.Notification,
    m.TestNotification,
    PublishedKey,
    Scenario,
)
# The types leave codes open, for SDKs that are older than a code; this version answers with these.
_CODES: Final = (("Result", "resultCode"), ("InquiryPaymentResponse", "failureCode"))
# Nothing but the described members is in these. A notification may get new members, so it stays open;
# Amount belongs to requests as well, and is closed where an answer refers to it.
_CLOSED: Final = (
    "Result",
    "ErrorResponse",
    "CreateQROrderResponse",
    "RetailPayResponse",
    "LinkPayCreateResponse",
    "AppLinks",
    "AppLinkPlatform",
    "InquiryPaymentResponse",
    "PublishedKey",
)
_FAILURES: Final = [code.value for code in ResultCode if code in PAYMENT_FAILURES]
_URI: Final[Json] = {"format": "uri"}
_URL_RULES: Final = (
    "Absolute `https` URL in ASCII, without a user name; it must not lead to a private address. A"
    " deployment can allow `http` and private addresses, as the local sandbox does."
)
_CURRENCY: Final[Json] = {
    "description": "An active ISO 4217 code of a currency that has minor units; any other is PARAM_ILLEGAL."
}
_AMOUNT_ANSWERED: Final[Json] = {"unevaluatedProperties": False}
_PAYMENT_ID: Final[Json] = {
    "description": "The service's identifier of the payment: an opaque text.",
    "maxLength": MAX_ID,
}
_REQUEST_ID: Final[Json] = {"description": "As the request gave it.", "maxLength": MAX_ID}
_TRANS_ID: Final[Json] = {
    "description": "The merchant's transaction ID: the paymentRequestId.",
    "maxLength": MAX_ID,
}
_ACQUIREMENT_ID: Final[Json] = {
    "description": "The order's identifier, for reconciliation; inquiryPayment takes it as a paymentId.",
    "maxLength": MAX_ID,
}
_COORDINATE: Final = "decimal degrees from -{0} to {0} in digits, without an exponent or a plus sign"
_LATITUDE: Final = r"^-?((0{0,2}[0-9]|0?[1-8][0-9])(\.[0-9]{1,20})?|0?90(\.0{1,20})?)$"
_LONGITUDE: Final = r"^-?((0{0,2}[0-9]|0?[1-9][0-9]|1[0-7][0-9])(\.[0-9]{1,20})?|180(\.0{1,20})?)$"
# Four separators, none of them overlapping another; a single bar belongs to a part.
FIVE_PARTS: Final = r"^[^|]*(\|[^|]+)*(\|\|[^|]*(\|[^|]+)*){4}\|?$"
_INSTANT: Final[Json] = {"format": "date-time"}
# Answers and notifications have at most milliseconds.
_INSTANT_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z$"

# schema → member → what the type cannot say.
_SAID_BY_NO_TYPE: Final[dict[str, dict[str, Json]]] = {
    "Amount": {
        "currency": _CURRENCY,
        "value": {
            "description": "Minor units, for example cents; written without a fraction or an exponent."
        },
    },
    "SettlementStrategy": {"settlementCurrency": _CURRENCY},
    **{
        name: {
            "paymentNotifyUrl": {"description": f"Where the notification goes. {_URL_RULES}"},
            "extendInfo": {
                "description": (
                    "A JSON object written as a string: no member twice at any level, at most 16 levels"
                    " deep. In the sandbox its member `sandbox` scripts the payment (Scenario); in"
                    " production that member is PARAM_ILLEGAL."
                ),
                "contentMediaType": "application/json",
                "contentSchema": {
                    "type": "object",
                    "properties": {"sandbox": {"$ref": REF.format(name="Scenario")}},
                },
            },
        }
        for name in ("CreateQROrderRequest", "RetailPayRequest", "LinkPayCreateRequest")
    },
    **{
        name: {
            "latitude": {
                "description": f"Of the store: {_COORDINATE.format(90)}.",
                "pattern": _LATITUDE,
                "examples": ["52.5170"],
            },
            "longitude": {
                "description": f"Of the store: {_COORDINATE.format(180)}.",
                "pattern": _LONGITUDE,
                "examples": ["13.3889"],
            },
            "transactionAddress": {
                "description": (
                    "The store's address: exactly five parts separated by `||`, in the order city,"
                    " street, postal code, country code, country name."
                ),
                "pattern": FIVE_PARTS,
            },
        }
        for name in ("Order", "DescribedOrder")
    },
    "CreateQROrderResponse": {"paymentId": _PAYMENT_ID, "paymentRequestId": _REQUEST_ID, "qrCode": _URI},
    "RetailPayResponse": {
        "paymentId": _PAYMENT_ID,
        "paymentRequestId": _REQUEST_ID,
        "paymentAmount": _AMOUNT_ANSWERED,
        "paymentTime": {"description": "When it was paid: ISO 8601, UTC, with Z."},
    },
    "LinkPayCreateResponse": {
        "merchantTransId": _TRANS_ID,
        "redirectUrl": {"description": "Send the customer here: it opens the wallet app.", **_URI},
        "acquirementId": _ACQUIREMENT_ID,
    },
    "AppLinkPlatform": {
        "applicationId": {"description": "Android application ID, or iOS bundle ID."},
        "bundleId": {"description": "iOS bundle ID."},
        "targetPath": {"description": "Deep-link path inside the app."},
        "shortUrl": {"description": "Short redirect URL.", **_URI},
    },
    "InquiryPaymentResponse": {
        "paymentId": _PAYMENT_ID,
        "paymentRequestId": _REQUEST_ID,
        "paymentAmount": _AMOUNT_ANSWERED,
        "paymentTime": {"description": "When it became final: ISO 8601, UTC, with Z."},
        "failureCode": {"enum": _FAILURES},
    },
    "Notification": {
        "eventId": {"description": "The same on every attempt: act on each event once.", "maxLength": MAX_ID},
        "paymentId": _PAYMENT_ID,
        "acquirementId": _ACQUIREMENT_ID,
        "paymentRequestId": _REQUEST_ID,
        "merchantTransId": _TRANS_ID,
    },
    "TestNotification": {
        "eventId": {"description": "The same on every attempt.", "maxLength": MAX_ID},
        "test": {"const": True},
    },
    "Scenario": {
        "outcome": {
            "description": "MANUAL waits for the customer; UNKNOWN makes retailPay answer U, resolved later."
        },
        "resultCode": {
            "description": "What the payment fails with; goes with FAIL (else PROCESS_FAIL) and with UNKNOWN.",
            "enum": _FAILURES,
        },
        "delayMs": {"description": "After how many milliseconds it completes."},
        "webhook": {"description": "Faults of delivery to play.", "uniqueItems": True},
    },
    "PublishedKey": {
        "keyVersion": {"description": "As in the Signature header of a notification.", "minimum": 1},
        "publicKeyPem": {
            "description": "SubjectPublicKeyInfo, PEM.",
            "pattern": "^-----BEGIN PUBLIC KEY-----",
        },
        "createTime": {"description": "When it was published.", **_INSTANT},
        "activateTime": {"description": "From when it signs.", **_INSTANT},
        "retireTime": {
            "description": "From when it signs no more; absent while that is not known.",
            **_INSTANT,
        },
        "withdrawTime": {
            "description": "From when it is not published any more; absent while that is not known.",
            **_INSTANT,
        },
    },
}


def ref(name: str) -> Json:
    """Refer to a schema."""
    return {"$ref": REF.format(name=name)}


def codes_of(http: int) -> list[ResultCode]:
    """Return the codes that the table gives to an HTTP status, in the table's order."""
    return [code for code, meaning in TABLE.items() if meaning.http == http]


def schemas() -> Json:
    """Return `components.schemas`."""
    _, written = msgspec.json.schema_components(_TYPES, ref_template=REF)
    components: Json = dict(written)
    components["JsonWebKeySet"] = _key_set()
    for name, member in _CODES:
        components[name]["properties"][member] = {"$ref": REF.format(name="ResultCode")}
    for name, members in _SAID_BY_NO_TYPE.items():
        for member, said in members.items():
            components[name]["properties"][member] |= said
    for name in _CLOSED:
        components[name]["additionalProperties"] = False
    components["Scenario"]["dependentSchemas"] = {
        "resultCode": {"properties": {"outcome": {"enum": ["FAIL", "UNKNOWN"]}}, "required": ["outcome"]}
    }
    components["InquiryPaymentRequest"]["anyOf"] = [
        {"required": ["paymentId"]},
        {"required": ["paymentRequestId"]},
    ]
    components["InquiryPaymentResponse"]["oneOf"] = _inquiry_cases()
    components["Notification"]["oneOf"] = _notification_cases()
    for component in components.values():
        _tidy(component)
    return dict(sorted(components.items()))


def answer(name: str, codes: Iterable[ResultCode], *, required: tuple[str, ...] = ()) -> Json:
    """Describe a body of type `name` whose result is one of `codes`, which share a resultStatus."""
    schema = {**ref(name), "properties": {"result": _result_among(codes)}}
    return schema | ({"required": list(required)} if required else {})


def retail_answer() -> Json:
    """Describe what retailPay answers with status 200: paid, waiting for the customer, or declined."""
    waiting = answer("RetailPayResponse", [ResultCode.ACCEPTED])
    waiting["not"] = {"required": ["paymentTime"]}
    return {
        "oneOf": [
            {"title": "Paid", **answer("RetailPayResponse", [ResultCode.SUCCESS], required=("paymentTime",))},
            {"title": "Waiting for the customer", **waiting},
            {"title": "Declined", **answer("ErrorResponse", PAYMENT_FAILURES)},
        ]
    }


def _result_among(codes: Iterable[ResultCode]) -> Json:
    listed = [code for code in ResultCode if code in set(codes)]
    (status,) = {TABLE[code].status for code in listed}
    return {
        "properties": {
            "resultStatus": {"const": status.value},
            "resultCode": {"enum": [code.value for code in listed]},
        },
        "required": ["resultCode", "resultMessage"],
    }


def _inquiry_cases() -> list[Json]:
    result = _result_among([ResultCode.SUCCESS])
    return [
        {
            "title": "Paid",
            "properties": {"result": result, "paymentStatus": {"const": "SUCCESS"}},
            "required": ["paymentTime"],
            "not": {"required": ["failureCode"]},
        },
        {
            "title": "In progress",
            "properties": {"result": result, "paymentStatus": {"const": "PROCESSING"}},
            "not": {"anyOf": [{"required": ["paymentTime"]}, {"required": ["failureCode"]}]},
        },
        {
            "title": "Failed",
            "properties": {"result": result, "paymentStatus": {"const": "FAIL"}},
            "required": ["paymentTime", "failureCode", "failureMessage"],
        },
    ]


def _notification_cases() -> list[Json]:
    cases: tuple[tuple[str, str, Iterable[ResultCode]], ...] = (
        ("payment.succeeded", "SUCCESS", [ResultCode.SUCCESS]),
        ("payment.failed", "FAIL", PAYMENT_FAILURES),
    )
    return [
        {
            "title": event_type,
            "properties": {
                "eventType": {"const": event_type},
                "paymentStatus": {"const": status},
                "result": _result_among(codes),
            },
        }
        for event_type, status, codes in cases
    ]


def _key_set() -> Json:
    number = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}
    key = {
        "type": "object",
        "properties": {
            "kty": {"const": "RSA"},
            "use": {"const": "sig"},
            "alg": {"const": "RS256"},
            "kid": {"type": "string", "pattern": "^[1-9][0-9]*$", "description": "The keyVersion."},
            "n": number,
            "e": number,
        },
        "required": ["kty", "use", "alg", "kid", "n", "e"],
        "additionalProperties": False,
    }
    return {
        "title": "JsonWebKeySet",
        "description": "The keys that notifications verify under (RFC 7517).",
        "type": "object",
        "properties": {"keys": {"type": "array", "items": key}},
        "required": ["keys"],
        "additionalProperties": False,
    }


def _tidy(schema: Any) -> None:
    """Give enumerations of texts their type and instants their pattern, and drop an empty `required`."""
    if isinstance(schema, list):
        for item in schema:
            _tidy(item)
    if not isinstance(schema, dict):
        return
    if schema.get("required") == []:
        del schema["required"]
    if "enum" in schema and "$ref" not in schema:
        schema.setdefault("type", "string")
    if schema.get("format") == "date-time":
        schema["pattern"] = _INSTANT_PATTERN
    for item in schema.values():
        _tidy(item)
