"""The sandbox's customer: decides payments and shows codes, as `payaccept wallet` does."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final, Protocol

from payaccept.domain.payment import Declined, Paid, Payment
from payaccept.operations.payments import Payments
from payaccept.wire.codes import ResultCode

DECLINES: Final = (
    ResultCode.USER_REJECTED,
    ResultCode.INSUFFICIENT_BALANCE,
    ResultCode.PAYMENT_AMOUNT_EXCEED_LIMIT,
    ResultCode.RISK_REJECT,
    ResultCode.CURRENCY_NOT_SUPPORT,
    ResultCode.PROCESS_FAIL,
)
"""Why a customer, or the customer's wallet, declines. The other failures tell of codes and of time."""


class CodeIssuer(Protocol):
    """The simulated wallet's codes."""

    async def issue_code(self, now: datetime) -> str:
        """Make a code for the customer to show at a till."""

    async def find_payment_of_code(self, code: str) -> str | None:
        """Return the payment that used a code."""


class SimulatedCustomer:
    """Plays the customer of any payment of a sandbox. There is none in production."""

    def __init__(
        self,
        payments: Payments,
        codes: CodeIssuer,
        webhook_url_of: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self._payments = payments
        self._codes = codes
        self._webhook_url_of = webhook_url_of

    async def approve(self, payment_id: str, now: datetime) -> Payment:
        """Pay. Raises: PaymentNotFound, PaymentFinal, OutcomeOpen."""
        return await self._play(payment_id, Paid(), now)

    async def decline(self, payment_id: str, code: ResultCode, now: datetime) -> Payment:
        """Refuse to pay. Raises: PaymentNotFound, PaymentFinal, OutcomeOpen."""
        return await self._play(payment_id, Declined(code), now)

    async def show_code(self, now: datetime) -> str:
        """Return a new code for a till: it works once, for 60 seconds."""
        return await self._codes.issue_code(now)

    async def find_payment_of_code(self, code: str) -> str | None:
        """Return the id of the payment that a till has made with a code."""
        return await self._codes.find_payment_of_code(code)

    async def _play(self, payment_id: str, outcome: Paid | Declined, now: datetime) -> Payment:
        return await self._payments.play_customer(payment_id, outcome, self._webhook_url_of, now)
