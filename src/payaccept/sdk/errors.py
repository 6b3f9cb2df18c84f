"""Everything the SDK raises on purpose.

    PayacceptError
    ├── CredentialsUnusable          a key or a credentials file cannot be used; nothing was sent
    ├── RequestRefused               the service refused the request: it made no payment
    │   ├── ParametersRefused            PARAM_ILLEGAL: the message names every field
    │   ├── SignatureRefused             INVALID_SIGNATURE
    │   ├── TimestampRefused             TIMESTAMP_INVALID: set this machine's clock
    │   ├── CredentialsRefused           INVALID_CLIENT_ID, ACCESS_DENIED
    │   ├── PaymentNotFound              ORDER_NOT_EXIST
    │   ├── RepeatRequest                REPEAT_REQUEST: another call used this paymentRequestId
    │   └── RateLimited                  REQUEST_TRAFFIC_EXCEED_LIMIT
    ├── PaymentDeclined              the request was fine, and the payment failed
    ├── AlreadyCreated               a lost answer: the order exists, its QR code or link cannot be had again
    ├── OutcomeUnknown               nobody can say whether the payment was made: inquire
    │   └── AnswerMalformed              an answer came, and no one can read it
    ├── ServiceUnavailable           not reached, or too busy to answer an inquiry: nothing was done
    ├── KeysUnavailable              the provider's public keys could not be fetched
    └── NotificationRefused          do not believe this webhook
        ├── HeaderMalformed              Signature or Request-Time is missing, doubled or malformed
        ├── UnknownKeyVersion            the provider has no key of that version
        ├── OutsideWindow                Request-Time is too old, or in the future
        ├── NotSignedByProvider          the signature does not verify
        └── BodyMalformed                signed by the provider, and no notification this SDK can read

Each class says what to do.
"""

from typing import Any

from payaccept.wire.messages import InquiryPaymentResponse


class PayacceptError(Exception):
    """The root of all; its text is one sentence for a log or a developer."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Task queues carry exceptions between processes: keep the attributes on the way."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[PayacceptError], args: tuple[Any, ...], state: dict[str, Any]) -> PayacceptError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class CredentialsUnusable(PayacceptError):
    """A key or a credentials file is missing, unreadable or of the wrong kind."""


class RequestRefused(PayacceptError):
    """The service refused the request, so it made no payment and changed none.

    Attributes: `result_code`, `result_message`, `http_status`, and `request_id`, which names the request
    in the service's log and is worth quoting when asking for help.
    """

    def __init__(
        self, result_code: str, result_message: str, *, http_status: int, request_id: str | None = None
    ) -> None:
        self.result_code = result_code
        self.result_message = result_message
        self.http_status = http_status
        self.request_id = request_id
        quoted = f" (Request-Id {request_id})" if request_id else ""
        super().__init__(f"{result_code}: {result_message}{quoted}")


class ParametersRefused(RequestRefused):
    """A field is missing or breaks a rule; the message names it."""


class SignatureRefused(RequestRefused):
    """The service could not verify the signature: wrong key, or a key that was retired."""


class TimestampRefused(RequestRefused):
    """Request-Time is over 5 minutes from the service's clock: set this machine's clock."""


class CredentialsRefused(RequestRefused):
    """The Client-Id or key version is not known, not active, or of the other environment."""


class PaymentNotFound(RequestRefused):
    """The merchant has no such payment."""


class RepeatRequest(RequestRefused):
    """Another call has used this paymentRequestId; it is not this call's own retry."""


class RateLimited(RequestRefused):
    """Too many requests. `retry_after_s` is what the service asks to wait, None when it does not say."""

    def __init__(
        self,
        result_code: str,
        result_message: str,
        *,
        http_status: int,
        request_id: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(result_code, result_message, http_status=http_status, request_id=request_id)
        self.retry_after_s = retry_after_s


class PaymentDeclined(PayacceptError):
    """The request was fine and the payment failed; it exists and can be inquired.

    Attributes: `result_code` (INSUFFICIENT_BALANCE, …), `result_message`, `payment_request_id`,
    `request_id`, and `payment`, the inquiry's answer when the failure was learned by inquiry.
    """

    def __init__(
        self,
        result_code: str,
        result_message: str,
        *,
        payment_request_id: str,
        request_id: str | None = None,
        payment: InquiryPaymentResponse | None = None,
    ) -> None:
        self.result_code = result_code
        self.result_message = result_message
        self.payment_request_id = payment_request_id
        self.request_id = request_id
        self.payment = payment
        super().__init__(f"{result_code}: {result_message}")


class AlreadyCreated(PayacceptError):
    """An earlier attempt of this very call created the order, and its answer was lost on the way.

    The QR code or the link stood in that answer and an inquiry does not give it again. Nobody has it, so
    the order expires unpaid; make a new one with a new paymentRequestId. `payment` says how it stands.
    """

    def __init__(self, payment: InquiryPaymentResponse) -> None:
        self.payment = payment
        super().__init__(
            f"paymentRequestId {payment.payment_request_id} has become {payment.payment_id}, but the answer "
            f"with its code was lost; make a new order with a new paymentRequestId"
        )


class OutcomeUnknown(PayacceptError):
    """Nobody can say whether the payment was made: ask `inquire(payment_request_id=…)` until it is known.

    Sending the same request again, with the same paymentRequestId, is safe too: it cannot pay twice.
    """

    def __init__(self, why: str, *, payment_request_id: str | None, request_id: str | None = None) -> None:
        self.payment_request_id = payment_request_id
        self.request_id = request_id
        advice = f"; inquire with paymentRequestId {payment_request_id}" if payment_request_id else ""
        super().__init__(f"{why}{advice}")


class AnswerMalformed(OutcomeUnknown):
    """What came back is not an answer of this service. `http_status` is the status it came with."""

    def __init__(
        self, why: str, *, payment_request_id: str | None, http_status: int, request_id: str | None = None
    ) -> None:
        self.http_status = http_status
        super().__init__(why, payment_request_id=payment_request_id, request_id=request_id)


class ServiceUnavailable(PayacceptError):
    """The service was not reached, or could not answer an inquiry; nothing was done, so try again."""


class KeysUnavailable(PayacceptError):
    """The provider's public keys could not be fetched: answer 503, and the webhook will come again."""


class NotificationRefused(PayacceptError):
    """The webhook must not be believed: answer 401 and do nothing it says."""


class HeaderMalformed(NotificationRefused):
    """Signature or Request-Time is missing, given twice, or does not follow its grammar."""


class UnknownKeyVersion(NotificationRefused):
    """The provider has no key of the version that is said to have signed."""


class OutsideWindow(NotificationRefused):
    """Request-Time lies outside the window: an old notification sent again, or a clock that is wrong."""


class NotSignedByProvider(NotificationRefused):
    """The signature does not verify: forged, altered on the way, or verified for the wrong path."""


class BodyMalformed(NotificationRefused):
    """The signature verifies, and the body is no notification that this SDK can read."""
