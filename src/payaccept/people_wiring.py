"""Joins the operations on people with their adapters, for the portal and for the administrator's commands."""

from typing import Self

from argon2 import PasswordHasher

from payaccept.adapters.mail import SmtpMail
from payaccept.adapters.passwords import Argon2Passwords
from payaccept.adapters.postgres.attempts import PostgresAttempts
from payaccept.adapters.postgres.audit import PostgresAudit
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.people import PostgresPeople
from payaccept.adapters.postgres.users import PostgresUsers
from payaccept.adapters.seals import Seals
from payaccept.config import Settings
from payaccept.operations.merchants import Merchants
from payaccept.operations.notices import Notices
from payaccept.operations.people import People
from payaccept.operations.sign_in import SignIn
from payaccept.operations.users import Users
from payaccept.wiring import check_database, master_key_of


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
        self.sign_in = SignIn(store, PostgresAttempts(self.lines), self.passwords, self.seals, log)
        mail = SmtpMail(settings.smtp_url, settings.mail_from) if settings.smtp_url else None
        self.notices = Notices(mail, settings.web_base_url)
        self.users = Users(store, log, self.merchants, self.passwords, self.seals, self.notices)
        self.people = People(
            PostgresPeople(self.lines),
            store,
            self.users,
            log,
            self.passwords,
            mail=mail,
            notices=self.notices,
            web_base_url=settings.web_base_url,
        )

    async def close(self) -> None:
        """Close everything."""
        for part in (self.sign_in, self.notices, self.merchant_store, self.lines, self.passwords):
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
