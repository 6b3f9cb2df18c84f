"""`payaccept event`: what was notified, and having it sent again."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from payaccept.cli import event_views, terminal
from payaccept.cli.deployment import DatabaseUrlOption, DataDirOption, administer, when
from payaccept.cli.merchant_options import JsonOption
from payaccept.cli.terminal import Failed, Mistake
from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.event import EVERY_STATUS, Changed, EventStatus, InFlight, Resend
from payaccept.domain.lanes import FailingLane
from payaccept.operations.events import (
    MAX_LISTED,
    MAX_REPLAY_RATE,
    REPLAY_RATE,
    EventDetails,
    EventList,
    Operator,
    ReplayProgress,
    Span,
)
from payaccept.wire import timestamps
from payaccept.wiring import Administration

app = typer.Typer(
    help="See what was notified, and have it sent again.", no_args_is_help=True, rich_markup_mode=None
)

WAIT_S: Final = 30.0
_POLL_S: Final = 0.2
_PLAIN_EVERY_S: Final = 2.0
_INTERRUPTED: Final = 130


class Status(StrEnum):
    """The statuses of events, as a person types them."""

    UNSENT = "unsent"
    PENDING = "pending"
    ACKNOWLEDGED = "acknowledged"
    DEAD = "dead"


ClientId = Annotated[str, typer.Argument(metavar="CLIENT_ID")]
EventId = Annotated[str, typer.Argument(metavar="EVENT_ID")]
StatusOption = Annotated[
    list[Status] | None,
    typer.Option("--status", help="Only those in this status; may be given several times."),
]


def _statuses(given: list[Status] | None) -> frozenset[EventStatus]:
    return frozenset(EventStatus(status.name) for status in given) if given else EVERY_STATUS


@app.command("list")
def list_all(
    client_id: ClientId,
    after: Annotated[
        int | None, typer.Option("--after", min=0, metavar="N", help="From number N + 1 on.")
    ] = None,
    status: StatusOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MAX_LISTED, metavar="N")] = 100,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """List a merchant's events by number.

    Those after a number, or the last ones. Every event of a merchant has a number, 1, 2, 3 and so on without a
    gap: who has them all has lost nothing.
    """

    async def work(administration: Administration, _now: datetime) -> EventList:
        return await administration.events.list_events(
            client_id, after=after, statuses=_statuses(status), limit=limit
        )

    listed = administer(data_dir, database_url, work)
    if json:
        terminal.print_json(event_views.list_json(listed))
        return
    event_views.print_list(listed)
    for line in _notes(listed, client_id, after, filtered=bool(status)):
        terminal.note(line)


def _notes(listed: EventList, client_id: str, after: int | None, *, filtered: bool) -> list[str]:
    """Say what the list proves, and where it goes on."""
    numbers = [event.sequence for event in listed.events if event.sequence is not None]
    notes = []
    if not numbers:
        none = "No such events." if filtered else "No events yet."
        notes.append(none if after is None or filtered else f"No events after number {after}.")
    elif not filtered:
        first = numbers[0] if after is None else after + 1
        missing = sorted(set(range(first, numbers[-1] + 1)) - set(numbers))
        notes.append(
            f"Numbers {first} to {numbers[-1]}, without a gap; the last one given is {listed.last_sequence}."
            if not missing
            else f"Not there, although they were given: {', '.join(map(str, missing[:10]))}."
        )
    if numbers and numbers[-1] < listed.last_sequence:
        notes.append(f"More: payaccept event list {client_id} --after {numbers[-1]}")
    if listed.unnumbered:
        notes.append(
            f"{listed.unnumbered} have just happened: the worker gives them their numbers in a moment."
        )
    return notes


@app.command()
def show(
    event_id: EventId,
    answers: Annotated[
        bool, typer.Option("--answers", help="With the beginning of what the endpoint has answered.")
    ] = False,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show one event with its attempts."""

    async def work(administration: Administration, _now: datetime) -> EventDetails:
        return await administration.events.get_event(Operator(), event_id)

    details = administer(data_dir, database_url, work)
    if json:
        terminal.print_json(event_views.details_json(details, answers=answers))
        return
    event_views.print_details(details, answers=answers)
    if details.event.status in {EventStatus.DEAD, EventStatus.UNSENT} and details.body_kept:
        terminal.note(f"To have it sent again: payaccept event resend {event_id}")


@app.command()
def resend(
    event_id: EventId,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Send one event again, now.

    The same id and body, signed afresh, to where it belongs now: its payment's paymentNotifyUrl, else the
    merchant's endpoint. A retry that is waiting is made now instead. One that was acknowledged or given up
    starts its schedule anew.
    """

    async def work(
        administration: Administration, _now: datetime
    ) -> tuple[Resend | InFlight | Changed, EventDetails]:
        outcome = await administration.events.resend(Operator(), event_id)
        return outcome, await administration.events.get_event(Operator(), event_id)

    outcome, details = administer(data_dir, database_url, work)
    resent = isinstance(outcome, Resend)
    if json:
        terminal.print_json({"resent": resent} | event_views.event_json(details.event))
        return
    if isinstance(outcome, Resend):
        terminal.heading("To be sent now.")
        terminal.rows([("eventId", event_id), ("url", outcome.url)])
    else:
        until = f"{when(outcome.until)} at the latest" if isinstance(outcome, InFlight) else None
        terminal.heading("A worker is sending it at this moment: nothing was changed.")
        terminal.rows([("eventId", event_id), ("until", until)])
    terminal.note(f"How it went: payaccept event show {event_id}")


@app.command()
def replay(
    client_id: ClientId,
    beginning: Annotated[
        str, typer.Option("--from", metavar="TIME", help="2026-01-31, or 2026-01-31T08:30Z; in UTC.")
    ],
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Up to then, it left out; now by default.")
    ] = None,
    status: StatusOption = None,
    rate: Annotated[
        float,
        typer.Option("--rate", max=MAX_REPLAY_RATE, metavar="N", help="At most so many in a second."),
    ] = REPLAY_RATE,
    behind: Annotated[
        str | None,
        typer.Option("--behind", metavar="EVENT_ID", help="Take up an interrupted one behind this event."),
    ] = None,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Send a whole span of time again.

    The oldest event first; --status dead takes only those that were given up. Ctrl-C ends it; it says how to
    take it up again.
    """
    since, until = _time("--from", beginning), None if end is None else _time("--to", end)
    last = ReplayProgress(total=0)

    async def work(administration: Administration, now: datetime) -> None:
        nonlocal last, until
        until = until or now
        span = Span(beginning=since, end=until, statuses=_statuses(status), behind=behind)
        progresses = administration.events.replay(client_id, span, rate_per_s=rate)
        async for progress in _shown(progresses, quiet=json):
            last = progress

    try:
        administer(data_dir, database_url, work)
    except (KeyboardInterrupt, OutcomeOpen) as error:
        if last.last_event_id is not None and until is not None:
            options = "".join(f" --status {each}" for each in status or [])
            terminal.note(
                f"{last.looked_at} of {last.total} done. To go on: payaccept event replay {client_id}"
                f" --from {timestamps.write_seconds(since)} --to {timestamps.write(until)}{options}"
                f" --behind {last.last_event_id}"
            )
        if isinstance(error, OutcomeOpen):
            raise
        raise typer.Exit(_INTERRUPTED) from None
    if json:
        terminal.print_json(event_views.replay_json(last))
        return
    event_views.print_replay(last)
    if last.resent:
        terminal.note(f"How they fare: payaccept event list {client_id} --status pending")


def _time(option: str, text: str) -> datetime:
    for whole in (text, text.removesuffix("Z") + ":00Z", text + "T00:00:00Z"):
        try:
            return timestamps.parse(whole)
        except timestamps.TimestampMalformed:
            continue
    raise Mistake(f"{option} takes a day, 2026-01-31, or a time in UTC, 2026-01-31T08:30Z")


async def _shown(progresses: AsyncIterator[ReplayProgress], *, quiet: bool) -> AsyncIterator[ReplayProgress]:
    """Show the progress on stderr while it goes on: a bar on a terminal, else a line now and then."""
    if quiet:
        async for progress in progresses:
            yield progress
    elif sys.stderr.isatty():
        async for progress in _bar(progresses):
            yield progress
    else:
        told_at = float("-inf")
        async for progress in progresses:
            if time.monotonic() - told_at >= _PLAIN_EVERY_S:
                terminal.note(f"{progress.looked_at} of {progress.total} events")
                told_at = time.monotonic()
            yield progress


async def _bar(progresses: AsyncIterator[ReplayProgress]) -> AsyncIterator[ReplayProgress]:
    from rich.console import Console  # noqa: PLC0415 - it takes long to import, and only a replay needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("Sending again"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=None)
        async for progress in progresses:
            bar.update(task, total=progress.total, completed=progress.looked_at)
            yield progress


@app.command("test")
def send_test(
    client_id: ClientId,
    wait: Annotated[bool, typer.Option("--wait", help="Until it was sent; says how that went.")] = False,
    data_dir: DataDirOption = None,
    database_url: DatabaseUrlOption = None,
    json: JsonOption = False,
) -> None:
    """Send a test to a merchant's endpoint.

    To the configured one. The event is marked as a test, and is no payment's. With --wait the exit code is 1
    when it was not acknowledged.
    """

    async def work(administration: Administration, _now: datetime) -> EventDetails:
        sent = await administration.events.send_test(client_id)
        deadline = time.monotonic() + (WAIT_S if wait else 0)
        while True:
            details = await administration.events.get_event(Operator(), sent.event_id)
            if details.attempts or time.monotonic() >= deadline:
                return details
            await asyncio.sleep(_POLL_S)

    details = administer(data_dir, database_url, work)
    event = details.event
    if json:
        terminal.print_json(event_views.details_json(details, answers=False))
    elif not wait:
        terminal.heading("Test event to be sent now.")
        url = None if event.delivery is None else event.delivery.url
        terminal.rows([("eventId", event.event_id), ("url", url)])
        terminal.note(f"How it went: payaccept event show {event.event_id}")
    else:
        event_views.print_details(details, answers=False)
    if wait and not details.attempts:
        raise Failed(f"it was not sent within {WAIT_S:g} s: is a worker running?")
    if wait and event.status is EventStatus.PENDING and not json:
        terminal.note("Not acknowledged. It is sent again by the schedule, like any other.")
    if wait and event.status is not EventStatus.ACKNOWLEDGED:
        raise typer.Exit(terminal.FAILED)


@app.command()
def lanes(
    data_dir: DataDirOption = None, database_url: DatabaseUrlOption = None, json: JsonOption = False
) -> None:
    """List the destinations that are failing.

    While one is "open", one delivery at a time tries it, and the others wait. Nothing is dropped.
    """

    async def work(administration: Administration, _now: datetime) -> Sequence[FailingLane]:
        return await administration.events.list_failing_lanes()

    failing = list(administer(data_dir, database_url, work))
    if json:
        terminal.print_json([event_views.lane_json(lane) for lane in failing])
        return
    event_views.print_lanes(failing)
    if not failing:
        terminal.note("No destination is failing.")
