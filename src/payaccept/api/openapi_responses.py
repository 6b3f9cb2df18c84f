"""The answers of the OpenAPI description: for each HTTP status the codes of the table, and the headers."""

from typing import Any, Final

from payaccept.api import openapi_examples as examples
from payaccept.api.openapi_schemas import answer, codes_of, ref, retail_answer
from payaccept.domain.merchant import RATE_WINDOW_S
from payaccept.wire.codes import ResultCode

Json = dict[str, Any]

_JSON_TYPE: Final = "application/json"
# These two answer for paths and methods that the description does not have.
_ROUTING: Final = (ResultCode.NOT_FOUND, ResultCode.METHOD_NOT_ALLOWED)
_RATE_LIMITED: Final = ("Retry-After", "RateLimit-Policy", "RateLimit")

# name → HTTP status, what it means, the headers besides Request-Id
_REFUSALS: Final[dict[str, tuple[int, str, tuple[str, ...]]]] = {
    "BadRequest": (
        400,
        "The body is not acceptable. The message lists every problem, the first by its JSON path.",
        (),
    ),
    "Unauthorized": (401, "Who is asking could not be established.", ()),
    "Forbidden": (403, "The credentials do not open this environment.", ()),
    "PaymentNotFound": (
        404,
        "This merchant has no such payment, or the two identifiers name different ones.",
        (),
    ),
    "Duplicate": (
        409,
        (
            "This merchant used the paymentRequestId before, in this operation or another. A merchant"
            " that has chosen replay gets the first answer again for the same body on the same operation."
        ),
        (),
    ),
    "TooLarge": (413, "The body has more than 64 KiB; the rest of it was not read.", ()),
    "UnsupportedMediaType": (415, "Content-Type is missing, given twice, or not application/json.", ()),
    "TooManyRequests": (
        429,
        (
            "The merchant's rate limit; or, with Retry-After alone, too many requests from this source"
            " address that failed authentication."
        ),
        _RATE_LIMITED,
    ),
    "UnexpectedError": (500, "A bug on our side. Inquire before creating again.", ()),
    "Busy": (
        503,
        (
            "Overload, or a part of the service is away: nothing was done, or it is not known whether it"
            " was. Send the same request again, or inquire."
        ),
        ("Retry-After",),
    ),
}
CREATE: Final = (
    "BadRequest",
    "Unauthorized",
    "Forbidden",
    "Duplicate",
    "TooLarge",
    "UnsupportedMediaType",
    "TooManyRequests",
    "UnexpectedError",
    "Busy",
)
INQUIRE: Final = tuple("PaymentNotFound" if name == "Duplicate" else name for name in CREATE)
DOCUMENT: Final = ("UnexpectedError", "Busy")


def headers() -> Json:
    """Return `components.headers`."""
    seconds = {"type": "integer", "minimum": 1}
    return {
        "Request-Id": {
            "description": "Names this request in logs and in the portal; quote it when you ask about it.",
            "required": True,
            "schema": {"type": "string", "pattern": examples.REQUEST_ID_PATTERN},
            "example": examples.REQUEST_ID,
        },
        "Retry-After": {
            "description": "After how many seconds to send it again.",
            "required": True,
            "schema": seconds,
            "example": 7,
        },
        "RateLimit-Policy": {
            "description": f"The limit: `q` requests in any `w` seconds ({RATE_WINDOW_S}).",
            "required": True,
            "schema": {"type": "string", "pattern": '^"(merchant|address)";q=[0-9]+;w=[0-9]+$'},
            "example": f'"merchant";q=100;w={RATE_WINDOW_S}',
        },
        "RateLimit": {
            "description": "What is left of it: `r` requests now, the next in `t` seconds.",
            "required": True,
            "schema": {"type": "string", "pattern": '^"(merchant|address)";r=[0-9]+;t=[0-9]+$'},
            "example": '"merchant";r=0;t=7',
        },
        "Allow": {
            "description": "The methods that the path takes.",
            "required": True,
            "schema": {"type": "string"},
            "example": "POST",
        },
        "Cache-Control": {
            "description": "How long a copy may be kept.",
            "required": True,
            "schema": {"type": "string"},
            "example": "public, max-age=30",
        },
    }


def responses() -> Json:
    """Return `components.responses`: every refusal, and the two that belong to no path."""
    described = {
        name: _refusal([code for code in codes_of(http) if code not in _ROUTING], text, names)
        for name, (http, text, names) in _REFUSALS.items()
    }
    described["UnknownPath"] = _refusal([ResultCode.NOT_FOUND], "There is nothing at this path.", ())
    described["MethodNotAllowed"] = _refusal(
        [ResultCode.METHOD_NOT_ALLOWED], "The path does not take this method.", ("Allow",)
    )
    return described


def refusals(names: tuple[str, ...]) -> Json:
    """Refer to refusals by their HTTP status."""
    return {str(_REFUSALS[name][0]): {"$ref": f"#/components/responses/{name}"} for name in names}


def ok(description: str, schema: Json, shown: Json | None = None, names: tuple[str, ...] = ()) -> Json:
    """Describe an answer with status 200."""
    content = {"schema": schema} | ({} if shown is None else {"examples": shown})
    return {"description": description, "headers": _headers(names), "content": {_JSON_TYPE: content}}


def success_of(operation: str) -> Json:
    """Describe what an operation answers with status 200."""
    described = {
        "createQROrder": (
            "Accepted. The outcome comes by webhook, or ask inquiryPayment.",
            answer("CreateQROrderResponse", [ResultCode.ACCEPTED]),
        ),
        "retailPay": (
            (
                "`S`: paid. `A`: the customer must confirm; the outcome comes by webhook. `F`: declined;"
                " the failed payment exists and can be inquired."
            ),
            retail_answer(),
        ),
        "linkPayCreate": (
            "Accepted. The outcome comes by webhook, or ask inquiryPayment.",
            answer("LinkPayCreateResponse", [ResultCode.ACCEPTED]),
        ),
        "inquiryPayment": (
            "The inquiry succeeded; paymentStatus tells how the payment stands.",
            ref("InquiryPaymentResponse"),
        ),
    }
    return ok(*described[operation], examples.ANSWERS[operation])


def _refusal(codes: list[ResultCode], description: str, names: tuple[str, ...]) -> Json:
    return ok(description, answer("ErrorResponse", codes), examples.failures(codes), names)


def _headers(names: tuple[str, ...]) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("Request-Id", *names)}
