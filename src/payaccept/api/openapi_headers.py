"""The headers that sign, in the OpenAPI description: those of a request, and those of a webhook."""

from typing import Any, Final

from payaccept.api import openapi_examples as examples

Json = dict[str, Any]

REQUEST_TIME_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z$"
SIGNATURE_PATTERN: Final = (
    r"^algorithm=SHA256withRSA,[ \t]*keyVersion=[1-9][0-9]{0,8},[ \t]*signature=[A-Za-z0-9_-]{341}[AQgw]$"
)
CLIENT_ID_PATTERN: Final = "^(sandbox|live)_[0-9a-f]{24}$"


def parameter(name: str) -> Json:
    """Refer to a header of a request or of a webhook."""
    return {"$ref": f"#/components/parameters/{name}"}


def _header(name: str, description: str, schema: Json, example: str | int) -> Json:
    return {
        "name": name,
        "in": "header",
        "required": True,
        "description": description,
        "schema": schema,
        "example": example,
    }


def _text(pattern: str) -> Json:
    return {"type": "string", "pattern": pattern}


def parameters() -> Json:
    """Return `components.parameters`."""
    return {
        "Client-Id": _header(
            "Client-Id",
            "The merchant's identifier; its prefix names its environment.",
            _text(CLIENT_ID_PATTERN),
            examples.CLIENT_ID,
        ),
        "Request-Time": _header(
            "Request-Time",
            (
                "When it is sent: UTC with Z, with at most nine digits of a fraction. Within 5 minutes of"
                " our clock."
            ),
            {"format": "date-time", **_text(REQUEST_TIME_PATTERN)},
            examples.REQUEST_TIME,
        ),
        "Signature": _header(
            "Signature",
            (
                "Exactly these three members, best in this order (any other is accepted), with optional"
                " blanks around the commas. keyVersion is the number that the key was registered under;"
                " the signature is base64url without padding. How it is made: the security scheme"
                " requestSignature."
            ),
            _text(SIGNATURE_PATTERN),
            examples.SIGNATURE,
        ),
        "Notification-Request-Time": _header(
            "Request-Time",
            "When this attempt was sent. Refuse it when it is more than 10 minutes away from your clock.",
            {"format": "date-time", **_text(REQUEST_TIME_PATTERN)},
            examples.NOTIFICATION_TIME,
        ),
        "Notification-Signature": _header(
            "Signature",
            (
                "As in requests, by our key of that keyVersion (/.well-known/payaccept/webhook-keys),"
                " over `POST <path of your endpoint>`, a line feed, and `<Request-Time>.<raw body>`: no"
                " Client-Id. Refuse an unknown keyVersion. Made afresh for every attempt."
            ),
            _text(SIGNATURE_PATTERN),
            examples.NOTIFICATION_SIGNATURE,
        ),
        "Event-Id": _header(
            "Event-Id", "The body's eventId.", _text("^evt_[0-9a-f]{36}$"), examples.EVENT_ID
        ),
        "Delivery-Attempt": _header(
            "Delivery-Attempt", "Counts the attempts, from 1.", {"type": "integer", "minimum": 1}, 1
        ),
        "Event-Sequence": _header(
            "Event-Sequence",
            (
                "Counts the merchant's events from 1 without a gap, in no promised order of arrival. It is not"
                " signed: a hint that something is missing, not a proof."
            ),
            {"type": "integer", "minimum": 1},
            1042,
        ),
        "User-Agent": _header("User-Agent", "Who sends it.", _text("^payaccept/"), "payaccept/0.1.0"),
    }
