"""Every payment by any id, for the provider's staff. Whose payment somebody has looked at is recorded."""

from typing import Annotated, Any, Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect

from payaccept.domain import identifiers
from payaccept.domain.errors import EventNotFound, MerchantNotFound
from payaccept.domain.payment_search import PaymentSearch
from payaccept.operations.events import Operator
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.amounts import preferred_locale, write_amount
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.operator_merchants import ROOT as MERCHANTS
from payaccept.portal.payment_views import KINDS, MOST_SHOWN, row_of, shown, steps_of, text_of
from payaccept.portal.rendering import Page, actor, page
from payaccept.portal.services import Services

ROOT: Final = "/operator/payments"
_NONE_OF_MERCHANT: Final = "This merchant has no payment with this id."
_NONE: Final = "No payment has this id. A paymentRequestId is the merchant's own: give the Client-Id as well."

Text = Annotated[str, QueryParameter(max_length=256)]


@get(ROOT, guards=[staff()])
async def search(
    request: PortalRequest, services: NamedDependency[Services], find: Text = "", merchant: Text = ""
) -> Response[Any]:
    """Lead to the payment, or event, that an id means."""
    form = Form({"find": find.strip(), "merchant": merchant.strip()})
    text, client_id = form.text("find", max_length=64), form.text("merchant", max_length=64)
    if not text:
        return page(request, "operator/payments.html", form=form)
    owner = None
    if client_id:
        try:
            owner = await services.merchants.get(client_id)
        except MerchantNotFound:
            form.fail("merchant", "There is no merchant with this Client-Id.")
    if form.is_valid:
        standing = await services.payment_lists.find(Operator(), text, owner)
        if standing is not None:
            return Redirect(f"{ROOT}/{standing.payment_id}", status_code=303)
        if await _is_event(services, text):  # a test, which is no payment's
            return Redirect(f"/operator/deliveries/{text}", status_code=303)
        form.fail("find", _NONE if owner is None else _NONE_OF_MERCHANT)
    return page(request, "operator/payments.html", form=form, status=422)


@get(f"{ROOT}/{{payment_id:str}}", guards=[staff()])
async def show(
    request: PortalRequest, services: NamedDependency[Services], payment_id: FromPath[str]
) -> Page:
    """Show a payment with its whole story, and what the merchant's endpoint has answered: only here."""
    if identifiers.payment_of(payment_id) != payment_id:
        raise PageNotFound
    now = services.clock()
    story = await services.payment_stories.get(Operator(), payment_id)
    payment = story.payment
    await services.oversight.note(actor(request), now, "payment.viewed", payment_id, payment.client_id)
    return page(
        request,
        "operator/payment.html",
        merchant=await services.merchants.get(payment.client_id),
        story=story,
        payment=payment,
        amount=write_amount(payment.currency, payment.amount_minor, _locale(request)),
        kind=KINDS[payment.state],
        acquirement_id=identifiers.acquirement_of(payment_id),
        steps=steps_of(story, now),
        raw=text_of(story.received),
        shown=shown,
        most_shown=MOST_SHOWN,
    )


@get(f"{MERCHANTS}/{{client_id:str}}/payments", guards=[staff()])
async def show_list(
    request: PortalRequest,
    services: NamedDependency[Services],
    client_id: FromPath[str],
    before: Text = "",
) -> Page:
    """List a merchant's last payments; that somebody looked is recorded."""
    merchant = await services.merchants.get(client_id)
    place = before if identifiers.payment_of(before) == before else None
    found = await services.payment_lists.search(client_id, PaymentSearch(), place)
    await services.oversight.note(actor(request), services.clock(), "payments.listed", client_id, client_id)
    return page(
        request,
        "operator/merchant_payments.html",
        merchant=merchant,
        rows=[row_of(payment, _locale(request)) for payment in found.payments],
        older=found.older,
        is_first=place is None,
    )


def _locale(request: PortalRequest) -> str:
    return preferred_locale(request.headers.get("accept-language", ""))


async def _is_event(services: Services, text: str) -> bool:
    try:
        await services.events.get_event(Operator(), text)
    except EventNotFound:
        return False
    return True


routes = (search, show, show_list)
