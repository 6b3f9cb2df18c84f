"""A merchant's log of events as its pages show it: page by page from the latest back, searched, and what is failing."""

from collections.abc import Collection, Sequence
from typing import Final, Protocol

from msgspec import Struct

from payaccept.domain import identifiers
from payaccept.domain.event import EVERY_STATUS, Event, EventStatus
from payaccept.domain.lanes import FailingLane, WaitingLane
from payaccept.domain.merchant import Merchant, buckets_of
from payaccept.operations.events import MerchantSource

PER_PAGE: Final = 30
LOOKED_THROUGH: Final = 5000
"""How many events one page looks through for those in a status: a rare one costs no more than that."""
MOST_COUNTED: Final = 1000
"""More than so many are told as "more than"."""
_MAX_NUMBER: Final = 2**63 - 1
_MAX_DIGITS: Final = 18


class EventListStore(Protocol):
    """A merchant's events, read for its pages. Every method raises OutcomeOpen when it must."""

    async def list_before(
        self,
        client_id: str,
        buckets: Sequence[int],
        *,
        before: int,
        floor: int,
        statuses: Collection[EventStatus],
        limit: int,
    ) -> list[Event]:
        """Return a merchant's events with numbers below `before` and above `floor`, the latest first."""

    async def list_dead_before(self, client_id: str, before_id: str, limit: int) -> list[Event]:
        """Return a merchant's events that were given up, older than one, the latest first."""

    async def count_dead(self, client_id: str, limit: int) -> int:
        """Return how many events of a merchant were given up; `limit` when there are more."""

    async def last_sequence(self, client_id: str) -> int:
        """Return the last number that was given to an event of a merchant; 0 before the first."""

    async def count_unnumbered(self, client_id: str) -> int:
        """Return how many events of a merchant wait for their number, among the first of all that do."""

    async def find_event(self, event_id: str) -> Event | None:
        """Return an event, whosever it is."""

    async def find_event_of_payment(self, payment_id: str) -> Event | None:
        """Return the event of a payment, whosever it is."""

    async def list_failing_lanes_of(self, client_id: str, most_waiting: int) -> list[WaitingLane]:
        """Return a merchant's failing destinations with what waits for them, the longest failing first."""

    async def find_longest_failing_lane(self, client_id: str) -> FailingLane | None:
        """Return the destination of a merchant that has been failing the longest."""


class EventPage(Struct, frozen=True, kw_only=True):
    """A page of a merchant's log, the latest event first.

    `older` is the number before which the next page begins, None at the end of the log. `looked_through` says that
    this page ended because it had looked through as many events as one may, and not because it was full.
    """

    events: list[Event]
    older: int | None
    looked_through: bool
    last_sequence: int
    unnumbered: int


class EventLists:
    """The verbs of looking through a merchant's events."""

    def __init__(self, store: EventListStore, merchants: MerchantSource) -> None:
        self._store = store
        self._merchants = merchants

    async def list_page(
        self, client_id: str, *, before: int | None = None, status: EventStatus | None = None
    ) -> EventPage:
        """Return the events before a number, or the latest. Raises: MerchantNotFound, OutcomeOpen."""
        merchant = await self._merchants.get_merchant(client_id)
        # First the count: an event that gets its number meanwhile is told twice rather than not at all.
        unnumbered = await self._store.count_unnumbered(client_id)
        last = await self._store.last_sequence(client_id)
        before = last + 1 if before is None else max(1, min(before, last + 1))
        floor = 0
        if status is EventStatus.DEAD:
            found = await self._list_dead(merchant, before if before <= last else None)
        else:
            floor = 0 if status is None else max(0, before - 1 - LOOKED_THROUGH)
            found = await self._store.list_before(
                client_id,
                buckets_of(merchant),
                before=before,
                floor=floor,
                statuses=EVERY_STATUS if status is None else {status},
                limit=PER_PAGE + 1,
            )
        is_full = len(found) > PER_PAGE
        page = found[:PER_PAGE]
        older = page[-1].sequence if is_full else floor + 1 if floor else None
        return EventPage(
            events=page,
            older=older,
            looked_through=not is_full and floor > 0,
            last_sequence=last,
            unnumbered=unnumbered,
        )

    async def _list_dead(self, merchant: Merchant, before: int | None) -> list[Event]:
        """The dead come by their ids; a page begins behind the event that has the number."""
        before_id = identifiers.EVENT + "g"  # greater than the time in any id
        if before is not None:
            marked = await self._find_numbered(merchant, before)
            if marked is not None:
                before_id = marked.event_id
        return await self._store.list_dead_before(merchant.client_id, before_id, PER_PAGE + 1)

    async def count_dead(self, client_id: str) -> int:
        """Return how many events were given up; more than MOST_COUNTED are told as one more than that."""
        return await self._store.count_dead(client_id, MOST_COUNTED + 1)

    async def find(self, client_id: str, text: str) -> Event | None:
        """Return the event of a merchant's that an eventId, a paymentId, an acquirementId or its number means."""
        found = None
        payment_id = identifiers.payment_of(text)
        if identifiers.is_event(text):
            found = await self._store.find_event(text)
        elif payment_id is not None:
            found = await self._store.find_event_of_payment(payment_id)
        elif text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
            found = await self._find_numbered(await self._merchants.get_merchant(client_id), int(text))
        # Another merchant's event is answered like one that does not exist.
        return found if found is not None and found.client_id == client_id else None

    async def _find_numbered(self, merchant: Merchant, number: int) -> Event | None:
        found = await self._store.list_before(
            merchant.client_id,
            buckets_of(merchant),
            before=min(number, _MAX_NUMBER - 1) + 1,
            floor=number - 1,
            statuses=EVERY_STATUS,
            limit=1,
        )
        return found[0] if found else None

    async def list_failing(self, client_id: str) -> list[WaitingLane]:
        """Return a merchant's failing destinations, the longest failing first.

        Of what waits for one, more than MOST_COUNTED is told as one more than that.
        """
        return await self._store.list_failing_lanes_of(client_id, MOST_COUNTED + 1)

    async def find_longest_failing(self, client_id: str) -> FailingLane | None:
        """Return the destination of a merchant that has been failing the longest."""
        return await self._store.find_longest_failing_lane(client_id)
