"""The story of a payment in the order of time: what was asked, what was answered, how it ended, who was told."""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from payaccept.domain import scenario
from payaccept.domain.delivery import DeliveryState
from payaccept.domain.doctor import Examination
from payaccept.domain.errors import PaymentNotFound
from payaccept.domain.event import AttemptMade, Event
from payaccept.domain.merchant import Environment
from payaccept.domain.payment import Payment, PaymentState
from payaccept.domain.scenario import Scenario
from payaccept.domain.traffic import skew_ms
from payaccept.operations.doctor import Doctor
from payaccept.operations.events import Asker, Events, Owner
from payaccept.operations.ports import PaymentStore
from payaccept.wire import auth_codes, signing
from payaccept.wire import messages as m
from payaccept.wire.codes import ResultCode, ResultStatus

ATTEMPTS_TOLD: Final = 20
"""The last so many attempts are told; the event's own page has more."""


class Received(Struct, frozen=True, kw_only=True, tag="received"):
    """The request that made the payment. Auth codes in `body` and `signing_string` are masked.

    `headers` and the rest that is None were not kept before the schema's version 4.
    """

    at: datetime
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    is_masked: bool
    signing_string: bytes | None
    key_version: int | None
    skew_ms: int | None


class Checked(Struct, frozen=True, tag="checked"):
    """The checks that the request passed, made again now with the keys as they were then; None: not kept."""

    at: datetime
    examination: Examination | None


class Asked(Struct, frozen=True, tag="asked"):
    """The wallet has the payment. `script` is what the sandbox's wallet was told to do; None in production."""

    at: datetime
    script: Scenario | None
    operation: str


class Answered(Struct, frozen=True, tag="answered"):
    """Our first answer, with the result in it, as far as it can be read.

    `body` is None when the wallet did not answer a retailPay in time, or has not yet.
    """

    at: datetime
    body: bytes | None
    result: m.Result | None


class Settled(Struct, frozen=True, tag="settled"):
    """The payment's final state, with the code of its failure."""

    at: datetime
    state: PaymentState
    failure_code: ResultCode | None


class Notified(Struct, frozen=True, tag="notified"):
    """The event that tells of the final state. Its body is None when it is not kept any more."""

    at: datetime
    event: Event
    body: bytes | None


class Attempted(Struct, frozen=True, tag="attempted"):
    """One attempt at delivering the event. Its `answer` is for the operator only."""

    at: datetime
    made: AttemptMade


class Expected(Struct, frozen=True, tag="expected"):
    """What comes next, at the latest at `at`: the wallet is asked again, the order expires, the event is sent."""

    at: datetime
    what: str


Step = Received | Checked | Asked | Answered | Settled | Notified | Attempted | Expected

LOOK: Final = "look"
EXPIRY: Final = "expiry"
DELIVERY: Final = "delivery"


class Story(Struct, frozen=True, kw_only=True):
    """A payment and its steps in the order of time. Attempts before the first that is told: `untold_attempts`."""

    payment: Payment
    event: Event | None
    steps: tuple[Step, ...]
    untold_attempts: int

    @property
    def received(self) -> Received:
        """The request that made it."""
        return next(step for step in self.steps if isinstance(step, Received))

    @property
    def is_moving(self) -> bool:
        """Whether something more will happen by itself."""
        if self.event is None:
            return True
        delivery = self.event.delivery
        return self.event.sequence is None or (
            delivery is not None and delivery.state is DeliveryState.PENDING
        )


class PaymentStories:
    """Tells payments' stories."""

    def __init__(
        self, payments: PaymentStore, events: Events, doctor: Doctor, environment: Environment
    ) -> None:
        self._payments = payments
        self._events = events
        self._doctor = doctor
        self._environment = environment

    async def get(self, asker: Asker, payment_id: str) -> Story:
        """Return the story of a payment: a merchant's own, or to the operator anybody's.

        Raises: PaymentNotFound, OutcomeOpen.
        """
        payment = await self._payments.find_payment_by_id(payment_id)
        # Another merchant's payment is answered like one that does not exist.
        if payment is None or (isinstance(asker, Owner) and payment.client_id != asker.client_id):
            raise PaymentNotFound("there is no such payment")
        received = _received(payment)
        steps: list[Step] = [received, Checked(payment.created_at, await self._examine(payment, received))]
        event, attempts = None, list[AttemptMade]()
        asked, answered = self._asked(payment), _answered(payment)
        # An order is answered before its customer comes; at a till the wallet is waited for.
        steps += [asked, answered] if payment.operation == "retailPay" else [answered, asked]
        if payment.event_id is not None and payment.final_at is not None:
            details = await self._events.get_event(asker, payment.event_id)
            event, attempts = details.event, details.attempts
            settled = Settled(payment.final_at, payment.state, payment.failure_code)
            steps.insert(len(steps) if answered.at < settled.at else steps.index(asked) + 1, settled)
            steps.append(Notified(event.created_at, event, details.body))
        told = attempts[-ATTEMPTS_TOLD:]
        steps += [Attempted(made.started_at, made) for made in told]
        return Story(
            payment=payment,
            event=event,
            steps=(*sorted(steps, key=lambda step: step.at), *_expected(payment, event)),
            untold_attempts=len(attempts) - len(told),
        )

    async def _examine(self, payment: Payment, received: Received) -> Examination | None:
        examination = await self._doctor.examine_accepted(payment)
        # Its own has the body as it came.
        return None if examination is None else replace(examination, signing_string=received.signing_string)

    def _asked(self, payment: Payment) -> Asked:
        script = None
        if self._environment is Environment.SANDBOX:
            script, _ = scenario.read(UNSET if payment.extend_info is None else payment.extend_info)
        return Asked(payment.created_at, script, payment.operation)


def _received(payment: Payment) -> Received:
    path = m.PATH_PREFIX + payment.operation
    body = auth_codes.mask_named(payment.request_body)
    headers: tuple[tuple[str, str], ...] = (("Client-Id", payment.client_id),)
    signing_string = skew = None
    if payment.request_time is not None and payment.key_version is not None and payment.signature is not None:
        signature = signing.write_header(payment.key_version, payment.signature)
        headers += (("Request-Time", payment.request_time), ("Signature", signature))
        signing_string = signing.request_string("POST", path, payment.client_id, payment.request_time, body)
        skew = skew_ms(payment.request_time, payment.created_at)
    return Received(
        at=payment.created_at,
        path=path,
        headers=headers,
        body=body,
        is_masked=body != payment.request_body,
        signing_string=signing_string,
        key_version=payment.key_version,
        skew_ms=skew,
    )


def _answered(payment: Payment) -> Answered:
    if payment.answer is None:
        return Answered(payment.created_at, None, None)
    try:
        result = msgspec.json.decode(payment.answer, type=m.ErrorResponse).result
        # Read as a merchant reads it, who may meet codes of a later version; ours are all known.
        if result.result_code is not UNSET:
            result = replace(result, result_code=ResultCode(result.result_code))
    except ValueError:  # nothing that this version writes; its bytes are shown all the same
        return Answered(payment.created_at, payment.answer, None)
    # One that says how the payment has ended was given with its end.
    with_its_end = payment.operation == "retailPay" and result.result_status is not ResultStatus.A
    at = payment.final_at if with_its_end and payment.final_at is not None else payment.created_at
    return Answered(at, payment.answer, result)


def _expected(payment: Payment, event: Event | None) -> list[Expected]:
    """Return what comes next, by itself."""
    if payment.due_at is not None:
        look = [Expected(payment.due_at, LOOK)] if payment.due_at < payment.expires_at else []
        return [*look, Expected(payment.expires_at, EXPIRY)]
    delivery = None if event is None else event.delivery
    return [] if delivery is None or delivery.next_at is None else [Expected(delivery.next_at, DELIVERY)]
