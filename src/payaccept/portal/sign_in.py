"""Signing in, in one or two steps, and signing out."""

from typing import Any, Final

from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.response import Redirect

from payaccept.domain.user import SECOND_FACTOR_LIFE, Viewer
from payaccept.operations.sign_in import DEVICE_LIFE_S, Browser, CodeNeeded, MustWait, SignedIn, Wrong
from payaccept.portal import cookies
from payaccept.portal.access import PortalRequest, everyone, signed_in
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, address_of, go, local_path, page, waiting
from payaccept.portal.services import Services

_WRONG: Final = "E-mail address or password is not right."
_WRONG_CODE: Final = (
    "This code is not right. Codes change every 30 seconds, and each works once; so does a recovery code."
)


@get("/sign-in", guards=[everyone()])
async def show(request: PortalRequest) -> Response[Any]:
    """Show the form, unless somebody is signed in."""
    wanted = local_path(request.query_params.get("next", "/"))
    if request.user is not None:
        return Redirect(wanted, status_code=303)
    return page(request, "sign_in/password.html", wanted=wanted)


@post("/sign-in", guards=[everyone()])
async def with_password(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Check address and password."""
    form = await Form.of(request)
    email, password = form.text("email"), form.secret("password")
    wanted = local_path(form.text("next"))
    if not email:
        form.fail("email", "Enter your e-mail address.")
    if not password:
        form.fail("password", "Enter your password.")
    if not form.is_valid:
        return page(request, "sign_in/password.html", form=form, status=422, wanted=wanted)
    outcome = await services.sign_in.with_password(email, password, browser_of(request), services.clock())
    match outcome:
        case SignedIn():
            return enter(request, outcome, wanted)
        case CodeNeeded():
            answer = Redirect("/sign-in/code", status_code=303)
            value = f"{outcome.ticket} {wanted}"
            sealed = services.seals.seal("code step", value, services.clock())
            life_s = int(SECOND_FACTOR_LIFE.total_seconds())
            answer.cookies.append(
                cookies.make(services.site, cookies.SECOND_FACTOR, sealed, max_age_s=life_s)
            )
            return answer
        case MustWait():
            return _wait(request, "sign_in/password.html", form, outcome, wanted=wanted)
        case Wrong():
            form.fail("form", _WRONG)
            return page(request, "sign_in/password.html", form=form, status=422, wanted=wanted)


@get("/sign-in/code", guards=[everyone()])
async def show_code(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Ask for the second factor of somebody whose password was right."""
    if _code_step(request, services) is None:
        return Redirect("/sign-in", status_code=303)
    return page(request, "sign_in/code.html")


@post("/sign-in/code", guards=[everyone()])
async def with_code(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Check the second factor."""
    step = _code_step(request, services)
    if step is None:
        return go(request, "/sign-in", "That took too long: enter your password once more.")
    ticket, wanted = step
    form = await Form.of(request)
    typed = form.text("code", max_length=32)
    if not typed:
        form.fail("code", "Enter the code that your app shows.")
        return page(request, "sign_in/code.html", form=form, status=422)
    outcome = await services.sign_in.with_code(ticket, typed, browser_of(request), services.clock())
    match outcome:
        case SignedIn():
            answer = enter(request, outcome, wanted)
            answer.cookies.append(cookies.drop(services.site, cookies.SECOND_FACTOR))
            return answer
        case MustWait():
            return _wait(request, "sign_in/code.html", form, outcome)
        case Wrong(over=False):
            form.fail("code", _WRONG_CODE)
            return page(request, "sign_in/code.html", form=form, status=422)
        case _:
            return go(request, "/sign-in", "That took too long: enter your password once more.")


@post("/sign-out", guards=[signed_in()])
async def sign_out(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """End the session at hand; the browser forgets what it held of it, and stays a known one."""
    now = services.clock()
    await services.sign_in.end_session(viewer.user.user_id, viewer.session.session_id, now, actor(request))
    answer = go(request, "/sign-in", "You are signed out.")
    answer.cookies.append(cookies.drop(services.site, cookies.SESSION))
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


def browser_of(request: Request[Viewer | None, Any, Any]) -> Browser:
    """Return where an attempt to sign in comes from."""
    site = request.app.state.services.site
    viewer = request.user
    return Browser(
        address=address_of(request),
        user_agent=request.headers.get("user-agent", ""),
        device=request.cookies.get(cookies.name(site, cookies.DEVICE), ""),
        session_id=None if viewer is None else viewer.session.session_id,
    )


def enter(request: Request[Any, Any, Any], signed: SignedIn, path: str, notice: str = "") -> Response[Any]:
    """Give the browser its session, and send it on."""
    site = request.app.state.services.site
    answer = go(request, path, notice)
    answer.cookies.append(cookies.make(site, cookies.SESSION, signed.token))
    answer.cookies.append(
        cookies.make(site, cookies.DEVICE, signed.device, max_age_s=DEVICE_LIFE_S, same_site="strict")
    )
    answer.cookies.append(cookies.drop(site, cookies.FORM))
    return answer


def _code_step(request: Request[Any, Any, Any], services: Services) -> tuple[str, str] | None:
    """Return the ticket of the step between password and code, and where to go afterwards."""
    sealed = request.cookies.get(cookies.name(services.site, cookies.SECOND_FACTOR), "")
    life_s = int(SECOND_FACTOR_LIFE.total_seconds())
    value = services.seals.unseal("code step", sealed, services.clock(), life_s)
    if value is None:
        return None
    ticket, _, wanted = value.partition(" ")
    return ticket, wanted


def _wait(request: PortalRequest, template: str, form: Form, refused: MustWait, **context: Any) -> Page:
    form.fail("form", f"Too many attempts. {waiting(refused)} Nothing was checked meanwhile.")
    answer = page(request, template, form=form, status=429, **context)
    answer.headers["Retry-After"] = str(refused.seconds)
    return answer


routes = (show, with_password, show_code, with_code, sign_out)
