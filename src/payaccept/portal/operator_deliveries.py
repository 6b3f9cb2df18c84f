"""What could not be delivered, over all merchants: counted, listed, sent again; and destinations that are failing."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from payaccept.domain.dead_deliveries import Place
from payaccept.domain.errors import EventNotFound, SendingRefused
from payaccept.domain.event import EventStatus, InFlight, Resend
from payaccept.operations.events import Operator
from payaccept.operations.oversight import COUNTED
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services
from payaccept.portal.webhook_views import attempt_row_of, row_of

ROOT: Final = "/operator/deliveries"
ATTEMPTS_SHOWN: Final = 40
_PLACE: Final = re.compile(r"(?P<us>[0-9a-f]{1,14})-(?P<event>evt_[0-9a-f]{36})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MAX_DIGITS: Final = 9
_TOO_OLD: Final = "It is too old to be sent again: what was sent is not kept any more."
_NOWHERE: Final = (
    "It has nowhere to go: its payment named no paymentNotifyUrl, and the merchant has set no endpoint."
)

Text = Annotated[str, QueryParameter(max_length=128)]


@get(ROOT, guards=[staff()])
async def show_list(
    request: PortalRequest, services: NamedDependency[Services], merchant: Text = "", behind: Text = ""
) -> Page:
    """Show what was given up, of all merchants or of one, and which destinations are failing."""
    chosen = await services.merchants.get(merchant) if merchant else None
    place = _place(behind)
    dead, older = await services.oversight.list_dead(merchant or None, place)
    lanes = await services.events.list_failing_lanes()
    if chosen is not None:
        lanes = [lane for lane in lanes if lane.client_id == chosen.client_id]
    counts = [] if chosen is not None or place is not None else await services.oversight.count_dead()
    return page(
        request,
        "operator/deliveries.html",
        merchant=chosen,
        dead=dead,
        older=None if older is None else _written(older),
        is_first=place is None,
        counts=counts,
        counted=COUNTED,
        are_all=sum(count.deliveries for count in counts) < COUNTED,
        lanes=lanes,
        names=await services.oversight.names_of({lane.client_id for lane in lanes}),
    )


@get("/operator/deliveries/{event_id:str}", guards=[staff()])
async def show(request: PortalRequest, services: NamedDependency[Services], event_id: FromPath[str]) -> Page:
    """Show an event with every attempt, and what the endpoint has answered: only here, and each look is recorded."""
    return await _event(request, services, event_id)


@post("/operator/deliveries/{event_id:str}/resend", guards=[staff()])
async def resend(
    request: PortalRequest, services: NamedDependency[Services], event_id: FromPath[str]
) -> Response[Any]:
    """Send an event again now; a second click finds that the first has done so."""
    form = await Form.of(request)
    seen = form.text("seen", max_length=_MAX_DIGITS)
    attempts = int(seen) if seen.isascii() and seen.isdecimal() else None
    try:
        outcome = await services.events.resend(Operator(), event_id, actor(request), seen_attempts=attempts)
    except EventNotFound:
        raise PageNotFound from None
    except SendingRefused:
        kept = (await services.events.get_event(Operator(), event_id)).body_kept
        form.fail("form", _NOWHERE if kept else _TOO_OLD)
        return await _event(request, services, event_id, form)
    place = f"/operator/deliveries/{event_id}"
    match outcome:
        case Resend():
            return go(request, place, "On its way again.")
        case InFlight():
            return go(request, place, "It is being sent at this moment, so nothing was changed.")
        case _:
            return go(request, place, "It has been sent since you looked, so nothing was changed.")


async def _event(request: PortalRequest, services: Services, event_id: str, form: Form | None = None) -> Page:
    try:
        details = await services.events.get_event(Operator(), event_id)
    except EventNotFound:
        raise PageNotFound from None
    event, now = details.event, services.clock()
    await services.oversight.note(actor(request), now, "event.viewed", event_id, event.client_id)
    attempts = details.attempts[-ATTEMPTS_SHOWN:]
    return page(
        request,
        "operator/event.html",
        form=form,
        status=200 if form is None else 422,
        merchant=await services.merchants.get(event.client_id),
        row=row_of(event, now),
        is_moving=event.status is EventStatus.PENDING,
        attempts=[(attempt_row_of(made), _readable(made.answer)) for made in reversed(attempts)],
        not_shown=len(details.attempts) - len(attempts),
        body=None if details.body is None else _readable(details.body),
    )


def _readable(answer: bytes | None) -> str:
    """Return bytes of somebody else's as text; what is no text shows as such."""
    return (
        "" if answer is None else answer.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    )


def _place(text: str) -> Place | None:
    match = _PLACE.fullmatch(text)
    if match is None:
        return None
    try:
        return Place(_EPOCH + int(match["us"], 16) * _MICROSECOND, match["event"])
    except OverflowError:
        return None


def _written(place: Place) -> str:
    return f"{(place.final_at - _EPOCH) // _MICROSECOND:x}-{place.event_id}"


routes = (show_list, show, resend)
