"""Joins the portal's pages with operations and adapters, as `wiring` does for the other processes."""

from typing import Self

from argon2 import PasswordHasher
from litestar.types import ASGIApp

from payaccept import __version__
from payaccept.adapters.mail import SmtpMail
from payaccept.adapters.passwords import Argon2Passwords
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.attempts import PostgresAttempts
from payaccept.adapters.postgres.audit import PostgresAudit
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.people import PostgresPeople
from payaccept.adapters.postgres.users import PostgresUsers
from payaccept.adapters.seals import Seals
from payaccept.config import Settings, from_environ
from payaccept.domain.errors import StoreUnavailable
from payaccept.line_log import LineLog
from payaccept.operations.merchants import Merchants
from payaccept.operations.people import People
from payaccept.operations.sign_in import SignIn
from payaccept.operations.users import Users
from payaccept.portal.app import create_app
from payaccept.portal.services import Clock, Services, Site
from payaccept.wiring import check_database, master_key_of, now_utc


class Joined:
    """People's operations on one database: what the portal and the administrator's commands share."""

    def __init__(self, settings: Settings, process: str, hasher: PasswordHasher | None = None) -> None:
        url = settings.database_url
        self.lines = LinePool(url, f"{process}-people")
        self.merchant_store = PostgresMerchants(url, process=process)
        self.merchants = Merchants(self.merchant_store, settings.environment, settings.urls)
        self.seals = Seals(master_key_of(settings))
        self.passwords = Argon2Passwords(hasher)
        store = PostgresUsers(self.lines)
        log = PostgresAudit(self.lines)
        self.sign_in = SignIn(store, PostgresAttempts(self.lines), self.passwords, self.seals)
        self.users = Users(store, log, self.merchants, self.passwords, self.seals)
        self.people = People(
            PostgresPeople(self.lines),
            store,
            self.users,
            log,
            self.passwords,
            mail=SmtpMail(settings.smtp_url, settings.mail_from) if settings.smtp_url else None,
            web_base_url=settings.web_base_url,
        )

    async def close(self) -> None:
        """Close everything."""
        for part in (self.merchant_store, self.lines, self.passwords):
            await part.close()


class PeopleAdministration(Joined):
    """What the administrator's commands on people work with. To be used in `async with`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, "admin")
        self.settings = settings

    async def __aenter__(self) -> Self:
        """Check that the database is one of ours. Raises: SchemaRefused, StoreUnavailable."""
        try:
            await check_database(self.settings)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close everything."""
        await self.close()


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

    async def _ping(self) -> None:
        async with self._line.connection(timeout_s=1.0) as connection:
            try:
                await migrations.check(connection, self._settings.environment)
            except migrations.SchemaRefused as refused:
                raise StoreUnavailable(str(refused)) from None


def portal_app() -> ASGIApp:
    """Build the portal of one process from its environment: the factory the server calls."""
    return PortalProcess(from_environ()).app()
