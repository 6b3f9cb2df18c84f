"""Connections kept for the next request to the same place: so many, and so long."""

import asyncio
from collections import defaultdict
from collections.abc import Hashable
from typing import Final

from payaccept.adapters.outbound.connection import Connection

IDLE_S: Final = 15.0
MAX_IDLE: Final = 1024


class Pool:
    """Idle connections by their place. The one that was used last is taken first, so that the others can go."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, idle_s: float = IDLE_S, max_idle: int = MAX_IDLE
    ) -> None:
        self._loop = loop
        self._idle_s = idle_s
        self._max_idle = max_idle
        self._by_place: defaultdict[Hashable, list[Connection]] = defaultdict(list)
        self._idle: dict[Connection, tuple[Hashable, float]] = {}  # those idle longest first
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, place: Hashable) -> Connection | None:
        """Return a connection that is still good, as far as we have heard."""
        while kept := self._by_place.get(place):
            connection = kept[-1]
            _, until = self._idle[connection]
            self.forget(connection)
            if connection.is_open and self._loop.time() < until:
                return connection
            connection.close()
        return None

    def keep(self, place: Hashable, connection: Connection) -> None:
        """Keep a connection that has served; when there are too many, the one idle longest goes."""
        if not connection.is_open:
            return
        self._by_place[place].append(connection)
        self._idle[connection] = (place, self._loop.time() + self._idle_s)
        if len(self._idle) > self._max_idle:
            oldest = next(iter(self._idle))
            self.forget(oldest)
            oldest.close()
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle_s, self._sweep)

    def forget(self, connection: Connection) -> None:
        """Keep a connection no more; nothing happens where it is not kept."""
        place, _ = self._idle.pop(connection, (None, 0.0))
        if place is not None:
            kept = self._by_place[place]
            kept.remove(connection)
            if not kept:
                del self._by_place[place]

    def close(self) -> None:
        """Close all of them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in list(self._idle):
            self.forget(connection)
            connection.close()

    def _sweep(self) -> None:
        """Close those that have been idle for long enough, and come again when the next one has."""
        self._timer = None
        now = self._loop.time()
        for connection, (_, until) in list(self._idle.items()):
            if until > now:
                self._timer = self._loop.call_at(until, self._sweep)
                return
            self.forget(connection)
            connection.close()
