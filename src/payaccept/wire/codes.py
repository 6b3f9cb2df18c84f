"""The one table of result codes: what each means for the payment and for the HTTP request.

HTTP status tells what happened to the *request*; `resultStatus` tells what happened to the *payment*.
"""

from enum import StrEnum
from typing import NamedTuple


class ResultStatus(StrEnum):
    """S success, F failure, U unknown (ask again), A accepted (the outcome comes later)."""

    S = "S"
    F = "F"
    U = "U"
    A = "A"


class Meaning(NamedTuple):
    """One row of the table: result status, HTTP status, the message when there is nothing better to say."""

    status: ResultStatus
    http: int
    message: str


class ResultCode(StrEnum):
    """Every code an answer, an inquiry or a notification can carry."""

    SUCCESS = "SUCCESS"
    ACCEPTED = "ACCEPTED"

    PARAM_ILLEGAL = "PARAM_ILLEGAL"
    INVALID_SIGNATURE = "INVALID_SIGNATURE"
    TIMESTAMP_INVALID = "TIMESTAMP_INVALID"
    INVALID_CLIENT_ID = "INVALID_CLIENT_ID"
    ACCESS_DENIED = "ACCESS_DENIED"
    ORDER_NOT_EXIST = "ORDER_NOT_EXIST"
    REPEAT_REQUEST = "REPEAT_REQUEST"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    REQUEST_TRAFFIC_EXCEED_LIMIT = "REQUEST_TRAFFIC_EXCEED_LIMIT"

    INVALID_CODE = "INVALID_CODE"
    AUTH_CODE_ALREADY_USED = "AUTH_CODE_ALREADY_USED"
    QR_EXPIRED = "QR_EXPIRED"
    ORDER_EXPIRED = "ORDER_EXPIRED"
    USER_REJECTED = "USER_REJECTED"
    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE"
    RISK_REJECT = "RISK_REJECT"
    CURRENCY_NOT_SUPPORT = "CURRENCY_NOT_SUPPORT"
    PAYMENT_AMOUNT_EXCEED_LIMIT = "PAYMENT_AMOUNT_EXCEED_LIMIT"
    PROCESS_FAIL = "PROCESS_FAIL"

    SYSTEM_BUSY = "SYSTEM_BUSY"
    UNKNOWN_EXCEPTION = "UNKNOWN_EXCEPTION"

    @property
    def meaning(self) -> Meaning:
        """This code's row of the table."""
        return TABLE[self]


_S, _F, _U, _A = ResultStatus.S, ResultStatus.F, ResultStatus.U, ResultStatus.A

TABLE: dict[ResultCode, Meaning] = {
    ResultCode.SUCCESS: Meaning(_S, 200, "Success."),
    ResultCode.ACCEPTED: Meaning(_A, 200, "Accepted; the outcome comes by webhook, or ask inquiryPayment."),
    # The request was refused: no payment was made or changed by it.
    ResultCode.PARAM_ILLEGAL: Meaning(_F, 400, "The request body is not acceptable."),
    ResultCode.INVALID_SIGNATURE: Meaning(_F, 401, "The signature does not verify."),
    ResultCode.TIMESTAMP_INVALID: Meaning(_F, 401, "Request-Time is not acceptable."),
    ResultCode.INVALID_CLIENT_ID: Meaning(_F, 401, "Client-Id is not known here, or not active."),
    ResultCode.ACCESS_DENIED: Meaning(_F, 403, "These credentials do not open this environment."),
    ResultCode.ORDER_NOT_EXIST: Meaning(_F, 404, "No such payment."),
    ResultCode.REPEAT_REQUEST: Meaning(_F, 409, "paymentRequestId was already used."),
    ResultCode.NOT_FOUND: Meaning(_F, 404, "No such path."),
    ResultCode.METHOD_NOT_ALLOWED: Meaning(_F, 405, "This path does not take that method."),
    ResultCode.UNSUPPORTED_MEDIA_TYPE: Meaning(_F, 415, "Content-Type must be application/json."),
    ResultCode.PAYLOAD_TOO_LARGE: Meaning(_F, 413, "The request body is larger than 64 KiB."),
    ResultCode.REQUEST_TRAFFIC_EXCEED_LIMIT: Meaning(_F, 429, "Too many requests."),
    # The request was fine and the payment failed.
    ResultCode.INVALID_CODE: Meaning(
        _F, 200, "The wallet does not know this code, or it is older than 60 s."
    ),
    ResultCode.AUTH_CODE_ALREADY_USED: Meaning(_F, 200, "This wallet code has been used."),
    ResultCode.QR_EXPIRED: Meaning(_F, 200, "The QR code has expired."),
    ResultCode.ORDER_EXPIRED: Meaning(_F, 200, "The order was not paid in time."),
    ResultCode.USER_REJECTED: Meaning(_F, 200, "The customer declined the payment."),
    ResultCode.INSUFFICIENT_BALANCE: Meaning(_F, 200, "The customer's balance does not suffice."),
    ResultCode.RISK_REJECT: Meaning(_F, 200, "The payment was refused by risk control."),
    ResultCode.CURRENCY_NOT_SUPPORT: Meaning(_F, 200, "The wallet does not take this currency."),
    ResultCode.PAYMENT_AMOUNT_EXCEED_LIMIT: Meaning(_F, 200, "The amount is over the customer's limit."),
    ResultCode.PROCESS_FAIL: Meaning(_F, 200, "The payment failed."),
    # Nobody can say yet: inquire, or send the same request again.
    ResultCode.SYSTEM_BUSY: Meaning(_U, 503, "Busy; nothing is known to have been done. Try again."),
    ResultCode.UNKNOWN_EXCEPTION: Meaning(_U, 500, "An unexpected error; quote the Request-Id."),
}

PAYMENT_FAILURES: frozenset[ResultCode] = frozenset(
    code
    for code, meaning in TABLE.items()
    if meaning.status is _F and meaning.http == 200  # noqa: PLR2004
)
"""The codes a payment can fail with; the rest refuse a request."""
