"""Joins the portal's pages with operations and adapters, as `wiring` does for the other processes."""

from argon2 import PasswordHasher
from litestar.types import ASGIApp

from payaccept import __version__
from payaccept.adapters.postgres import migrations
from payaccept.adapters.postgres.audit import PostgresAudit
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.events import PostgresEvents
from payaccept.adapters.postgres.health import PostgresHealth, PostgresPulse
from payaccept.adapters.postgres.oversight import PostgresOversight
from payaccept.adapters.postgres.payment_lists import PostgresPaymentLists
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.replays import PostgresReplays
from payaccept.adapters.postgres.requests import PostgresRequests
from payaccept.adapters.postgres.wakeups import WakeupSender
from payaccept.config import Settings, from_environ
from payaccept.domain.errors import StoreUnavailable
from payaccept.figures.pulse import Pulse
from payaccept.line_log import LineLog
from payaccept.operations import provider_keys
from payaccept.operations.checkout import Checkout
from payaccept.operations.doctor import Doctor
from payaccept.operations.event_lists import EventLists
from payaccept.operations.events import Events
from payaccept.operations.health import Health
from payaccept.operations.key_proofs import KeyProofs
from payaccept.operations.key_ring import KeyRing, Times
from payaccept.operations.merchants import Merchants
from payaccept.operations.oversight import Oversight
from payaccept.operations.payment_lists import PaymentLists
from payaccept.operations.payment_story import PaymentStories
from payaccept.operations.payments import Payments
from payaccept.operations.provider_keys import PublishedKey
from payaccept.operations.replays import Replays
from payaccept.operations.requests import Requests
from payaccept.operations.simulated_customer import SimulatedCustomer
from payaccept.people_wiring import Joined
from payaccept.portal.app import create_app
from payaccept.portal.services import Clock, Services, Site
from payaccept.portal.visitors import Visitors
from payaccept.wiring import now_utc, open_vault, rules_of, simulated_wallet_of


class Till:
    """What the customers' pages work with; and in the sandbox, and nowhere else, a customer to play."""

    def __init__(self, settings: Settings, merchants: Merchants) -> None:
        url = settings.database_url
        self._merchants = merchants
        self.store = PostgresPayments(url, create_lines=0, process="portal")
        self._wakeup = WakeupSender(url, process="portal")
        self._wallet = simulated_wallet_of(settings, "portal")
        self.checkout = Checkout(self.store, merchants.get, shows_retail=self._wallet is not None)
        self.simulated_customer = None
        if self._wallet is not None:
            payments = Payments(self.store, self._wallet, rules_of(settings), wake_worker=self._wakeup.send)
            self.simulated_customer = SimulatedCustomer(payments, self._wallet, self._webhook_url_of)

    def start(self) -> None:
        """Start in the running loop."""
        self.store.start()

    async def close(self) -> None:
        """Close everything."""
        for part in (self.store, self._wakeup, self._wallet):
            if part is not None:
                await part.close()

    async def _webhook_url_of(self, client_id: str) -> str | None:
        return (await self._merchants.get(client_id)).webhook_url


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
        self._till = Till(settings, self._joined.merchants)
        self._pulse = Pulse("portal", PostgresPulse(url, process="portal"), clock)
        self._wakeup = WakeupSender(url, process="portal")
        self._event_store = PostgresEvents(url, process="portal", connections=4)
        self._events = Events(
            self._event_store,
            self._joined.merchant_store,
            settings.environment,
            wake_worker=self._wakeup.send,
            clock=clock,
        )

    def services(self) -> Services:
        """Return what the pages work with."""
        settings = self._settings
        doctor = Doctor(self._joined.merchant_store, settings.environment, settings.urls)
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
            checkout=self._till.checkout,
            simulated_customer=self._till.simulated_customer,
            visitors=Visitors(),
            key_proofs=KeyProofs(self._joined.merchant_store),
            requests=Requests(PostgresRequests(self._joined.lines)),
            doctor=doctor,
            events=self._events,
            oversight=Oversight(
                PostgresOversight(self._joined.lines),
                PostgresAudit(self._joined.lines),
                self._joined.user_store,
            ),
            health=Health(PostgresHealth(self._joined.lines), self._ping),
            key_ring=KeyRing(
                self._joined.merchant_store,
                open_vault(settings),
                Times(
                    lead_s=settings.provider_key_lead_s,
                    keep_s=settings.provider_keys_keep_s,
                    max_age_s=settings.provider_keys_max_age_s,
                ),
            ),
            event_lists=EventLists(self._event_store, self._joined.merchant_store),
            payment_lists=PaymentLists(
                PostgresPaymentLists(self._joined.lines), self._till.store, self._event_store
            ),
            payment_stories=PaymentStories(self._till.store, self._events, doctor, settings.environment),
            replays=Replays(PostgresReplays(self._joined.lines), self._events, clock=self._clock),
            list_published_keys=self._list_published_keys,
            ping=self._ping,
        )

    def app(self) -> ASGIApp:
        """Build the application that serves this process."""
        return create_app(self.services(), self, self._log, self._settings.trusted_proxies)

    async def open(self) -> None:
        """Open everything, in the running loop."""
        self._log.start()
        self._till.start()
        self._pulse.start()

    async def close(self) -> None:
        """Close everything."""
        for part in (
            self._pulse,
            self._till,
            self._wakeup,
            self._event_store,
            self._joined,
            self._line,
            self._log,
        ):
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
