"""`payaccept inquire`: ask how a payment stands."""

from typing import Annotated

import typer

from payaccept.cli import terminal
from payaccept.cli.merchant_options import (
    BaseUrlOption,
    ClientIdOption,
    JsonOption,
    KeyOption,
    KeyVersionOption,
    MerchantOption,
    credentials_of,
)
from payaccept.sdk import Client, InquiryPaymentResponse, PayacceptError


def inquire(
    *,
    payment_id: Annotated[
        str | None, typer.Option("--payment-id", metavar="ID", help="paymentId or acquirementId.")
    ] = None,
    request_id: Annotated[
        str | None, typer.Option("--request-id", metavar="ID", help="paymentRequestId.")
    ] = None,
    merchant: MerchantOption = None,
    base_url: BaseUrlOption = None,
    client_id: ClientIdOption = None,
    key_version: KeyVersionOption = None,
    key: KeyOption = None,
    json: JsonOption = False,
) -> None:
    """Ask how a payment stands, by either of its identifiers."""
    if not payment_id and not request_id:
        raise terminal.Mistake("inquire takes --payment-id ID or --request-id ID")
    of = credentials_of(merchant, base_url, client_id, key_version, key)
    try:
        with Client(of.base_url, of.client_id, of.key_version, of.private_key) as client:
            payment = client.inquire(payment_id=payment_id, payment_request_id=request_id)
    except PayacceptError as error:
        if json:
            terminal.print_error_json(error)
        raise
    if json:
        terminal.print_json(payment)
    else:
        show(payment)


def show(payment: InquiryPaymentResponse) -> None:
    """Print how a payment stands."""
    terminal.heading(payment.payment_status, good=payment.payment_status != "FAIL")
    amount = payment.payment_amount
    terminal.rows(
        [
            ("paymentId", payment.payment_id),
            ("paymentRequestId", payment.payment_request_id),
            ("amount", f"{amount.currency} {amount.value} (minor units)"),
            ("paymentTime", payment.payment_time),
            ("failureCode", payment.failure_code),
            ("failureMessage", payment.failure_message),
        ]
    )
