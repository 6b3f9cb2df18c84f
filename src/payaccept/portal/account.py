"""One's own account: name, password, sessions."""

from typing import Any, Final

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from payaccept.domain import passwords
from payaccept.domain.attempt_limit import LIMITS, Kind
from payaccept.domain.audit import refused_since
from payaccept.domain.user import Viewer, name_problem
from payaccept.operations.sign_in import MustWait
from payaccept.portal import user_agents
from payaccept.portal.access import PortalRequest, signed_in
from payaccept.portal.forms import Form
from payaccept.portal.rendering import Page, actor, go, page, waiting
from payaccept.portal.services import Services
from payaccept.portal.sign_in import browser_of, enter

_ENTRIES: Final = 20


@get("/account", guards=[signed_in()])
async def show(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Page:
    """Show the account."""
    return await _account(request, services, viewer)


@post("/account/name", guards=[signed_in()])
async def rename(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """Change one's name."""
    form = await Form.of(request)
    name = form.text("name")
    form.check("name", name_problem(name))
    if not form.is_valid:
        return await _account(request, services, viewer, form)
    await services.users.rename(viewer.user, name, services.clock(), actor(request))
    return go(request, "/account", "Your name is changed.")


@get("/account/password", guards=[signed_in()])
async def show_password(request: PortalRequest) -> Page:
    """Ask for the old password and the new one."""
    return page(request, "account/password.html")


@post("/account/password", guards=[signed_in()])
async def change_password(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """Change the password; every session ends, and this browser gets a fresh one."""
    form = await Form.of(request)
    password = form.secret("password")
    await confirm_password(form, services, viewer)
    form.check("password", passwords.problem(password, viewer.user.email, viewer.user.name))
    if not form.is_valid:
        return page(request, "account/password.html", form=form, status=422)
    now = services.clock()
    account = await services.users.change_password(viewer.user, password, now, actor(request))
    signed = await services.sign_in.open_session(account, browser_of(request), now, "new password")
    return enter(request, signed, "/account", "Your password is changed, and all other sessions are ended.")


@post("/account/sessions/{session_id:str}/end", guards=[signed_in()])
async def end_session(
    request: PortalRequest,
    services: NamedDependency[Services],
    viewer: NamedDependency[Viewer],
    session_id: FromPath[str],
) -> Response[Any]:
    """End one of one's own sessions."""
    user_id = viewer.user.user_id
    ended = await services.sign_in.end_session(user_id, session_id, services.clock(), actor(request))
    return go(request, "/account", "That session is ended." if ended else "That session had ended already.")


@post("/account/sessions/end-others", guards=[signed_in()])
async def end_other_sessions(
    request: PortalRequest, services: NamedDependency[Services], viewer: NamedDependency[Viewer]
) -> Response[Any]:
    """End all of one's sessions but this one."""
    ended = await services.sign_in.end_other_sessions(viewer, services.clock(), actor(request))
    told = "One session is ended." if ended == 1 else f"{ended} sessions are ended."
    return go(request, "/account", told if ended else "There was no other session.")


async def confirm_password(form: Form, services: Services, viewer: Viewer) -> None:
    """Check the field `current`: a stolen session alone must not do what follows."""
    current = form.secret("current")
    if not current:
        form.fail("current", "Enter your present password.")
        return
    confirmed = await services.sign_in.confirm(viewer.user.user_id, current, services.clock())
    if isinstance(confirmed, MustWait):
        form.fail("current", f"Too many attempts. {waiting(confirmed)}")
    elif not confirmed:
        form.fail("current", "This is not your present password.")


async def _account(
    request: PortalRequest, services: Services, viewer: Viewer, form: Form | None = None
) -> Page:
    user_id = viewer.user.user_id
    sessions = await services.sign_in.list_sessions(user_id, services.clock())
    entries = await services.users.list_entries(user_id)
    return page(
        request,
        "account/account.html",
        form=form,
        status=200 if form is None else 422,
        sessions=[(session, user_agents.name(session.user_agent)) for session in sessions],
        codes_left=await services.users.count_recovery_codes(user_id) if viewer.user.has_totp else 0,
        entries=entries[:_ENTRIES],
        refused=refused_since(entries, viewer.session),
        noted=LIMITS[Kind.NOTED].capacity,
    )


routes = (show, rename, show_password, change_password, end_session, end_other_sessions)
