"""The log of events: listed, shown, sent again one by one or a whole span of time, and tried out.

Whose an event is, is checked here: a merchant's verbs name the merchant, and only the operator is shown what
a merchant's endpoint has answered.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from payaccept.domain import identifiers
from payaccept.domain.audit import Entry, entry
from payaccept.domain.errors import EventNotFound, SendingRefused
from payaccept.domain.event import (
    EVERY_STATUS,
    AttemptMade,
    BodyGone,
    Changed,
    EndpointTest,
    Event,
    EventStatus,
    InFlight,
    Nowhere,
    Redelivery,
    Resend,
    endpoint_test,
)
from payaccept.domain.lanes import FailingLane
from payaccept.domain.merchant import Environment, Merchant, buckets_of
from payaccept.domain.replay import PAGES_A_SECOND, PageDone, page_done
from payaccept.domain.user import COMMAND_LINE, Actor

MAX_LISTED: Final = 1000
REPLAY_RATE: Final = 50.0
MAX_REPLAY_RATE: Final = 1000.0
_ASK_AGAIN: Final = 5


class EventStore(Protocol):
    """Events and their deliveries. Every method raises StoreUnavailable or OutcomeUnknown when it must."""

    async def list_events(
        self,
        client_id: str,
        buckets: Sequence[int],
        *,
        after: int | None,
        statuses: Collection[EventStatus],
        limit: int,
    ) -> list[Event]:
        """Return a merchant's events by number: the first after `after`, or the last ones."""

    async def last_sequence(self, client_id: str) -> int:
        """Return the last number that was given to an event of a merchant; 0 before the first."""

    async def count_unnumbered(self, client_id: str) -> int:
        """Return how many events of a merchant wait for their number, among the first of all that do."""

    async def find_event(self, event_id: str) -> Event | None:
        """Return an event, whosever it is."""

    async def find_body(self, event_id: str) -> bytes | None:
        """Return the body of an event, byte for byte, while it is kept."""

    async def list_attempts(self, event_id: str, *, answers: bool) -> list[AttemptMade]:
        """Return the attempts at an event that are still kept, in order; `answers`: with what was answered."""

    async def list_ids_between(
        self,
        client_id: str,
        buckets: Sequence[int],
        after: str,
        end: str,
        statuses: Collection[EventStatus],
        limit: int,
    ) -> list[str]:
        """Return the ids of a merchant's events between two ids, both left out, the oldest first."""

    async def count_between(
        self,
        client_id: str,
        buckets: Sequence[int],
        after: str,
        end: str,
        statuses: Collection[EventStatus],
    ) -> int:
        """Return how many events of a merchant there are between two ids, both left out."""

    async def resend(
        self,
        event_ids: Sequence[str],
        webhook_url: str | None,
        now: datetime,
        statuses: Collection[EventStatus] = EVERY_STATUS,
        *,
        seen_attempts: int | None = None,
        entry: Entry | None = None,
    ) -> dict[str, Redelivery | None]:
        """Have events sent again at once, and tell of each what became of it; None: ask again.

        With `seen_attempts` only what has had just so many; `entry` is written if anything is sent.
        """

    async def insert_test(self, test: EndpointTest, entry: Entry) -> None:
        """Store a test event with its delivery."""

    async def list_failing_lanes(self) -> list[FailingLane]:
        """Return the destinations that are failing, those with an open circuit breaker first."""


class MerchantSource(Protocol):
    """Knows merchants."""

    async def get_merchant(self, client_id: str) -> Merchant:
        """Return a merchant; raises MerchantNotFound."""


class Operator(Struct, frozen=True, tag=True):
    """Who runs the deployment: sees every merchant's events, and what their endpoints have answered."""


class Owner(Struct, frozen=True, tag=True):
    """A merchant: sees its own events, and of an answer the status, the reason and the size."""

    client_id: str


Asker = Operator | Owner


class EventList(Struct, frozen=True):
    """Some events of a merchant, by their numbers.

    `last_sequence` is the last number given; `unnumbered` events have happened since and get theirs in a moment.
    """

    events: list[Event]
    last_sequence: int
    unnumbered: int


class EventDetails(Struct, frozen=True):
    """An event with the attempts that are still kept, and its body while that is, byte for byte."""

    event: Event
    attempts: list[AttemptMade]
    body: bytes | None

    @property
    def body_kept(self) -> bool:
        """Whether the body is still kept, so that it can be sent again."""
        return self.body is not None


class Span(Struct, frozen=True, kw_only=True):
    """The events of a span of time: from its beginning, and before its end.

    `behind` is the last event that an interrupted replay has looked at: it goes on behind it.
    """

    beginning: datetime
    end: datetime
    statuses: frozenset[EventStatus] = EVERY_STATUS
    behind: str | None = None

    @property
    def after(self) -> str:
        """An id before all of it that is still to be looked at."""
        first = identifiers.least(identifiers.EVENT, self.beginning)
        return first if self.behind is None else max(first, self.behind)

    @property
    def until(self) -> str:
        """An id behind all of it."""
        return identifiers.least(identifiers.EVENT, self.end)


class ReplayProgress(Struct, frozen=True, kw_only=True):
    """How far a replay has got. What was not resent was under way, or had no endpoint, no body, another state."""

    total: int
    looked_at: int = 0
    resent: int = 0
    in_flight: int = 0
    nowhere: int = 0
    body_gone: int = 0
    changed: int = 0
    last_event_id: str | None = None


class Events:
    """The business verbs of events. `wake_worker` tells the worker that something may be due."""

    def __init__(
        self,
        store: EventStore,
        merchants: MerchantSource,
        environment: Environment,
        *,
        wake_worker: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._merchants = merchants
        self._environment = environment
        self._wake_worker = wake_worker
        self._clock = clock

    async def list_events(
        self,
        client_id: str,
        *,
        after: int | None = None,
        statuses: Collection[EventStatus] = EVERY_STATUS,
        limit: int = 100,
    ) -> EventList:
        """Return the first events of a merchant after a number, or its last ones, in the order of numbers.

        Without a restriction to some statuses the numbers follow each other without a gap: this is how a
        merchant sees that it has received every event. Raises: MerchantNotFound, OutcomeOpen.
        """
        merchant = await self._merchants.get_merchant(client_id)
        # First the count: an event that gets its number meanwhile is told twice rather than not at all.
        unnumbered = await self._store.count_unnumbered(client_id)
        events = await self._store.list_events(
            client_id,
            buckets_of(merchant),
            after=after,
            statuses=statuses,
            limit=max(1, min(limit, MAX_LISTED)),
        )
        return EventList(events, await self._store.last_sequence(client_id), unnumbered)

    async def get_event(self, asker: Asker, event_id: str) -> EventDetails:
        """Return an event with its attempts. Raises: EventNotFound, OutcomeOpen."""
        event = await self._get(asker, event_id)
        attempts = await self._store.list_attempts(event_id, answers=isinstance(asker, Operator))
        return EventDetails(event, attempts, await self._store.find_body(event_id))

    async def resend(
        self, asker: Asker, event_id: str, by: Actor = COMMAND_LINE, *, seen_attempts: int | None = None
    ) -> Resend | InFlight | Changed:
        """Have an event sent again now, under the same id with the same body.

        It goes to the endpoint that its payment named, else to the one that the merchant has configured now.
        A retry that is waiting is made now instead; a schedule that has ended starts anew.

        Returns: InFlight when a worker is sending it at this moment, Changed when it has had other than
        `seen_attempts` attempts; then nothing was changed.
        Raises: EventNotFound; SendingRefused without an endpoint or a body; OutcomeOpen.
        """
        event = await self._get(asker, event_id)
        merchant = await self._merchants.get_merchant(event.client_id)
        now = self._clock()
        told = entry(by, now, "event.resent", event_id, client_id=event.client_id)
        decided = await self._resend_one(
            event_id, merchant.webhook_url, EVERY_STATUS, seen_attempts=seen_attempts, entry=told
        )
        match decided:
            case Resend():
                self._wake_worker()
                return decided
            case InFlight() | Changed():
                return decided
            case BodyGone():
                raise SendingRefused(
                    f"{event_id} is too old to be sent again: what was sent is not kept any more"
                )
            case Nowhere():
                raise SendingRefused(
                    f"{event_id} has nowhere to go: its payment named no paymentNotifyUrl, and {event.client_id}"
                    " has no endpoint configured"
                )
            case None:  # its state changes at every look: a worker has it
                return InFlight(now)

    async def replay(
        self, client_id: str, span: Span, *, rate_per_s: float = REPLAY_RATE
    ) -> AsyncIterator[ReplayProgress]:
        """Have the events of a span of time sent again, the oldest first, at most so many in a second.

        Tells its progress after every page, and first of all how many there are. It may be ended at any
        time, and taken up again behind the last event that it has told of.

        Raises: MerchantNotFound, SendingRefused, OutcomeOpen.
        """
        if not 0 < rate_per_s <= MAX_REPLAY_RATE:
            raise SendingRefused(f"a rate is more than 0 and at most {MAX_REPLAY_RATE:g} events in a second")
        total = await self.count(client_id, span)
        progress = ReplayProgress(total=total)
        yield progress
        loop = asyncio.get_running_loop()
        started = loop.time()
        page = max(1, round(rate_per_s / PAGES_A_SECOND))
        while True:
            done = await self.replay_page(client_id, span, page)
            if not done.looked_at:
                return
            progress = _added(progress, done)
            span = replace(span, behind=done.last_event_id)
            yield progress
            await asyncio.sleep(started + progress.looked_at / rate_per_s - loop.time())

    async def count(self, client_id: str, span: Span) -> int:
        """Return how many events a span has. Raises: MerchantNotFound, SendingRefused, OutcomeOpen."""
        if span.end <= span.beginning:
            raise SendingRefused("the span of time ends before it begins")
        if span.behind is not None and not identifiers.is_event(span.behind):
            raise SendingRefused(f"{span.behind[:64]} is no eventId")
        buckets = buckets_of(await self._merchants.get_merchant(client_id))
        return await self._store.count_between(client_id, buckets, span.after, span.until, span.statuses)

    async def replay_page(self, client_id: str, span: Span, limit: int) -> PageDone:
        """Have the first events of a span sent again, at most so many. Raises: MerchantNotFound, OutcomeOpen."""
        merchant = await self._merchants.get_merchant(client_id)
        ids = await self._store.list_ids_between(
            client_id, buckets_of(merchant), span.after, span.until, span.statuses, limit
        )
        if not ids:
            return PageDone()
        decided = await self._store.resend(ids, merchant.webhook_url, self._clock(), span.statuses)
        for event_id in ids:
            if decided.get(event_id) is None:
                decided[event_id] = await self._resend_one(event_id, merchant.webhook_url, span.statuses)
        self._wake_worker()
        return page_done(ids, decided)

    async def send_test(self, client_id: str, by: Actor = COMMAND_LINE) -> Event:
        """Send a test event to the endpoint that a merchant has configured.

        Raises: MerchantNotFound; SendingRefused without an endpoint; OutcomeOpen.
        """
        merchant = await self._merchants.get_merchant(client_id)
        if merchant.webhook_url is None:
            raise SendingRefused(f"{client_id} has no endpoint configured to send a test to")
        now = self._clock()
        test = endpoint_test(merchant, merchant.webhook_url, self._environment, now)
        after = {"url": merchant.webhook_url}
        told = entry(by, now, "webhook.tested", test.event_id, client_id=client_id, after=after)
        await self._store.insert_test(test, told)
        self._wake_worker()
        return await self._get(Owner(client_id), test.event_id)

    async def list_failing_lanes(self) -> list[FailingLane]:
        """Return the destinations that are failing now, of all merchants: for the operator. Raises: OutcomeOpen."""
        return await self._store.list_failing_lanes()

    async def _get(self, asker: Asker, event_id: str) -> Event:
        event = await self._store.find_event(event_id) if identifiers.is_event(event_id) else None
        # Another merchant's event is answered like one that does not exist.
        if event is None or (isinstance(asker, Owner) and event.client_id != asker.client_id):
            raise EventNotFound(f"there is no event {event_id[:64]}")
        return event

    async def _resend_one(
        self,
        event_id: str,
        webhook_url: str | None,
        statuses: Collection[EventStatus],
        *,
        seen_attempts: int | None = None,
        entry: Entry | None = None,
    ) -> Redelivery | None:
        for _ in range(_ASK_AGAIN):
            decided = await self._store.resend(
                [event_id],
                webhook_url,
                self._clock(),
                statuses,
                seen_attempts=seen_attempts,
                entry=entry,
            )
            if decided.get(event_id) is not None:
                return decided[event_id]
        return None


def _added(progress: ReplayProgress, done: PageDone) -> ReplayProgress:
    counts = {
        name: getattr(progress, name) + getattr(done, name)
        for name in ("looked_at", "resent", "in_flight", "nowhere", "body_gone", "changed")
    }
    return replace(progress, last_event_id=done.last_event_id, **counts)
