"""From a template to an answer: what every page knows, notices that are shown once, instants, redirects."""

from datetime import datetime
from typing import Any, Final

import jinja2
from litestar import Request, Response
from litestar.enums import MediaType
from litestar.response import Redirect
from markupsafe import Markup

from payaccept.domain.lanes import FailingLane
from payaccept.domain.user import Actor, Membership, Viewer
from payaccept.operations.sign_in import MustWait
from payaccept.portal import cookies, csrf
from payaccept.portal.assets import Assets
from payaccept.portal.forms import Form
from payaccept.portal.navigation import is_operators, own_sections_for, sections_for
from payaccept.portal.services import Services
from payaccept.portal.tables import TableRoles
from payaccept.portal.webhook_views import FailingBanner, failing_banner
from payaccept.wire import timestamps

Page = Response[str]
_NOTICE_LIFE_S: Final = 60


def environment(assets: Assets) -> jinja2.Environment:
    """Make the environment of all templates: everything is escaped, and a missing name is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("payaccept.portal"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=[TableRoles],
    )
    made.globals["asset"] = assets.path
    made.filters["when"] = when
    return made


def page(
    request: Request[Any, Any, Any],
    template: str,
    *,
    form: Form | None = None,
    status: int = 200,
    **context: Any,
) -> Page:
    """Answer with a page.

    `form` gives the template what was typed and what is wrong with it; it wants `status` 422.
    """
    services: Services = request.app.state.services
    viewer: Viewer | None = request.scope.get("user")
    membership = _membership_at(request, viewer)
    notice = _notice(request, services)
    html = request.app.state.templates.get_template(template).render(
        site=services.site,
        viewer=viewer,
        membership=membership,
        sections=sections_for(viewer, membership),
        own_sections=own_sections_for(viewer, services.site.environment, request.scope["path"]),
        path=request.scope["path"],
        in_operators_area=is_operators(request.scope["path"]),
        form=form or Form({}),
        notice=notice,
        failing=_failing(request, services),
        now=services.clock(),
        request_id=request.scope.get("request_id", ""),
        csrf=lambda: _csrf_field(request, services, viewer),
        **context,
    )
    answer = Response(html, status_code=status, media_type=MediaType.HTML)
    if notice is not None:
        answer.cookies.append(cookies.drop(services.site, cookies.NOTICE))
    made: str | None = request.scope.get("form_cookie")  # type: ignore[assignment]
    if made is not None:
        answer.cookies.append(cookies.make(services.site, cookies.FORM, made))
    return answer


def go(request: Request[Any, Any, Any], path: str, notice: str = "") -> Response[Any]:
    """Send the browser to another page of ours after a form, where the notice is shown once."""
    services: Services = request.app.state.services
    answer = Redirect(path, status_code=303)
    if notice:
        sealed = services.seals.seal("notice", notice, services.clock())
        answer.cookies.append(cookies.make(services.site, cookies.NOTICE, sealed, max_age_s=_NOTICE_LIFE_S))
    return answer


def local_path(text: str) -> str:
    """Return a path of ours that a link brought along; the front page for anything else."""
    plain = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if plain and "\\" not in text else "/"


def actor(request: Request[Viewer | None, Any, Any]) -> Actor:
    """Return who makes a change, for the audit log."""
    viewer = request.user
    return Actor(
        user_id=None if viewer is None else viewer.user.user_id,
        name="somebody signed out" if viewer is None else viewer.user.email,
        address=address_of(request),
    )


def address_of(request: Request[Any, Any, Any]) -> str:
    """Return the address that the request came from."""
    return request.scope.get("client_address") or ""  # type: ignore[return-value]


def when(at: datetime) -> Markup:
    """Write an instant; `portal.js` shows it in the viewer's own time zone."""
    text = at.strftime("%-d %b %Y, %H:%M:%S UTC")
    return Markup('<time datetime="{}">{}</time>').format(timestamps.write(at), text)


def waiting(refused: MustWait) -> str:
    """Say for how long somebody has to wait."""
    if refused.seconds < 90:  # noqa: PLR2004
        return f"Wait {refused.seconds} seconds before the next one."
    return f"Wait {-(-refused.seconds // 60)} minutes before the next one."


def _membership_at(request: Request[Any, Any, Any], viewer: Viewer | None) -> Membership | None:
    """Return what the viewer is in the merchant that the page is one of; the operator's pages are no merchant's."""
    if viewer is None or is_operators(request.scope["path"]):
        return None
    return viewer.membership(request.path_params.get("client_id", ""))


def _failing(request: Request[Any, Any, Any], services: Services) -> FailingBanner | None:
    lane: FailingLane | None = request.scope.get("failing_lane")  # type: ignore[assignment]
    return failing_banner(lane, services.clock())


def _csrf_field(request: Request[Any, Any, Any], services: Services, viewer: Viewer | None) -> Markup:
    token = csrf.token_for(request, services, viewer)
    return Markup('<input type="hidden" name="{}" value="{}">').format(csrf.FIELD, token)


def _notice(request: Request[Any, Any, Any], services: Services) -> str | None:
    sealed = request.cookies.get(cookies.name(services.site, cookies.NOTICE))
    return services.seals.unseal("notice", sealed, services.clock(), _NOTICE_LIFE_S) if sealed else None
