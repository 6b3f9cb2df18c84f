"""Who may use a route: one declarative guard each, which does everything that comes before the handler.

1. Who is it? The session's cookie, looked up.
2. A request that changes something comes from one of our own pages: its origin, and the form's token.
3. May this viewer? `everyone`, `signed_in`, `staff`, or `member` of the merchant named in the path.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, cast
from urllib.parse import urlsplit

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler

from payaccept.domain.merchant import Environment
from payaccept.domain.user import Membership, Permission, Viewer
from payaccept.portal import cookies, csrf
from payaccept.portal.errors import NotAllowed, PageNotFound, SignInNeeded
from payaccept.portal.services import Services

PortalRequest = Request[Viewer | None, Any, Any]
_SAFE: Final = frozenset({"GET", "HEAD"})


class Audience(StrEnum):
    """Whom a route is for."""

    EVERYONE = "everyone"
    SIGNED_IN = "signed in"
    MEMBER = "member"
    STAFF = "staff"


class Access:
    """The guard of one route."""

    def __init__(
        self, audience: Audience, permission: Permission | None = None, *, looks: bool = True
    ) -> None:
        self.audience = audience
        self.permission = permission
        self._looks = looks

    def __repr__(self) -> str:
        """Say it as the matrix of the tests does."""
        return self.audience if self.permission is None else f"{self.audience} who may {self.permission}"

    async def __call__(
        self, connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
    ) -> None:
        """Let the request through, or raise what answers it. Raises: SignInNeeded, NotAllowed, PageNotFound."""
        request = cast("PortalRequest", connection)
        services: Services = request.app.state.services
        viewer = await _find_viewer(request, services) if self._looks else None
        request.scope["user"] = viewer
        if request.method not in _SAFE:
            require_own_origin(request.headers)
            await csrf.require_token(request, services, viewer)
        self._judge(viewer, request, services)
        if self.audience is Audience.MEMBER:  # for the banner, which every page of a merchant has
            failing = await services.event_lists.find_longest_failing(request.path_params["client_id"])
            request.scope["failing_lane"] = failing  # type: ignore[typeddict-unknown-key]

    def _judge(self, viewer: Viewer | None, request: PortalRequest, services: Services) -> None:
        if self.audience is Audience.EVERYONE:
            return
        if viewer is None:
            raise SignInNeeded
        if self.audience is Audience.STAFF:
            _judge_staff(viewer, services)
        if self.audience is Audience.MEMBER:
            membership = viewer.membership(request.path_params["client_id"])
            if membership is None:
                raise PageNotFound  # nobody learns which merchants there are
            if self.permission is not None and not membership.grants(self.permission):
                raise NotAllowed(f"Your role here is {membership.role}, which does not include this.")


def _judge_staff(viewer: Viewer, services: Services) -> None:
    if not viewer.user.staff:
        raise PageNotFound  # to others, the operator's area is not there
    if services.site.environment is Environment.PRODUCTION and not viewer.user.has_totp:
        raise NotAllowed("Staff needs the second step of signing in: switch it on under Account first.")


def everyone() -> Access:
    """Let in whoever comes."""
    return Access(Audience.EVERYONE)


def unattended() -> Access:
    """Let in whoever comes, without a look at who it is: for files and signs of life."""
    return Access(Audience.EVERYONE, looks=False)


def signed_in() -> Access:
    """Let in whoever is signed in; what they may see of others' is the handler's to decide."""
    return Access(Audience.SIGNED_IN)


def member(permission: Permission) -> Access:
    """Let in members of the merchant in the path (`client_id`) whose role includes the permission."""
    return Access(Audience.MEMBER, permission)


def staff() -> Access:
    """Let in the provider's own staff."""
    return Access(Audience.STAFF)


def access_of(handler: HTTPRouteHandler) -> Access:
    """Return the one guard of a route. Raises: TypeError when it has none or several."""
    found = [guard for guard in handler.guards or () if isinstance(guard, Access)]
    if len(found) != 1 or len(handler.guards or ()) != 1:
        raise TypeError(f"{handler} must declare exactly one access guard, and has {len(found)}")
    return found[0]


def require_access(handlers: Iterable[HTTPRouteHandler]) -> None:
    """See that no route is open by mistake. Raises: TypeError."""
    for handler in handlers:
        access_of(handler)


def viewer_of(request: PortalRequest) -> Viewer:
    """Return who is signed in, on routes that are not for everyone."""
    if request.user is None:
        raise SignInNeeded
    return request.user


def membership_of(request: PortalRequest) -> Membership:
    """Return what the viewer is in the merchant of the path, on routes for members."""
    membership = viewer_of(request).membership(request.path_params["client_id"])
    if membership is None:
        raise PageNotFound
    return membership


def require_own_origin(headers: Any) -> None:
    """Refuse what another site's page sends. Raises: NotAllowed.

    Browsers tell by Sec-Fetch-Site, older ones by Origin alone; a client that tells neither is no browser
    that another site could misuse, and still needs the form's token.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site is not None:
        own = site == "same-origin"
    else:
        own = origin is None or urlsplit(origin).netloc == headers.get("host")
    if not own:
        raise NotAllowed("This form was sent from another site, so nothing was changed.")


async def _find_viewer(request: PortalRequest, services: Services) -> Viewer | None:
    token = request.cookies.get(cookies.name(services.site, cookies.SESSION))
    if not token:
        return None
    # What a script fetches by itself does not keep an abandoned screen signed in.
    in_use = request.headers.get("sec-fetch-dest", "document") != "empty"
    return await services.sign_in.find_viewer(token, services.clock(), in_use=in_use)
