"""What people were told of failing destinations, in PostgreSQL."""

import uuid
from datetime import datetime
from typing import Any, Final

from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.columns import Texts, Timestamps
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.domain.lane_alarms import DAY, HOUR, Alarm, LaneNews, alarm_of
from payaccept.domain.lanes import FailingLane

_SQL: Final = statements.load("lane_alarms.sql")


class PostgresLaneAlarms:
    """The port AlarmStore. Each process claims under a name of its own."""

    def __init__(self, database_url: str, *, process: str) -> None:
        self._line = SharedLine(database_url, f"{process}-alarms")
        self._claim_id = uuid.uuid4()

    async def close(self) -> None:
        """Close the connection."""
        await self._line.close()

    async def claim(
        self, now: datetime, leased_until: datetime, quiet_since: datetime, limit: int
    ) -> list[LaneNews]:
        """Take what is new and nobody is telling, for so long; nothing of where nothing was sent since."""
        lease = {"now": now, "claim_id": self._claim_id, "leased_until": leased_until, "limit": limit}
        async with self._line.connection() as connection:
            await connection.execute(_SQL["update_quiet"], {"quiet_since": quiet_since})
            ago = {"hour_ago": now - HOUR, "day_ago": now - DAY, "quiet_since": quiet_since}
            cursor = await connection.execute(_SQL["select_due_alarms"], lease | ago)
            due = [
                FailingLane(**dict(zip(FailingLane.__struct_fields__, row, strict=True)))
                for row in await cursor.fetchall()
            ]
            cursor = await connection.execute(_SQL["claim_alarms"], lease | _columns(due))
            told = dict(await cursor.fetchall())
            cursor = await connection.execute(_SQL["select_recovered"], lease)
            well = [lane for (lane,) in await cursor.fetchall()]
            cursor = await connection.execute(_SQL["claim_recovered"], lease | {"lane": Texts(well)})
            over = [
                LaneNews(lane=lane, client_id=client_id, alarm=Alarm.OVER, failing_since=since)
                for lane, client_id, since in await cursor.fetchall()
            ]
        news = [_news(lane, now) for lane in due if lane.lane in told]
        return [each for each in news if each.alarm > told[each.lane]] + over

    async def record_told(self, news: LaneNews) -> None:
        """Write that it was told."""
        values = {"lane": news.lane, "told": news.alarm.value, "claim_id": self._claim_id}
        async with self._line.connection() as connection:
            await connection.execute(_SQL["update_told"], values)


def _news(lane: FailingLane, now: datetime) -> LaneNews:
    return LaneNews(
        lane=lane.lane,
        client_id=lane.client_id,
        alarm=alarm_of(lane, now) or Alarm.OVER,
        failing_since=lane.failing_since,
        failures=lane.failures,
        last_reason=lane.last_reason,
    )


def _columns(due: list[FailingLane]) -> dict[str, Any]:
    return {
        "lane": Texts([lane.lane for lane in due]),
        "client_id": Texts([lane.client_id for lane in due]),
        "failing_since": Timestamps([lane.failing_since for lane in due]),
    }
