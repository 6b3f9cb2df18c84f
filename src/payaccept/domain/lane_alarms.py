"""When a failing destination is worth telling its merchant's people of, and what they are told."""

from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from msgspec import Struct

from payaccept.domain.lanes import FailingLane


class Alarm(IntEnum):
    """What there is to tell of a destination, in the order in which it becomes worse."""

    OVER = 0
    HOUR = 1
    DAY = 2


HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(hours=24)


class LaneNews(Struct, frozen=True, kw_only=True):
    """Something new of a destination. What is OVER has neither failures nor a reason any more."""

    lane: str
    client_id: str
    alarm: Alarm
    failing_since: datetime
    failures: int = 0
    last_reason: str = ""


def alarm_of(lane: FailingLane, now: datetime) -> Alarm | None:
    """Return the alarm that a failing destination is due; None while it may well be over in a moment."""
    lasted = now - lane.failing_since
    if lasted >= DAY:
        return Alarm.DAY
    return Alarm.HOUR if lasted >= HOUR else None
