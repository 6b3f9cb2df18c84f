"""A replay: a span of a merchant's events that is sent again, page by page, by whichever worker is free."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from payaccept.domain.event import BodyGone, EventStatus, InFlight, Nowhere, Redelivery, Resend

PAGES_A_SECOND: Final = 5
STALE_AFTER: Final = timedelta(seconds=30)


class ReplayState(StrEnum):
    """RUNNING goes on by itself, STOPPED can be taken up again, DONE has looked at everything."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    DONE = "DONE"


class PageDone(Struct, frozen=True, kw_only=True):
    """What a page of a replay came to: of the events looked at, what became of each."""

    looked_at: int = 0
    resent: int = 0
    in_flight: int = 0
    nowhere: int = 0
    body_gone: int = 0
    changed: int = 0
    last_event_id: str | None = None


def page_done(event_ids: Sequence[str], decided: Mapping[str, Redelivery | None]) -> PageDone:
    """Count what became of the events of a page; None: its state changed at every look."""
    counts = Counter(_counted_as(decided.get(event_id)) for event_id in event_ids)
    return PageDone(looked_at=len(event_ids), last_event_id=event_ids[-1], **counts)


def _counted_as(decision: Redelivery | None) -> str:
    match decision:
        case Resend():
            return "resent"
        case InFlight():
            return "in_flight"
        case Nowhere():
            return "nowhere"
        case BodyGone():
            return "body_gone"
        case _:
            return "changed"


class Replay(Struct, frozen=True, kw_only=True):
    """A replay and how far it has got. `total` is how many events there were when it was started."""

    replay_id: str
    client_id: str
    state: ReplayState
    beginning: datetime
    until: datetime
    statuses: frozenset[EventStatus]
    rate_per_s: int
    total: int
    looked_at: int
    resent: int
    in_flight: int
    nowhere: int
    body_gone: int
    changed: int
    last_event_id: str | None
    started_by: str
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None

    @property
    def page_size(self) -> int:
        """How many events are looked at at a time."""
        return max(1, self.rate_per_s // PAGES_A_SECOND)

    @property
    def pause(self) -> timedelta:
        """How long after one page the next is due."""
        return timedelta(seconds=self.page_size / self.rate_per_s)

    def waits(self, now: datetime) -> bool:
        """Tell whether it runs and nobody is at it: no worker is awake, or each has other things to do."""
        return self.state is ReplayState.RUNNING and now - self.updated_at > STALE_AFTER

    def left(self) -> timedelta:
        """Return how long the rest takes at its rate."""
        return timedelta(seconds=max(0, self.total - self.looked_at) / self.rate_per_s)


def new_replay_id(now: datetime) -> str:
    """Make an id; they are in the order of time."""
    return f"rpl_{int(now.timestamp() * 1000):012x}{os.urandom(6).hex()}"
