"""The buckets of `domain.attempt_limit`: looked at and filled in one transaction, so that no burst slips through."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from psycopg import AsyncConnection

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.attempt_limit import LIMITS, Bucket, Kind, Level, level_at, wait_s

_SQL: Final = statements.load("attempts.sql")


class PostgresAttempts:
    """The port Attempts."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def admit(self, buckets: Sequence[Bucket], now: datetime) -> float:
        """Count an attempt in all buckets when there is room in each.

        Returns: 0, or after how many seconds there is room; then nothing was counted.
        """
        async with self._lines.transaction() as connection:
            levels = await _lock(connection, buckets, now)
            wait = max(wait_s(level, LIMITS[bucket.kind], now) for bucket, level in levels.items())
            if not wait:
                await _write(connection, levels, now, lambda level: level + 1)
        return wait

    async def forgive(self, buckets: Sequence[Bucket], now: datetime) -> None:
        """Take an attempt that turned out right out of the buckets again."""
        async with self._lines.transaction() as connection:
            levels = await _lock(connection, buckets, now)
            await _write(connection, levels, now, lambda level: max(0.0, level - 1))

    async def empty(self, buckets: Sequence[Bucket], now: datetime) -> None:
        """Forget all attempts of the buckets."""
        async with self._lines.transaction() as connection:
            levels = await _lock(connection, buckets, now)
            await _write(connection, levels, now, lambda _level: 0.0)


async def _lock(
    connection: AsyncConnection[Any], buckets: Sequence[Bucket], now: datetime
) -> dict[Bucket, Level]:
    ordered = sorted(set(buckets))
    columns = {"kind": [bucket.kind.value for bucket in ordered], "slot": [bucket.slot for bucket in ordered]}
    await connection.execute(_SQL["insert_buckets"], {**columns, "now": now})
    cursor = await connection.execute(_SQL["select_buckets"], columns)
    return {Bucket(Kind(kind), slot): Level(level, at) for kind, slot, level, at in await cursor.fetchall()}


async def _write(
    connection: AsyncConnection[Any],
    levels: dict[Bucket, Level],
    now: datetime,
    change: Callable[[float], float],
) -> None:
    for bucket, level in levels.items():
        new = change(level_at(level, LIMITS[bucket.kind], now))
        values = {"kind": bucket.kind.value, "slot": bucket.slot, "level": new, "now": now}
        await connection.execute(_SQL["update_bucket"], values)
