"""How the deployment has been, in PostgreSQL: written by every process, read by the pages of the provider's staff."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Bigints, Texts, Timestamps
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.health import STATES, Figure, Process, Sample, Span

MOST_PROCESSES: Final = 500
_FIGURES: Final = frozenset(map(str, Figure))
_SQL: Final = statements.load("health.sql")


class PostgresPulse:
    """Where a process writes that it lives, and what it has counted."""

    def __init__(self, database_url: str, *, process: str) -> None:
        # A crash of the database may lose a second of this: it is for looking at.
        self._line = SharedLine(database_url, f"{process}-pulse", hot=True, durable=False)

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()

    async def beat(self, process: Process, minute: datetime, samples: Sequence[Sample]) -> None:
        """Write that a process lives, and add to a minute. Raises: StoreUnavailable, OutcomeUnknown."""
        states = [sample for sample in samples if sample.figure in STATES]
        counts = [sample for sample in samples if sample.figure not in STATES]
        members = {name: getattr(process, name) for name in process.__struct_fields__}
        async with self._line.connection() as connection, connection.pipeline(), connection.transaction():
            await connection.execute(_SQL["insert_process"], members)
            if states:
                await connection.execute(_SQL["raise_health_minutes"], _columns(minute, states))
            if counts:
                await connection.execute(_SQL["add_health_minutes"], _columns(minute, counts))

    async def leave(self, process_id: str) -> None:
        """Forget a process that ends. Raises: StoreUnavailable, OutcomeUnknown."""
        async with self._line.connection(timeout_s=1.0) as connection:
            await connection.execute(_SQL["delete_process"], {"process_id": process_id})

    async def expire(self, minutes_before: datetime, processes_before: datetime) -> None:
        """Delete minutes that are older, and processes silent since then. Raises: StoreUnavailable, OutcomeUnknown."""
        async with self._line.connection() as connection:
            await connection.execute(_SQL["expire_health_minutes"], {"before": minutes_before})
            await connection.execute(_SQL["expire_processes"], {"before": processes_before})


class PostgresHealth:
    """The port HealthStore."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def list_spans(self, since: datetime, step_min: int) -> list[Span]:
        """Return what is known since then, in spans of so many minutes, the oldest first; nothing where nothing was."""
        found: dict[datetime, dict[Figure, dict[str, int]]] = {}
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_health"], {"since": since, "step": step_min})
            for at, name, label, total, most in await cursor.fetchall():
                if name in _FIGURES:  # an older version may have written others
                    figure = Figure(name)
                    figures = found.setdefault(at, {})
                    figures.setdefault(figure, {})[label] = most if figure in STATES else total
        return [Span(at, figures) for at, figures in found.items()]

    async def list_processes(self) -> list[Process]:
        """Return the processes by kind and host, those that have fallen silent among them."""
        async with self._lines.connection() as connection:
            cursor = await connection.execute(_SQL["select_processes"], {"limit": MOST_PROCESSES})
            rows = await cursor.fetchall()
        return [Process(**dict(zip(Process.__struct_fields__, row, strict=True))) for row in rows]


def _columns(minute: datetime, samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        "minute": Timestamps([minute] * len(samples)),
        "figure": Texts([sample.figure for sample in samples]),
        "label": Texts([sample.label for sample in samples]),
        "amount": Bigints([sample.amount for sample in samples]),
    }
