"""Sending a range of a merchant's events again: counted before it starts, watched while it goes on."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from payaccept.domain.errors import SendingRefused
from payaccept.domain.event import EventStatus
from payaccept.domain.replay import Replay
from payaccept.domain.user import Membership, Permission
from payaccept.operations.events import MAX_REPLAY_RATE, REPLAY_RATE, Span
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services
from payaccept.portal.webhook_views import duration
from payaccept.wire import timestamps

STATUSES: Final = (
    ("dead", "Given up", "Their last retry has failed.", EventStatus.DEAD),
    ("unsent", "Not sent", "There was no endpoint when they happened.", EventStatus.UNSENT),
    ("waiting", "Waiting", "Sent now instead of at their next retry.", EventStatus.PENDING),
    (
        "acknowledged",
        "Acknowledged",
        "You have had them: for when you have lost what you had.",
        EventStatus.ACKNOWLEDGED,
    ),
)
_EXAMPLE: Final = "Write a time in UTC as 2026-01-31 08:30, or a day as 2026-01-31."
_MAX_DIGITS: Final = 9
_DAY: Final = timedelta(days=1)

Text = Annotated[str, QueryParameter(max_length=64)]


@get("/m/{client_id:str}/webhooks/replay", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def show_new(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    status: Text = "",
) -> Page:
    """Ask which events to send again; the last day's that were given up is what is wanted most."""
    now = services.clock()
    known = {name for name, *_ in STATUSES}
    chosen = {"dead", "unsent"} if status not in known else {status}
    values = {
        "from": f"{now - _DAY:%Y-%m-%d %H:%M}",
        "until": "",
        "rate": f"{REPLAY_RATE:g}",
        **{f"status-{name}": "yes" for name in chosen},
    }
    return await _new(request, services, membership, Form(values))


@post("/m/{client_id:str}/webhooks/replay", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def start(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Count what would be sent; and send it, once that was seen."""
    form = await Form.of(request)
    span, rate = _read(form, services.clock())
    if span is None or not form.is_valid:
        return await _new(request, services, membership, form)
    client_id = membership.client_id
    if form.text("counted") != "yes":
        total = await services.replays.count(client_id, span)
        return await _new(request, services, membership, form, span=span, rate=rate, total=total)
    try:
        replay = await services.replays.start(client_id, span, rate, actor(request))
    except SendingRefused:
        form.fail("form", "Another replay is running: stop it, or wait for its end.")
        return await _new(request, services, membership, form)
    return go(request, f"/m/{client_id}/webhooks/replays/{replay.replay_id}", "Started.")


@get("/m/{client_id:str}/webhooks/replays/{replay_id:str}", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    replay_id: FromPath[str],
) -> Page:
    """Show how far a replay has got."""
    replay = await _find(services, membership, replay_id)
    return page(
        request,
        "replays/replay.html",
        replay=replay,
        statuses=_labels(replay),
        left=duration(replay.left()),
        nobody=replay.waits(services.clock()),
        may_manage=membership.grants(Permission.MANAGE_WEBHOOKS),
    )


@post("/m/{client_id:str}/webhooks/replays/{replay_id:str}/stop", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def stop(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    replay_id: FromPath[str],
) -> Response[Any]:
    """Stop a replay."""
    await _find(services, membership, replay_id)
    stopped = await services.replays.stop(membership.client_id, replay_id, actor(request))
    told = "Stopped. What was sent again stays sent." if stopped else "It was not running any more."
    return go(request, f"/m/{membership.client_id}/webhooks/replays/{replay_id}", told)


@post(
    "/m/{client_id:str}/webhooks/replays/{replay_id:str}/resume", guards=[member(Permission.MANAGE_WEBHOOKS)]
)
async def resume(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    replay_id: FromPath[str],
) -> Response[Any]:
    """Take a stopped replay up."""
    await _find(services, membership, replay_id)
    resumed = await services.replays.resume(membership.client_id, replay_id, actor(request))
    told = "It goes on where it stopped." if resumed else "It is not stopped, or another replay is running."
    return go(request, f"/m/{membership.client_id}/webhooks/replays/{replay_id}", told)


async def _new(
    request: PortalRequest,
    services: Services,
    membership: Membership,
    form: Form,
    *,
    span: Span | None = None,
    rate: int = 1,
    total: int | None = None,
) -> Page:
    return page(
        request,
        "replays/new.html",
        form=form,
        status=422 if form.errors else 200,
        choices=STATUSES,
        most=MAX_REPLAY_RATE,
        span=span,
        total=total,
        lasts=None if total is None else duration(timedelta(seconds=total / rate)),
        rate=rate,
        last=await services.replays.list_last(membership.client_id),
    )


def _read(form: Form, now: datetime) -> tuple[Span | None, int]:
    """Read what was typed; errors are noted beside their fields."""
    beginning, end = _time(form, "from"), now
    if form.text("until"):
        end = _time(form, "until") or now
        if end > now:
            form.fail("until", "This is in the future: leave it empty for now.")
    else:
        # So that what is counted is what is sent, however long somebody looks at the number.
        form.values["until"] = f"{now:%Y-%m-%d %H:%M:%S}"
    if beginning is not None and end <= beginning:
        form.fail("until", "The end is not after the beginning.")
    chosen = frozenset(status for name, _, _, status in STATUSES if form.text(f"status-{name}") == "yes")
    if not chosen:
        form.fail("status", "Choose at least one.")
    typed = form.text("rate")
    is_number = typed.isascii() and typed.isdecimal() and len(typed) <= _MAX_DIGITS
    rate = int(typed) if is_number else 0
    if not 1 <= rate <= MAX_REPLAY_RATE:
        form.fail("rate", f"A whole number from 1 to {MAX_REPLAY_RATE:g}.")
    if beginning is None or not form.is_valid:
        return None, rate
    return Span(beginning=beginning, end=end, statuses=chosen), rate


def _time(form: Form, name: str) -> datetime | None:
    text = form.text(name).removesuffix("Z").removesuffix("UTC").strip().replace("T", " ")
    for whole in (text, f"{text}:00", f"{text} 00:00:00"):
        try:
            return timestamps.parse(f"{whole.replace(' ', 'T')}Z")
        except timestamps.TimestampMalformed:
            continue
    form.fail(name, _EXAMPLE)
    return None


async def _find(services: Services, membership: Membership, replay_id: str) -> Replay:
    found = await services.replays.find(membership.client_id, replay_id)
    if found is None:
        raise PageNotFound
    return found


def _labels(replay: Replay) -> str:
    return ", ".join(label.lower() for _, label, _, status in STATUSES if status in replay.statuses)


routes = (show_new, start, show, stop, resume)
