"""When a failing destination is worth telling its merchant's people of."""

from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from payaccept.domain.lanes import FailingLane


class Alarm(IntEnum):
    """What there is to tell of a destination, in the order in which it becomes worse."""

    HOUR = 1
    DAY = 2


AFTER: Final = {Alarm.HOUR: timedelta(hours=1), Alarm.DAY: timedelta(hours=24)}


def alarm_of(lane: FailingLane, now: datetime) -> Alarm | None:
    """Return the alarm that a failing destination is due; None while it may well be over in a moment."""
    lasted = now - lane.failing_since
    return max((alarm for alarm, after in AFTER.items() if lasted >= after), default=None)
