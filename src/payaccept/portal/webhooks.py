"""The webhooks of a merchant: where they go, a test of that, and how each event was delivered."""

from typing import Annotated, Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from payaccept.domain.errors import FieldsIllegal, SendingRefused
from payaccept.domain.event import EventStatus
from payaccept.domain.user import Membership, Permission
from payaccept.operations.event_lists import LOOKED_THROUGH, MOST_COUNTED
from payaccept.operations.merchants import Changes
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services
from payaccept.portal.webhook_views import lane_row_of, row_of, verdict_on

_FILTERS: Final = {
    "": None,
    "waiting": EventStatus.PENDING,
    "acknowledged": EventStatus.ACKNOWLEDGED,
    "dead": EventStatus.DEAD,
    "unsent": EventStatus.UNSENT,
}
_LABELS: Final = {
    "": "All",
    "waiting": "Waiting",
    "acknowledged": "Acknowledged",
    "dead": "Given up",
    "unsent": "Not sent",
}
_MAX_DIGITS: Final = 18
_NOTHING: Final = "Enter the address of your endpoint, beginning with https://."

Text = Annotated[str, QueryParameter(max_length=128)]


@get("/m/{client_id:str}/webhooks", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    status: Text = "",
    before: Text = "",
    find: Text = "",
) -> Response[Any]:
    """Show where webhooks go, and the events; lead to the one that is searched."""
    wanted = find.strip().removeprefix("#")
    if wanted:
        found = await services.event_lists.find(membership.client_id, wanted)
        if found is not None:
            return go(request, f"/m/{membership.client_id}/webhooks/{found.event_id}")
    return await _webhooks(request, services, membership, status=status, before=before, not_found=wanted)


@post("/m/{client_id:str}/webhooks/endpoint", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def set_endpoint(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Set or change where webhooks go."""
    form = await Form.of(request)
    url = form.text("url")
    root = f"/m/{membership.client_id}/webhooks"
    if not url:
        form.fail("url", _NOTHING)
        return await _webhooks(request, services, membership, form=form)
    if (await services.merchants.get(membership.client_id)).webhook_url == url:
        return go(request, root, "Webhooks go there already: nothing was changed.")
    try:
        await services.merchants.change(
            membership.client_id, Changes(webhook_url=url), services.clock(), actor(request)
        )
    except FieldsIllegal:
        form.check("url", _problem(services, url))
        return await _webhooks(request, services, membership, form=form)
    return go(request, root, "Webhooks of payments that end from now on go there. Send a test to try it.")


@post("/m/{client_id:str}/webhooks/endpoint/remove", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def remove_endpoint(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Send nothing any more but to the addresses that requests name."""
    root = f"/m/{membership.client_id}/webhooks"
    if (await services.merchants.get(membership.client_id)).webhook_url is None:
        return go(request, root, "There was no endpoint any more.")
    await services.merchants.change(
        membership.client_id, Changes(webhook_url=None), services.clock(), actor(request)
    )
    return go(request, root, "The endpoint is removed. Events are recorded, and can be sent later.")


@post("/m/{client_id:str}/webhooks/endpoint/verdict", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def judge(request: PortalRequest, services: NamedDependency[Services]) -> Response[dict[str, object]]:
    """Say what is thought of an address while it is typed; nothing is kept."""
    form = await Form.of(request)
    url = form.text("url")
    problem = _problem(services, url)
    return Response({"good": problem is None, "text": verdict_on(url) if problem is None else problem})


@post("/m/{client_id:str}/webhooks/test", guards=[member(Permission.MANAGE_WEBHOOKS)])
async def send_test(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Send a test event, and show how it goes."""
    root = f"/m/{membership.client_id}/webhooks"
    try:
        event = await services.events.send_test(membership.client_id, actor(request))
    except SendingRefused:
        return go(request, root, "There is no endpoint to send a test to: set one first.")
    return go(request, f"{root}/{event.event_id}", "The test is on its way. This page shows how it goes.")


async def _webhooks(
    request: PortalRequest,
    services: Services,
    membership: Membership,
    *,
    form: Form | None = None,
    status: str = "",
    before: str = "",
    not_found: str = "",
) -> Page:
    client_id, now = membership.client_id, services.clock()
    status = status if status in _FILTERS else ""
    number = int(before) if before.isascii() and before.isdecimal() and len(before) <= _MAX_DIGITS else None
    events = await services.event_lists.list_page(client_id, before=number, status=_FILTERS[status])
    return page(
        request,
        "webhooks/webhooks.html",
        form=form,
        status=200 if form is None else 422,
        merchant=await services.merchants.get(client_id),
        may_manage=membership.grants(Permission.MANAGE_WEBHOOKS),
        allows_http=services.merchants.webhook_problem("http://shop.example/") is None,
        lanes=[lane_row_of(lane, now) for lane in await services.event_lists.list_failing(client_id)],
        dead=await services.event_lists.count_dead(client_id),
        most=MOST_COUNTED,
        events=events,
        rows=[row_of(event, now) for event in events.events],
        filters=_LABELS,
        chosen=status,
        looked_through=LOOKED_THROUGH,
        is_first=number is None,
        not_found=not_found,
    )


def _problem(services: Services, url: str) -> str | None:
    if not url:
        return _NOTHING
    problem = services.merchants.webhook_problem(url)
    return None if problem is None else f"The address {problem}."


routes = (show, set_endpoint, remove_endpoint, judge, send_test)
