"""What a customer gets to see of a payment: what it is for, and how it stands."""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from payaccept.domain.payment import Payment, PaymentState
from payaccept.wire import messages as m
from payaccept.wire.codes import ResultCode

_BIDI_CONTROLS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_NOT_SHOWN: Final = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *_BIDI_CONTROLS), " ")


class BillState(StrEnum):
    """How a bill stands for its customer. EXPIRED also before the worker has made it final."""

    OPEN = "OPEN"
    PAID = "PAID"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class Bill(Struct, frozen=True, kw_only=True):
    """A payment without anything that is the merchant's own business.

    `due_at` is when an open one is decided by itself, if nobody decides earlier; None when it is not.
    """

    payment_id: str
    operation: m.Operation
    merchant_name: str
    description: str | None
    amount: m.Amount
    state: BillState
    failure_code: ResultCode | None
    redirect_url: str | None
    expires_at: datetime
    due_at: datetime | None
    final_at: datetime | None

    @property
    def is_final(self) -> bool:
        """Whether the payment's state never changes again."""
        return self.final_at is not None


def bill_of(payment: Payment, merchant_name: str, now: datetime) -> Bill:
    """Return what the payment's customer may know of it."""
    told = msgspec.json.decode(payment.request_body, type=_Told)
    due_at = payment.due_at if payment.due_at is not None and payment.due_at < payment.expires_at else None
    return Bill(
        payment_id=payment.payment_id,
        operation=payment.operation,
        merchant_name=merchant_name,
        description=_in_one_line(told.order.order_description),
        amount=payment.amount,
        state=_state(payment, now),
        failure_code=payment.failure_code,
        redirect_url=told.payment_redirect_url,
        expires_at=payment.expires_at,
        due_at=due_at,
        final_at=payment.final_at,
    )


class _Order(Struct, frozen=True, rename="camel"):
    order_description: str = ""


class _Told(Struct, frozen=True, rename="camel"):
    """The members of a request that are for the customer; it was checked when it was taken."""

    order: _Order = _Order()
    payment_redirect_url: str | None = None


def _state(payment: Payment, now: datetime) -> BillState:
    if payment.state is PaymentState.SUCCESS:
        return BillState.PAID
    if payment.failure_code in {ResultCode.ORDER_EXPIRED, ResultCode.QR_EXPIRED}:
        return BillState.EXPIRED
    if payment.state is PaymentState.FAIL:
        return BillState.FAILED
    return BillState.OPEN if now < payment.expires_at else BillState.EXPIRED


def _in_one_line(text: str) -> str | None:
    """Return a text without what breaks a line or turns the direction of writing; None when nothing is left."""
    return " ".join(text.translate(_NOT_SHOWN).split()) or None
