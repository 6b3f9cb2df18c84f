"""Refusals: what the service may answer besides doing what it was asked.

    Refusal
    ├── RequestRefused           the request cannot be taken as it stands
    │   ├── FieldsIllegal            one or more fields break a rule
    │   ├── PaymentNotFound          this merchant has no such payment
    │   ├── DuplicateRequest         the paymentRequestId was used before
    │   └── PaymentFinal             the payment's state does not change any more
    ├── OutcomeOpen              nobody can say yet whether it was done
    │   ├── StoreUnavailable         the database is away: nothing was done
    │   └── OutcomeUnknown           the database went away meanwhile
    └── AdministrationRefused    the state of a merchant, a key, an event or a person does not allow it
        ├── MerchantNotFound
        ├── EventNotFound
        ├── SendingRefused
        ├── DrillRefused
        ├── KeyNotFound
        ├── KeyRefused
        ├── ProofRefused
        ├── SettingRefused
        ├── UserNotFound
        ├── EmailTaken
        ├── LinkSpent
        └── OwnerNeeded

Their message is for the person who asked. What HTTP makes of each stands in the API's gate alone.
"""


class Refusal(Exception):
    """The service does not do what it was asked; the message says why."""


class RequestRefused(Refusal):
    """The request cannot be taken as it stands; no payment was made or changed by it."""


class FieldsIllegal(RequestRefused):
    """One or more fields break a rule.

    The message is the merchant's own and may repeat what the request said. `logged` says which fields, and no
    word of theirs.
    """

    def __init__(self, message: str, logged: str = "") -> None:
        super().__init__(message)
        self.logged = logged


class PaymentNotFound(RequestRefused):
    """This merchant has no such payment."""


class DuplicateRequest(RequestRefused):
    """The paymentRequestId was used before by this merchant."""


class PaymentFinal(RequestRefused):
    """The payment's state does not change any more."""


class OutcomeOpen(Refusal):
    """Nobody can say yet whether it was done; the idempotency key settles it."""


class StoreUnavailable(OutcomeOpen):
    """The database is away: nothing was done."""


class OutcomeUnknown(OutcomeOpen):
    """The database went away before it answered: it is not known whether it was done."""


class AdministrationRefused(Refusal):
    """The state of a merchant, a key, an event or a person does not allow it."""


class MerchantNotFound(AdministrationRefused):
    """There is no such merchant in this deployment."""


class EventNotFound(AdministrationRefused):
    """There is no such event, or it is another merchant's."""


class DayIncomplete(AdministrationRefused):
    """Payments may still be added to that day."""


class SendingRefused(AdministrationRefused):
    """The event cannot be sent; the message says what is missing."""


class DrillRefused(AdministrationRefused):
    """No drill can be started now; the message says why. `retry_after_s` is there when waiting is all it takes."""

    def __init__(self, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class KeyNotFound(AdministrationRefused):
    """The merchant has no key of that version."""


class KeyRefused(AdministrationRefused):
    """The key is not acceptable; the message says which rule it breaks."""


class ProofRefused(AdministrationRefused):
    """The proof of possession does not hold, or comes too late; the message says why."""


class SettingRefused(AdministrationRefused):
    """The setting's value is not acceptable, or cannot be changed any more."""


class UserNotFound(AdministrationRefused):
    """There is no such user, or none of this merchant's."""


class EmailTaken(AdministrationRefused):
    """There is an account with this e-mail address already."""


class LinkSpent(AdministrationRefused):
    """The one-time link was used, replaced or taken back, or its time is over."""


class OwnerNeeded(AdministrationRefused):
    """A merchant keeps at least one owner."""
