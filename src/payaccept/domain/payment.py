"""A payment's life: PROCESSING, then SUCCESS or FAIL, once.

┌────────────┐  paid      ┌─────────┐
create ─▶│ PROCESSING │───────────▶│ SUCCESS │
└────────────┘            └─────────┘
│ declined, expired ┌─────────┐
└──────────────────▶│  FAIL   │  keeps the result code of its failure
└─────────┘
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct

from payaccept.domain import identifiers
from payaccept.domain.merchant import Environment
from payaccept.wire import messages as m
from payaccept.wire import timestamps
from payaccept.wire.codes import TABLE, ResultCode, ResultStatus

_encode = msgspec.json.Encoder().encode

LATE_WEBHOOK_S: Final = 10.0


class PaymentState(StrEnum):
    """Where a payment stands."""

    PROCESSING = "PROCESSING"
    SUCCESS = "SUCCESS"
    FAIL = "FAIL"


class SignedBody(Struct, frozen=True):
    """A body as its merchant signed it, with what else it takes to verify the signature again at any time."""

    body: bytes
    request_time: str
    key_version: int
    signature: bytes


class Payment(Struct, frozen=True, kw_only=True):
    """A payment as it is stored. `request_body` is what the merchant signed, byte for byte.

    `due_at` is when the worker next looks at it; None once it is final. `answer` is the body of the
    first answer; None while a retailPay is still being answered. `request_time`, `key_version` and
    `signature` are those of the request; None where they were not kept, or are not needed.
    """

    bucket: int
    payment_id: str
    client_id: str
    payment_request_id: str
    operation: m.Operation
    state: PaymentState
    currency: str
    amount_minor: int
    notify_url: str | None
    external_store_id: str | None
    extend_info: str | None
    request_body: bytes
    answer: bytes | None
    failure_code: ResultCode | None
    event_id: str | None
    created_at: datetime
    expires_at: datetime
    due_at: datetime | None
    final_at: datetime | None
    request_time: str | None = None
    key_version: int | None = None
    signature: bytes | None = None

    @property
    def amount(self) -> m.Amount:
        """The amount as the wire has it."""
        return m.Amount(currency=self.currency, value=self.amount_minor)


class Standing(Struct, frozen=True):
    """What an inquiry tells of a payment."""

    payment_id: str
    client_id: str
    payment_request_id: str
    state: PaymentState
    currency: str
    amount_minor: int
    failure_code: ResultCode | None
    final_at: datetime | None


class Paid(Struct, frozen=True, tag=True):
    """The wallet has taken the customer's money."""


class Pending(Struct, frozen=True, tag=True):
    """The customer has not decided yet. `ask_again_after_s` is None when only the deadline counts."""

    ask_again_after_s: float | None


class Declined(Struct, frozen=True, tag=True):
    """The wallet has refused for good."""

    code: ResultCode


class Unknown(Struct, frozen=True, tag=True):
    """The wallet did not say. Ask again; never charge again."""

    ask_again_after_s: float


WalletAnswer = Paid | Pending | Declined | Unknown
Final_ = Paid | Declined


class NewDelivery(Struct, frozen=True, kw_only=True):
    """Where an event is sent, and the faults the sandbox was asked to play."""

    url: str
    lane: str
    first_at: datetime
    faults: tuple[str, ...]


class Settlement(Struct, frozen=True, kw_only=True):
    """A payment's step to its final state with the event and the delivery it gives birth to."""

    bucket: int
    payment_id: str
    client_id: str
    state: PaymentState
    failure_code: ResultCode | None
    final_at: datetime
    answer: bytes | None
    event_id: str
    event_type: m.EventType
    event_body: bytes
    delivery: NewDelivery | None


def settle(
    payment: Payment,
    outcome: Final_,
    *,
    now: datetime,
    environment: Environment,
    webhook_url: str | None,
    faults: tuple[str, ...] = (),
    answer: bytes | None = None,
) -> Settlement:
    """Decide the final state of a payment that is PROCESSING, and write its one event.

    `webhook_url` is the merchant's endpoint, used where the request named none. `answer` replaces the
    stored answer of a retailPay that becomes final while it is being answered.
    """
    state, code = PaymentState.SUCCESS, None
    if isinstance(outcome, Declined):
        state, code = PaymentState.FAIL, outcome.code
    event_id = identifiers.new(identifiers.EVENT, payment.bucket, int(now.timestamp() * 1000))
    event_type: m.EventType = "payment.succeeded" if code is None else "payment.failed"
    at = timestamps.write(now)
    notification = m.Notification(
        event_id=event_id,
        event_type=event_type,
        create_time=at,
        environment=environment.value,
        client_id=payment.client_id,
        payment_id=payment.payment_id,
        acquirement_id=identifiers.acquirement_of(payment.payment_id),
        payment_request_id=payment.payment_request_id,
        merchant_trans_id=payment.payment_request_id,
        payment_status="SUCCESS" if code is None else "FAIL",
        payment_time=at,
        payment_amount=payment.amount,
        result=result(code or ResultCode.SUCCESS),
        merchant_data=UNSET
        if payment.external_store_id is None
        else m.MerchantData(external_store_id=payment.external_store_id),
    )
    url = payment.notify_url or webhook_url
    late = timedelta(seconds=LATE_WEBHOOK_S if "late" in faults else 0)
    return Settlement(
        bucket=payment.bucket,
        payment_id=payment.payment_id,
        client_id=payment.client_id,
        state=state,
        failure_code=code,
        final_at=now,
        answer=answer,
        event_id=event_id,
        event_type=event_type,
        event_body=_encode(notification),
        delivery=None
        if url is None
        else NewDelivery(
            url=url,
            lane=lane_of(payment.client_id, url),
            first_at=now + late,
            faults=tuple(fault for fault in faults if fault != "late"),
        ),
    )


def lane_of(client_id: str, url: str) -> str:
    """Return the lane of a destination: merchant, scheme, host and port."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{client_id} {parts.scheme}://{parts.hostname}:{port}"


def result(code: ResultCode, message: str | None = None) -> m.Result:
    """Write a result with its code's status, and its code's message unless there is a better one."""
    meaning = TABLE[code]
    return m.Result(
        result_status=ResultStatus(meaning.status),
        result_code=code,
        result_message=message or meaning.message,
    )
