"""What the operations need from the outside, each as small as its use."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from payaccept.domain.audit import Entry
from payaccept.domain.delivery import Claim, Decision, Delivery, Lanes
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

    async def claim_due_deliveries(
        self, now: datetime, lease_until: datetime, limit: int, lanes: Lanes
    ) -> Claim:
        """Lease deliveries whose time has come and whose lane has room, counting the attempt."""

    async def record_outcome(
        self, delivery: Delivery, decision: Decision, *, status: int | None, reason: str, now: datetime
    ) -> bool:
        """Write what became of an attempt; False when the lease was lost meanwhile."""


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

    async def insert_provider_key(
        self, public_key_pem: str, sealed_private_key: bytes, now: datetime, activates_at: datetime
    ) -> ProviderKey:
        """Store a key under the next version."""

    async def insert_first_provider_key(
        self, public_key_pem: str, sealed_private_key: bytes, now: datetime
    ) -> None:
        """Store the first key, unless there is one already."""
