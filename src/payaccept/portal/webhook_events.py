"""One event of a merchant: what was sent, each attempt, and sending it again."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.domain.errors import EventNotFound, SendingRefused
from payaccept.domain.event import EventStatus, InFlight, Resend
from payaccept.domain.user import Membership, Permission
from payaccept.operations.events import EventDetails, Owner
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services
from payaccept.portal.webhook_views import attempt_row_of, row_of, sent_by

ATTEMPTS_SHOWN: Final = 40
_MAX_DIGITS: Final = 9
_TOO_OLD: Final = "It is too old to be sent again: what was sent is not kept any more."
_NOWHERE: Final = "It has nowhere to go: its payment named no paymentNotifyUrl, and you have set no endpoint."


@get("/m/{client_id:str}/webhooks/{event_id:str}", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    event_id: FromPath[str],
) -> Page:
    """Show an event: how it stands, what was sent, and each attempt."""
    return await _event(request, services, membership, event_id)


@post("/m/{client_id:str}/webhooks/{event_id:str}/resend", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def resend(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    event_id: FromPath[str],
) -> Response[Any]:
    """Send it again now; a second click finds that the first has done so."""
    form = await Form.of(request)
    seen = form.text("seen")
    place = f"/m/{membership.client_id}/webhooks/{event_id}"
    try:
        outcome = await services.events.resend(
            Owner(membership.client_id),
            event_id,
            actor(request),
            seen_attempts=int(seen)
            if seen.isascii() and seen.isdecimal() and len(seen) <= _MAX_DIGITS
            else None,
        )
    except EventNotFound:
        raise PageNotFound from None
    except SendingRefused:
        kept = (await find(services, membership, event_id)).body_kept
        form.fail("form", _NOWHERE if kept else _TOO_OLD)
        return await _event(request, services, membership, event_id, form)
    match outcome:
        case Resend():
            return go(request, place, "On its way again. This page shows how it goes.")
        case InFlight():
            return go(request, place, "It is being sent at this moment, so nothing was changed.")
        case _:
            return go(request, place, "It has been sent since you looked, so nothing was changed.")


async def _event(
    request: PortalRequest,
    services: Services,
    membership: Membership,
    event_id: str,
    form: Form | None = None,
) -> Page:
    details = await find(services, membership, event_id)
    event, now = details.event, services.clock()
    attempts = details.attempts[-ATTEMPTS_SHOWN:]
    merchant = await services.merchants.get(membership.client_id)
    return page(
        request,
        "webhooks/event.html",
        form=form,
        status=200 if form is None else 422,
        row=row_of(event, now),
        is_moving=event.status is EventStatus.PENDING,
        may_manage=membership.grants(Permission.MANAGE_WEBHOOKS),
        attempts=[attempt_row_of(one) for one in reversed(attempts)],
        not_shown=len(details.attempts) - len(attempts),
        body=None if details.body is None else details.body.decode(errors="replace"),
        body_bytes=len(details.body or b""),
        sent=sent_by(event, attempts[-1], details.body) if attempts else None,
        endpoint=merchant.webhook_url,
    )


async def find(services: Services, membership: Membership, event_id: str) -> EventDetails:
    """Return an event of the merchant's. Raises: PageNotFound."""
    try:
        return await services.events.get_event(Owner(membership.client_id), event_id)
    except EventNotFound:
        raise PageNotFound from None


routes = (show, resend)
