"""What the operations need from the outside, each as small as its use."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from payaccept.domain.audit import Entry
from payaccept.domain.delivery import Attempt, Decision, Delivery
from payaccept.domain.lanes import Ask, FailingLane
from payaccept.domain.merchant import Credentials, Merchant, MerchantKey
from payaccept.domain.payment import Payment, Settlement, Standing, WalletAnswer
from payaccept.domain.provider_key import ProviderKey


class PaymentStore(Protocol):
    """Payments, made durable. Every method raises StoreUnavailable or OutcomeUnknown when it must."""

    async def insert_payment(self, payment: Payment) -> bool:
        """Store a new payment; False when its request id is taken."""

    async def find_payment_by_request(
        self, bucket: int, client_id: str, payment_request_id: str
    ) -> Payment | None:
        """Return a whole payment by the merchant's own id."""

    async def find_payment_by_id(self, payment_id: str) -> Payment | None:
        """Return a whole payment by our id, whosever it is."""

    async def find_standing_by_request(
        self, bucket: int, client_id: str, payment_request_id: str
    ) -> Standing | None:
        """Return how a payment stands, by the merchant's own id."""

    async def find_standing_by_id(self, payment_id: str) -> Standing | None:
        """Return how a payment stands, by our id, whosever it is."""

    async def settle(self, settlement: Settlement) -> bool:
        """Make a payment final with its event and delivery; False when it was final already."""

    async def record_answer(self, payment: Payment, answer: bytes | None, due_at: datetime) -> None:
        """Store the first answer of a payment that goes on, and when the worker looks at it."""


class DuePayments(Protocol):
    """The worker's side of payments."""

    async def claim_due_payments(self, now: datetime, lease_until: datetime, limit: int) -> list[Payment]:
        """Take payments whose time has come; nobody else gets them before the lease ends."""

    async def reschedule_payments(self, due: Sequence[tuple[Payment, datetime]]) -> None:
        """Say when each payment is to be looked at again."""


class DeliveryStore(Protocol):
    """The worker's side of notifications."""

    async def list_due_lanes(self, after: str, now: datetime, since: datetime, limit: int) -> list[str]:
        """Return the lanes behind `after`, in order, in which something fell due between `since` and `now`."""

    async def claim_due_deliveries(
        self,
        asks: Sequence[Ask],
        *,
        now: datetime,
        lease: timedelta,
        in_hand: Sequence[str],
        at: datetime,
    ) -> list[Delivery]:
        """Lease what is due in some lanes, counting the attempt.

        `in_hand`: events not to be leased, whatever their leases say. `at` is only written down.
        """

    async def record_outcome(self, attempt: Attempt, decision: Decision, now: datetime) -> bool:
        """Keep an attempt, and write what became of it; False when the lease was lost meanwhile."""

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """End leases as if they had not been taken, where they are still ours."""

    async def pull_in(self, now: datetime, latest: datetime) -> int:
        """Make due now what would be due after `latest`; returns how many there were."""

    async def list_failing_lanes(self) -> list[FailingLane]:
        """Return the destinations that are failing, those that failed last first."""

    async def record_lanes(self, failing: Sequence[FailingLane], well: Sequence[str], now: datetime) -> None:
        """Keep which destinations are failing, and forget those that answer again."""

    async def delete_failing_lanes(self, before: datetime) -> None:
        """Forget the destinations of which nothing has been kept since."""


class WakeWorker(Protocol):
    """Tells the workers, in whatever process they run."""

    def __call__(self, lane: str | None = None) -> None:
        """Say that something may be due: in this lane, or anywhere. Never fails; may be lost."""


class Workers(Protocol):
    """The worker processes, as one of them sees them."""

    async def list_workers(self) -> tuple[int, frozenset[int]]:
        """Return this worker's number, and those of all that live."""


class Numbering(Protocol):
    """Numbers of events."""

    async def number_waiting(self, now: datetime) -> int:
        """Number events that nobody has numbered yet; returns how many."""


class Partitions(Protocol):
    """Tables of a day each."""

    async def maintain(self, now: datetime) -> None:
        """Make those of the next days, and drop those that have been kept long enough."""


class Wallet(Protocol):
    """The customer's wallet. Neither call is made with a transaction open; both are keyed by paymentId."""

    def first_look_after_s(self, extend_info: str | None) -> float | None:
        """Return after how many seconds to ask about a new order; None when only its expiry counts."""

    async def charge(self, payment: Payment, auth_code: str, now: datetime) -> WalletAnswer:
        """Charge a scanned code; the same payment is never charged twice."""

    async def inquire(self, payment: Payment, now: datetime) -> WalletAnswer:
        """Ask how a payment stands with the wallet."""

    def webhook_faults(self, extend_info: str | None) -> tuple[str, ...]:
        """Return the faults the sandbox was asked to play with the payment's notification."""


class Directory(Protocol):
    """Merchants as the hot path sees them: from a cache at most a second old."""

    async def find_credentials(self, client_id: str) -> Credentials | None:
        """Return a merchant with its keys."""


class MerchantStore(Protocol):
    """Merchants and their keys, changed one transaction at a time, with an entry in the audit log each."""

    async def insert_merchant(self, merchant: Merchant, entry: Entry) -> None:
        """Store a new merchant."""

    async def get_merchant(self, client_id: str) -> Merchant:
        """Return a merchant; raises MerchantNotFound."""

    async def list_merchants(self) -> list[Merchant]:
        """Return all merchants, oldest first."""

    async def change_merchant(
        self,
        client_id: str,
        decide: Callable[[Merchant], Merchant],
        entry_of: Callable[[Merchant, Merchant], Entry],
    ) -> Merchant:
        """Read a merchant, decide, and write it, in one transaction; `entry_of` gets it before and after.

        Raises: MerchantNotFound; SettingRefused for another spread once it has payments.
        """

    async def list_keys(self, client_id: str) -> list[MerchantKey]:
        """Return a merchant's keys, whatever their state, by version."""

    async def insert_key(
        self,
        client_id: str,
        decide: Callable[[list[MerchantKey]], MerchantKey],
        entry_of: Callable[[MerchantKey], Entry],
    ) -> MerchantKey:
        """Store the key that follows from those there are; raises KeyRefused when it is registered already."""

    async def change_key(
        self,
        client_id: str,
        key_version: int,
        decide: Callable[[MerchantKey], MerchantKey],
        entry_of: Callable[[MerchantKey, MerchantKey], Entry],
        now: datetime,
    ) -> MerchantKey:
        """Read a key, decide, and write its state, in one transaction; `entry_of` gets it before and after.

        Raises: KeyNotFound; KeyRefused when it becomes active and is registered already.
        """


class ProviderKeyStore(Protocol):
    """The keys that sign notifications; private halves only ever pass sealed."""

    async def list_provider_keys(self) -> list[ProviderKey]:
        """Return all keys by version."""

    async def change_provider_keys(
        self,
        decide: Callable[[list[ProviderKey]], list[ProviderKey]],
        entry_of: Callable[[list[ProviderKey]], Entry] | None = None,
    ) -> list[ProviderKey]:
        """Read the keys, decide, and write those that are new or changed, in one transaction; return all.

        `entry_of` gets the keys as they are afterwards. What `decide` raises is raised, and nothing is written.
        """
