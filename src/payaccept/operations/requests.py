"""The requests of a merchant, as its pages show them: what was refused, what was accepted, how its keys are used."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct

from payaccept.domain.traffic import (
    AcceptedRequest,
    Clock,
    KeyUse,
    Minute,
    RefusalCount,
    RefusedRequest,
    clock_of,
)

PER_PAGE: Final = 50
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
_MINUTE: Final = timedelta(minutes=1)
# Greater than the time in any id: before everything.
_NOW: Final = "g"

Seen = RefusedRequest | AcceptedRequest


class RequestStore(Protocol):
    """What is recorded of requests, by merchant. Every method raises OutcomeOpen when it must."""

    async def list_refused(
        self, client_id: str, before_id: str, result_code: str | None, limit: int
    ) -> list[RefusedRequest]:
        """Return refused requests older than one, newest first."""

    async def find_refused(self, client_id: str, request_id: str) -> RefusedRequest | None:
        """Return one refused request of a merchant."""

    async def list_accepted(self, client_id: str, before_id: str, limit: int) -> list[AcceptedRequest]:
        """Return requests that made a payment, older than one, newest first."""

    async def count_refusals(self, client_id: str, since: datetime) -> list[RefusalCount]:
        """Count what was refused, by code, the most frequent first."""

    async def list_key_uses(self, client_id: str) -> list[KeyUse]:
        """Return how the merchant's keys were used since they were added."""

    async def list_minutes(self, client_id: str, since: datetime) -> list[Minute]:
        """Return what its keys did in each minute."""


class KeyTraffic(Struct, frozen=True, kw_only=True):
    """How one key is used. `minutes` are the uses in each of the last 60 minutes, the present one last."""

    key_version: int
    uses: int = 0
    first_used_at: datetime | None = None
    last_used_at: datetime | None = None
    last_hour: int = 0
    minutes: tuple[int, ...] = (0,) * 60


class Traffic(Struct, frozen=True, kw_only=True):
    """How a merchant's keys were used, and how its clock went in the last hour."""

    keys: dict[int, KeyTraffic]
    clock: Clock | None

    def of(self, key_version: int) -> KeyTraffic:
        """Return the traffic of a key, which may be none."""
        return self.keys.get(key_version, KeyTraffic(key_version=key_version))

    @property
    def last_hour(self) -> int:
        """Return how many requests verified in the last hour."""
        return sum(key.last_hour for key in self.keys.values())

    def share(self, key_version: int) -> float:
        """Return which part of the last hour's requests a key signed, 0 to 1."""
        return self.of(key_version).last_hour / self.last_hour if self.last_hour else 0.0


class Requests:
    """The verbs of looking at requests."""

    def __init__(self, store: RequestStore) -> None:
        self._store = store

    async def list_refused(
        self, client_id: str, *, before: str = "", result_code: str | None = None
    ) -> tuple[list[RefusedRequest], str]:
        """Return a page of refused requests, newest first, and where the next one begins (empty: nowhere)."""
        before_id = f"req_{before or _NOW}"
        found = await self._store.list_refused(client_id, before_id, result_code, PER_PAGE + 1)
        page = found[:PER_PAGE]
        return page, page[-1].request_id[4:] if len(found) > PER_PAGE else ""

    async def list_all(self, client_id: str, *, before: str = "") -> tuple[list[Seen], str]:
        """Return a page of refused requests and of those that made a payment, and where the next one begins."""
        place = before or _NOW
        refused = await self._store.list_refused(client_id, f"req_{place}", None, PER_PAGE + 1)
        accepted = await self._store.list_accepted(client_id, f"pay_{place}", PER_PAGE + 1)
        seen: list[Seen] = [*refused, *accepted]
        seen.sort(key=_place, reverse=True)
        page = seen[:PER_PAGE]
        return page, _place(page[-1]) if len(seen) > PER_PAGE else ""

    async def find_refused(self, client_id: str, request_id: str) -> RefusedRequest | None:
        """Return one refused request of a merchant; None when it is gone, or another's."""
        return await self._store.find_refused(client_id, request_id)

    async def count_refusals(self, client_id: str, now: datetime) -> list[RefusalCount]:
        """Count what was refused in the last day, by code, the most frequent first."""
        return await self._store.count_refusals(client_id, now - DAY)

    async def traffic(self, client_id: str, now: datetime) -> Traffic:
        """Return how a merchant's keys were used."""
        present = now.replace(second=0, microsecond=0)
        first = present - HOUR + _MINUTE
        minutes = await self._store.list_minutes(client_id, first)
        uses = await self._store.list_key_uses(client_id)
        return Traffic(
            keys={use.key_version: _traffic_of(use, minutes, first) for use in uses}, clock=clock_of(minutes)
        )


def _place(seen: Seen) -> str:
    """Return the part of an id that is the same for both kinds: its time, and what tells it apart."""
    return (seen.request_id if isinstance(seen, RefusedRequest) else seen.payment_id)[4:]


def _traffic_of(use: KeyUse, minutes: Sequence[Minute], first: datetime) -> KeyTraffic:
    counts = [0] * 60
    for one in minutes:
        place = (one.minute - first) // _MINUTE
        if one.key_version == use.key_version and 0 <= place < len(counts):
            counts[place] += one.uses
    return KeyTraffic(
        key_version=use.key_version,
        uses=use.uses,
        first_used_at=use.first_used_at,
        last_used_at=use.last_used_at,
        last_hour=sum(counts),
        minutes=tuple(counts),
    )
