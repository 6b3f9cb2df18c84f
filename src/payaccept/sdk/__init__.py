"""The merchant's SDK: take payments, inquire, and verify the webhooks that tell their outcome.

    from payaccept.sdk import Amount, Client

    with Client.from_file("demo-merchant.json") as client:
        order = client.create_qr_order(
            payment_request_id="order-000123", amount=Amount("EUR", 1999), product_code="51051000101000100031"
        )
        print(order.qr_code)

`errors` draws everything that can be raised; `notifications.verify` reads a webhook. Codes in answers are plain text:
compare them with `ResultCode`, whose members are equal to their text. A code that a later service has added, and
this `ResultCode` lacks, arrives as it was sent; `result_status` and `payment_status` say what it means for the payment.
"""

from payaccept.sdk import errors, keys, notifications
from payaccept.sdk.async_client import AsyncClient
from payaccept.sdk.client import Client
from payaccept.sdk.credentials import Credentials, load_credentials
from payaccept.sdk.errors import (
    AlreadyCreated,
    AnswerMalformed,
    CredentialsUnusable,
    NotificationRefused,
    OutcomeUnknown,
    PayacceptError,
    PaymentDeclined,
    PaymentNotFound,
    RateLimited,
    RepeatRequest,
    RequestRefused,
    ServiceUnavailable,
)
from payaccept.sdk.webhook_keys import WebhookKeys
from payaccept.wire.codes import ResultCode
from payaccept.wire.messages import (
    Amount,
    AppLinkPlatform,
    AppLinks,
    CreateQROrderRequest,
    CreateQROrderResponse,
    DescribedOrder,
    InquiryPaymentResponse,
    LinkPayCreateRequest,
    LinkPayCreateResponse,
    Notification,
    Order,
    OrderMerchant,
    RetailPayRequest,
    RetailPayResponse,
    SettlementStrategy,
    Store,
    TestNotification,
)

__all__ = [
    "AlreadyCreated",
    "Amount",
    "AnswerMalformed",
    "AppLinkPlatform",
    "AppLinks",
    "AsyncClient",
    "Client",
    "CreateQROrderRequest",
    "CreateQROrderResponse",
    "Credentials",
    "CredentialsUnusable",
    "DescribedOrder",
    "InquiryPaymentResponse",
    "LinkPayCreateRequest",
    "LinkPayCreateResponse",
    "Notification",
    "NotificationRefused",
    "Order",
    "OrderMerchant",
    "OutcomeUnknown",
    "PayacceptError",
    "PaymentDeclined",
    "PaymentNotFound",
    "RateLimited",
    "RepeatRequest",
    "RequestRefused",
    "ResultCode",
    "RetailPayRequest",
    "RetailPayResponse",
    "ServiceUnavailable",
    "SettlementStrategy",
    "Store",
    "TestNotification",
    "WebhookKeys",
    "errors",
    "keys",
    "load_credentials",
    "notifications",
]
