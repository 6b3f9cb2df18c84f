"""Drills and their steps in PostgreSQL."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec.structs import replace
from psycopg import AsyncConnection

from payaccept.adapters.postgres import audit, statements
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.audit import Entry
from payaccept.domain.delivery import Answered, AttemptOutcome, Unreachable
from payaccept.domain.drill import Drill, Exercise, Step
from payaccept.domain.errors import MerchantNotFound

_SQL: Final = statements.load("drills.sql")

Connection = AsyncConnection[Any]


class PostgresDrills:
    """The port DrillStore."""

    def __init__(self, lines: LinePool) -> None:
        self._lines = lines

    async def insert_drill(
        self, drill: Drill, decide: Callable[[Drill | None], None], entry: Entry, keep: int
    ) -> None:
        """Store a drill, if `decide` does not raise on the merchant's last one; only the newest are kept.

        Raises: MerchantNotFound.
        """
        of = {"client_id": drill.client_id}
        async with self._lines.transaction() as connection:
            locked = await connection.execute(_SQL["lock_merchant"], of)
            if await locked.fetchone() is None:
                raise MerchantNotFound(f"there is no merchant {drill.client_id[:64]}")
            kept = await _drills(connection, "select_drills", of | {"limit": keep - 1})
            decide(kept[0] if kept else None)
            values = {name: getattr(drill, name) for name in drill.__struct_fields__ if name != "steps"}
            await connection.execute(_SQL["insert_drill"], values)
            for step in drill.steps:
                await connection.execute(_SQL["insert_step"], _values_of(step) | {"drill_id": drill.drill_id})
            oldest_kept = kept[-1].drill_id if kept else drill.drill_id
            await connection.execute(_SQL["trim_drills"], of | {"oldest_kept": oldest_kept})
            await audit.record(connection, entry)

    async def list_drills(self, client_id: str, limit: int) -> list[Drill]:
        """Return a merchant's last drills with their steps, the newest first."""
        async with self._lines.connection() as connection:
            drills = await _drills(connection, "select_drills", {"client_id": client_id, "limit": limit})
            return await _with_steps(connection, drills)

    async def find_drill(self, client_id: str, drill_id: str) -> Drill | None:
        """Return a drill of a merchant's with its steps."""
        values = {"client_id": client_id, "drill_id": drill_id}
        async with self._lines.connection() as connection:
            found = await _with_steps(connection, await _drills(connection, "select_drill", values))
            return found[0] if found else None

    async def claim_drills(
        self, claim_id: UUID, now: datetime, leased_until: datetime, limit: int
    ) -> list[Drill]:
        """Take drills that no worker has, with their steps."""
        async with self._lines.transaction() as connection:
            drills = await _drills(connection, "lock_open_drills", {"now": now, "limit": limit})
            if drills:
                ids = [drill.drill_id for drill in drills]
                values = {"claim_id": claim_id, "leased_until": leased_until, "drill_ids": ids}
                await connection.execute(_SQL["claim_drills"], values)
            return await _with_steps(connection, drills)

    async def begin_step(
        self,
        drill_id: str,
        claim_id: UUID,
        step: Step,
        sent_at: datetime,
        headers: str,
        leased_until: datetime,
    ) -> bool:
        """Write that a step is about to be sent; False when it may have been before, or the claim is lost."""
        of = {"drill_id": drill_id, "claim_id": claim_id}
        async with self._lines.transaction() as connection:
            ours = await connection.execute(_SQL["extend_lease"], of | {"leased_until": leased_until})
            if await ours.fetchone() is None:
                return False
            values = {"drill_id": drill_id, "number": step.number, "sent_at": sent_at, "headers": headers}
            begun = await connection.execute(_SQL["begin_step"], values)
            return await begun.fetchone() is not None

    async def record_step(self, drill_id: str, step: Step) -> None:
        """Write what came of a step. Written twice it is the same."""
        match step.outcome:
            case Answered() as answered:
                came = {"status": answered.status, "refusal": answered.refusal, "unreachable": None}
            case Unreachable() as unreachable:
                came = {"status": None, "refusal": None, "unreachable": unreachable.reason}
            case None:
                raise ValueError("the step has no outcome")
        values = _values_of(step) | came | {"drill_id": drill_id}
        async with self._lines.connection() as connection:
            await connection.execute(_SQL["record_step"], values)

    async def end_drill(self, drill_id: str, claim_id: UUID, now: datetime) -> None:
        """Write that nothing of a drill is still to come."""
        values = {"drill_id": drill_id, "claim_id": claim_id, "now": now}
        async with self._lines.connection() as connection:
            await connection.execute(_SQL["end_drill"], values)

    async def give_back_drill(self, drill_id: str, claim_id: UUID) -> None:
        """Leave a drill to another worker."""
        async with self._lines.connection() as connection:
            await connection.execute(_SQL["give_back_drill"], {"drill_id": drill_id, "claim_id": claim_id})


def _values_of(step: Step) -> dict[str, Any]:
    values = {name: getattr(step, name) for name in step.__struct_fields__ if name != "outcome"}
    return values | {"exercise": step.exercise.value}


async def _drills(connection: Connection, statement: str, values: dict[str, Any]) -> list[Drill]:
    cursor = await connection.execute(_SQL[statement], values)
    return [
        Drill(**dict(zip(Drill.__struct_fields__[: len(row)], row, strict=True)))
        for row in await cursor.fetchall()
    ]


async def _with_steps(connection: Connection, drills: Sequence[Drill]) -> list[Drill]:
    if not drills:
        return []
    ids = [drill.drill_id for drill in drills]
    cursor = await connection.execute(_SQL["select_steps"], {"drill_ids": ids})
    steps: dict[str, list[Step]] = {drill_id: [] for drill_id in ids}
    for row in await cursor.fetchall():
        steps[row[0]].append(_step_of(row[1:]))
    return [replace(drill, steps=tuple(steps[drill.drill_id])) for drill in drills]


def _step_of(row: tuple[Any, ...]) -> Step:
    number, exercise, event_id, sequence, attempt, body, headers, sent_at, answered_at = row[:9]
    status, refusal, unreachable, total_us, answer_bytes = row[9:]
    outcome: AttemptOutcome | None = None
    if status is not None:
        outcome = Answered(status, refusal)
    elif unreachable is not None:
        outcome = Unreachable(unreachable)
    return Step(
        number=number,
        exercise=Exercise(exercise),
        event_id=event_id,
        sequence=sequence,
        attempt=attempt,
        body=bytes(body),
        headers=headers,
        sent_at=sent_at,
        answered_at=answered_at,
        outcome=outcome,
        total_us=total_us or 0,
        answer_bytes=answer_bytes or 0,
    )
