"""The pages behind `qrCode`, `redirectUrl` and `shortUrl`: what a merchant's customer sees of a payment."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from litestar import Response, get
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Redirect
from markupsafe import Markup

from payaccept.domain.app_links import android_intent, ios_link, qr_prefix, target_path
from payaccept.domain.bill import Bill, BillState
from payaccept.domain.errors import PaymentNotFound
from payaccept.operations.simulated_customer import DECLINES
from payaccept.portal import visitors
from payaccept.portal.access import PortalRequest, everyone, unattended
from payaccept.portal.amounts import name_of_currency, preferred_locale, write_amount
from payaccept.portal.forms import Form
from payaccept.portal.qr import qr_svg
from payaccept.portal.rendering import Page, address_of, page
from payaccept.portal.services import Services
from payaccept.wire.codes import ResultCode

# What leaves this page for the merchant's says nothing of where it came from; and nobody finds it by searching.
_HEADERS: Final = {"Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow"}

CONTINUE_AFTER_S: Final = {BillState.PAID: 5, BillState.FAILED: 15, BillState.EXPIRED: 15}
CONTINUE_WITHIN: Final = timedelta(minutes=15)
"""How long after its end a payment's page leads back by itself; later it is only looked up."""
_REFRESH_S: Final = 5
_REFRESH_WITH_FORMS_S: Final = 10

REASONS: Final = {
    ResultCode.USER_REJECTED: "You declined this payment. Nothing was charged.",
    ResultCode.INSUFFICIENT_BALANCE: "There was not enough money in your wallet. Nothing was charged.",
    ResultCode.PAYMENT_AMOUNT_EXCEED_LIMIT: "The amount is over the limit of your wallet. Nothing was charged.",
    ResultCode.RISK_REJECT: "Your wallet refused this payment as a precaution. Nothing was charged.",
    ResultCode.CURRENCY_NOT_SUPPORT: "Your wallet does not pay in this currency. Nothing was charged.",
    ResultCode.INVALID_CODE: "The code that your wallet showed was too old. Nothing was charged.",
    ResultCode.AUTH_CODE_ALREADY_USED: "The code that your wallet showed had been used before. Nothing was charged.",
}
_SOME_REASON: Final = "The payment did not go through. Nothing was charged."


class Device(StrEnum):
    """What the customer holds in hand, as far as it matters here."""

    ANDROID = "android"
    IOS = "ios"
    OTHER = "other"


def device_of(user_agent: str) -> Device:
    """Tell a phone with its wallet app from what needs a QR code to reach one."""
    if "Android" in user_agent:
        return Device.ANDROID
    if any(name in user_agent for name in ("iPhone", "iPad", "iPod")):
        return Device.IOS
    return Device.OTHER


@get(["/q/{payment_id:str}", "/pay/{payment_id:str}"], guards=[everyone()])
async def show(
    request: PortalRequest, services: NamedDependency[Services], payment_id: FromPath[str]
) -> Page:
    """Show a payment to its customer."""
    return await show_payment(request, services, payment_id)


@get("/s/{payment_id:str}", guards=[unattended()])
async def shorten(payment_id: FromPath[str]) -> Response[Any]:
    """Lead from the short address to the page, without looking anything up."""
    return Redirect(target_path(payment_id), status_code=302, headers=_HEADERS)


@get("/pay/{payment_id:str}/status", guards=[unattended()])
async def status(
    request: PortalRequest, services: NamedDependency[Services], payment_id: FromPath[str]
) -> Response[dict[str, str]]:
    """Tell a page that is open whether something has changed."""
    services.visitors.charge(address_of(request), visitors.STATUS, services.clock())
    try:
        state = await services.checkout.get_state(payment_id)
    except PaymentNotFound:
        services.visitors.charge(address_of(request), visitors.MISSED, services.clock())
        return Response({"state": "UNKNOWN"}, status_code=404, headers=_HEADERS)
    return Response({"state": state.value}, headers=_HEADERS)


async def show_payment(
    request: PortalRequest, services: Services, payment_id: str, form: Form | None = None
) -> Page:
    """Answer with a payment's page; `form` is what was sent from it and could not be taken."""
    now = services.clock()
    services.visitors.charge(address_of(request), visitors.PAGE, now)
    try:
        bill = await services.checkout.get_bill(payment_id, now)
    except PaymentNotFound:
        return unknown(request, services)
    return _show_bill(request, services, bill, form, now)


def unknown(request: PortalRequest, services: Services) -> Page:
    """Answer an id that no payment has."""
    services.visitors.charge(address_of(request), visitors.MISSED, services.clock())
    answer = page(request, "customers/unknown.html", status=404)
    answer.headers.update(_HEADERS)
    return answer


def _show_bill(
    request: PortalRequest, services: Services, bill: Bill, form: Form | None, now: datetime
) -> Page:
    locale = preferred_locale(request.headers.get("accept-language", ""))
    simulated = services.simulated_customer is not None and bill.state is BillState.OPEN
    answer = page(
        request,
        "customers/bill.html",
        form=form,
        status=200 if form is None else 422,
        bill=bill,
        amount=write_amount(bill.amount.currency, bill.amount.value, locale),
        currency=name_of_currency(bill.amount.currency, locale),
        locale=locale,
        device=device_of(request.headers.get("user-agent", "")),
        links=_app_links(services, bill),
        app_is_missing=request.query_params.get("app") == "missing",
        qr=_qr(services, bill) if bill.state is BillState.OPEN else None,
        minutes_left=max(1, round((bill.expires_at - now).total_seconds() / 60)),
        reason=REASONS.get(bill.failure_code, _SOME_REASON) if bill.failure_code else "",
        continue_after_s=_continue_after_s(request, bill, now),
        refresh_s=_REFRESH_WITH_FORMS_S if simulated else _REFRESH_S,
        declines=DECLINES if simulated else None,
    )
    answer.headers.update(_HEADERS)
    return answer


def _continue_after_s(request: PortalRequest, bill: Bill, now: datetime) -> int | None:
    """Return after how long the customer goes back to the merchant, if not by hand."""
    if bill.redirect_url is None or bill.final_at is None or "stay" in request.query_params:
        return None
    return CONTINUE_AFTER_S[bill.state] if now < bill.final_at + CONTINUE_WITHIN else None


def _app_links(services: Services, bill: Bill) -> dict[Device, str]:
    site = services.site
    missing = site.link(f"{target_path(bill.payment_id)}?app=missing")
    return {
        Device.ANDROID: android_intent(bill.payment_id, site.web_base_url, missing),
        Device.IOS: ios_link(bill.payment_id),
    }


def _qr(services: Services, bill: Bill) -> Markup:
    """Return the QR code that createQROrder answers with; a link's payment has the same."""
    return qr_svg(qr_prefix(services.site.web_base_url) + bill.payment_id)


routes = (show, shorten, status)
