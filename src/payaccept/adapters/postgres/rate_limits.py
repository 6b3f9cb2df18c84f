"""Limits of N requests in any 60 s per merchant, exact across all processes.

The admitted requests' times stand in one row per merchant, locked while it is changed; requests that come
together are admitted in one transaction. A process that has heard "full until t" refuses by itself until t.
"""

import time
from collections import defaultdict
from typing import Any, Final

from msgspec import Struct
from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Texts
from payaccept.adapters.postgres.connections import Line
from payaccept.adapters.postgres.group_commit import GroupCommit
from payaccept.domain.rate_window import admit

_SQL: Final = statements.load("rate_limits.sql")
_MAX_REMEMBERED: Final = 10_000


class _Wanted(Struct, frozen=True):
    client_id: str
    limit: int
    now_us: int


class Verdict(Struct, frozen=True):
    """Whether the request is admitted; `remaining` more are now, else the next in `wait_s` seconds."""

    admitted: bool
    remaining: int
    wait_s: float


class PostgresRateLimits:
    """Admits requests of limited merchants."""

    def __init__(self, database_url: str) -> None:
        self._admissions = GroupCommit[_Wanted, tuple[bool, int, int]](
            _admit, [Line(database_url, "api-rate", durable=False)], bucket_of=lambda _: 0
        )
        self._full_until_us: dict[str, int] = {}

    def start(self) -> None:
        """Start in the running loop."""
        self._admissions.start()

    async def close(self) -> None:
        """Close the connection."""
        await self._admissions.close()

    def forget(self) -> None:
        """Ask the database again about everybody: a limit may have changed."""
        self._full_until_us.clear()

    async def admit(self, client_id: str, limit: int) -> Verdict:
        """Admit or refuse one request now.

        Raises: StoreUnavailable, OutcomeUnknown.
        """
        now_us = time.time_ns() // 1000
        free_at_us = self._full_until_us.get(client_id)
        if free_at_us is not None:
            if now_us < free_at_us:
                return Verdict(admitted=False, remaining=0, wait_s=(free_at_us - now_us) / 1e6)
            del self._full_until_us[client_id]
        admitted, remaining, free_at_us = await self._admissions.submit(_Wanted(client_id, limit, now_us))
        if not remaining and free_at_us > now_us:
            if len(self._full_until_us) >= _MAX_REMEMBERED:
                self._full_until_us.clear()
            self._full_until_us[client_id] = free_at_us
        return Verdict(admitted=admitted, remaining=remaining, wait_s=max(0, free_at_us - now_us) / 1e6)


async def _admit(connection: AsyncConnection[Any], wanted: list[_Wanted]) -> list[tuple[bool, int, int]]:
    by_client: dict[str, list[int]] = defaultdict(list)
    for index, item in enumerate(wanted):
        by_client[item.client_id].append(index)
    clients = sorted(by_client)
    verdicts: list[tuple[bool, int, int]] = [(False, 0, 0)] * len(wanted)
    async with connection.transaction():
        cursor = await connection.execute(
            _SQL["lock_rate_windows"], {"client_id": Texts(clients)}, binary=True
        )
        windows = dict(await cursor.fetchall())
        if len(windows) < len(clients):
            await connection.execute(_SQL["insert_rate_windows"], {"client_id": Texts(clients)})
            cursor = await connection.execute(
                _SQL["lock_rate_windows"], {"client_id": Texts(clients)}, binary=True
            )
            windows = dict(await cursor.fetchall())
        for client_id, indexes in by_client.items():
            limit = wanted[indexes[-1]].limit
            now_us = max(wanted[index].now_us for index in indexes)
            admission = admit(windows[client_id], now_us, limit, len(indexes))
            remaining = max(0, limit - len(admission.times_us))
            for place, index in enumerate(indexes):
                verdicts[index] = (place < admission.admitted, remaining, admission.free_at_us)
            if admission.admitted:
                await connection.execute(
                    _SQL["update_rate_window"], {"client_id": client_id, "times_us": admission.times_us}
                )
    return verdicts
