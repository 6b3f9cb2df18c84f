"""What a reply means: a typed answer, a refusal, or nobody knows.

Status codes of HTTP tell what happened to the request, `resultStatus` what happened to the payment;
a failure's body holds `result` alone.
"""

import email.utils
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn, TypeVar

import msgspec

from payaccept.sdk import errors
from payaccept.wire.codes import ResultCode
from payaccept.wire.messages import Message

A = TypeVar("A", bound=Message)

HTTP_OK: Final = 200
HTTP_TOO_MANY: Final = 429
HTTP_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, read to its end. Header names are in lower case."""

    http_status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def request_id(self) -> str | None:
        """What the service calls this request in its log."""
        return self.headers.get("request-id")


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No answer, or not all of it. `was_sent` is false when surely not one byte of the request arrived."""

    reason: str
    was_sent: bool


Reply = Answer | NoAnswer


class AnsweredResult(Message, frozen=True):
    """`result` as an older SDK must read it: a code that it does not know yet is a code all the same."""

    result_status: str
    result_code: str = ""
    result_message: str = ""


class _OnlyResult(Message, frozen=True):
    result: AnsweredResult


_REFUSALS: Final[dict[str, type[errors.RequestRefused]]] = {
    ResultCode.PARAM_ILLEGAL: errors.ParametersRefused,
    ResultCode.INVALID_SIGNATURE: errors.SignatureRefused,
    ResultCode.TIMESTAMP_INVALID: errors.TimestampRefused,
    ResultCode.INVALID_CLIENT_ID: errors.CredentialsRefused,
    ResultCode.ACCESS_DENIED: errors.CredentialsRefused,
    ResultCode.ORDER_NOT_EXIST: errors.PaymentNotFound,
    ResultCode.REPEAT_REQUEST: errors.RepeatRequest,
}


def result_of(answer: Answer, payment_request_id: str | None) -> AnsweredResult:
    """Read the member that every answer carries.

    Raises: AnswerMalformed.
    """
    return decode(answer, _OnlyResult, payment_request_id).result


def decode(answer: Answer, answer_type: type[A], payment_request_id: str | None) -> A:
    """Read an answer's body as a type.

    Raises: AnswerMalformed.
    """
    try:
        return msgspec.json.decode(answer.body, type=answer_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = f"HTTP {answer.http_status} came with no answer of this service ({error})"
        raise malformed(answer, why, payment_request_id) from None


def malformed(answer: Answer, why: str, payment_request_id: str | None) -> errors.AnswerMalformed:
    """Say what is wrong with an answer."""
    return errors.AnswerMalformed(
        why,
        payment_request_id=payment_request_id,
        http_status=answer.http_status,
        request_id=answer.request_id,
    )


def refuse(answer: Answer, result: AnsweredResult, now: datetime) -> NoReturn:
    """Raise what a 4xx means.

    Raises: RequestRefused, as the most telling of its kinds.
    """
    if answer.http_status == HTTP_TOO_MANY:
        raise errors.RateLimited(
            result.result_code,
            result.result_message,
            http_status=answer.http_status,
            request_id=answer.request_id,
            retry_after_s=retry_after_s(answer, now),
        )
    message = result.result_message
    if result.result_code == ResultCode.TIMESTAMP_INVALID:
        message = f"{message.rstrip('.')}; this machine's clock says {now:%Y-%m-%dT%H:%M:%SZ}: set it"
    kind = _REFUSALS.get(result.result_code, errors.RequestRefused)
    raise kind(result.result_code, message, http_status=answer.http_status, request_id=answer.request_id)


def retry_after_s(answer: Answer, now: datetime) -> float | None:
    """Read Retry-After, in seconds or as a date; None when it is absent or unreadable."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        # Nobody waits for more than a year, and a float holds no number of a thousand digits.
        return float(text[:9])
    try:
        at = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())
