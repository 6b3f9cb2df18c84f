"""How the deployment is and has been, for the provider's staff."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct

from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.health import Process, Span

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Reach(Struct, frozen=True, kw_only=True):
    """How far back one looks, and in spans of how many minutes."""

    name: str
    minutes: int
    step_min: int


HOUR: Final = Reach(name="hour", minutes=60, step_min=1)
DAY: Final = Reach(name="day", minutes=24 * 60, step_min=20)
WEEK: Final = Reach(name="week", minutes=7 * 24 * 60, step_min=120)
REACHES: Final = {reach.name: reach for reach in (HOUR, DAY, WEEK)}


class HealthStore(Protocol):
    """What the processes have written. Every method raises OutcomeOpen when it must."""

    async def list_spans(self, since: datetime, step_min: int) -> list[Span]:
        """Return what is known since then, in spans of so many minutes, the oldest first; nothing where nothing was."""

    async def list_processes(self) -> list[Process]:
        """Return the processes by kind and host, those that have fallen silent among them."""


class Health:
    """The verbs of looking at the deployment. `ping` raises OutcomeOpen while the database is not ready."""

    def __init__(self, store: HealthStore, ping: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._ping = ping

    async def is_database_ready(self) -> bool:
        """Tell whether the database answers, and is of this version."""
        try:
            await self._ping()
        except OutcomeOpen:
            return False
        return True

    async def list_processes(self) -> list[Process]:
        """Return the processes by kind and host, those that have fallen silent among them."""
        return await self._store.list_processes()

    async def list_spans(self, reach: Reach, now: datetime) -> list[Span]:
        """Return all spans of a reach, the present one last; one of which nothing is known is empty."""
        step = timedelta(minutes=reach.step_min)
        last = now - (now - _EPOCH) % step
        count = reach.minutes // reach.step_min
        first = last - (count - 1) * step
        known = {span.at: span for span in await self._store.list_spans(first, reach.step_min)}
        return [known.get(at) or Span(at, {}) for at in (first + number * step for number in range(count))]
