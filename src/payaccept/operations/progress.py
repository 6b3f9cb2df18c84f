"""What the worker does with payments whose time has come: complete, expire, resolve."""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.payment import Declined, Paid, Payment
from payaccept.operations.payments import Payments
from payaccept.operations.ports import DuePayments, Wallet
from payaccept.wire.codes import ResultCode

LEASE_S: Final = 30.0
BATCH: Final = 500
_AT_LEAST_S: Final = 0.05

_log = logging.getLogger(__name__)

WebhookUrlOf = Callable[[str], Awaitable[str | None]]


class Progress:
    """Moves payments on. It may be killed between any two lines: what it took comes back after its lease."""

    def __init__(
        self, store: DuePayments, wallet: Wallet, payments: Payments, webhook_url_of: WebhookUrlOf
    ) -> None:
        self._store = store
        self._wallet = wallet
        self._payments = payments
        self._webhook_url_of = webhook_url_of

    async def claim(self, now: datetime) -> list[Payment]:
        """Take the payments that are due. Raises: OutcomeOpen."""
        return await self._store.claim_due_payments(now, now + timedelta(seconds=LEASE_S), BATCH)

    async def advance(self, payment: Payment, now: datetime) -> datetime | None:
        """Ask the wallet about a payment and act on it; returns when to look again, None when final."""
        # The wallet first: the customer may have paid in the last moment before the deadline.
        outcome = await self._wallet.inquire(payment, now)
        if not isinstance(outcome, Paid | Declined):
            wait_s = outcome.ask_again_after_s
            if now < payment.expires_at:
                again_at = (
                    payment.expires_at
                    if wait_s is None
                    else now + timedelta(seconds=max(wait_s, _AT_LEAST_S))
                )
                return min(again_at, payment.expires_at)
            outcome = Declined(ResultCode.ORDER_EXPIRED)
        await self._payments.finish(payment, outcome, await self._webhook_url_of(payment.client_id), now)
        return None

    async def advance_safely(self, payment: Payment, now: datetime) -> datetime | None:
        """Advance; a payment that cannot be advanced keeps its lease and is tried again after it."""
        try:
            return await self.advance(payment, now)
        except OutcomeOpen:
            return None
        except Exception:  # noqa: BLE001 - one payment must not stop the others
            _log.exception("advancing a payment failed", extra={"paymentId": payment.payment_id})
            return None

    async def reschedule(self, due: list[tuple[Payment, datetime]]) -> None:
        """Say when payments that are not final yet are looked at again. Raises: OutcomeOpen."""
        if due:
            await self._store.reschedule_payments(due)
