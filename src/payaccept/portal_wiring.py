"""Joins the portal's pages with operations and adapters, as `wiring` does for the other processes."""

from datetime import datetime

from litestar.types import ASGIApp

from payaccept import __version__
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.seals import Seals
from payaccept.config import Settings, from_environ
from payaccept.domain.errors import StoreUnavailable
from payaccept.domain.user import Viewer
from payaccept.line_log import LineLog
from payaccept.operations.merchants import Merchants
from payaccept.portal.app import create_app
from payaccept.portal.services import Services, Site
from payaccept.wiring import master_key_of, now_utc


class _NobodyYet:
    async def find_viewer(self, token: str, now: datetime, *, in_use: bool) -> Viewer | None:  # noqa: ARG002
        return None


class PortalProcess:
    """What one portal process holds open."""

    def __init__(self, settings: Settings) -> None:
        url = settings.database_url
        self._settings = settings
        self._log = LineLog("page")
        self._line = SharedLine(url, "portal-ready")
        self._merchants = PostgresMerchants(url, process="portal")
        self._seals = Seals(master_key_of(settings))

    def app(self) -> ASGIApp:
        """Build the application that serves this process."""
        settings = self._settings
        services = Services(
            site=Site(
                environment=settings.environment,
                web_base_url=settings.web_base_url,
                api_base_url=settings.api_base_url,
                version=__version__,
            ),
            clock=now_utc,
            seals=self._seals,
            sessions=_NobodyYet(),
            merchants=Merchants(self._merchants, settings.environment, settings.urls),
            ping=self._ping,
        )
        return create_app(services, self, self._log, settings.trusted_proxies)

    async def open(self) -> None:
        """Open everything, in the running loop."""
        self._log.start()

    async def close(self) -> None:
        """Close everything."""
        for part in (self._merchants, self._line, self._log):
            await part.close()

    async def _ping(self) -> None:
        async with self._line.connection(timeout_s=1.0) as connection:
            try:
                await migrations.check(connection, self._settings.environment)
            except migrations.SchemaRefused as refused:
                raise StoreUnavailable(str(refused)) from None


def portal_app() -> ASGIApp:
    """Build the portal of one process from its environment: the factory the server calls."""
    return PortalProcess(from_environ()).app()
