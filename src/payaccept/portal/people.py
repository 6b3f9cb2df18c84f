"""The people of a merchant: who is in, who is invited, what each may do."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.domain.errors import EmailTaken, OwnerNeeded, SettingRefused, UserNotFound
from payaccept.domain.user import ROLE_SUMMARIES, Membership, Permission, Role, Viewer, email_problem
from payaccept.operations.people import Sent
from payaccept.portal.access import PortalRequest, member
from payaccept.portal.errors import PageNotFound
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page
from payaccept.portal.services import Services

_ROLES: Final = [(role.value, role.value.capitalize(), ROLE_SUMMARIES[role]) for role in Role]
_LAST_OWNER: Final = "A merchant keeps at least one owner: make somebody else an owner first."


@get("/m/{client_id:str}/people", guards=[member(Permission.VIEW)])
async def show(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Page:
    """Show everybody who is in, and the open invitations."""
    return await _people(request, services, membership)


@get("/m/{client_id:str}/people/invite", guards=[member(Permission.MANAGE_PEOPLE)])
async def show_invite(request: PortalRequest) -> Page:
    """Ask whom to invite."""
    return page(request, "people/invite.html", roles=_ROLES)


@post("/m/{client_id:str}/people/invite", guards=[member(Permission.MANAGE_PEOPLE)])
async def invite(
    request: PortalRequest, services: NamedDependency[Services], membership: NamedDependency[Membership]
) -> Response[Any]:
    """Make an invitation, and show its link, once."""
    form = await Form.of(request)
    email, role = form.text("email"), _role(form)
    form.check("email", email_problem(email))
    if form.is_valid and role is not None:
        try:
            sent = await services.people.invite(membership, email, role, services.clock(), actor(request))
        except EmailTaken:
            form.fail("email", "This person belongs to the merchant already.")
        except SettingRefused as refused:
            form.fail("form", str(refused))
        else:
            return _invited(request, sent)
    return page(request, "people/invite.html", form=form, status=422, roles=_ROLES)


@post("/m/{client_id:str}/people/invitations/{link_id:str}/revoke", guards=[member(Permission.MANAGE_PEOPLE)])
async def revoke(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    link_id: FromPath[str],
) -> Response[Any]:
    """Take an invitation back."""
    client_id = membership.client_id
    revoked = await services.people.revoke(client_id, link_id, services.clock(), actor(request))
    told = "The invitation is taken back." if revoked else "That invitation was not open any more."
    return go(request, f"/m/{client_id}/people", told)


@get("/m/{client_id:str}/people/{user_id:str}", guards=[member(Permission.MANAGE_PEOPLE)])
async def show_one(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    user_id: FromPath[str],
) -> Page:
    """Show one person, whose role can be changed here."""
    return await _one(request, services, membership, user_id)


@post("/m/{client_id:str}/people/{user_id:str}/role", guards=[member(Permission.MANAGE_PEOPLE)])
async def change_role(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    user_id: FromPath[str],
) -> Response[Any]:
    """Give a person another role."""
    form = await Form.of(request)
    role = _role(form)
    if role is not None:
        try:
            await services.people.change_role(
                membership.client_id, user_id, role, services.clock(), actor(request)
            )
        except OwnerNeeded:
            form.fail("role", _LAST_OWNER)
        except UserNotFound:
            raise PageNotFound from None
        else:
            return go(request, f"/m/{membership.client_id}/people", f"The role is {role} now.")
    return await _one(request, services, membership, user_id, form)


@post("/m/{client_id:str}/people/{user_id:str}/remove", guards=[member(Permission.MANAGE_PEOPLE)])
async def remove(
    request: PortalRequest,
    services: NamedDependency[Services],
    membership: NamedDependency[Membership],
    viewer: NamedDependency[Viewer],
    user_id: FromPath[str],
) -> Response[Any]:
    """Take a person out."""
    form = await Form.of(request)
    try:
        await services.people.remove(membership.client_id, user_id, services.clock(), actor(request))
    except OwnerNeeded:
        form.fail("form", _LAST_OWNER)
        return await _one(request, services, membership, user_id, form)
    except UserNotFound:
        raise PageNotFound from None
    if user_id == viewer.user.user_id:
        return go(request, "/", f"You have left {membership.merchant_name}.")
    return go(
        request, f"/m/{membership.client_id}/people", "The person is out, and sees nothing of it any more."
    )


def _role(form: Form) -> Role | None:
    try:
        return Role(form.text("role"))
    except ValueError:
        form.fail("role", "Choose what this person may do.")
        return None


async def _people(request: PortalRequest, services: Services, membership: Membership) -> Page:
    client_id = membership.client_id
    may_manage = membership.grants(Permission.MANAGE_PEOPLE)
    invitations = await services.people.list_invitations(client_id, services.clock()) if may_manage else []
    return page(
        request,
        "people/people.html",
        members=await services.people.list_members(client_id),
        invitations=invitations,
        may_manage=may_manage,
        summaries=ROLE_SUMMARIES,
    )


async def _one(
    request: PortalRequest,
    services: Services,
    membership: Membership,
    user_id: str,
    form: Form | None = None,
) -> Page:
    members = await services.people.list_members(membership.client_id)
    found = next((one for one in members if one.user.user_id == user_id), None)
    if found is None:
        raise PageNotFound
    status = 200 if form is None else 422
    return page(request, "people/person.html", form=form, status=status, person=found, roles=_ROLES)


def _invited(request: PortalRequest, sent: Sent) -> Page:
    return page(request, "people/invited.html", sent=sent)


routes = (show, show_invite, invite, revoke, show_one, change_role, remove)
