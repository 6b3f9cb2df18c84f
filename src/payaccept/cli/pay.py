"""`payaccept pay`: take a payment in one of the three ways."""

import secrets
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import segno
import typer

from payaccept.cli import inquire, terminal
from payaccept.cli.merchant_options import (
    BaseUrlOption,
    ClientIdOption,
    JsonOption,
    KeyOption,
    KeyVersionOption,
    MerchantOption,
    credentials_of,
)
from payaccept.sdk import (
    Amount,
    Client,
    CreateQROrderRequest,
    CreateQROrderResponse,
    DescribedOrder,
    InquiryPaymentResponse,
    LinkPayCreateRequest,
    LinkPayCreateResponse,
    PayacceptError,
    RetailPayRequest,
    RetailPayResponse,
)
from payaccept.sdk.requests import request_of
from payaccept.wire.codes import ResultStatus
from payaccept.wire.messages import CreateRequest

PRODUCT_CODE: Final = "51051000101000100031"
_POLL_S: Final = 0.5

Answer = CreateQROrderResponse | RetailPayResponse | LinkPayCreateResponse


class Kind(StrEnum):
    """The three ways to be paid."""

    QR = "qr"
    RETAIL = "retail"
    LINK = "link"


def pay(
    kind: Annotated[Kind, typer.Argument(help="A QR code to show, a scanned wallet code, or a link.")],
    *,
    value: Annotated[int, typer.Option("--value", help="Minor units: 1999 is EUR 19.99.")] = 1999,
    currency: Annotated[str, typer.Option("--currency", metavar="CODE")] = "EUR",
    request_id: Annotated[
        str | None, typer.Option("--request-id", metavar="ID", help="paymentRequestId; made up by default.")
    ] = None,
    description: Annotated[str, typer.Option("--description", metavar="TEXT")] = "payaccept pay",
    notify_url: Annotated[
        str | None, typer.Option("--notify-url", metavar="URL", help="Where the webhook goes.")
    ] = None,
    redirect_url: Annotated[
        str | None, typer.Option("--redirect-url", metavar="URL", help="link: where the customer goes after.")
    ] = None,
    auth_code: Annotated[
        str | None, typer.Option("--auth-code", metavar="CODE", help="retail: the scanned wallet code.")
    ] = None,
    product_code: Annotated[str, typer.Option("--product-code", metavar="CODE")] = PRODUCT_CODE,
    script: Annotated[
        str | None,
        typer.Option("--script", metavar="JSON", help='Sandbox: script the payment, {"outcome": "FAIL"}.'),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="NAME", help="SUCCESS, FAIL, MANUAL or UNKNOWN.")
    ] = None,
    result_code: Annotated[
        str | None, typer.Option("--result-code", metavar="CODE", help="What it fails with.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Inquire until the payment is final.")] = False,
    wait_s: Annotated[float, typer.Option("--wait-s", min=0, help="Give up waiting after this.")] = 120.0,
    merchant: MerchantOption = None,
    base_url: BaseUrlOption = None,
    client_id: ClientIdOption = None,
    key_version: KeyVersionOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Take a payment. In the sandbox it completes by itself after about 2 seconds."""
    of = credentials_of(merchant, base_url, client_id, key_version, key)
    if kind is Kind.RETAIL and auth_code is None:
        auth_code = _made_up_auth_code(of.client_id)
    payment_request_id = request_id or f"cli-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
    request = _request(
        kind,
        auth_code,
        redirect_url,
        payment_request_id=payment_request_id,
        amount=Amount(currency, value),
        product_code=product_code,
        order=DescribedOrder(order_description=description),
        notify_url=notify_url,
        extend_info=_extend_info(script, outcome, result_code),
    )
    payment = None
    try:
        with Client(of.base_url, of.client_id, of.key_version, of.private_key) as client:
            answer = _take(client, request)
            if not json:
                _show(answer, payment_request_id, request.payment_amount)
            if wait:
                payment = _wait_for(client, payment_request_id, wait_s)
    except PayacceptError as error:
        if json:
            terminal.print_error_json(error)
        raise
    _conclude(answer, payment, payment_request_id, json=json)


def _made_up_auth_code(client_id: str) -> str:
    """Make a code up: the sandbox's wallet pays any at once. Elsewhere a customer shows it."""
    if not client_id.startswith("sandbox_"):
        raise terminal.Mistake("pay retail takes --auth-code CODE, scanned from the customer's wallet")
    return f"28{secrets.randbelow(10**16):016}"


def _request(kind: Kind, auth_code: str | None, redirect_url: str | None, **fields: Any) -> CreateRequest:
    if auth_code is not None and kind is not Kind.RETAIL:
        raise terminal.Mistake("--auth-code belongs to `pay retail`")
    if redirect_url is not None and kind is not Kind.LINK:
        raise terminal.Mistake("--redirect-url belongs to `pay link`")
    match kind:
        case Kind.QR:
            return request_of(CreateQROrderRequest, None, fields)
        case Kind.RETAIL:
            return request_of(RetailPayRequest, None, {**fields, "auth_code": auth_code})
        case Kind.LINK:
            return request_of(LinkPayCreateRequest, None, {**fields, "redirect_url": redirect_url})


def _take(client: Client, request: CreateRequest) -> Answer:
    match request:
        case CreateQROrderRequest():
            return client.create_qr_order(request)
        case RetailPayRequest():
            return client.retail_pay(request)
        case LinkPayCreateRequest():
            return client.link_pay_create(request)


def _extend_info(script: str | None, outcome: str | None, result_code: str | None) -> dict[str, Any] | None:
    """Make the sandbox's script; whether its members make sense is the sandbox's to say."""
    if script is not None and (outcome or result_code):
        raise terminal.Mistake("give --script, or --outcome and --result-code, not both")
    if script is not None:
        try:
            members = msgspec.json.decode(script, type=dict[str, Any])
        except msgspec.DecodeError:
            raise terminal.Mistake('--script takes a JSON object such as \'{"outcome": "FAIL"}\'') from None
        return members if "sandbox" in members else {"sandbox": members}
    if result_code is not None and outcome is None:
        outcome = "FAIL"
    chosen = {"outcome": outcome, "resultCode": result_code}
    members = {name: content for name, content in chosen.items() if content is not None}
    return {"sandbox": members} if members else None


def _wait_for(client: Client, payment_request_id: str, wait_s: float) -> InquiryPaymentResponse:
    """Inquire until the payment is final, or the time is over."""
    give_up_at_s = time.monotonic() + wait_s
    while True:
        payment = client.inquire(payment_request_id=payment_request_id)
        if payment.payment_status != "PROCESSING" or time.monotonic() + _POLL_S > give_up_at_s:
            return payment
        time.sleep(_POLL_S)


def _show(answer: Answer, payment_request_id: str, amount: Amount) -> None:
    match answer:
        case CreateQROrderResponse():
            told: list[tuple[str, object]] = [("paymentId", answer.payment_id), ("qrCode", answer.qr_code)]
        case RetailPayResponse():
            told = [("paymentId", answer.payment_id), ("paymentTime", answer.payment_time)]
        case LinkPayCreateResponse():
            told = [("acquirementId", answer.acquirement_id), ("redirectUrl", answer.redirect_url)]
    paid = answer.result.result_status is ResultStatus.S
    terminal.heading("Paid" if paid else "Accepted, not final yet")
    shown_amount = f"{amount.currency} {amount.value} (minor units)"
    terminal.rows([("paymentRequestId", payment_request_id), ("amount", shown_amount), *told])
    if isinstance(answer, CreateQROrderResponse):
        terminal.say()
        segno.make(answer.qr_code, micro=False, error="l").terminal(compact=True, border=2)


def _conclude(
    answer: Answer, payment: InquiryPaymentResponse | None, payment_request_id: str, *, json: bool
) -> None:
    """Print how it ended; a payment that was waited for and was not paid is a failure of this command."""
    if json:
        told = msgspec.to_builtins(answer)
        terminal.print_json(told if payment is None else {**told, "payment": payment})
    elif payment is not None:
        terminal.say()
        inquire.show(payment)
    else:
        terminal.say(f"\nNext: payaccept inquire --request-id {payment_request_id}")
    if payment is not None and payment.payment_status == "PROCESSING":
        raise terminal.Failed(f"{payment_request_id} is still PROCESSING; waited long enough")
    if payment is not None and payment.payment_status == "FAIL":
        raise terminal.Failed(f"the payment failed: {payment.failure_message or payment.failure_code}")
