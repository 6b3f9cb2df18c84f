"""One-time links: an invitation taken up, a new password chosen, and the link to one asked for by mail."""

import asyncio
from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.domain import passwords
from payaccept.domain.attempt_limit import Kind
from payaccept.domain.errors import EmailTaken, LinkSpent
from payaccept.domain.user import Actor, Link, Purpose, Viewer, email_key, name_problem
from payaccept.portal.access import PortalRequest, everyone, signed_in
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, address_of, go, page
from payaccept.portal.services import Services
from payaccept.portal.sign_in import browser_of, enter

_sending: Final[set[asyncio.Task[Any]]] = set()


# An invitation


@get("/invitation/{token:str}", guards=[everyone()])
async def show_invitation(
    request: PortalRequest, services: NamedDependency[Services], token: FromPath[str]
) -> Page:
    """Show where an invitation leads, and what it takes to go there."""
    link = await _find(services, token, Purpose.MEMBER, Purpose.STAFF)
    if link is None:
        return _spent(request)
    return await _invitation(request, services, link, token, None)


@post("/invitation/{token:str}/accept", guards=[signed_in()])
async def accept(
    request: PortalRequest,
    services: NamedDependency[Services],
    viewer: NamedDependency[Viewer],
    token: FromPath[str],
) -> Response[Any]:
    """Take an invitation up with the account at hand."""
    link = await _find(services, token, Purpose.MEMBER, Purpose.STAFF)
    if link is None:
        return _spent(request)
    if email_key(link.email) != email_key(viewer.user.email):
        return await _invitation(request, services, link, token, None)
    await services.people.accept(link, viewer.user, services.clock(), actor(request))
    return go(request, _destination(link), f"You belong to {_place(link)} now.")


@post("/invitation/{token:str}", guards=[everyone()])
async def accept_as_new(
    request: PortalRequest, services: NamedDependency[Services], token: FromPath[str]
) -> Response[Any]:
    """Take an invitation up with a new account."""
    link = await _find(services, token, Purpose.MEMBER, Purpose.STAFF)
    if link is None:
        return _spent(request)
    form = await Form.of(request)
    name, password = form.text("name"), form.secret("password")
    form.check("name", name_problem(name))
    form.check("password", passwords.problem(password, link.email, name))
    now = services.clock()
    if not form.is_valid or request.user is not None:
        return await _invitation(request, services, link, token, form)
    try:
        account = await services.people.accept_as_new(link, name, password, now, address_of(request))
    except EmailTaken:
        return await _invitation(request, services, link, token, None)
    except LinkSpent:
        return _spent(request)
    signed = await services.sign_in.open_session(account, browser_of(request), now, "invitation")
    return enter(request, signed, _destination(link), f"Welcome to {_place(link)}.")


async def _invitation(
    request: PortalRequest, services: Services, link: Link, token: str, form: Form | None
) -> Page:
    has_account = await services.users.find_account(link.email) is not None
    viewer = request.user
    return page(
        request,
        "links/invitation.html",
        form=form,
        status=200 if form is None else 422,
        link=link,
        token=token,
        place=_place(link),
        has_account=has_account,
        is_mine=viewer is not None and email_key(viewer.user.email) == email_key(link.email),
    )


# A new password


@get("/new-password/{token:str}", guards=[everyone()])
async def show_new_password(
    request: PortalRequest, services: NamedDependency[Services], token: FromPath[str]
) -> Page:
    """Ask for the new password."""
    link = await _find(services, token, Purpose.PASSWORD)
    return _spent(request) if link is None else page(request, "links/new_password.html", link=link)


@post("/new-password/{token:str}", guards=[everyone()])
async def set_password(
    request: PortalRequest, services: NamedDependency[Services], token: FromPath[str]
) -> Response[Any]:
    """Set the new password; who has a second factor signs in with both afterwards."""
    link = await _find(services, token, Purpose.PASSWORD)
    if link is None:
        return _spent(request)
    form = await Form.of(request)
    password = form.secret("password")
    form.check("password", passwords.problem(password, link.email))
    if not form.is_valid:
        return page(request, "links/new_password.html", form=form, status=422, link=link)
    now = services.clock()
    try:
        account = await services.people.set_password(link, password, now, address_of(request))
    except LinkSpent:
        return _spent(request)
    if account.user.has_totp:
        return go(request, "/sign-in", "Your password is changed. Sign in with it.")
    signed = await services.sign_in.open_session(account, browser_of(request), now, "one-time link")
    return enter(request, signed, "/", "Your password is changed, and all other sessions are ended.")


@get("/forgotten-password", guards=[everyone()])
async def show_forgotten(request: PortalRequest, services: NamedDependency[Services]) -> Page:
    """Ask whose password is forgotten, or say whom to ask where there is no mail."""
    return page(request, "links/forgotten.html", has_mail=services.people.has_mail)


@post("/forgotten-password", guards=[everyone()])
async def send_link(request: PortalRequest, services: NamedDependency[Services]) -> Response[Any]:
    """Send a link, if there is such an account; the answer is the same if there is none."""
    if not services.people.has_mail:
        raise PageNotFound
    form = await Form.of(request)
    email = form.text("email", max_length=254)
    if not email:
        form.fail("email", "Enter your e-mail address.")
        return page(request, "links/forgotten.html", form=form, status=422, has_mail=True)
    now = services.clock()
    if await services.sign_in.admit(Kind.MAIL, email_key(email), now) is None:
        by = Actor(user_id=None, name="somebody signed out", address=address_of(request))
        # Answered before it is done: how long it takes would tell whether there is an account.
        task = asyncio.create_task(_send(services, email, by))
        _sending.add(task)
        task.add_done_callback(_sending.discard)
    return go(request, "/sign-in", "If there is an account with this address, a link is on its way to it.")


async def _send(services: Services, email: str, by: Actor) -> None:
    account = await services.users.find_account(email)
    if account is not None:
        await services.people.send_password_link(account.user, services.clock(), by)


async def _find(services: Services, token: str, *purposes: Purpose) -> Link | None:
    try:
        link = await services.people.find_link(token, services.clock())
    except LinkSpent:
        return None
    return link if link.purpose in purposes else None


def _spent(request: PortalRequest) -> Page:
    return page(request, "links/spent.html", status=410)


def _place(link: Link) -> str:
    return link.merchant_name or "the staff of this service"


def _destination(link: Link) -> str:
    return "/" if link.client_id is None else f"/m/{link.client_id}"


routes = (
    show_invitation,
    accept,
    accept_as_new,
    show_new_password,
    set_password,
    show_forgotten,
    send_link,
)
