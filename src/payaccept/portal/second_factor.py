"""The second step of signing in: switched on with a QR code, off with the password; recovery codes."""

import io
from typing import Any, Final

import segno
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.response import Redirect
from markupsafe import Markup

from payaccept.domain.totp import shown
from payaccept.domain.user import Viewer
from payaccept.operations.users import TotpSetUp
from payaccept.portal.access import PortalRequest, signed_in
from payaccept.portal.account import confirm_password
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services

_WRONG: Final = (
    "This code is not right. Enter the one that the app shows now; if it goes on, see whether the phone's"
    " clock is set automatically."
)
_ALREADY: Final = "The second step is on already."


@get("/account/second-factor", guards=[signed_in()])
async def show(request: PortalRequest, viewer: NamedDependency[Viewer]) -> Response[Any]:
    """Ask for the password before a secret is shown."""
    if viewer.user.has_totp:
        return Redirect("/account", status_code=303)
    return page(request, "second_factor/begin.html")


@post("/account/second-factor", guards=[signed_in()])
async def begin(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """Show a new secret as a QR code, and ask for a code of the app that has read it."""
    if viewer.user.has_totp:
        return go(request, "/account", _ALREADY)
    form = await Form.of(request)
    await confirm_password(form, services, viewer)
    if not form.is_valid:
        return page(request, "second_factor/begin.html", form=form, status=422)
    return _scan(request, services.users.begin_totp(viewer.user, _issuer(services), services.clock()), None)


@post("/account/second-factor/on", guards=[signed_in()])
async def switch_on(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """Switch it on when the code is right, and show the recovery codes, once."""
    if viewer.user.has_totp:
        return go(request, "/account", _ALREADY)
    form = await Form.of(request)
    now = services.clock()
    set_up = services.users.resume_totp(viewer.user, _issuer(services), form.secret("set-up"), now)
    if set_up is None:
        return go(request, "/account/second-factor", "That took too long: begin once more.")
    typed = form.text("code", max_length=16)
    codes = await services.users.switch_totp_on(viewer.user, set_up, typed, now, actor(request))
    if codes is None:
        form.fail("code", _WRONG if typed else "Enter the code that the app shows.")
        return _scan(request, set_up, form)
    return _codes(request, codes, fresh=True)


@get("/account/second-factor/off", guards=[signed_in()])
async def show_off(request: PortalRequest, viewer: NamedDependency[Viewer]) -> Response[Any]:
    """Ask for the password before it is switched off."""
    if not viewer.user.has_totp:
        return Redirect("/account", status_code=303)
    return page(request, "second_factor/off.html")


@post("/account/second-factor/off", guards=[signed_in()])
async def switch_off(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """Switch it off."""
    form = await Form.of(request)
    await confirm_password(form, services, viewer)
    if not form.is_valid:
        return page(request, "second_factor/off.html", form=form, status=422)
    await services.users.switch_totp_off(viewer.user, services.clock(), actor(request))
    return go(request, "/account", "The second step is off: your password alone signs you in.")


@get("/account/recovery-codes", guards=[signed_in()])
async def show_codes(request: PortalRequest, viewer: NamedDependency[Viewer]) -> Response[Any]:
    """Ask for the password before codes are replaced."""
    if not viewer.user.has_totp:
        return Redirect("/account", status_code=303)
    return page(request, "second_factor/renew.html")


@post("/account/recovery-codes", guards=[signed_in()])
async def renew_codes(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """Replace the recovery codes, and show the new ones, once."""
    if not viewer.user.has_totp:
        return Redirect("/account", status_code=303)
    form = await Form.of(request)
    await confirm_password(form, services, viewer)
    if not form.is_valid:
        return page(request, "second_factor/renew.html", form=form, status=422)
    codes = await services.users.renew_recovery_codes(viewer.user, services.clock(), actor(request))
    return _codes(request, codes, fresh=False)


def qr(text: str) -> Markup:
    """Draw a QR code as SVG, to stand in a page: without a style, which the page's policy forbids."""
    drawn = io.BytesIO()
    segno.make(text, micro=False).save(
        drawn, kind="svg", xmldecl=False, svgns=False, omitsize=True, border=0, svgclass=None, lineclass=None
    )
    return Markup(drawn.getvalue().decode())  # noqa: S704 - segno draws shapes, and writes no text


def _scan(request: PortalRequest, set_up: TotpSetUp, form: Form | None) -> Page:
    secret = " ".join(set_up.secret[at : at + 4] for at in range(0, len(set_up.secret), 4))
    return page(
        request,
        "second_factor/scan.html",
        form=form,
        status=200 if form is None else 422,
        drawn=qr(set_up.uri),
        secret=secret,
        sealed=set_up.sealed,
    )


def _codes(request: PortalRequest, codes: list[str], *, fresh: bool) -> Page:
    return page(request, "second_factor/codes.html", codes=[shown(code) for code in codes], fresh=fresh)


def _issuer(services: Services) -> str:
    return "payaccept sandbox" if services.site.environment == "sandbox" else "payaccept"


routes = (show, begin, switch_on, show_off, switch_off, show_codes, renew_codes)
