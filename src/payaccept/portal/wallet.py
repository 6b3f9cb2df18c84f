"""The sandbox's wallet: deciding a payment, showing a code to a till, reading a QR code. Not there in production."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath
from litestar.response import Redirect

from payaccept.domain import identifiers
from payaccept.domain.app_links import target_path
from payaccept.domain.errors import PaymentFinal, PaymentNotFound
from payaccept.operations.simulated_customer import DECLINES, SimulatedCustomer
from payaccept.portal import customers, visitors
from payaccept.portal.access import PortalRequest, everyone, unattended
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.qr import qr_svg
from payaccept.portal.rendering import Page, address_of, go, page
from payaccept.portal.services import Services
from payaccept.wire.codes import ResultCode

CODE_LIFE_S: Final = 60
_SEAL: Final = "wallet-code"
_HEADERS: Final = {"X-Robots-Tag": "noindex, nofollow"}
_TOO_LATE: Final = "It had been decided before: what is final never changes."


def customer_of(services: Services) -> SimulatedCustomer:
    """Return the customer to play. Raises: PageNotFound, where there is none."""
    if services.simulated_customer is None:
        raise PageNotFound
    return services.simulated_customer


@get("/wallet", guards=[unattended()])
async def show_code(request: PortalRequest, services: NamedDependency[Services]) -> Page:
    """Show a new code for a till. Every opening makes one, as a wallet app does: it is nobody's until it is used."""
    now = services.clock()
    customer = customer_of(services)
    services.visitors.charge(address_of(request), visitors.MADE, now)
    code = await customer.show_code(now)
    return _page(
        request,
        "wallet/code.html",
        code=code,
        groups=[code[at : at + 4] for at in range(0, len(code), 4)],
        qr=qr_svg(code),
        life_s=CODE_LIFE_S,
        # Not the code itself: paths are logged.
        used_path=f"/wallet/codes/{services.seals.seal(_SEAL, code, now)}",
    )


@get("/wallet/codes/{sealed:str}", guards=[unattended()])
async def follow_code(
    request: PortalRequest, services: NamedDependency[Services], sealed: FromPath[str]
) -> Response[dict[str, Any]]:
    """Tell the page that shows a code which payment has used it."""
    customer = customer_of(services)
    now = services.clock()
    services.visitors.charge(address_of(request), visitors.STATUS, now)
    code = services.seals.unseal(_SEAL, sealed, now, 10 * CODE_LIFE_S)
    payment_id = None if code is None else await customer.find_payment_of_code(code)
    return Response({"opens": None if payment_id is None else target_path(payment_id)})


@get("/wallet/scan", guards=[unattended()])
async def scan(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Take the text of a QR code, or any of a payment's addresses or ids, and open the payment."""
    customer_of(services)
    sent = request.query_params.get("code")
    if sent is None:
        return _page(request, "wallet/scan.html")
    form = Form({"code": sent})
    text = form.text("code", max_length=2048)
    payment_id = identifiers.payment_of(text.rstrip("/").rpartition("/")[2])
    if payment_id is not None:
        return Redirect(target_path(payment_id), status_code=303)
    form.fail(
        "code",
        "This is no payment: the text of a QR code ends with pay_ and 36 letters and digits."
        if text
        else "Paste the text of a QR code, or a paymentId.",
    )
    return _page(request, "wallet/scan.html", form=form, status=422)


@post("/wallet/{payment_id:str}/approve", guards=[everyone()])
async def approve(
    request: PortalRequest, services: NamedDependency[Services], payment_id: FromPath[str]
) -> Response[Any]:
    """Pay, as the customer."""
    return await _decide(request, services, payment_id, None)


@post("/wallet/{payment_id:str}/decline", guards=[everyone()])
async def decline(
    request: PortalRequest, services: NamedDependency[Services], payment_id: FromPath[str]
) -> Response[Any]:
    """Decline, as the customer or the customer's bank."""
    form = await Form.of(request)
    reason = form.values.get("reason", "")
    if reason not in DECLINES:
        customer_of(services)
        form.fail("reason", "Choose one of the reasons.")
        return await customers.show_payment(request, services, payment_id, form)
    return await _decide(request, services, payment_id, ResultCode(reason))


async def _decide(
    request: PortalRequest, services: Services, payment_id: str, decline_with: ResultCode | None
) -> Response[Any]:
    now = services.clock()
    customer = customer_of(services)
    services.visitors.charge(address_of(request), visitors.MADE, now)
    notice = ""
    try:
        if decline_with is None:
            await customer.approve(payment_id, now)
        else:
            await customer.decline(payment_id, decline_with, now)
    except PaymentNotFound:
        return customers.unknown(request, services)
    except PaymentFinal:
        notice = _TOO_LATE
    return go(request, target_path(payment_id), notice)


def _page(request: PortalRequest, template: str, **context: Any) -> Page:
    answer = page(request, template, **context)
    answer.headers.update(_HEADERS)
    return answer


routes = (show_code, follow_code, scan, approve, decline)
