"""The sandbox's wallet: it does what the payment's script says, and what its customer is told to do.

It issues auth codes of 18 digits starting with 286; such a code works once, for 60 seconds. Any other
non-empty code pays at once. It remembers nothing of a payment: what it answers follows from the payment's
script and age, so that it answers the same after any crash.
"""

import secrets
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET
from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.domain import scenario
from payaccept.domain.payment import Declined, Paid, Payment, Pending, Unknown, WalletAnswer
from payaccept.domain.scenario import Outcome, Scenario
from payaccept.wire import messages as m
from payaccept.wire.codes import ResultCode

CODE_LIFE_S: Final = 60
_CODE_PREFIX: Final = "286"
_CODE_DIGITS: Final = 18
_SQL: Final = statements.load("wallet_simulated.sql")


class SimulatedWallet:
    """The port Wallet. `settle_delay_s`: after how long payments complete by themselves."""

    def __init__(self, database_url: str, *, settle_delay_s: float, process: str) -> None:
        self._line = SharedLine(database_url, f"{process}-wallet")
        self._settle_delay_s = settle_delay_s

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()

    def first_look_after_s(self, extend_info: str | None) -> float | None:
        """Return after how many seconds to ask about a new order; None when only its expiry counts."""
        script = _script(extend_info)
        return None if script.outcome is Outcome.MANUAL else self._delay_s(script)

    def webhook_faults(self, extend_info: str | None) -> tuple[str, ...]:
        """Return the faults the script asks for."""
        return _script(extend_info).webhook

    async def charge(self, payment: Payment, auth_code: str, now: datetime) -> WalletAnswer:
        """Charge a scanned code."""
        refusal = await self._use_code(payment.payment_id, auth_code, now)
        if refusal is not None:
            return Declined(refusal)
        script = _script(payment.extend_info)
        if script.outcome is Outcome.MANUAL:
            return Pending(ask_again_after_s=None)
        if script.outcome is Outcome.UNKNOWN:
            return Unknown(ask_again_after_s=self._delay_s(script))
        if script.delay_ms is not UNSET and script.delay_ms > 0:
            return Pending(ask_again_after_s=self._delay_s(script))
        return _outcome(script)

    async def inquire(self, payment: Payment, now: datetime) -> WalletAnswer:
        """Ask how a payment stands."""
        if payment.operation == "retailPay":
            refusal = await self._refusal_of_code(payment)
            if refusal is not None:
                return Declined(refusal)
        script = _script(payment.extend_info)
        if script.outcome is Outcome.MANUAL:
            return Pending(ask_again_after_s=None)
        wait_s = self._delay_s(script) - (now - payment.created_at).total_seconds()
        return Pending(ask_again_after_s=wait_s) if wait_s > 0 else _outcome(script)

    async def issue_code(self, now: datetime) -> str:
        """Make a code for the customer to show at a till: works once, for 60 s."""
        digits = _CODE_DIGITS - len(_CODE_PREFIX)
        code = _CODE_PREFIX + f"{secrets.randbelow(10**digits):0{digits}d}"
        async with self._line.connection() as connection:
            await connection.execute(
                _SQL["insert_code"],
                {"code": code, "issued_at": now, "expires_at": now + timedelta(seconds=CODE_LIFE_S)},
            )
        return code

    async def find_payment_of_code(self, code: str) -> str | None:
        """Return the payment that used an issued code; None while none has."""
        async with self._line.connection() as connection:
            user = await _user_of(connection, code)
        return None if user is None else user[0]

    async def _use_code(self, payment_id: str, code: str, now: datetime) -> ResultCode | None:
        if not _may_be_issued(code):
            return None
        async with self._line.connection() as connection:
            cursor = await connection.execute(
                _SQL["use_code"], {"code": code, "payment_id": payment_id, "now": now}
            )
            if await cursor.fetchone() is not None:
                return None
            return _refusal(payment_id, await _user_of(connection, code))

    async def _refusal_of_code(self, payment: Payment) -> ResultCode | None:
        """Return why the code of a retailPay did not pay, as far as an issued code knows its payment."""
        code = msgspec.json.decode(payment.request_body, type=m.RetailPayRequest).payment_auth_code
        if not _may_be_issued(code):
            return None
        async with self._line.connection() as connection:
            return _refusal(payment.payment_id, await _user_of(connection, code))

    def _delay_s(self, script: Scenario) -> float:
        return self._settle_delay_s if script.delay_ms is UNSET else script.delay_ms / 1000


def _may_be_issued(code: str) -> bool:
    return code.startswith(_CODE_PREFIX) and len(code) == _CODE_DIGITS and code.isdecimal()


async def _user_of(connection: AsyncConnection[Any], code: str) -> tuple[str | None] | None:
    """Return who used a code as a row of one; None when it was never issued."""
    cursor = await connection.execute(_SQL["select_code"], {"code": code})
    return await cursor.fetchone()


def _refusal(payment_id: str, user: tuple[str | None] | None) -> ResultCode | None:
    if user is None or user[0] == payment_id:
        return None
    return ResultCode.INVALID_CODE if user[0] is None else ResultCode.AUTH_CODE_ALREADY_USED


def _script(extend_info: str | None) -> Scenario:
    script, _ = scenario.read(UNSET if extend_info is None else extend_info)
    return script


def _outcome(script: Scenario) -> Paid | Declined:
    return Paid() if script.failure is None else Declined(script.failure)
