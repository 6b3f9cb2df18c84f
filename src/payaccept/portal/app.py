"""The portal as an ASGI application."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, Protocol

from litestar import Litestar, Request
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from payaccept.domain.user import Membership, Viewer
from payaccept.portal import (
    access,
    account,
    audit,
    customers,
    docs,
    doctor,
    drill,
    errors,
    home,
    keys,
    links,
    people,
    rendering,
    replays,
    requests,
    second_factor,
    sign_in,
    sign_up,
    statics,
    wallet,
    webhook_events,
    webhooks,
)
from payaccept.portal.assets import Assets
from payaccept.portal.edge import Edge, Network, RequestLog
from payaccept.portal.services import Services

PAGES: Final[tuple[ModuleType, ...]] = (
    statics,
    home,
    sign_in,
    sign_up,
    links,
    account,
    second_factor,
    keys,
    webhooks,
    webhook_events,
    replays,
    requests,
    doctor,
    drill,
    people,
    audit,
    customers,
    docs,
    wallet,
)
"""The modules that have pages: each has its handlers in `routes`."""


class Lifespan(Protocol):
    """What the process holds open while it serves."""

    async def open(self) -> None:
        """Open it, in the running loop."""

    async def close(self) -> None:
        """Close it, when the last request is answered."""


def routes() -> list[HTTPRouteHandler]:
    """Return the handlers of all pages, each with its guard. Raises: TypeError when one has none."""
    found = [handler for module in PAGES for handler in module.routes]
    access.require_access(found)
    return found


def create_app(
    services: Services, lifespan: Lifespan, log: RequestLog, trusted_proxies: Sequence[Network] = ()
) -> ASGIApp:
    """Build the portal."""
    assets = Assets()
    templates = rendering.environment(assets)
    templates.filters |= {"told": audit.told, "changes": audit.changes}
    app = Litestar(
        routes(),
        openapi_config=None,
        state=State(
            {"services": services, "templates": templates, "assets": assets},
        ),
        dependencies={
            "services": Provide(_services, sync_to_thread=False),
            "viewer": Provide(_viewer, sync_to_thread=False),
            "membership": Provide(_membership, sync_to_thread=False),
        },
        exception_handlers={
            errors.SignInNeeded: errors.sign_in_instead,
            HTTPException: errors.show,
            Exception: errors.show,
        },
        on_startup=[lifespan.open],
        on_shutdown=[lifespan.close],
        logging_config=None,
    )
    return Edge(app, services.site, log, trusted_proxies)


def _services(request: Request[Any, Any, Any]) -> Services:
    services: Services = request.app.state.services
    return services


def _viewer(request: access.PortalRequest) -> Viewer:
    return access.viewer_of(request)


def _membership(request: access.PortalRequest) -> Membership:
    return access.membership_of(request)
