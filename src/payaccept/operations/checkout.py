"""What the pages for customers ask: a bill, and how it stands."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from payaccept.domain import identifiers
from payaccept.domain.bill import Bill, bill_of
from payaccept.domain.errors import PaymentNotFound
from payaccept.domain.merchant import Merchant
from payaccept.domain.payment import PaymentState
from payaccept.operations.ports import PaymentStore

NAME_KEPT: Final = timedelta(seconds=60)
MAX_NAMES: Final = 10_000


class Checkout:
    """Answers whoever knows a payment's id, which cannot be guessed: one look-up by key each time.

    `shows_retail`: whether a payment made at a till has a page, too. Only the sandbox's wallet needs that.
    """

    def __init__(
        self, store: PaymentStore, get_merchant: Callable[[str], Awaitable[Merchant]], *, shows_retail: bool
    ) -> None:
        self._store = store
        self._get_merchant = get_merchant
        self._shows_retail = shows_retail
        self._names: OrderedDict[str, tuple[str, datetime]] = OrderedDict()

    async def get_bill(self, payment_id: str, now: datetime) -> Bill:
        """Return what the payment's customer may know. Raises: PaymentNotFound, OutcomeOpen."""
        payment = await self._store.find_payment_by_id(_checked(payment_id))
        if payment is None or (payment.operation == "retailPay" and not self._shows_retail):
            raise PaymentNotFound("there is no payment of this id")
        return bill_of(payment, await self._name_of(payment.client_id, now), now)

    async def get_state(self, payment_id: str) -> PaymentState:
        """Return how the payment stands. Raises: PaymentNotFound, OutcomeOpen."""
        standing = await self._store.find_standing_by_id(_checked(payment_id))
        if standing is None:
            raise PaymentNotFound("there is no payment of this id")
        return standing.state

    async def _name_of(self, client_id: str, now: datetime) -> str:
        """Return a merchant's name: read at most once a minute, however many customers it has."""
        kept = self._names.get(client_id)
        if kept is not None and now < kept[1]:
            return kept[0]
        name = (await self._get_merchant(client_id)).name
        self._names[client_id] = name, now + NAME_KEPT
        self._names.move_to_end(client_id)
        if len(self._names) > MAX_NAMES:
            self._names.popitem(last=False)
        return name


def _checked(payment_id: str) -> str:
    """Return the id, if it may be one: what is malformed costs no look-up."""
    if identifiers.payment_of(payment_id) != payment_id:
        raise PaymentNotFound("there is no payment of this id")
    return payment_id
