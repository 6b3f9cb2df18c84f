"""The flow without I/O: when a call is sent again, and what is believed of the replies."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from payaccept.sdk import errors
from payaccept.sdk.answers import Answer, Reply
from payaccept.sdk.credentials import Credentials
from payaccept.sdk.flow import Calls, Clock, Flow, Send, Wait
from payaccept.sdk.http_exchange import no_answer
from payaccept.wire import signing
from payaccept.wire.codes import ResultCode, ResultStatus
from payaccept.wire.messages import (
    Amount,
    CreateQROrderRequest,
    DescribedOrder,
    InquiryPaymentRequest,
    LinkPayCreateRequest,
    RetailPayRequest,
)
from unit.test_sdk_fake_service import BASE_URL, CLIENT_ID, KEY, FakeService, refusal, refused, timed_out

QR = CreateQROrderRequest("ORDER_CODE", "p", "CGCP", "order-1", Amount("EUR", 1999))
RETAIL = RetailPayRequest("p", "order-1", "2812345", Amount("EUR", 1999))
LINK = LinkPayCreateRequest("p", "order-1", Amount("EUR", 1999), DescribedOrder(order_description="Tea"))
INQUIRY = InquiryPaymentRequest(payment_request_id="order-1")
CREATES = [QR, RETAIL, LINK]


@dataclass
class Driver:
    """Runs flows against the fake service on a clock that only waiting moves."""

    service: FakeService = field(default_factory=FakeService)
    retries: int = 3
    base_url: str = BASE_URL
    elapsed_s: float = 0.0
    sent: list[Send] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def calls(self) -> Calls:
        credentials = Credentials(self.base_url, CLIENT_ID, 1, KEY)
        clock = Clock(self.now, lambda: self.elapsed_s, lambda: 0.0)
        return Calls(credentials, clock, timeout_s=10.0, retries=self.retries)

    def now(self) -> datetime:
        return datetime(2026, 1, 31, 12, 0, tzinfo=UTC) + timedelta(seconds=self.elapsed_s)

    def take(self, request: Any) -> Any:
        calls = self.calls()
        match request:
            case CreateQROrderRequest():
                return self.run(calls.create_qr_order(request))
            case RetailPayRequest():
                return self.run(calls.retail_pay(request))
            case LinkPayCreateRequest():
                return self.run(calls.link_pay_create(request))
        return self.run(calls.inquire(request))

    def run(self, flow: Flow[Any]) -> Any:
        reply: Reply | None = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as end:
                return end.value
            if isinstance(step, Wait):
                self.waits.append(step.seconds)
                self.elapsed_s += step.seconds
                reply = None
            else:
                self.sent.append(step)
                reply = self._exchange(step)

    def _exchange(self, send: Send) -> Reply:
        request = httpx.Request("POST", send.url, headers=send.headers, content=send.body)
        try:
            response = self.service.handle(request)
        except httpx.TransportError as error:
            return no_answer(error)
        return Answer(response.status_code, response.headers, response.content)


def driver(*accidents: Callable[[], httpx.Response], **options: Any) -> Driver:
    service = FakeService(accidents=list(accidents), **options)
    return Driver(service)


def busy() -> httpx.Response:
    return refusal(503, "SYSTEM_BUSY", "U")


def limited() -> httpx.Response:
    return refusal(429, "REQUEST_TRAFFIC_EXCEED_LIMIT", **{"Retry-After": "7"})


def test_a_qr_order_is_answered_with_its_code() -> None:
    answer = driver().take(QR)
    assert answer.qr_code.startswith("https://pay.test/q/pay_")
    assert answer.result.result_status is ResultStatus.A


def test_a_link_is_answered_with_where_to_send_the_customer() -> None:
    assert driver().take(LINK).redirect_url.startswith("https://pay.test/pay/")


def test_a_retail_payment_is_answered_as_paid() -> None:
    assert driver().take(RETAIL).payment_time == "2026-01-31T12:00:00Z"


def test_an_inquiry_tells_how_the_payment_stands() -> None:
    d = driver()
    d.take(QR)
    assert d.take(INQUIRY).payment_status == "SUCCESS"


def test_the_body_is_compact_json_and_the_signature_covers_it() -> None:
    d = driver()
    d.take(QR)
    assert d.sent[0].body == (
        b'{"bizType":"ORDER_CODE","productCode":"p","codeType":"CGCP","paymentRequestId":"order-1",'
        b'"paymentAmount":{"currency":"EUR","value":1999}}'
    )
    assert d.sent[0].headers["Content-Type"] == "application/json"


def test_a_path_before_v1_is_signed_too() -> None:
    d = driver()
    d.base_url = "https://host.test/gateway/"
    d.take(QR)
    assert d.sent[0].url == "https://host.test/gateway/v1/payments/createQROrder"


@pytest.mark.parametrize("accident", [refused, timed_out, busy, lambda: httpx.Response(502, text="<html>")])
@pytest.mark.parametrize("request_", [*CREATES])
def test_a_create_is_sent_again_with_the_same_bytes_and_a_fresh_signature(
    accident: Callable[[], httpx.Response], request_: Any
) -> None:
    d = driver(accident, accident)
    d.take(request_)
    first, _, third = d.sent
    assert first.body == third.body
    assert first.headers["Request-Time"] != third.headers["Request-Time"]
    assert first.headers["Signature"] != third.headers["Signature"]


def test_waits_double_and_have_jitter() -> None:
    d = driver(*[timed_out] * 3)
    d.take(QR)
    assert d.waits == [0.125, 0.25, 0.5]


def test_retry_after_is_honoured() -> None:
    d = driver(limited)
    d.take(QR)
    assert d.waits == [7.125]


def test_retry_after_may_be_a_date() -> None:
    d = driver(lambda: refusal(503, "SYSTEM_BUSY", "U", **{"Retry-After": "Sat, 31 Jan 2026 12:00:09 GMT"}))
    d.take(QR)
    assert d.waits == [9.125]


def test_a_wait_past_the_deadline_is_not_begun() -> None:
    d = driver(lambda: refusal(429, "REQUEST_TRAFFIC_EXCEED_LIMIT", **{"Retry-After": "41"}))
    with pytest.raises(errors.RateLimited) as caught:
        d.take(QR)
    assert caught.value.retry_after_s == 41
    assert d.waits == []


def test_no_attempt_may_take_longer_than_what_is_left() -> None:
    d = driver(lambda: refusal(429, "REQUEST_TRAFFIC_EXCEED_LIMIT", **{"Retry-After": "35"}))
    d.take(QR)
    assert d.sent[1].timeout_s == pytest.approx(40 - 35.125)


@pytest.mark.parametrize(
    ("code", "http_status", "kind"),
    [
        ("PARAM_ILLEGAL", 400, errors.ParametersRefused),
        ("INVALID_SIGNATURE", 401, errors.SignatureRefused),
        ("TIMESTAMP_INVALID", 401, errors.TimestampRefused),
        ("INVALID_CLIENT_ID", 401, errors.CredentialsRefused),
        ("ACCESS_DENIED", 403, errors.CredentialsRefused),
        ("ORDER_NOT_EXIST", 404, errors.PaymentNotFound),
        ("REPEAT_REQUEST", 409, errors.RepeatRequest),
        ("NOT_FOUND", 404, errors.RequestRefused),
        ("A_CODE_OF_TOMORROW", 400, errors.RequestRefused),
    ],
)
def test_a_refusal_is_raised_at_once_and_never_sent_again(
    code: str, http_status: int, kind: type[errors.RequestRefused]
) -> None:
    d = driver(lambda: refusal(http_status, code))
    with pytest.raises(errors.RequestRefused) as caught:
        d.take(QR)
    assert type(caught.value) is kind
    assert (caught.value.result_code, caught.value.http_status) == (code, http_status)
    assert caught.value.request_id == "req-1"
    assert len(d.sent) == 1


def test_a_clock_that_is_wrong_is_told_so() -> None:
    with pytest.raises(errors.TimestampRefused, match="this machine's clock says 2026-01-31T12:00:00Z"):
        driver(lambda: refusal(401, "TIMESTAMP_INVALID")).take(QR)


@pytest.mark.parametrize("request_", [QR, LINK])
def test_an_order_whose_answer_was_lost_is_told_to_exist(request_: Any) -> None:
    d = driver(lost=1, status="PROCESSING")
    with pytest.raises(errors.AlreadyCreated) as caught:
        d.take(request_)
    assert caught.value.payment.payment_request_id == "order-1"
    assert len(d.service.payments) == 1


def test_a_retail_payment_whose_answer_was_lost_is_learned_by_inquiry() -> None:
    d = driver(lost=1)
    answer = d.take(RETAIL)
    assert answer.result.result_code == ResultCode.SUCCESS
    assert answer.payment_amount == RETAIL.payment_amount
    assert [send.url.rpartition("/")[2] for send in d.sent] == ["retailPay", "retailPay", "inquiryPayment"]


def test_a_retail_payment_still_open_after_a_lost_answer_is_accepted() -> None:
    answer = driver(lost=1, status="PROCESSING").take(RETAIL)
    assert answer.result.result_status is ResultStatus.A
    assert answer.payment_time is msgspec.UNSET


def test_a_declined_retail_payment_whose_answer_was_lost_is_declined() -> None:
    with pytest.raises(errors.PaymentDeclined) as caught:
        driver(lost=1, status="FAIL").take(RETAIL)
    assert caught.value.result_code == "INSUFFICIENT_BALANCE"
    assert caught.value.payment is not None


def test_a_declined_retail_payment_is_raised_and_not_sent_again() -> None:
    d = driver(status="FAIL")
    with pytest.raises(errors.PaymentDeclined) as caught:
        d.take(RETAIL)
    assert (caught.value.result_code, caught.value.payment_request_id) == ("INSUFFICIENT_BALANCE", "order-1")
    assert len(d.sent) == 1


@pytest.mark.parametrize("request_", CREATES)
def test_an_answer_with_a_code_of_tomorrow_is_an_answer(request_: Any) -> None:
    d = driver()
    honest = d.service.handle

    def newer(request: httpx.Request) -> httpx.Response:
        answer = honest(request).json()
        answer["result"]["resultCode"] = "A_CODE_OF_TOMORROW"
        return httpx.Response(200, json=answer)

    d.service.handle = newer  # type: ignore[method-assign]
    assert d.take(request_).result.result_code == "A_CODE_OF_TOMORROW"


@pytest.mark.parametrize("lost", [0, 1])
def test_a_payment_that_failed_for_a_reason_of_tomorrow_is_declined_with_it(lost: int) -> None:
    d = driver(lost=lost, status="FAIL", failure_code="A_CODE_OF_TOMORROW")
    with pytest.raises(errors.PaymentDeclined) as caught:
        d.take(RETAIL)
    assert caught.value.result_code == "A_CODE_OF_TOMORROW"
    assert d.take(INQUIRY).failure_code == "A_CODE_OF_TOMORROW"


def test_an_unknown_outcome_of_the_wallet_is_inquired_not_charged_again() -> None:
    d = driver()
    d.take(RETAIL)
    d.service.accidents.append(lambda: refusal(200, "PROCESS_UNKNOWN", "U"))
    d.sent.clear()
    assert d.take(RETAIL).result.result_status is ResultStatus.S
    assert [send.url.rpartition("/")[2] for send in d.sent] == ["retailPay", "inquiryPayment"]


def test_a_repetition_after_a_refused_connection_is_not_ours() -> None:
    d = driver(refused, lambda: refusal(409, "REPEAT_REQUEST"))
    with pytest.raises(errors.RepeatRequest):
        d.take(RETAIL)


def test_a_repetition_after_the_rate_limit_is_not_ours() -> None:
    d = driver(limited, lambda: refusal(409, "REPEAT_REQUEST"))
    with pytest.raises(errors.RepeatRequest):
        d.take(RETAIL)


def test_a_payment_of_another_amount_is_not_taken_for_ours() -> None:
    d = driver()
    d.take(RETAIL)
    d.service.accidents.append(busy)
    other = msgspec.structs.replace(RETAIL, payment_amount=Amount("EUR", 5))
    with pytest.raises(errors.RepeatRequest, match="made by another call"):
        d.take(other)


@pytest.mark.parametrize("accident", [timed_out, busy, lambda: httpx.Response(504)])
def test_when_attempts_run_out_the_outcome_is_unknown(accident: Callable[[], httpx.Response]) -> None:
    d = driver(*[accident] * 4)
    with pytest.raises(errors.OutcomeUnknown, match="inquire with paymentRequestId order-1") as caught:
        d.take(QR)
    assert caught.value.payment_request_id == "order-1"
    assert len(d.sent) == 4


def test_one_doubtful_attempt_among_refused_connections_leaves_the_outcome_unknown() -> None:
    with pytest.raises(errors.OutcomeUnknown):
        driver(timed_out, refused, refused, refused).take(QR)


def test_a_service_never_reached_has_done_nothing() -> None:
    with pytest.raises(errors.ServiceUnavailable, match="connection refused"):
        driver(*[refused] * 4).take(QR)


@pytest.mark.parametrize("code", ["ACCESS_DENIED", "TIMESTAMP_INVALID", "PARAM_ILLEGAL"])
def test_a_refused_retry_says_nothing_of_the_first_attempt(code: str) -> None:
    with pytest.raises(errors.OutcomeUnknown) as caught:
        driver(timed_out, lambda: refusal(403, code)).take(RETAIL)
    assert isinstance(caught.value.__cause__, errors.RequestRefused)


def test_a_lost_answer_and_a_failing_inquiry_leave_the_outcome_unknown() -> None:
    d = driver(timed_out, lambda: refusal(409, "REPEAT_REQUEST"))
    with pytest.raises(errors.OutcomeUnknown, match="ORDER_NOT_EXIST"):
        d.take(RETAIL)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"result":{"resultStatus":"A"}}', b"\xff"])
def test_an_unreadable_answer_leaves_the_outcome_unknown(body: bytes) -> None:
    with pytest.raises(errors.AnswerMalformed) as caught:
        driver(lambda: httpx.Response(200, content=body)).take(QR)
    assert caught.value.http_status == 200
    assert isinstance(caught.value, errors.OutcomeUnknown)


def test_an_answer_about_another_payment_is_not_believed() -> None:
    d = driver()
    d.take(QR)
    lone = d.service.payments.pop("order-1")
    result = {"resultStatus": "A"}
    other = {"result": result, **lone, "paymentRequestId": "order-2", "qrCode": "https://pay.test/q/1"}
    d.service.accidents.append(lambda: httpx.Response(200, json=other))
    with pytest.raises(errors.AnswerMalformed, match="another payment"):
        d.take(QR)


@pytest.mark.parametrize("accident", [timed_out, refused, busy])
def test_an_inquiry_without_an_answer_has_done_nothing(accident: Callable[[], httpx.Response]) -> None:
    d = driver(*[accident] * 4)
    with pytest.raises(errors.ServiceUnavailable):
        d.take(INQUIRY)
    assert len(d.sent) == 4


def test_an_inquiry_that_finds_nothing_says_so() -> None:
    with pytest.raises(errors.PaymentNotFound):
        driver().take(INQUIRY)


def test_without_retries_nothing_is_sent_again() -> None:
    d = driver(timed_out)
    d.retries = 0
    with pytest.raises(errors.OutcomeUnknown):
        d.take(QR)
    assert len(d.sent) == 1


def test_limits_that_limit_nothing_are_refused() -> None:
    credentials = Credentials(BASE_URL, CLIENT_ID, 1, KEY)
    clock = Driver().calls().clock
    for timeout_s, retries in [(0, 3), (float("inf"), 3), (float("nan"), 3), (1, -1)]:
        with pytest.raises(ValueError, match="timeout_s"):
            Calls(credentials, clock, timeout_s, retries)


def test_every_attempt_verifies_under_the_public_key() -> None:
    d = driver(timed_out)
    d.take(QR)
    for send in d.sent:
        header = signing.parse_header(send.headers["Signature"])
        string = signing.request_string(
            "POST", "/v1/payments/createQROrder", CLIENT_ID, send.headers["Request-Time"], send.body
        )
        signing.verify(KEY.public_key(), header.signature, string)
