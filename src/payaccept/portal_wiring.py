"""Joins the portal's pages with operations and adapters, as `wiring` does for the other processes."""

from argon2 import PasswordHasher
from litestar.types import ASGIApp

from payaccept import __version__
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.requests import PostgresRequests
from payaccept.config import Settings, from_environ
from payaccept.domain.errors import StoreUnavailable
from payaccept.line_log import LineLog
from payaccept.operations import provider_keys
from payaccept.operations.doctor import Doctor
from payaccept.operations.key_proofs import KeyProofs
from payaccept.operations.provider_keys import PublishedKey
from payaccept.operations.requests import Requests
from payaccept.people_wiring import Joined
from payaccept.portal.app import create_app
from payaccept.portal.services import Clock, Services, Site
from payaccept.wiring import now_utc


class PortalProcess:
    """What one portal process holds open. `hasher` is another than argon2-cffi's own for the cost of tests."""

    def __init__(
        self, settings: Settings, clock: Clock = now_utc, hasher: PasswordHasher | None = None
    ) -> None:
        url = settings.database_url
        self._settings = settings
        self._clock = clock
        self._log = LineLog("page")
        self._line = SharedLine(url, "portal-ready")
        self._joined = Joined(settings, "portal", hasher)

    def services(self) -> Services:
        """Return what the pages work with."""
        settings = self._settings
        return Services(
            site=Site(
                environment=settings.environment,
                web_base_url=settings.web_base_url,
                api_base_url=settings.api_base_url,
                version=__version__,
            ),
            clock=self._clock,
            seals=self._joined.seals,
            sign_in=self._joined.sign_in,
            users=self._joined.users,
            people=self._joined.people,
            merchants=self._joined.merchants,
            key_proofs=KeyProofs(self._joined.merchant_store),
            requests=Requests(PostgresRequests(self._joined.lines)),
            doctor=Doctor(self._joined.merchant_store, settings.environment, settings.urls),
            list_published_keys=self._list_published_keys,
            ping=self._ping,
        )

    def app(self) -> ASGIApp:
        """Build the application that serves this process."""
        return create_app(self.services(), self, self._log, self._settings.trusted_proxies)

    async def open(self) -> None:
        """Open everything, in the running loop."""
        self._log.start()

    async def close(self) -> None:
        """Close everything."""
        for part in (self._joined, self._line, self._log):
            await part.close()

    async def _list_published_keys(self) -> list[PublishedKey]:
        return await provider_keys.list_published(self._joined.merchant_store, self._clock())

    async def _ping(self) -> None:
        async with self._line.connection(timeout_s=1.0) as connection:
            try:
                await migrations.check(connection, self._settings.environment)
            except migrations.SchemaRefused as refused:
                raise StoreUnavailable(str(refused)) from None


def portal_app() -> ASGIApp:
    """Build the portal of one process from its environment: the factory the server calls."""
    return PortalProcess(from_environ()).app()
