"""What pages work with: the operations and a few facts of the deployment, joined in `wiring`."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from msgspec import Struct

from payaccept.domain.merchant import Environment
from payaccept.operations.checkout import Checkout
from payaccept.operations.doctor import Doctor
from payaccept.operations.event_lists import EventLists
from payaccept.operations.events import Events
from payaccept.operations.health import Health
from payaccept.operations.key_proofs import KeyProofs
from payaccept.operations.key_ring import KeyRing
from payaccept.operations.merchants import Merchants
from payaccept.operations.oversight import Oversight
from payaccept.operations.payment_lists import PaymentLists
from payaccept.operations.payment_story import PaymentStories
from payaccept.operations.people import People
from payaccept.operations.people_ports import Seals
from payaccept.operations.provider_keys import PublishedKey
from payaccept.operations.replays import Replays
from payaccept.operations.requests import Requests
from payaccept.operations.sign_in import SignIn
from payaccept.operations.simulated_customer import SimulatedCustomer
from payaccept.operations.users import Users
from payaccept.portal.visitors import Visitors

Clock = Callable[[], datetime]


class Site(Struct, frozen=True, kw_only=True):
    """Where this deployment is, and what it is."""

    environment: Environment
    web_base_url: str
    api_base_url: str
    version: str

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the portal through TLS."""
        return self.web_base_url.startswith("https://")

    def link(self, path: str) -> str:
        """Return the whole address of a page, for what leaves this site."""
        return self.web_base_url + path


class Services(Struct, frozen=True, kw_only=True):
    """Everything a page may use."""

    site: Site
    clock: Clock
    seals: Seals
    sign_in: SignIn
    users: Users
    people: People
    merchants: Merchants
    checkout: Checkout
    simulated_customer: SimulatedCustomer | None
    """The customer that the sandbox's pages play; None in production."""
    visitors: Visitors
    key_proofs: KeyProofs
    requests: Requests
    doctor: Doctor
    events: Events
    oversight: Oversight
    health: Health
    key_ring: KeyRing
    event_lists: EventLists
    payment_lists: PaymentLists
    payment_stories: PaymentStories
    replays: Replays
    list_published_keys: Callable[[], Awaitable[list[PublishedKey]]]
    ping: Callable[[], Awaitable[None]]
