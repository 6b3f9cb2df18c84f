"""Every payment by any id, for the provider's staff. Whose payment somebody has looked at is recorded."""

from typing import Annotated, Any, Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect

from payaccept.domain.errors import EventNotFound, MerchantNotFound
from payaccept.domain.payment_search import PaymentSearch
from payaccept.operations.events import Operator
from payaccept.portal.access import PortalRequest, staff
from payaccept.portal.amounts import write_amount
from payaccept.portal.forms import Form
from payaccept.portal.operator_merchants import ROOT as MERCHANTS
from payaccept.portal.rendering import Page, actor, page
from payaccept.portal.services import Services

ROOT: Final = "/operator/payments"
_LOCALE: Final = "en"
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
        payment_id = await services.payment_lists.find(Operator(), text, owner)
        if payment_id is not None:
            return Redirect(f"{ROOT}/{payment_id}", status_code=303)
        if await _is_event(services, text):  # a test, which is no payment's
            return Redirect(f"/operator/events/{text}", status_code=303)
        form.fail("find", _NONE if owner is None else _NONE_OF_MERCHANT)
    return page(request, "operator/payments.html", form=form, status=422)


@get(f"{MERCHANTS}/{{client_id:str}}/payments", guards=[staff()])
async def show_list(
    request: PortalRequest,
    services: NamedDependency[Services],
    client_id: FromPath[str],
    before: Text = "",
) -> Page:
    """List a merchant's last payments."""
    merchant = await services.merchants.get(client_id)
    found = await services.payment_lists.search(client_id, PaymentSearch(), before or None)
    await services.oversight.note(
        actor(request), services.clock(), "payments.listed", merchant.name, client_id
    )
    return page(
        request,
        "operator/merchant_payments.html",
        merchant=merchant,
        rows=[(one, write_amount(one.currency, one.amount_minor, _LOCALE)) for one in found.payments],
        older=found.older,
        is_first=not before,
    )


async def _is_event(services: Services, text: str) -> bool:
    try:
        await services.events.get_event(Operator(), text)
    except EventNotFound:
        return False
    return True


routes = (search, show_list)
