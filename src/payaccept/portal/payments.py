"""A merchant's payments: found by any id or by what is known of them, listed, and each with its story."""

from typing import Any

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.domain import identifiers, payment_search
from payaccept.domain.errors import EventNotFound
from payaccept.domain.money import active_currencies
from payaccept.domain.payment_search import FIELDS, PaymentSearch
from payaccept.domain.user import Membership, Permission, Viewer
from payaccept.operations.events import Operator, Owner
from payaccept.operations.payment_lists import LOOKED_AT, PaymentPage
from payaccept.portal.access import PortalRequest, member, signed_in
from payaccept.portal.amounts import preferred_locale, write_amount
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.payment_views import (
    KINDS,
    MOST_SHOWN,
    chips_of,
    command_of,
    row_of,
    shown,
    state_tabs,
    steps_of,
    text_of,
)
from payaccept.portal.rendering import Page, go, page
from payaccept.portal.services import Services

_MAX_ID = 128
_NOT_FOUND = "You have nothing of this id. Give the whole of it: paymentId, acquirementId, paymentRequestId or eventId."


@get("/m/{client_id:str}/payments", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """List payments, those that are looked for; lead to the one whose id is given."""
    form = Form({name: request.query_params.get(name, "") for name in ("id", *FIELDS, "before")})
    root = f"/m/{membership.client_id}/payments"
    wanted = form.text("id", max_length=_MAX_ID)
    if wanted:
        is_id = wanted.isascii() and wanted.isprintable() and form.is_valid
        place = await _place_of(services, membership.client_id, wanted) if is_id else None
        if place is not None:
            return go(request, place)
        form.check("id", _NOT_FOUND)
    search, errors = payment_search.read(form.values)
    for name, error in errors.items():
        form.fail(name, error)
    before = form.values["before"]
    place_before = before if identifiers.payment_of(before) == before else None
    if not form.is_valid:
        return _list(request, form, search, None, status=422)
    given = {name for name in request.query_params if name in FIELDS}
    if given != search.to_fields().keys():  # of a form's empty fields, nothing is worth a bookmark
        return go(request, _with_query(root, search, place_before))
    found = await services.payment_lists.search(membership.client_id, search, place_before)
    form.values |= search.to_fields()
    return _list(request, form, search, found, is_first=place_before is None)


@get("/m/{client_id:str}/payments/{payment_id:str}", guards=[member(Permission.VIEW)])
async def show_one(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    payment_id: FromPath[str],
) -> Page:
    """Show a payment with its whole story."""
    if identifiers.payment_of(payment_id) != payment_id:
        raise PageNotFound
    now = services.clock()
    story = await services.payment_stories.get(Owner(membership.client_id), payment_id)
    payment, received = story.payment, story.received
    keys = await services.merchants.list_keys(membership.client_id)
    locale = preferred_locale(request.headers.get("accept-language", ""))
    return page(
        request,
        "payments/payment.html",
        story=story,
        payment=payment,
        amount=write_amount(payment.currency, payment.amount_minor, locale),
        kind=KINDS[payment.state],
        acquirement_id=identifiers.acquirement_of(payment_id),
        steps=steps_of(story, now),
        raw=text_of(received),
        shown=shown,
        most_shown=MOST_SHOWN,
        command=command_of(received, keys, services.site.api_base_url),
        support_link=services.site.link(f"/payments/{payment_id}"),
    )


@get("/payments/{payment_id:str}", guards=[signed_in()])
async def lead(
    request: PortalRequest,
    services: NamedDependency[Services],
    viewer: NamedDependency[Viewer],
    payment_id: FromPath[str],
) -> Response[Any]:
    """Lead whoever may see a payment to its page: the link that is shared holds nothing but its id."""
    standing = None
    if identifiers.payment_of(payment_id) is not None:
        standing = await services.payment_lists.find(Operator(), payment_id)
    if standing is None:
        raise PageNotFound
    if viewer.membership(standing.client_id) is not None:
        return go(request, f"/m/{standing.client_id}/payments/{standing.payment_id}")
    if viewer.user.staff:
        return go(request, f"/operator/payments/{standing.payment_id}")
    raise PageNotFound


async def _place_of(services: Services, client_id: str, wanted: str) -> str | None:
    """Return the page of what an id of a merchant's names; None when it is nothing of the merchant's."""
    root = f"/m/{client_id}"
    merchant = await services.merchants.get(client_id)
    standing = await services.payment_lists.find(Owner(client_id), wanted, merchant)
    if standing is not None:
        return f"{root}/payments/{standing.payment_id}"
    if identifiers.is_event(wanted):  # a test's: no payment has it
        try:
            details = await services.events.get_event(Owner(client_id), wanted)
        except EventNotFound:
            return None
        return f"{root}/webhooks/{details.event.event_id}"
    refused = await services.requests.find_refused(client_id, wanted)
    return None if refused is None else f"{root}/requests/{refused.request_id}"


def _list(
    request: PortalRequest,
    form: Form,
    search: PaymentSearch,
    found: PaymentPage | None,
    *,
    is_first: bool = True,
    status: int = 200,
) -> Page:
    locale = preferred_locale(request.headers.get("accept-language", ""))
    query = search.to_query()
    return page(
        request,
        "payments/payments.html",
        form=form,
        status=status,
        search=search,
        found=found,
        rows=[row_of(payment, locale) for payment in found.payments] if found is not None else [],
        older="" if found is None or found.older is None else f"{query}&before={found.older}".lstrip("&"),
        is_first=is_first,
        is_everything=not query,
        tabs=state_tabs(search),
        chips=chips_of(search),
        currencies=sorted(active_currencies()),
        looked_at=LOOKED_AT,
    )


def _with_query(root: str, search: PaymentSearch, before: str | None) -> str:
    parts = [search.to_query(), "" if before is None else f"before={before}"]
    query = "&".join(part for part in parts if part)
    return f"{root}?{query}" if query else root


routes = (show, show_one, lead)
