"""Replays that a page has asked for: started, stopped, taken up, and run by the workers.

    portal   counts, starts, stops and takes up: a row of `replays`
    worker   takes a row of which a page is due, has that page sent again, writes how far it has got

So a replay goes on whatever happens to the portal, and when a worker dies another goes on behind the last event that
was written down: of one page at most an event may be sent twice.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from payaccept.domain.audit import Entry, entry
from payaccept.domain.errors import SendingRefused
from payaccept.domain.replay import PageDone, Replay, ReplayState, new_replay_id
from payaccept.domain.user import Actor
from payaccept.operations.events import MAX_REPLAY_RATE, Events, Span
from payaccept.wire import timestamps

LEASE: Final = timedelta(seconds=30)
AT_A_TIME: Final = 16
LISTED: Final = 10
BUSY_S: Final = 0.05
IDLE_S: Final = 0.5


class ReplayStore(Protocol):
    """Replays. Every method raises OutcomeOpen when it must."""

    async def insert_replay(self, replay: Replay, entry: Entry) -> bool:
        """Store a new replay; False when the merchant has one that is running."""

    async def find_replay(self, client_id: str, replay_id: str) -> Replay | None:
        """Return a replay of a merchant."""

    async def list_replays(self, client_id: str, limit: int) -> list[Replay]:
        """Return the last replays of a merchant, the latest first."""

    async def stop_replay(self, client_id: str, replay_id: str, now: datetime, entry: Entry) -> bool:
        """Stop a replay; False when it is not running."""

    async def resume_replay(self, client_id: str, replay_id: str, now: datetime, entry: Entry) -> bool:
        """Take a stopped replay up; False when it is not stopped, or another is running."""

    async def claim_replays(self, now: datetime, leased_until: datetime, limit: int) -> list[Replay]:
        """Take replays of which a page is due."""

    async def record_page(
        self, replay: Replay, done: PageDone, next_at: datetime, now: datetime, *, is_done: bool
    ) -> None:
        """Write what a page came to, and when the next is due."""


class Replays:
    """The verbs of a merchant's replays, for its pages."""

    def __init__(self, store: ReplayStore, events: Events, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._events = events
        self._clock = clock

    async def count(self, client_id: str, span: Span) -> int:
        """Return how many events a span has. Raises: SendingRefused for one that ends before it begins."""
        return await self._events.count(client_id, span)

    async def start(self, client_id: str, span: Span, rate_per_s: int, by: Actor) -> Replay:
        """Begin a replay. Raises: SendingRefused, also while another is running; OutcomeOpen."""
        if not 1 <= rate_per_s <= MAX_REPLAY_RATE:
            raise SendingRefused(f"a rate is 1 to {MAX_REPLAY_RATE:g} events in a second")
        now = self._clock()
        replay = Replay(
            replay_id=new_replay_id(now),
            client_id=client_id,
            state=ReplayState.RUNNING,
            beginning=span.beginning,
            until=span.end,
            statuses=span.statuses,
            rate_per_s=rate_per_s,
            total=await self.count(client_id, span),
            looked_at=0,
            resent=0,
            in_flight=0,
            nowhere=0,
            body_gone=0,
            changed=0,
            last_event_id=None,
            started_by=by.name,
            created_at=now,
            updated_at=now,
            ended_at=None,
        )
        after = {
            "from": timestamps.write(span.beginning),
            "until": timestamps.write(span.end),
            "statuses": sorted(span.statuses),
            "ratePerS": rate_per_s,
            "events": replay.total,
        }
        told = entry(by, now, "replay.started", replay.replay_id, client_id=client_id, after=after)
        if not await self._store.insert_replay(replay, told):
            raise SendingRefused("another replay of this merchant is running: stop it, or wait for its end")
        return replay

    async def find(self, client_id: str, replay_id: str) -> Replay | None:
        """Return a replay of a merchant's; None when it is not there, or another's."""
        return await self._store.find_replay(client_id, replay_id)

    async def list_last(self, client_id: str) -> list[Replay]:
        """Return the last replays of a merchant, the latest first."""
        return await self._store.list_replays(client_id, LISTED)

    async def stop(self, client_id: str, replay_id: str, by: Actor) -> bool:
        """Stop a replay; what was sent again stays sent. False when it was not running."""
        now = self._clock()
        told = entry(by, now, "replay.stopped", replay_id, client_id=client_id)
        return await self._store.stop_replay(client_id, replay_id, now, told)

    async def resume(self, client_id: str, replay_id: str, by: Actor) -> bool:
        """Take a stopped replay up where it stopped. False when it was not stopped, or another is running."""
        now = self._clock()
        told = entry(by, now, "replay.resumed", replay_id, client_id=client_id)
        return await self._store.resume_replay(client_id, replay_id, now, told)


class ReplayRunner:
    """Runs the replays of all merchants, a page of each at a time: a worker's."""

    def __init__(self, store: ReplayStore, events: Events, *, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._events = events
        self._clock = clock

    async def run_pages(self) -> float:
        """Do the pages that are due. Returns: in how many seconds to look again. Raises: OutcomeOpen."""
        now = self._clock()
        claimed = await self._store.claim_replays(now, now + LEASE, AT_A_TIME)
        for replay in claimed:
            await self._run_page(replay, now)
        return BUSY_S if claimed else IDLE_S

    async def _run_page(self, replay: Replay, now: datetime) -> None:
        span = Span(
            beginning=replay.beginning,
            end=replay.until,
            statuses=replay.statuses,
            behind=replay.last_event_id,
        )
        done = await self._events.replay_page(replay.client_id, span, replay.page_size)
        # From when it was due on, so that what the page itself took does not slow it down.
        await self._store.record_page(
            replay, done, now + replay.pause, self._clock(), is_done=done.looked_at == 0
        )
