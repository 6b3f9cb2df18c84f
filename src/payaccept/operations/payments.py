"""Taking a payment, asking about one, and making one final."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from payaccept import trace
from payaccept.domain import identifiers
from payaccept.domain import payment as life
from payaccept.domain.app_links import app_links, qr_prefix, target_path
from payaccept.domain.errors import DuplicateRequest, OutcomeUnknown, PaymentFinal, PaymentNotFound
from payaccept.domain.merchant import DuplicatePolicy, Environment, Merchant, bucket_for
from payaccept.domain.payment import (
    Declined,
    Paid,
    Payment,
    PaymentState,
    Pending,
    Settlement,
    SignedBody,
    Standing,
)
from payaccept.operations.ports import PaymentStore, WakeWorker, Wallet
from payaccept.wire import messages as m
from payaccept.wire import timestamps
from payaccept.wire.codes import ResultCode

CHARGE_TIMEOUT_S: Final = 8.0
REPLAY_PATIENCE_S: Final = 4.0
_REPLAY_POLL_S: Final = 0.05

_encode = msgspec.json.Encoder().encode
_ACCEPTED: Final = life.result(ResultCode.ACCEPTED)
_SUCCESS: Final = life.result(ResultCode.SUCCESS)


class Rules(Struct, frozen=True, kw_only=True):
    """What differs between deployments. `web_base_url` is without a slash at its end."""

    environment: Environment
    web_base_url: str
    order_expiry_s: float


class Payments:
    """The business verbs of payments.

    `wake_worker` tells the worker, in whatever process it runs, that something may be due. `on_settled` is
    told of every payment that was made final here.
    """

    def __init__(
        self,
        store: PaymentStore,
        wallet: Wallet,
        rules: Rules,
        *,
        wake_worker: WakeWorker,
        on_settled: Callable[[Settlement], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._wallet = wallet
        self._rules = rules
        self._wake_worker = wake_worker
        self._on_settled = on_settled
        self._qr_prefix = qr_prefix(rules.web_base_url)

    async def create_qr_order(
        self, merchant: Merchant, request: m.CreateQROrderRequest, signed: SignedBody, now: datetime
    ) -> bytes:
        """Create an order and answer with its QR code. Raises: DuplicateRequest, OutcomeOpen."""
        payment_id, bucket = self._identify(merchant, request.payment_request_id, now)
        answer = _encode(
            m.CreateQROrderResponse(
                _ACCEPTED, request.payment_request_id, payment_id, self._qr_prefix + payment_id
            )
        )
        return await self._create_order(
            merchant, request, "createQROrder", signed, now, payment_id, bucket, answer
        )

    async def create_link(
        self, merchant: Merchant, request: m.LinkPayCreateRequest, signed: SignedBody, now: datetime
    ) -> bytes:
        """Create an order and answer with what opens the wallet. Raises: DuplicateRequest, OutcomeOpen."""
        payment_id, bucket = self._identify(merchant, request.payment_request_id, now)
        web = self._rules.web_base_url
        answer = _encode(
            m.LinkPayCreateResponse(
                result=_ACCEPTED,
                merchant_trans_id=request.payment_request_id,
                redirect_url=web + target_path(payment_id),
                app_links=app_links(payment_id, web),
                acquirement_id=identifiers.acquirement_of(payment_id),
            )
        )
        return await self._create_order(
            merchant, request, "linkPayCreate", signed, now, payment_id, bucket, answer
        )

    async def pay_retail(
        self, merchant: Merchant, request: m.RetailPayRequest, signed: SignedBody, now: datetime
    ) -> bytes:
        """Charge a scanned code and answer with what the wallet says.

        Raises: DuplicateRequest; OutcomeOpen, also when the wallet did not answer: the payment exists
        then, and the worker finds out.
        """
        payment_id, bucket = self._identify(merchant, request.payment_request_id, now)
        # Should this process die, the worker asks the wallet once the charge cannot be under way any more.
        due_at = now + timedelta(seconds=CHARGE_TIMEOUT_S + 2)
        payment = self._new_payment(
            merchant, request, "retailPay", signed, now, payment_id, bucket, None, due_at
        )
        if not await self._store.insert_payment(payment):
            return await self._answer_duplicate(merchant, payment)
        try:
            async with asyncio.timeout(CHARGE_TIMEOUT_S):
                outcome = await self._wallet.charge(payment, request.payment_auth_code, now)
        except TimeoutError:
            raise OutcomeUnknown(
                "the wallet did not answer in time; inquire how the payment stands"
            ) from None
        if isinstance(outcome, Paid | Declined):
            answer = _retail_answer(payment, outcome, now)
            if await self.finish(payment, outcome, merchant.webhook_url, now, answer=answer):
                return answer
            return await self._answer_duplicate(merchant, payment, replay=True)
        wait_s = outcome.ask_again_after_s
        due_at = payment.expires_at if wait_s is None else now + timedelta(seconds=wait_s)
        due_at = min(due_at, payment.expires_at)
        if isinstance(outcome, Pending):
            accepted = _encode(
                m.RetailPayResponse(_ACCEPTED, payment.payment_request_id, payment_id, payment.amount)
            )
            await self._store.record_answer(payment, accepted, due_at)
            self._wake_worker()
            return accepted
        await self._store.record_answer(payment, None, due_at)
        self._wake_worker()
        raise OutcomeUnknown("the wallet did not answer in time; inquire how the payment stands")

    async def inquire(self, merchant: Merchant, request: m.InquiryPaymentRequest) -> bytes:
        """Tell how a payment stands. Raises: PaymentNotFound, OutcomeOpen."""
        standing: Standing | None = None
        if request.payment_id is not UNSET:
            payment_id = identifiers.payment_of(request.payment_id)
            if payment_id is not None:
                standing = await self._store.find_standing_by_id(payment_id)
        elif request.payment_request_id is not UNSET:
            bucket = bucket_for(merchant.base_bucket, merchant.spread, request.payment_request_id)
            standing = await self._store.find_standing_by_request(
                bucket, merchant.client_id, request.payment_request_id
            )
        # Another merchant's payment is answered like one that does not exist.
        if standing is None or standing.client_id != merchant.client_id:
            raise PaymentNotFound("there is no such payment")
        if request.payment_request_id not in {UNSET, standing.payment_request_id}:
            raise PaymentNotFound("paymentId and paymentRequestId name different payments")
        trace.name_payment(standing.payment_id)
        return _encode(_inquiry_answer(standing))

    async def finish(
        self,
        payment: Payment,
        outcome: Paid | Declined,
        webhook_url: str | None,
        now: datetime,
        *,
        answer: bytes | None = None,
    ) -> bool:
        """Make a payment final with its event and its delivery; False when it was final already."""
        settlement = life.settle(
            payment,
            outcome,
            now=now,
            environment=self._rules.environment,
            webhook_url=webhook_url,
            faults=self._wallet.webhook_faults(payment.extend_info),
            answer=answer,
        )
        settled = await self._store.settle(settlement)
        if settled:
            trace.name_payment(payment.payment_id, settlement.event_id)
            self._on_settled(settlement)
            if settlement.delivery is not None:
                self._wake_worker(settlement.delivery.lane)
        return settled

    async def play_customer(
        self,
        text: str,
        outcome: Paid | Declined,
        webhook_url_of: Callable[[str], Awaitable[str | None]],
        now: datetime,
    ) -> Payment:
        """Pay or decline, as its customer, the payment named by an id or by the text of its QR code.

        Returns: the payment as it was. Raises: PaymentNotFound, PaymentFinal.
        """
        payment_id = identifiers.payment_of(text.rstrip("/").rpartition("/")[2])
        payment = None if payment_id is None else await self._store.find_payment_by_id(payment_id)
        if payment is None:
            raise PaymentNotFound(f"there is no payment {text[:100]}")
        final = payment.state is not PaymentState.PROCESSING
        if not final and now >= payment.expires_at:  # the worker says so to the merchant, when it looks
            raise PaymentFinal(f"{payment.payment_id} has expired")
        if final or not await self.finish(payment, outcome, await webhook_url_of(payment.client_id), now):
            raise PaymentFinal(f"{payment.payment_id} is final already; a final state never changes")
        return payment

    def _identify(self, merchant: Merchant, payment_request_id: str, now: datetime) -> tuple[str, int]:
        bucket = bucket_for(merchant.base_bucket, merchant.spread, payment_request_id)
        payment_id = identifiers.new(identifiers.PAYMENT, bucket, int(now.timestamp() * 1000))
        trace.name_payment(payment_id)
        return payment_id, bucket

    async def _create_order(
        self,
        merchant: Merchant,
        request: m.CreateQROrderRequest | m.LinkPayCreateRequest,
        operation: m.Operation,
        signed: SignedBody,
        now: datetime,
        payment_id: str,
        bucket: int,
        answer: bytes,
    ) -> bytes:
        expires_at = now + timedelta(seconds=self._rules.order_expiry_s)
        extend_info = None if request.extend_info is UNSET else request.extend_info
        look_after_s = self._wallet.first_look_after_s(extend_info)
        due_at = (
            expires_at if look_after_s is None else min(expires_at, now + timedelta(seconds=look_after_s))
        )
        payment = self._new_payment(
            merchant, request, operation, signed, now, payment_id, bucket, answer, due_at
        )
        if not await self._store.insert_payment(payment):
            return await self._answer_duplicate(merchant, payment)
        return answer

    def _new_payment(
        self,
        merchant: Merchant,
        request: m.CreateRequest,
        operation: m.Operation,
        signed: SignedBody,
        now: datetime,
        payment_id: str,
        bucket: int,
        answer: bytes | None,
        due_at: datetime,
    ) -> Payment:
        store_id = None
        if request.order is not UNSET and request.order.merchant is not UNSET:
            store = request.order.merchant.store
            store_id = None if store is UNSET else store.external_store_id
        return Payment(
            bucket=bucket,
            payment_id=payment_id,
            client_id=merchant.client_id,
            payment_request_id=request.payment_request_id,
            operation=operation,
            state=PaymentState.PROCESSING,
            currency=request.payment_amount.currency,
            amount_minor=request.payment_amount.value,
            notify_url=None if request.payment_notify_url is UNSET else request.payment_notify_url,
            external_store_id=store_id,
            extend_info=None if request.extend_info is UNSET else request.extend_info,
            request_body=signed.body,
            answer=answer,
            failure_code=None,
            event_id=None,
            created_at=now,
            expires_at=now + timedelta(seconds=self._rules.order_expiry_s),
            due_at=due_at,
            final_at=None,
            request_time=signed.request_time,
            key_version=signed.key_version,
            signature=signed.signature,
        )

    async def _answer_duplicate(self, merchant: Merchant, payment: Payment, *, replay: bool = False) -> bytes:
        first = await self._find_first(payment)
        trace.name_payment(first.payment_id)
        same_body = first.request_body == payment.request_body
        same = same_body and first.operation == payment.operation
        replay = replay or merchant.duplicates is DuplicatePolicy.REPLAY
        if not (same and replay):
            raise DuplicateRequest(
                f"paymentRequestId was already used by {first.operation},"
                f" with {'the same' if same_body else 'a different'} body"
            )
        deadline = asyncio.get_running_loop().time() + REPLAY_PATIENCE_S
        while True:
            answer = _first_answer(first)
            if answer is not None:
                return answer
            if asyncio.get_running_loop().time() > deadline:
                raise OutcomeUnknown("the first request is not answered yet; inquire how the payment stands")
            await asyncio.sleep(_REPLAY_POLL_S)
            first = await self._find_first(payment)

    async def _find_first(self, payment: Payment) -> Payment:
        first = await self._store.find_payment_by_request(
            payment.bucket, payment.client_id, payment.payment_request_id
        )
        if first is None:  # only an id made twice could do this: 88 random bits in one millisecond
            raise OutcomeUnknown("the payment could not be stored; send it again")
        return first


def _retail_answer(payment: Payment, outcome: Paid | Declined, at: datetime) -> bytes:
    if isinstance(outcome, Declined):
        return _encode(m.ErrorResponse(life.result(outcome.code)))
    return _encode(
        m.RetailPayResponse(
            _SUCCESS, payment.payment_request_id, payment.payment_id, payment.amount, timestamps.write(at)
        )
    )


def _first_answer(first: Payment) -> bytes | None:
    """Return the first answer; for a retailPay whose answer was U, what its end has made of it since."""
    if first.answer is not None or first.final_at is None:
        return first.answer
    outcome = Paid() if first.failure_code is None else Declined(first.failure_code)
    return _retail_answer(first, outcome, first.final_at)


def _inquiry_answer(standing: Standing) -> m.InquiryPaymentResponse:
    code = standing.failure_code
    return m.InquiryPaymentResponse(
        result=_SUCCESS,
        payment_status=standing.state.value,
        payment_id=standing.payment_id,
        payment_request_id=standing.payment_request_id,
        payment_amount=m.Amount(standing.currency, standing.amount_minor),
        payment_time=UNSET if standing.final_at is None else timestamps.write(standing.final_at),
        failure_code=UNSET if code is None else code,
        failure_message=UNSET if code is None else code.meaning.message,
    )
