"""What the pages of webhooks show besides the events: states in words, times, and what exactly was sent."""

from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from payaccept.domain.delivery import AttemptKind, Timing
from payaccept.domain.event import AttemptMade, Event, EventStatus
from payaccept.domain.lane_alarms import Alarm, alarm_of
from payaccept.domain.lanes import FailingLane, WaitingLane, destination_of
from payaccept.wire import signing, timestamps

_STATES: Final = {
    EventStatus.ACKNOWLEDGED: ("Acknowledged", "good"),
    EventStatus.DEAD: ("Given up", "bad"),
    EventStatus.UNSENT: ("Not sent", "warn"),
}
_OUTCOMES: Final = {
    AttemptKind.ACKNOWLEDGED: ("Acknowledged", "good"),
    AttemptKind.REFUSED: ("Refused", "bad"),
    AttemptKind.UNREACHABLE: ("No answer", "bad"),
}
_CHART_WIDTH: Final = 600


class EventRow(Struct, frozen=True, kw_only=True):
    """An event as it is listed. `latency` is from the commit of its payment to its acknowledgement."""

    event: Event
    state: str
    kind: str
    latency: str
    told: str
    is_being_sent: bool


def row_of(event: Event, now: datetime) -> EventRow:
    """Return an event as it is listed."""
    delivery = event.delivery
    state, kind = _STATES.get(event.status, ("Waiting", "busy"))
    told = "there was nowhere to send it" if delivery is None else delivery.last_reason or ""
    is_being_sent = False
    if delivery is not None and event.status is EventStatus.PENDING:
        is_being_sent = delivery.leased_until is not None and delivery.leased_until > now
        if is_being_sent:
            state = "Being sent"
        elif delivery.attempts > delivery.attempts_before:
            state, kind = "Retrying", "warn"
    took = acknowledged_after(event)
    return EventRow(
        event=event,
        state=state,
        kind=kind,
        latency="" if took is None else duration(took),
        told=told,
        is_being_sent=is_being_sent,
    )


def acknowledged_after(event: Event) -> timedelta | None:
    """Return how long it took from the commit to the acknowledgement; None where somebody has had it sent again."""
    delivery = event.delivery
    if delivery is None or event.status is not EventStatus.ACKNOWLEDGED or delivery.final_at is None:
        return None
    if delivery.attempts_before or delivery.created_at != event.created_at:
        return None
    return max(delivery.final_at - event.created_at, timedelta())


def duration(took: timedelta) -> str:
    """Write a duration with the precision that somebody wants: 84 ms, 1.2 s, 2 h 5 min, 3 days 1 h."""
    seconds = took.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min")]
    written = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(written[:2])


class Part(Struct, frozen=True):
    """A part of an attempt's time: where it begins on the chart, how wide it is, how long it took."""

    label: str
    took: str
    x: float
    width: float
    tint: int


class AttemptRow(Struct, frozen=True, kw_only=True):
    """An attempt as it is shown, with its time split into parts."""

    made: AttemptMade
    state: str
    kind: str
    took: str
    parts: tuple[Part, ...]
    chart: int = _CHART_WIDTH


def attempt_row_of(made: AttemptMade) -> AttemptRow:
    """Return an attempt as it is shown."""
    state, kind = _OUTCOMES[made.outcome]
    return AttemptRow(
        made=made,
        state=state,
        kind=kind,
        took=_microseconds(made.timing.total_us),
        parts=_parts(made.timing),
    )


def _parts(timing: Timing) -> tuple[Part, ...]:
    known = [
        ("DNS", timing.resolve_us),
        ("Connect", timing.connect_us),
        ("TLS", timing.tls_us),
        ("First byte", timing.first_byte_us),
    ]
    rest = timing.total_us - sum(us for _, us in known if us is not None)
    parts, begins = [], 0
    for tint, (label, us) in enumerate([*known, ("Rest", max(0, rest))]):
        if us is None:
            continue
        x = round(_CHART_WIDTH * begins / max(1, timing.total_us), 1)
        width = round(_CHART_WIDTH * us / max(1, timing.total_us), 1)
        parts.append(Part(label, _microseconds(us), min(x, _CHART_WIDTH), width, tint % 4))
        begins += us
    return tuple(parts)


def _microseconds(us: int) -> str:
    if us < 10_000:  # noqa: PLR2004
        return f"{us / 1000:.1f} ms"
    return duration(timedelta(microseconds=us))


class SentHeader(Struct, frozen=True):
    """A header of what was sent, and what it is good for."""

    name: str
    value: str
    told: str


class Sent(Struct, frozen=True, kw_only=True):
    """What an attempt sent: its headers, what was signed, and where to."""

    path: str
    headers: tuple[SentHeader, ...]
    to_sign: str


def sent_by(event: Event, attempt: AttemptMade, body: bytes | None) -> Sent:
    """Return the headers of an attempt, explained. The signature is made afresh for each, and not kept."""
    request_time = timestamps.write_seconds(attempt.started_at)
    path = urlsplit(attempt.url).path or "/"
    number = "" if event.sequence is None else str(event.sequence)
    signature = f"algorithm=SHA256withRSA, keyVersion={attempt.key_version}, signature=…"
    headers = (
        SentHeader("Content-Type", "application/json", ""),
        SentHeader(
            "Request-Time",
            request_time,
            "When this attempt was signed. Refuse one that is more than ten minutes away from your clock.",
        ),
        SentHeader(
            "Signature",
            signature,
            f"Verifies under our key of keyVersion {attempt.key_version}; made afresh for every attempt.",
        ),
        SentHeader("Event-Id", event.event_id, "The same in every attempt: act on it once."),
        SentHeader(
            "Event-Sequence",
            number,
            "Its number among your events, without a gap. Not part of what is signed.",
        ),
        SentHeader("Delivery-Attempt", str(attempt.attempt), "Counts the attempts, from 1."),
    )
    signed = b"" if body is None else signing.notification_string(path, request_time, body)
    return Sent(path=path, headers=headers, to_sign=signed.decode(errors="replace"))


class LaneRow(Struct, frozen=True, kw_only=True):
    """A failing destination as it is listed. `alarm` is None while it may well be over in a moment."""

    waiting: WaitingLane
    destination: str
    lasted: str
    alarm: Alarm | None
    next_try: str


def lane_row_of(waiting: WaitingLane, now: datetime) -> LaneRow:
    """Return a failing destination as it is listed."""
    lane = waiting.lane
    if waiting.next_at is None:
        next_try = "with the next event"
    elif waiting.next_at <= now:
        next_try = "within seconds"
    else:
        next_try = f"in {duration(waiting.next_at - now)}"
    return LaneRow(
        waiting=waiting,
        destination=destination_of(lane.lane),
        lasted=duration(max(now - lane.failing_since, timedelta())),
        alarm=alarm_of(lane, now),
        next_try=next_try,
    )


class FailingBanner(Struct, frozen=True, kw_only=True):
    """What every page of a merchant says of a destination that has been failing for long."""

    destination: str
    lasted: str
    last_reason: str
    is_strong: bool


def failing_banner(lane: FailingLane | None, now: datetime) -> FailingBanner | None:
    """Return the banner of a failing destination; None while it may well be over in a moment."""
    alarm = None if lane is None else alarm_of(lane, now)
    if lane is None or alarm is None:
        return None
    return FailingBanner(
        destination=destination_of(lane.lane),
        lasted=duration(now - lane.failing_since),
        last_reason=lane.last_reason,
        is_strong=alarm is Alarm.DAY,
    )


def verdict_on(url: str) -> str:
    """Say what a good address means: what of it is signed is what goes wrong most often."""
    parts = urlsplit(url)
    told = f"A good address. The path that is signed is {parts.path or '/'}"
    return f"{told}; what follows the question mark is sent, and not signed." if parts.query else f"{told}."
