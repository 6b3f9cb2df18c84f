"""Replays in PostgreSQL."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import psycopg

from payaccept.adapters.postgres import audit, statements
from payaccept.adapters.postgres.columns import Texts
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.audit import Entry
from payaccept.domain.event import EventStatus
from payaccept.domain.replay import PageDone, Replay, ReplayState

_SQL: Final = statements.load("replays.sql")


class PostgresReplays:
    """The port ReplayStore. Each process claims under a name of its own."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines
        self._claim_id = uuid.uuid4()

    async def insert_replay(self, replay: Replay, entry: Entry) -> bool:
        """Store a new replay; False when the merchant has one that is running."""
        values = {name: getattr(replay, name) for name in replay.__struct_fields__}
        values |= {"statuses": Texts(sorted(replay.statuses)), "now": replay.created_at}
        return await self._change("insert_replay", values, entry)

    async def find_replay(self, client_id: str, replay_id: str) -> Replay | None:
        """Return a replay of a merchant."""
        found = await self._list("select_replay", {"client_id": client_id, "replay_id": replay_id})
        return found[0] if found else None

    async def list_replays(self, client_id: str, limit: int) -> list[Replay]:
        """Return the last replays of a merchant, the latest first."""
        return await self._list("select_replays", {"client_id": client_id, "limit": limit})

    async def stop_replay(self, client_id: str, replay_id: str, now: datetime, entry: Entry) -> bool:
        """Stop a replay; False when it is not running."""
        values = {"client_id": client_id, "replay_id": replay_id, "now": now}
        return await self._change("stop_replay", values, entry)

    async def resume_replay(self, client_id: str, replay_id: str, now: datetime, entry: Entry) -> bool:
        """Take a stopped replay up; False when it is not stopped, or another is running."""
        values = {"client_id": client_id, "replay_id": replay_id, "now": now}
        try:
            return await self._change("resume_replay", values, entry)
        except psycopg.errors.UniqueViolation:
            return False

    async def claim_replays(self, now: datetime, leased_until: datetime, limit: int) -> list[Replay]:
        """Take replays of which a page is due."""
        values = {"now": now, "leased_until": leased_until, "limit": limit, "claim_id": self._claim_id}
        return await self._list("claim_replays", values)

    async def record_page(
        self, replay: Replay, done: PageDone, next_at: datetime, now: datetime, *, is_done: bool
    ) -> None:
        """Write what a page came to, and when the next is due."""
        values = {name: getattr(done, name) for name in done.__struct_fields__}
        values |= {"replay_id": replay.replay_id, "claim_id": self._claim_id, "is_done": is_done}
        async with self._lines.connection() as connection:
            await connection.execute(_SQL["record_page"], values | {"next_at": next_at, "now": now})

    async def _change(self, statement: str, values: dict[str, Any], entry: Entry) -> bool:
        async with self._lines.transaction() as connection:
            changed = bool((await connection.execute(_SQL[statement], values)).rowcount)
            await audit.record(connection, entry if changed else None)
        return changed

    async def _list(self, statement: str, values: dict[str, Any]) -> list[Replay]:
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL[statement], values)
            return [_replay(row) for row in await cursor.fetchall()]


def _replay(row: Sequence[Any]) -> Replay:
    members = dict(zip(Replay.__struct_fields__, row, strict=True))
    members["state"] = ReplayState(members["state"])
    members["statuses"] = frozenset(map(EventStatus, members["statuses"]))
    return Replay(**members)
