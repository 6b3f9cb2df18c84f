"""Signing up: in the sandbox, everybody may make a merchant of their own."""

from typing import Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.response import Redirect

from payaccept.domain.attempt_limit import Kind, address_block
from payaccept.domain.errors import EmailTaken, SettingRefused
from payaccept.domain.merchant import Environment
from payaccept.domain.user import Viewer
from payaccept.operations.users import Person
from payaccept.portal.access import PortalRequest, everyone, signed_in
from payaccept.portal.errors import PageNotFound, TooManyAttempts
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, address_of, go, page, waiting
from payaccept.portal.services import Services
from payaccept.portal.sign_in import browser_of, enter


@get("/sign-up", guards=[everyone()])
async def show(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Show the form."""
    _require_sandbox(services)
    if request.user is not None:
        return Redirect("/merchants/new", status_code=303)
    return page(request, "sign_up/sign_up.html")


@post("/sign-up", guards=[everyone()])
async def sign_up(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Make a user and a merchant, and sign in."""
    _require_sandbox(services)
    form = await Form.of(request)
    person = Person(email=form.text("email"), name=form.text("name"), password=form.secret("password"))
    merchant_name = _merchant_name(form, services)
    for field, problem in person.problems().items():
        form.fail(field, problem)
    if form.is_valid:
        now = services.clock()
        await _require_patience(request, services)
        try:
            account, merchant = await services.users.sign_up(
                person, merchant_name, services.site.environment, now, address_of(request)
            )
        except EmailTaken:
            form.fail("email", "There is an account with this address already: sign in instead.")
        else:
            signed = await services.sign_in.open_session(account, browser_of(request), now, "sign-up")
            return enter(
                request,
                signed,
                f"/m/{merchant.client_id}",
                f"Welcome. {merchant.name} is ready to be tried out.",
            )
    return page(request, "sign_up/sign_up.html", form=form, status=422)


@get("/merchants/new", guards=[signed_in()])
async def show_new_merchant(request: PortalRequest, services: NamedDependency[Services]) -> Page:
    """Ask for the name of one more merchant."""
    _require_sandbox(services)
    return page(request, "sign_up/merchant.html")


@post("/merchants/new", guards=[signed_in()])
async def make_merchant(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """Make one more merchant."""
    _require_sandbox(services)
    form = await Form.of(request)
    name = _merchant_name(form, services)
    if not form.is_valid:
        return page(request, "sign_up/merchant.html", form=form, status=422)
    await _require_patience(request, services)
    try:
        merchant = await services.users.add_merchant(viewer, name, services.clock(), actor(request))
    except SettingRefused as refused:
        form.fail("form", _sentence(refused))
        return page(request, "sign_up/merchant.html", form=form, status=422)
    return go(request, f"/m/{merchant.client_id}", f"{merchant.name} is ready to be tried out.")


def _require_sandbox(services: Services) -> None:
    if services.site.environment is not Environment.SANDBOX:
        raise PageNotFound


def _merchant_name(form: Form, services: Services) -> str:
    name = form.text("merchant")
    if not name:
        form.fail("merchant", "Enter the name that your customers know you by.")
        return name
    try:
        services.merchants.draft(name, services.clock())
    except SettingRefused as refused:
        form.fail("merchant", _sentence(refused))
    return name


def _sentence(refused: SettingRefused) -> str:
    return f"{str(refused)[:1].upper()}{str(refused)[1:]}."


async def _require_patience(request: PortalRequest, services: Services) -> None:
    block = address_block(address_of(request))
    refused = await services.sign_in.admit(Kind.SIGN_UP, block, services.clock())
    if refused is not None:
        raise TooManyAttempts(f"Many accounts were made from here. {waiting(refused)}", refused.seconds)


routes = (show, sign_up, show_new_merchant, make_merchant)
