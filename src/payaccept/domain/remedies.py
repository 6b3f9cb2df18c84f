"""What a refusal means to the merchant's developer, and how to mend it: one entry for each code that refuses."""

import re
from typing import Final

from msgspec import Struct

from payaccept.wire.codes import TABLE, ResultCode

_RULE: Final = re.compile(r"(?P<rule>[a-z0-9]+(?:[-+][a-z0-9]+)*): (?P<rest>.*)", re.ASCII | re.DOTALL)


class Remedy(Struct, frozen=True):
    """`title` names the broken rule in a few words."""

    title: str
    mend: str


_REMEDIES: Final[dict[ResultCode, Remedy]] = {
    ResultCode.PARAM_ILLEGAL: Remedy(
        "The body breaks a rule",
        "Correct the fields that the message names, and send the request again: its paymentRequestId has not been"
        " used up.",
    ),
    ResultCode.INVALID_SIGNATURE: Remedy(
        "The signature does not hold",
        "Sign the very bytes you send: method and path, a line feed, then Client-Id, Request-Time and body with full"
        " stops between them, with SHA-256 and PKCS#1 v1.5, in base64url without padding.",
    ),
    ResultCode.TIMESTAMP_INVALID: Remedy(
        "The time is not acceptable",
        "Keep the machine's clock right with NTP. Make a new Request-Time, in UTC with a Z at its end, and a new"
        " signature for every attempt, just before it is sent.",
    ),
    ResultCode.INVALID_CLIENT_ID: Remedy(
        "The Client-Id is not good here",
        "Send the Client-Id of this environment, once. If it should be active, ask the provider.",
    ),
    ResultCode.ACCESS_DENIED: Remedy(
        "These credentials open nothing here",
        "Compare keyVersion, Client-Id and base address with those on the page Keys: the version must be an active"
        " key's, and the address this environment's.",
    ),
    ResultCode.ORDER_NOT_EXIST: Remedy(
        "There is no such payment",
        "Check the identifiers. After a create that was answered U, it means that nothing was created: send the"
        " create again.",
    ),
    ResultCode.REPEAT_REQUEST: Remedy(
        "The paymentRequestId was used before",
        "If this repeats a request that had no answer, inquire by the paymentRequestId. For another payment take"
        " another one.",
    ),
    ResultCode.NOT_FOUND: Remedy(
        "There is nothing at this path",
        "Correct the path; operations live under /v1/payments/, and their names are spelt with capitals inside.",
    ),
    ResultCode.METHOD_NOT_ALLOWED: Remedy(
        "This path takes another method", "Send every operation with POST."
    ),
    ResultCode.UNSUPPORTED_MEDIA_TYPE: Remedy(
        "The body is not announced as JSON",
        "Send Content-Type: application/json, once; ; charset=utf-8 may follow.",
    ),
    ResultCode.PAYLOAD_TOO_LARGE: Remedy("The body is too large", "Send at most 64 KiB."),
    ResultCode.REQUEST_TRAFFIC_EXCEED_LIMIT: Remedy(
        "Too many requests",
        "Wait for the seconds that Retry-After names. Wait for webhooks rather than asking how a payment stands.",
    ),
    ResultCode.SYSTEM_BUSY: Remedy(
        "We were too busy to answer",
        "Send the same body with the same paymentRequestId again after the seconds of Retry-After. If that is"
        " answered REPEAT_REQUEST, the first one was done: inquire.",
    ),
    ResultCode.UNKNOWN_EXCEPTION: Remedy(
        "Something broke on our side", "Inquire how the payment stands, and tell us the Request-Id."
    ),
}
_BY_NAME: Final = {str(code): remedy for code, remedy in _REMEDIES.items()}
REFUSING: Final = tuple(code for code, meaning in TABLE.items() if meaning.http != 200)  # noqa: PLR2004


def remedy_of(code: str) -> Remedy:
    """Return what to do about a result code, which may be one of another version."""
    return _BY_NAME.get(code, Remedy(code, ""))


def rule_of(code: str, message: str) -> tuple[str, str]:
    """Split a message into the name of the signing rule that was broken, if it begins with one, and the rest."""
    match = _RULE.fullmatch(message) if code == ResultCode.INVALID_SIGNATURE else None
    return ("", message) if match is None else (match["rule"], match["rest"])
