"""A call to the service without its I/O: generators that yield signed requests and are sent the replies.

Both clients drive these very generators, so that signing, retries and the reading of answers exist once.
How one call goes:

    serialise once ─→ sign afresh, send ─→ reply
                          ↑                 ├─ S or A ───────────────→ typed answer
                          │                 ├─ F, HTTP 200 ──────────→ PaymentDeclined
                          ├─ wait ←─ retry? ├─ none, 5xx, 429 ───────→ the last one: OutcomeUnknown, …
                          │                 ├─ 409 after our retry ──→ inquire ─→ the lost answer
                                            ├─ U, HTTP 200 ──────────→ inquire ─→ the outcome
                                            └─ any other 4xx ────────→ RequestRefused

A create may be sent again because its paymentRequestId lets the service tell a repetition from a new
payment. As soon as an attempt *may* have been carried out the call is in doubt, and from then on no
refusal of a later attempt is taken for the outcome of the first.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from payaccept import __version__
from payaccept.sdk import errors
from payaccept.sdk.answers import (
    HTTP_OK,
    HTTP_SERVER_ERROR,
    HTTP_TOO_MANY,
    Answer,
    NoAnswer,
    Reply,
    decode,
    malformed,
    refuse,
    result_of,
    retry_after_s,
)
from payaccept.sdk.credentials import Credentials
from payaccept.wire import signing, timestamps
from payaccept.wire.codes import ResultCode, ResultStatus
from payaccept.wire.messages import (
    PATH_PREFIX,
    CreateQROrderRequest,
    CreateQROrderResponse,
    CreateRequest,
    InquiryPaymentRequest,
    InquiryPaymentResponse,
    LinkPayCreateRequest,
    LinkPayCreateResponse,
    Request,
    Result,
    RetailPayRequest,
    RetailPayResponse,
)

FIRST_WAIT_S: Final = 0.25
LONGEST_WAIT_S: Final = 5.0
SHORTEST_ATTEMPT_S: Final = 0.05  # a wait that overslept leaves no time, and a timeout must be positive
USER_AGENT: Final = f"payaccept-python/{__version__}"


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the driver to post these bytes, and to send back an Answer or NoAnswer within `timeout_s`."""

    url: str
    headers: dict[str, str]
    body: bytes
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask the driver to sleep, and to send back None."""

    seconds: float


T = TypeVar("T")
CreateAnswer = TypeVar("CreateAnswer", CreateQROrderResponse, RetailPayResponse, LinkPayCreateResponse)
Flow = Generator[Send | Wait, Reply | None, T]


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance, given from outside: UTC now, seconds that never go back, a number in [0, 1)."""

    now: Callable[[], datetime]
    elapsed_s: Callable[[], float]
    chance: Callable[[], float]


@dataclass(frozen=True, slots=True)
class _LastReply:
    """The reply that ended the attempts, and whether the service may have acted on one of them."""

    reply: Reply
    in_doubt: bool


@dataclass(frozen=True, slots=True)
class Calls:
    """The four operations as flows.

    `timeout_s` bounds one attempt, `retries` counts the attempts after the first. All attempts and the
    waits between them take at most `timeout_s * (retries + 1)`; an inquiry after a lost answer as much again.
    """

    credentials: Credentials
    clock: Clock
    timeout_s: float
    retries: int

    def __post_init__(self) -> None:
        """Refuse limits that limit nothing."""
        if not 0 < self.timeout_s < float("inf") or self.retries < 0:
            raise ValueError("timeout_s must be a positive number of seconds, retries 0 or more")

    def create_qr_order(self, request: CreateQROrderRequest) -> Flow[CreateQROrderResponse]:
        """Create a QR order."""
        answer = yield from self._create("createQROrder", request, CreateQROrderResponse)
        if isinstance(answer, InquiryPaymentResponse):
            raise errors.AlreadyCreated(answer)
        return answer

    def link_pay_create(self, request: LinkPayCreateRequest) -> Flow[LinkPayCreateResponse]:
        """Create an order that is paid by a link."""
        answer = yield from self._create("linkPayCreate", request, LinkPayCreateResponse)
        if isinstance(answer, InquiryPaymentResponse):
            raise errors.AlreadyCreated(answer)
        return answer

    def retail_pay(self, request: RetailPayRequest) -> Flow[RetailPayResponse]:
        """Charge a wallet's code."""
        answer = yield from self._create("retailPay", request, RetailPayResponse)
        return _as_retail_answer(answer) if isinstance(answer, InquiryPaymentResponse) else answer

    def inquire(self, request: InquiryPaymentRequest) -> Flow[InquiryPaymentResponse]:
        """Ask how a payment stands. Raises ServiceUnavailable when no answer is to be had."""
        last = yield from self._attempts("inquiryPayment", request, self._deadline())
        reply = last.reply
        if isinstance(reply, NoAnswer):
            raise errors.ServiceUnavailable(f"the service gave no answer: {reply.reason}")
        if reply.http_status >= HTTP_SERVER_ERROR:
            raise errors.ServiceUnavailable(_busy(reply))
        result = result_of(reply, None)
        if reply.http_status != HTTP_OK:
            refuse(reply, result, self.clock.now())
        answer = decode(reply, InquiryPaymentResponse, None)
        if request.payment_request_id not in (msgspec.UNSET, answer.payment_request_id):
            raise malformed(reply, "the answer is about another payment", None)
        return answer

    def _create(
        self, operation: str, request: CreateRequest, answer_type: type[CreateAnswer]
    ) -> Flow[CreateAnswer | InquiryPaymentResponse]:
        """Create a payment; an InquiryPaymentResponse stands for an answer that was lost."""
        request_id = request.payment_request_id
        last = yield from self._attempts(operation, request, self._deadline())
        reply = last.reply
        if isinstance(reply, NoAnswer):
            why = f"the service gave no answer: {reply.reason}"
            if last.in_doubt:
                raise errors.OutcomeUnknown(why, payment_request_id=request_id)
            raise errors.ServiceUnavailable(why)
        if reply.http_status >= HTTP_SERVER_ERROR:
            raise _unknown(reply, _busy(reply), request_id)
        result = result_of(reply, request_id)
        if reply.http_status == HTTP_OK:
            match result.result_status:
                case ResultStatus.S | ResultStatus.A:
                    return _checked(decode(reply, answer_type, request_id), reply, request_id)
                case ResultStatus.U:
                    return (yield from self._resolve(request, reply))
            raise errors.PaymentDeclined(
                result.result_code,
                result.result_message,
                payment_request_id=request_id,
                request_id=reply.request_id,
            )
        if last.in_doubt and result.result_code == ResultCode.REPEAT_REQUEST:
            return (yield from self._resolve(request, reply))
        try:
            refuse(reply, result, self.clock.now())
        except errors.RequestRefused as refusal:
            if last.in_doubt:
                why = f"an attempt may have been carried out, and the next was refused ({refusal})"
                raise _unknown(reply, why, request_id) from refusal
            raise

    def _resolve(self, request: CreateRequest, reply: Answer) -> Flow[InquiryPaymentResponse]:
        """Ask what became of a create that was, or may have been, carried out."""
        request_id = request.payment_request_id
        try:
            payment = yield from self.inquire(InquiryPaymentRequest(payment_request_id=request_id))
        except errors.PayacceptError as error:
            raise _unknown(reply, f"inquiring failed too ({error})", request_id) from error
        if payment.payment_amount != request.payment_amount:
            # Not this call's payment: our attempt never arrived, and the id had been used before.
            raise errors.RepeatRequest(
                ResultCode.REPEAT_REQUEST,
                f"{request_id} is a payment of {payment.payment_amount.currency} "
                f"{payment.payment_amount.value} (minor units), made by another call",
                http_status=reply.http_status,
                request_id=reply.request_id,
            )
        return payment

    def _attempts(self, operation: str, request: Request, deadline_s: float) -> Flow[_LastReply]:
        """Send until a reply is worth keeping, or attempts or time run out."""
        path = f"{self.credentials.path_prefix}{PATH_PREFIX}{operation}"
        body = msgspec.json.encode(request)  # once: every attempt sends the very same bytes
        in_doubt = False
        attempt = 0
        while True:
            timeout_s = max(SHORTEST_ATTEMPT_S, min(self.timeout_s, deadline_s - self.clock.elapsed_s()))
            reply = yield Send(f"{self.credentials.origin}{path}", self._headers(path, body), body, timeout_s)
            if reply is None:
                raise TypeError("a Send is answered by an Answer or NoAnswer")
            if not _worth_a_retry(reply):
                return _LastReply(reply, in_doubt)
            in_doubt = in_doubt or _may_have_been_carried_out(reply)
            wait_s = self._wait_s(reply, attempt)
            if attempt == self.retries or self.clock.elapsed_s() + wait_s >= deadline_s:
                return _LastReply(reply, in_doubt)
            yield Wait(wait_s)
            attempt += 1

    def _deadline(self) -> float:
        return self.clock.elapsed_s() + self.timeout_s * (self.retries + 1)

    def _wait_s(self, reply: Reply, attempt: int) -> float:
        """How long before the next attempt: doubling with jitter, never less than the service asks."""
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**attempt)
        backoff = longest * (0.5 + self.clock.chance() / 2)
        asked = retry_after_s(reply, self.clock.now()) if isinstance(reply, Answer) else None
        return backoff if asked is None else asked + backoff

    def _headers(self, path: str, body: bytes) -> dict[str, str]:
        """Sign for one attempt; a minute-old signature of an earlier attempt is never sent again."""
        credentials = self.credentials
        request_time = timestamps.write(self.clock.now())
        string = signing.request_string("POST", path, credentials.client_id, request_time, body)
        signature = signing.sign(credentials.private_key, string)
        return {
            "Client-Id": credentials.client_id,
            "Request-Time": request_time,
            "Signature": signing.write_header(credentials.key_version, signature),
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": USER_AGENT,
        }


def _worth_a_retry(reply: Reply) -> bool:
    return (
        isinstance(reply, NoAnswer)
        or reply.http_status >= HTTP_SERVER_ERROR
        or reply.http_status == HTTP_TOO_MANY
    )


def _may_have_been_carried_out(reply: Reply) -> bool:
    if isinstance(reply, NoAnswer):
        return reply.was_sent
    return reply.http_status >= HTTP_SERVER_ERROR


def _busy(answer: Answer) -> str:
    try:
        result = result_of(answer, None)
    except errors.AnswerMalformed:
        return f"the service answered HTTP {answer.http_status}"
    return f"the service answered {result.result_code}: {result.result_message}".rstrip(".")


def _unknown(reply: Answer, why: str, payment_request_id: str) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(why, payment_request_id=payment_request_id, request_id=reply.request_id)


def _checked(answer: CreateAnswer, reply: Answer, request_id: str) -> CreateAnswer:
    """Let an answer pass that echoes our paymentRequestId."""
    echoed = (
        answer.merchant_trans_id if isinstance(answer, LinkPayCreateResponse) else answer.payment_request_id
    )
    if echoed != request_id:
        raise malformed(reply, "the answer is about another payment", request_id)
    return answer


def _as_retail_answer(payment: InquiryPaymentResponse) -> RetailPayResponse:
    """Write the answer of retailPay that was lost, from how the payment stands."""
    match payment.payment_status:
        case "SUCCESS":
            code = ResultCode.SUCCESS
        case "PROCESSING":
            code = ResultCode.ACCEPTED
        case "FAIL":
            failure, message = payment.failure_code, payment.failure_message
            raise errors.PaymentDeclined(
                ResultCode.PROCESS_FAIL if failure is msgspec.UNSET else failure,
                ResultCode.PROCESS_FAIL.meaning.message if message is msgspec.UNSET else message,
                payment_request_id=payment.payment_request_id,
                payment=payment,
            )
    return RetailPayResponse(
        result=Result(code.meaning.status, code, code.meaning.message),
        payment_request_id=payment.payment_request_id,
        payment_id=payment.payment_id,
        payment_amount=payment.payment_amount,
        payment_time=payment.payment_time,
    )
