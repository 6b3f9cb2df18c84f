"""How events are shown: in the API's spelling, and in lines for a person."""

from datetime import datetime
from typing import Any

from payaccept.cli import terminal
from payaccept.cli.deployment import when
from payaccept.domain.delivery import Timing
from payaccept.domain.event import AttemptMade, Event, EventDelivery, EventStatus
from payaccept.domain.lanes import FailingLane, destination_of
from payaccept.operations.events import EventDetails, EventList, ReplayProgress
from payaccept.wire import timestamps

_ANSWER_LINES = 40
_TIMES = {
    "resolveUs": ("resolve_us", "DNS"),
    "connectUs": ("connect_us", "connect"),
    "tlsUs": ("tls_us", "TLS"),
    "firstByteUs": ("first_byte_us", "first byte"),
    "totalUs": ("total_us", "total"),
}


def _write(at: datetime | None) -> str | None:
    return None if at is None else timestamps.write(at)


def event_json(event: Event) -> dict[str, Any]:
    """Show an event in the API's spelling."""
    return {
        "eventId": event.event_id,
        "sequence": event.sequence,
        "eventType": event.event_type,
        "clientId": event.client_id,
        "paymentId": event.payment_id,
        "createTime": timestamps.write(event.created_at),
        "status": event.status,
        "delivery": None if event.delivery is None else _delivery_json(event.delivery),
    }


def _delivery_json(delivery: EventDelivery) -> dict[str, Any]:
    return {
        "url": delivery.url,
        "attempts": delivery.attempts,
        "nextTime": _write(delivery.next_at),
        "leasedUntil": _write(delivery.leased_until),
        "lastAttemptTime": _write(delivery.last_attempt_at),
        "lastStatus": delivery.last_status,
        "lastReason": delivery.last_reason,
        "finalTime": _write(delivery.final_at),
    }


def list_json(listed: EventList) -> dict[str, Any]:
    """Show a list in the API's spelling."""
    return {
        "events": [event_json(event) for event in listed.events],
        "lastSequence": listed.last_sequence,
        "unnumbered": listed.unnumbered,
    }


def details_json(details: EventDetails, *, answers: bool) -> dict[str, Any]:
    """Show an event with its attempts in the API's spelling."""
    attempts = [_attempt_json(attempt, answers=answers) for attempt in details.attempts]
    return event_json(details.event) | {"bodyKept": details.body_kept, "attempts": attempts}


def _attempt_json(attempt: AttemptMade, *, answers: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "attempt": attempt.attempt,
        "startTime": timestamps.write(attempt.started_at),
        "url": attempt.url,
        "keyVersion": attempt.key_version,
        "outcome": attempt.outcome,
        "status": attempt.status,
        "reason": attempt.reason,
        **{member: getattr(attempt.timing, name) for member, (name, _) in _TIMES.items()},
        "answerBytes": attempt.answer_bytes,
    }
    if answers and attempt.answer is not None:
        shown["answer"] = attempt.answer.decode(errors="replace")
    return shown


def lane_json(lane: FailingLane) -> dict[str, Any]:
    """Show a failing destination in the API's spelling."""
    return {
        "clientId": lane.client_id,
        "destination": destination_of(lane.lane),
        "failures": lane.failures,
        "failingSinceTime": timestamps.write(lane.failing_since),
        "openTime": _write(lane.opened_at),
        "lastReason": lane.last_reason,
    }


def replay_json(progress: ReplayProgress) -> dict[str, Any]:
    """Show how a replay went in the API's spelling."""
    return {
        "total": progress.total,
        "lookedAt": progress.looked_at,
        "resent": progress.resent,
        "skipped": {
            "inFlight": progress.in_flight,
            "withoutEndpoint": progress.nowhere,
            "bodyNotKept": progress.body_gone,
            "otherStatus": progress.changed,
        },
        "lastEventId": progress.last_event_id,
    }


def print_list(listed: EventList) -> None:
    """Print one line for each event."""
    if not listed.events:
        return
    width = max(len(str(event.sequence)) for event in listed.events)
    kinds = max(len(event.event_type) for event in listed.events)
    for event in listed.events:
        terminal.say(
            f"{event.sequence:>{width}}  {when(event.created_at)}  {event.event_id}  {event.event_type:{kinds}}"
            f"  {_coloured(event)}  {terminal.printable(_summary(event))}".rstrip()
        )


def _coloured(event: Event) -> str:
    colours = {EventStatus.ACKNOWLEDGED: "green", EventStatus.DEAD: "red", EventStatus.UNSENT: "yellow"}
    return terminal.styled(f"{event.status:12}", fg=colours.get(event.status))


def _summary(event: Event) -> str:
    delivery = event.delivery
    if delivery is None:
        return "nowhere to send it"
    said = delivery.last_reason if delivery.last_reason is not None else "not sent yet"
    return f"{_counted(delivery.attempts, 'attempt')}, {said}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def print_details(details: EventDetails, *, answers: bool) -> None:
    """Print an event with its attempts."""
    event, delivery = details.event, details.event.delivery
    good = event.status in {EventStatus.ACKNOWLEDGED, EventStatus.PENDING}
    terminal.heading(f"{event.event_type}  {event.status}", good=good)
    pairs: list[tuple[str, object]] = [
        ("eventId", event.event_id),
        ("sequence", event.sequence if event.sequence is not None else "gets one in a moment"),
        ("clientId", event.client_id),
        ("paymentId", event.payment_id),
        ("created", when(event.created_at)),
        ("body", "kept" if details.body_kept else "not kept any more: it cannot be sent again"),
    ]
    if delivery is not None:
        pairs += [
            ("url", delivery.url),
            ("attempts", delivery.attempts),
            ("being sent", _until(delivery)),
            ("next attempt", when(delivery.next_at) if delivery.leased_until is None else None),
            ("last outcome", delivery.last_reason),
            ("ended", when(delivery.final_at)),
        ]
    terminal.rows(pairs)
    if details.attempts:
        terminal.say()
    for attempt in details.attempts:
        _print_attempt(attempt, answers=answers)
    if delivery is not None and delivery.attempts and not details.attempts:
        terminal.note("Its attempts are not kept any more.")


def _until(delivery: EventDelivery) -> str | None:
    return None if delivery.leased_until is None else f"until {when(delivery.leased_until)} at the latest"


def _print_attempt(attempt: AttemptMade, *, answers: bool) -> None:
    good = attempt.outcome == "ACKNOWLEDGED"
    outcome = terminal.styled(f"{attempt.outcome:12}", fg="green" if good else "red")
    terminal.say(
        f"  {attempt.attempt:>3}  {timestamps.write(attempt.started_at)}  {outcome}"
        f"  {terminal.printable(attempt.reason)}"
    )
    size = f"answer {attempt.answer_bytes} bytes" if attempt.answer_bytes else "no answer"
    terminal.say(
        terminal.styled(
            f"       {_times(attempt.timing)}; {size}; keyVersion {attempt.key_version};"
            f" {terminal.printable(attempt.url)}",
            dim=True,
        )
    )
    if answers and attempt.answer:
        for line in attempt.answer.decode(errors="replace").splitlines()[:_ANSWER_LINES]:
            terminal.say(f"       | {terminal.printable(line)}")


def _times(timing: Timing) -> str:
    taken = [(label, getattr(timing, name)) for name, label in _TIMES.values()]
    return ", ".join(f"{label} {us / 1000:.1f} ms" for label, us in taken if us is not None)


def print_lanes(lanes: list[FailingLane]) -> None:
    """Print one line for each failing destination."""
    width = max((len(destination_of(lane.lane)) for lane in lanes), default=0)
    for lane in lanes:
        opened = lane.opened_at is not None
        state = terminal.styled("open   " if opened else "failing", fg="red" if opened else "yellow")
        terminal.say(
            f"{state}  {lane.client_id}  {terminal.printable(destination_of(lane.lane)):{width}}"
            f"  since {when(lane.failing_since)}  {_counted(lane.failures, 'failure')} in a row,"
            f" {terminal.printable(lane.last_reason)}"
        )


def print_replay(progress: ReplayProgress) -> None:
    """Print how a replay went."""
    terminal.heading(f"{_counted(progress.resent, 'event')} of {progress.total} sent again.")
    skipped = [
        (count, why)
        for count, why in (
            (progress.in_flight, "being sent at that moment"),
            (progress.nowhere, "without an endpoint to send them to"),
            (progress.body_gone, "too old: their bodies are not kept any more"),
            (progress.changed, "in another status by then"),
        )
        if count
    ]
    for count, why in skipped:
        terminal.say(f"  {count:>6}  passed over, {why}")
