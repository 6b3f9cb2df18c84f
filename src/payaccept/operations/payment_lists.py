"""A merchant's payments as its pages list them: the newest first, all of them or those that are looked for."""

from datetime import UTC, datetime
from typing import Final, Protocol

from msgspec import Struct

from payaccept.domain import identifiers
from payaccept.domain.merchant import Merchant, bucket_for
from payaccept.domain.payment import Standing
from payaccept.domain.payment_search import ListedPayment, PaymentSearch
from payaccept.operations.events import Asker, EventStore, Owner
from payaccept.operations.ports import PaymentStore

PER_PAGE: Final = 50
LOOKED_AT: Final = 20_000
"""How many payments are looked at for one page, where those looked for are rare."""


class PaymentPage(Struct, frozen=True, kw_only=True):
    """Some payments, the newest first. `older` is the id below which the next ones are; None behind the last.

    `looked_back_to` is there when the look ended before the page was full: of what is older, nothing is known.
    """

    payments: list[ListedPayment]
    older: str | None
    looked_back_to: datetime | None = None


class PaymentListStore(Protocol):
    """A merchant's payments in the order of time. Every method raises OutcomeOpen when it must."""

    async def list_payments(
        self, client_id: str, first_id: str, before_id: str, limit: int
    ) -> list[ListedPayment]:
        """Return the newest payments between two ids, the first of them included."""

    async def search_payments(
        self, client_id: str, search: PaymentSearch, before_id: str, *, limit: int, look_at: int
    ) -> tuple[list[ListedPayment], str | None]:
        """Return the newest payments that are looked for below an id, of the `look_at` newest there are.

        And the last one that was looked at, when there were so many that there may be more.
        """


class PaymentLists:
    """The verbs of listing and finding payments."""

    def __init__(self, store: PaymentListStore, payments: PaymentStore, events: EventStore) -> None:
        self._store = store
        self._payments = payments
        self._events = events

    async def search(
        self,
        client_id: str,
        search: PaymentSearch,
        before: str | None = None,
        *,
        limit: int = PER_PAGE,
        look_at: int = LOOKED_AT,
    ) -> PaymentPage:
        """Return a page of a merchant's payments that are looked for, below an id. Raises: OutcomeOpen."""
        end = search.end_id if before is None else min(before, search.end_id)
        last: str | None = None
        if search.is_selective:
            found, last = await self._store.search_payments(
                client_id, search, end, limit=limit + 1, look_at=max(look_at, limit + 1)
            )
        else:
            found = await self._store.list_payments(client_id, search.first_id, end, limit + 1)
        page = found[:limit]
        if len(found) > limit:
            return PaymentPage(payments=page, older=page[-1].payment_id)
        return PaymentPage(payments=page, older=last, looked_back_to=None if last is None else made_at(last))

    async def find(self, asker: Asker, text: str, merchant: Merchant | None = None) -> Standing | None:
        """Return how the payment stands that an id means: paymentId, acquirementId, eventId, paymentRequestId.

        The last one only together with the merchant whose it is. None when there is no such payment, it is
        another merchant's than the asker, or the event is no payment's. Raises: OutcomeOpen.
        """
        payment_id = identifiers.payment_of(text)
        if payment_id is None and identifiers.is_event(text):
            event = await self._events.find_event(text)
            payment_id = None if event is None else event.payment_id
        standing = None if payment_id is None else await self._payments.find_standing_by_id(payment_id)
        if standing is None and merchant is not None:
            bucket = bucket_for(merchant.base_bucket, merchant.spread, text)
            standing = await self._payments.find_standing_by_request(bucket, merchant.client_id, text)
        if standing is None or (isinstance(asker, Owner) and standing.client_id != asker.client_id):
            return None
        return standing


def made_at(identifier: str) -> datetime:
    """Return the moment that an identifier begins with."""
    return datetime.fromtimestamp(int(identifier[4:16], 16) / 1000, UTC)
