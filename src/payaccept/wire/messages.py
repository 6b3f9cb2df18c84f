"""Every request, answer and notification type, with the bounds of each field.

The bounds stand here once: `fields.read` enforces them, the OpenAPI description is generated from them.
Required fields are those without a default. Unknown members are ignored.
"""

from typing import Annotated, ClassVar, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from payaccept.wire.codes import ResultStatus

VISIBLE_ASCII: Final = r"^[!-~]+$"
MAX_VALUE: Final = 999_999_999_999

PaymentRequestId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=VISIBLE_ASCII,
        description="Made by the merchant, unique per transaction: the idempotency key.",
        examples=["order-2026-000123"],
    ),
]
PaymentId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=VISIBLE_ASCII,
        description="The service's identifier of the payment; an acquirementId is taken too.",
    ),
]
ProductCode = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=32,
        description="Product type assigned by the provider.",
        examples=["51051000101000100031"],
    ),
]
Url = Annotated[
    str,
    Meta(
        min_length=1, max_length=2048, description="Absolute https URL.", extra_json_schema={"format": "uri"}
    ),
]
ExtendInfo = Annotated[
    str,
    Meta(
        max_length=2048,
        description="A JSON object written as a string. In the sandbox its member `sandbox` scripts the payment.",
        examples=['{"sandbox":{"outcome":"FAIL","resultCode":"INSUFFICIENT_BALANCE"}}'],
    ),
]
DateTime = Annotated[
    str, Meta(description="ISO 8601, UTC, with Z.", extra_json_schema={"format": "date-time"})
]
Coordinate = Annotated[str, Meta(min_length=1, max_length=32, description="Decimal degrees.")]

AnsweredCode = str
"""A `ResultCode` when we write it. Read by an SDK that is older than the code, it is a code all the same."""


class Message(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What all messages share: camelCase members, and absent members left out."""


class Amount(Message, frozen=True):
    """An amount of money: an ISO 4217 currency and an integer of its minor units."""

    currency: Annotated[
        str,
        Meta(pattern="^[A-Z]{3}$", max_length=3, description="An active ISO 4217 code.", examples=["EUR"]),
    ]
    value: Annotated[
        int, Meta(ge=1, le=MAX_VALUE, description="Minor units, for example cents.", examples=[1999])
    ]


class Store(Message, frozen=True):
    """A shop of the merchant."""

    external_store_id: Annotated[str, Meta(min_length=1, max_length=64)]


class OrderMerchant(Message, frozen=True):
    """The merchant's side of an order."""

    store: Store | UnsetType = UNSET


class Order(Message, frozen=True):
    """What is paid for, and where."""

    order_description: Annotated[str, Meta(max_length=256)] | UnsetType = UNSET
    order_memo: Annotated[str, Meta(max_length=512)] | UnsetType = UNSET
    latitude: Coordinate | UnsetType = UNSET
    longitude: Coordinate | UnsetType = UNSET
    transaction_address: (
        Annotated[
            str,
            Meta(
                max_length=512,
                description="city||street||postal code||country code||country name",
                examples=["Berlin||Unter den Linden 1||10117||DE||Germany"],
            ),
        ]
        | UnsetType
    ) = UNSET
    merchant: OrderMerchant | UnsetType = UNSET


class DescribedOrder(Order, frozen=True, kw_only=True):
    """An order whose description is required, as linkPayCreate wants it."""

    order_description: Annotated[str, Meta(min_length=1, max_length=256)]


class SettlementStrategy(Message, frozen=True):
    """In which currency the merchant is settled."""

    settlement_currency: (
        Annotated[str, Meta(pattern="^[A-Z]{3}$", max_length=3, description="An active ISO 4217 code.")]
        | UnsetType
    ) = UNSET


class CreateQROrderRequest(Message, frozen=True):
    """Ask for a QR code to show to the customer."""

    biz_type: Literal["ORDER_CODE"]
    product_code: ProductCode
    code_type: Literal["CGCP"]
    payment_request_id: PaymentRequestId
    payment_amount: Amount
    order: Order | UnsetType = UNSET
    payment_notify_url: Url | UnsetType = UNSET
    extend_info: ExtendInfo | UnsetType = UNSET


class RetailPayRequest(Message, frozen=True):
    """Charge the code that was scanned from the customer's wallet."""

    product_code: ProductCode
    payment_request_id: PaymentRequestId
    payment_auth_code: Annotated[
        str, Meta(min_length=1, max_length=128, description="The code scanned from the customer's wallet.")
    ]
    payment_amount: Amount
    order: Order | UnsetType = UNSET
    payment_notify_url: Url | UnsetType = UNSET
    extend_info: ExtendInfo | UnsetType = UNSET


class LinkPayCreateRequest(Message, frozen=True):
    """Ask for a link that opens the wallet app."""

    product_code: ProductCode
    payment_request_id: PaymentRequestId
    payment_amount: Amount
    order: DescribedOrder
    payment_notify_url: Url | UnsetType = UNSET
    payment_redirect_url: Url | UnsetType = UNSET
    settlement_strategy: SettlementStrategy | UnsetType = UNSET
    extend_info: ExtendInfo | UnsetType = UNSET


class InquiryPaymentRequest(Message, frozen=True):
    """Ask how a payment stands, by at least one of its identifiers; both must name the same payment."""

    payment_id: PaymentId | UnsetType = UNSET
    payment_request_id: PaymentRequestId | UnsetType = UNSET


CreateRequest = CreateQROrderRequest | RetailPayRequest | LinkPayCreateRequest
Request = CreateRequest | InquiryPaymentRequest


class Result(Message, frozen=True):
    """The member every answer carries."""

    result_status: ResultStatus
    result_code: AnsweredCode | UnsetType = UNSET
    result_message: str | UnsetType = UNSET


class ErrorResponse(Message, frozen=True):
    """A failure: nothing but `result`."""

    result: Result


class CreateQROrderResponse(Message, frozen=True):
    """The accepted order and the text of its QR code."""

    result: Result
    payment_request_id: str
    payment_id: str
    qr_code: Annotated[str, Meta(description="Show it to the customer as a QR code.")]


class RetailPayResponse(Message, frozen=True):
    """The payment as the wallet answered it; paymentTime once it is paid."""

    result: Result
    payment_request_id: str
    payment_id: str
    payment_amount: Amount
    payment_time: DateTime | UnsetType = UNSET


class AppLinkPlatform(Message, frozen=True):
    """How to open the wallet app on one platform."""

    application_id: str | UnsetType = UNSET
    bundle_id: str | UnsetType = UNSET
    target_path: str | UnsetType = UNSET
    short_url: str | UnsetType = UNSET


class AppLinks(Message, frozen=True):
    """How to open the wallet app, by platform."""

    android: AppLinkPlatform | UnsetType = UNSET
    ios: AppLinkPlatform | UnsetType = UNSET


class LinkPayCreateResponse(Message, frozen=True):
    """The accepted order and where to send the customer."""

    result: Result
    merchant_trans_id: str
    redirect_url: str | UnsetType = UNSET
    app_links: AppLinks | UnsetType = UNSET
    acquirement_id: str | UnsetType = UNSET


PaymentStatus = Literal["SUCCESS", "PROCESSING", "FAIL"]


class InquiryPaymentResponse(Message, frozen=True):
    """How the payment stands; paymentTime once it is final, failureCode when it failed."""

    result: Result
    payment_status: PaymentStatus
    payment_id: str
    payment_request_id: str
    payment_amount: Amount
    payment_time: DateTime | UnsetType = UNSET
    failure_code: AnsweredCode | UnsetType = UNSET
    failure_message: str | UnsetType = UNSET


class MerchantData(Message, frozen=True):
    """What the merchant told about the place of the sale."""

    external_store_id: str


EventType = Literal["payment.succeeded", "payment.failed"]


class Notification(Message, frozen=True):
    """The body of a webhook: the authoritative outcome of a payment."""

    event_id: str
    event_type: EventType
    create_time: DateTime
    environment: Literal["sandbox", "production"]
    client_id: str
    payment_id: str
    acquirement_id: str
    payment_request_id: str
    merchant_trans_id: str
    payment_status: Literal["SUCCESS", "FAIL"]
    payment_time: DateTime
    payment_amount: Amount
    result: Result
    merchant_data: MerchantData | UnsetType = UNSET


TestEventType = Literal["webhook.test"]
TEST_EVENT: Final[TestEventType] = "webhook.test"


class TestNotification(Message, frozen=True):
    """The body of a test webhook: that webhooks arrive and verify, and nothing of any payment."""

    __test__: ClassVar[bool] = False  # pytest takes a class of such a name for tests, in merchants' tests too

    event_id: str
    event_type: TestEventType
    create_time: DateTime
    environment: Literal["sandbox", "production"]
    client_id: str
    test: Annotated[bool, Meta(description="Always true: nothing was paid.")]


Operation = Literal["createQROrder", "retailPay", "linkPayCreate"]
REQUESTS: Final[dict[str, type[Request]]] = {
    "createQROrder": CreateQROrderRequest,
    "retailPay": RetailPayRequest,
    "linkPayCreate": LinkPayCreateRequest,
    "inquiryPayment": InquiryPaymentRequest,
}
PATH_PREFIX: Final = "/v1/payments/"
