"""A portal in this process, and people who come to it: what the fixtures are made of."""

from argon2 import PasswordHasher

from deployment import numbers
from payaccept.config import Settings
from payaccept.domain.user import COMMAND_LINE, Account, Membership, Role
from payaccept.operations.sign_in import Browser
from payaccept.operations.users import Person
from payaccept.portal.services import Services
from payaccept.portal_wiring import PortalProcess
from visitor import Clock, Visitor

PASSWORD = "seven green lamps hum"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Portal:
    """An open portal process, and people who come to it."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.process = PortalProcess(settings, clock, CHEAP)
        self.services: Services = self.process.services()
        self.app = self.process.app()
        self.visitors: list[Visitor] = []

    def visitor(self, address: str | None = None, base: str = "http://portal.test") -> Visitor:
        """A new browser, by default at an address of its own: what others do from theirs does not count for it."""
        number = next(numbers)
        address = address or f"198.18.{number // 250 % 250}.{number % 250 + 1}"
        visitor = Visitor(self.app, address=address, base=base)
        self.visitors.append(visitor)
        return visitor

    async def owner(self, merchant: str = "Corner shop") -> "Somebody":
        """Somebody new with a merchant of their own."""
        number = next(numbers)
        person = Person(email=f"owner{number}@example.com", name=f"Owner {number}", password=PASSWORD)
        account, made = await self.services.users.sign_up(
            person, merchant, self.settings.environment, self.clock(), "192.0.2.1"
        )
        return Somebody(self, account, made.client_id)

    async def colleague(self, owner: "Somebody", role: Role) -> "Somebody":
        """Somebody new whom an owner has invited."""
        number = next(numbers)
        membership = Membership(client_id=owner.client_id, merchant_name="Corner shop", role=Role.OWNER)
        people = self.services.people
        sent = await people.invite(
            membership, f"{role}{number}@example.com", role, self.clock(), COMMAND_LINE
        )
        account = await people.accept_as_new(
            sent.link, f"{role.capitalize()} {number}", PASSWORD, self.clock(), "192.0.2.1"
        )
        return Somebody(self, account, owner.client_id)

    async def employee(self) -> "Somebody":
        """Somebody new of the provider's staff."""
        people = self.services.people
        sent = await people.invite_staff(f"staff{next(numbers)}@example.com", self.clock())
        account = await people.accept_as_new(sent.link, "Staff", PASSWORD, self.clock(), "192.0.2.1")
        return Somebody(self, account, "")

    async def close(self) -> None:
        """Close the browsers, and the process."""
        for visitor in self.visitors:
            await visitor.client.aclose()
        await self.process.close()


class Somebody:
    """A user of the portal."""

    def __init__(self, portal: Portal, account: Account, client_id: str) -> None:
        self.portal = portal
        self.user_id = account.user.user_id
        self.email = account.user.email
        self.name = account.user.name
        self.client_id = client_id

    @property
    def home(self) -> str:
        """The merchant's home page."""
        return f"/m/{self.client_id}"

    async def browser(self, **changes: str) -> Visitor:
        """A browser that is signed in already."""
        visitor = self.portal.visitor(**changes)
        services = self.portal.services
        account = await services.users.get_account(self.user_id)
        signed = await services.sign_in.open_session(
            account,
            Browser(address="192.0.2.1", user_agent="Mozilla/5.0 (X11; Linux) Firefox/140.0"),
            self.portal.clock(),
            "password",
        )
        visitor.client.cookies.set("session", signed.token, domain="portal.test", path="/")
        visitor.client.cookies.set("device", signed.device, domain="portal.test", path="/")
        return visitor
