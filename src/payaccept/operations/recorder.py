"""Records the requests of merchants for their pages: in memory at once, in the database about once a second.

Recording never waits, and never fails a request. What memory is not meant for, and what cannot be written while the
database is away, is dropped and counted, the oldest first.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct

from payaccept.domain.errors import OutcomeOpen, StoreUnavailable
from payaccept.domain.traffic import (
    KeyMinute,
    RefusalMinute,
    RefusedRequest,
    milliseconds,
    presentable,
    together,
)
from payaccept.wire.codes import ResultCode

FLUSH_S: Final = 1.0
KEPT_FOR: Final = timedelta(days=7)
MINUTES_KEPT_FOR: Final = timedelta(days=1)
KEPT_PER_MERCHANT: Final = 500

PER_MERCHANT: Final = 10
"""How many refused requests of one merchant each process keeps between two flushes."""
OF_STRANGERS: Final = 100
"""How many that name merchants this process has not heard of: perhaps there are none of that name."""
MAX_HELD: Final = 1000
MAX_HELD_BYTES: Final = 8 * 1024 * 1024
MAX_MINUTES: Final = 20_000
MAX_MINUTES_OF_STRANGERS: Final = 1000
_MAX_CLIENT_ID: Final = 64
_MINUTE: Final = timedelta(minutes=1)
_TRIM_EVERY: Final = timedelta(minutes=1)
_EXPIRE_EVERY: Final = timedelta(hours=1)
_STRANGERS: Final = ""

_log = logging.getLogger(__name__)


class TrafficStore(Protocol):
    """Where the records go."""

    async def record(
        self,
        uses: Sequence[KeyMinute],
        refusals: Sequence[RefusalMinute],
        refused: Sequence[RefusedRequest],
    ) -> None:
        """Add to what is recorded; what names no merchant is left out. Raises: StoreUnavailable, OutcomeUnknown."""

    async def trim(self, client_ids: Sequence[str], keep: int) -> None:
        """Delete all but the newest refused requests of some merchants. Raises: OutcomeOpen."""

    async def expire(self, before: datetime, minutes_before: datetime) -> None:
        """Delete what is older, and minutes of keys that are. Raises: OutcomeOpen."""

    async def close(self) -> None:
        """Close the connection."""


class _Tally(Struct):
    """How a key was used since the last flush."""

    uses: int
    first_used_at: datetime
    last_used_at: datetime
    least_skew: timedelta
    greatest_skew: timedelta


class _Count(Struct):
    refused: int = 0
    only_counted: int = 0


class Recorder:
    """Keeps what `used` and `refused` tell it. `knows` says, without asking anybody, who is a merchant."""

    def __init__(
        self, store: TrafficStore, clock: Callable[[], datetime], knows: Callable[[str], bool]
    ) -> None:
        self._store = store
        self._clock = clock
        self._knows = knows
        self._tallies: dict[tuple[str, int], _Tally] = {}
        self._minutes: dict[tuple[str, int, datetime], KeyMinute] = {}
        self._held: dict[str, deque[RefusedRequest]] = {}
        self._held_count = 0
        self._held_bytes = 0
        self._counts: dict[tuple[str, datetime, str], _Count] = {}
        self._minute = self._minute_end = clock()
        self._lost = 0
        self._to_trim: set[str] = set()
        self._trimmed_at = self._expired_at = clock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start writing in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write what is left, if the database is there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.flush()
        await self._store.close()

    def used(self, client_id: str, key_version: int, at: datetime, skew: timedelta) -> None:
        """Keep that a request verified under a key. On the path of every request: a fraction of a microsecond."""
        tally = self._tallies.get((client_id, key_version))
        if tally is None:
            self._tallies[client_id, key_version] = _Tally(1, at, at, skew, skew)
            return
        tally.uses += 1
        tally.last_used_at = at
        if skew < tally.least_skew:
            tally.least_skew = skew
        elif skew > tally.greatest_skew:
            tally.greatest_skew = skew

    def refused(self, request: RefusedRequest) -> None:
        """Keep a request that was refused, as it came; of several in a second, the last ones."""
        client_id = request.client_id
        known = self._knows(client_id)
        if not known and (
            request.result_code == ResultCode.INVALID_CLIENT_ID
            or len(client_id) > _MAX_CLIENT_ID
            or not client_id.isascii()
            or not client_id.isprintable()
        ):
            return  # no merchant of this name; nobody could ever read it
        if not self._count(request, known=known):
            self._lost += 1
            return
        place = client_id if known else _STRANGERS
        held = self._held.get(place)
        if held is None:
            held = self._held[place] = deque()
        held.append(request)
        self._held_count += 1
        self._held_bytes += len(request.body)
        if len(held) > (PER_MERCHANT if known else OF_STRANGERS):
            self._drop_oldest(place)
        while self._held_count > MAX_HELD or self._held_bytes > MAX_HELD_BYTES:
            self._drop_oldest(next(iter(self._held)))

    def _count(self, request: RefusedRequest, *, known: bool) -> bool:
        of = (request.client_id, self._minute_of(request.received_at), request.result_code)
        count = self._counts.get(of)
        if count is None:
            if len(self._counts) >= (MAX_MINUTES if known else MAX_MINUTES_OF_STRANGERS):
                return False
            count = self._counts[of] = _Count()
        count.refused += 1
        return True

    def _drop_oldest(self, place: str) -> None:
        held = self._held[place]
        dropped = held.popleft()
        if not held:
            del self._held[place]
        self._held_count -= 1
        self._held_bytes -= len(dropped.body)
        minute = self._minute_of(dropped.received_at)
        count = self._counts.get((dropped.client_id, minute, dropped.result_code))
        if count is not None:
            count.only_counted += 1

    def _minute_of(self, at: datetime) -> datetime:
        """Return the minute an instant is in; mostly the same one as before."""
        if not self._minute <= at < self._minute_end:
            self._minute = at.replace(second=0, microsecond=0)
            self._minute_end = self._minute + _MINUTE
        return self._minute

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await self.flush()
                await self._tidy()
            except OutcomeOpen:
                pass  # the next time will do
            except Exception:  # noqa: BLE001 - a bug here must not end the recording
                _log.exception("recording requests failed")

    async def flush(self) -> None:
        """Write what was kept since the last time. Never raises."""
        self._add_up()
        if not self._minutes and not self._counts:
            return
        minutes, self._minutes = self._minutes, {}
        counts, self._counts = self._counts, {}
        held, self._held = self._held, {}
        self._held_count = self._held_bytes = 0
        try:
            kept = [request for requests in held.values() for request in requests]
            # Masking reads every byte: beside the loop, which has requests to answer.
            refused = (
                await asyncio.to_thread(lambda: [presentable(request) for request in kept]) if kept else []
            )
            await self._store.record(list(minutes.values()), _refusal_minutes(counts), refused)
        except StoreUnavailable:
            self._put_back(minutes, counts, held)  # nothing was done
        except Exception as error:  # noqa: BLE001 - what broke must not be tried again and again
            self._lost += sum(count.refused for count in counts.values())
            if not isinstance(error, OutcomeOpen):
                _log.exception("recording requests failed")
        else:
            self._to_trim.update(request.client_id for request in refused)
        if self._lost:
            _log.warning("refused requests were not recorded", extra={"count": self._lost})
            self._lost = 0

    def _add_up(self) -> None:
        """Turn what was used since the last time into uses of a minute."""
        tallies, self._tallies = self._tallies, {}
        for (client_id, key_version), tally in tallies.items():
            minute = tally.last_used_at.replace(second=0, microsecond=0)
            self._add(
                KeyMinute(
                    client_id=client_id,
                    key_version=key_version,
                    minute=minute,
                    uses=tally.uses,
                    first_used_at=tally.first_used_at,
                    last_used_at=tally.last_used_at,
                    least_skew_ms=milliseconds(tally.least_skew),
                    greatest_skew_ms=milliseconds(tally.greatest_skew),
                )
            )

    def _add(self, new: KeyMinute) -> None:
        of = (new.client_id, new.key_version, new.minute)
        old = self._minutes.get(of)
        if old is not None:
            new = together(old, new)
        elif len(self._minutes) >= MAX_MINUTES:
            del self._minutes[next(iter(self._minutes))]
        self._minutes[of] = new

    def _put_back(
        self,
        minutes: dict[tuple[str, int, datetime], KeyMinute],
        counts: dict[tuple[str, datetime, str], _Count],
        held: dict[str, deque[RefusedRequest]],
    ) -> None:
        """Keep for the next time what could not be written, before what has come meanwhile."""
        newer_minutes, self._minutes = self._minutes, minutes
        for minute in newer_minutes.values():
            self._add(minute)
        newer_counts, self._counts = self._counts, counts
        for of, newer in newer_counts.items():
            count = self._counts.setdefault(of, _Count())
            count.refused += newer.refused
            count.only_counted += newer.only_counted
        newer_held, self._held = self._held, held
        for place, requests in newer_held.items():
            self._held.setdefault(place, deque()).extend(requests)
        self._held_count = sum(map(len, self._held.values()))
        self._held_bytes = sum(len(one.body) for requests in self._held.values() for one in requests)
        for place in list(self._held):
            limit = OF_STRANGERS if place == _STRANGERS else PER_MERCHANT
            while len(self._held.get(place, ())) > limit:
                self._drop_oldest(place)

    async def _tidy(self) -> None:
        """Delete what is too much for a merchant, and now and then what is too old. Raises: OutcomeOpen."""
        now = self._clock()
        if self._to_trim and now - self._trimmed_at >= _TRIM_EVERY:
            client_ids, self._to_trim = sorted(self._to_trim), set()
            self._trimmed_at = now
            await self._store.trim(client_ids, KEPT_PER_MERCHANT)
        if now - self._expired_at >= _EXPIRE_EVERY:
            self._expired_at = now
            await self._store.expire(now - KEPT_FOR, now - MINUTES_KEPT_FOR)


def _refusal_minutes(counts: dict[tuple[str, datetime, str], _Count]) -> list[RefusalMinute]:
    return [
        RefusalMinute(
            client_id=client_id,
            minute=minute,
            result_code=code,
            refused=count.refused,
            only_counted=count.only_counted,
        )
        for (client_id, minute, code), count in counts.items()
    ]
