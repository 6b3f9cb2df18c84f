"""The examples of the OpenAPI description: one payment of each kind, told from request to webhook.

Answers are written with the types that the service answers with. The first request, its headers and the
webhook are the golden values of docs/signing.md, so that their signatures can be checked.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from payaccept.domain.payment import result
from payaccept.wire import messages as m
from payaccept.wire.codes import TABLE, ResultCode

Json = dict[str, Any]

CLIENT_ID: Final = "sandbox_5f0c9a3e7b1d2468ace02468"
REQUEST_TIME: Final = "2026-03-01T09:30:00Z"
SIGNATURE: Final = (
    "algorithm=SHA256withRSA, keyVersion=3, signature="
    "Mfo1KS8eEMn14LxjUXFoM0yZ4camqV7j4eBv5tG0RAYy4qGjgR3m-VkSG6yNtVwJcxGIAcLNVIMRZ7p86uD7N2fT1npRvA8FJ58r"
    "RXDT4se8VfsLg5RsaMcYdyukjPJErGG5z_vLwemFIxis2TdizQ8DC3Tv11frV53hF-PkSyo50QiHGO3GZLzenjEId6rMkHxl03zv"
    "kBMmqdSH1ot45n6yK4fOtLly_X9nINGlpOYwdAGWIujrICue5bRSehe6VMCi0AqE2IjvZeCrepIJhfLq4oJw2FQl4Iv2eLPIkvbv"
    "AaSMyKnkeLxESEQfOTw_UrqLy508MtwrgI77WrQE6g"
)
NOTIFICATION_TIME: Final = "2026-03-01T09:30:02Z"
NOTIFICATION_PATH: Final = "/hooks/pay"
NOTIFICATION_SIGNATURE: Final = (
    "algorithm=SHA256withRSA, keyVersion=3, signature="
    "ogdSxZVTlSPgLkl-mEg58NVDWvukmKN8bsp3MV75d-83_AKnuUD6ZeZQxk7ixDlPdctNMzHzkCeidSWs57uf14cEkPPVDWR0ySff"
    "LI8QEMB5BOd7EHRWO8FTCUC3g2b9v_sGVV1kS2TbiQK70HD_iJQwEdBPpcJgyGmMl9Kc9vozfZeXerg6sqYzTwTHV9XPPIDvplYi"
    "WCjI9pb9OOjKrmEVqo05pJvjUFm98GOQcfBf3UK8RJshWxOOM9mJYihopVpxPy9p-LC7Ua7NZDsU382cxmgVkZhEmnDNnE_MxgR4"
    "Y3lx98jeNhDbZXsGju3OM937gQghnFH0B2qztuw9UA"
)
EVENT_ID: Final = "evt_0195500d11f342aa00112233445566778899"
REQUEST_ID: Final = "req_0195500d0b40a1b2c3d4e5f60718"
REQUEST_ID_PATTERN: Final = "^req_[0-9a-f]{28}$"

_TAIL: Final = "0195500d0b4042d3a1c9e7f2b8d4650c1f3e"
_PAYMENT_ID: Final = f"pay_{_TAIL}"
_ACQUIREMENT_ID: Final = f"acq_{_TAIL}"
_ORDER_ID: Final = "order-2026-000123"
_PRODUCT: Final = "51051000101000100031"
_AMOUNT: Final = m.Amount("EUR", 1999)
_PAID_AT: Final = "2026-03-01T09:30:02.100Z"
_WEB: Final = "https://web.example.com"
_STORE: Final = m.OrderMerchant(m.Store("berlin-01"))

# What a message can look like, where the table's own is not the usual one.
_MESSAGES: Final = {
    ResultCode.PARAM_ILLEGAL: (
        "paymentAmount.value expected int >= 1; order.transactionAddress must have exactly five parts"
        " separated by ||: city, street, postal code, country code, country"
    ),
    ResultCode.INVALID_SIGNATURE: "keyVersion 2 is retired",
    ResultCode.TIMESTAMP_INVALID: (
        "Request-Time is 421 s behind the server's clock (2026-03-01T09:37:01Z); at most 300 s are accepted"
    ),
    ResultCode.INVALID_CLIENT_ID: "Client-Id is not known here",
    ResultCode.ACCESS_DENIED: "keyVersion 7 was never assigned to this Client-Id",
    ResultCode.ORDER_NOT_EXIST: "there is no such payment",
    ResultCode.REPEAT_REQUEST: "paymentRequestId was already used by createQROrder, with the same body",
    ResultCode.NOT_FOUND: "there is nothing at this path; operations live under /v1/payments/",
    ResultCode.METHOD_NOT_ALLOWED: "this path takes POST, not GET",
    ResultCode.REQUEST_TRAFFIC_EXCEED_LIMIT: (
        "more than 100 requests in 60 seconds; the next is admitted in 7 s"
    ),
    ResultCode.UNKNOWN_EXCEPTION: f"an unexpected error; quote the Request-Id {REQUEST_ID}",
}


def _example(summary: str, value: Struct) -> Json:
    return {"summary": summary, "value": msgspec.to_builtins(value)}


def failure(code: ResultCode) -> Json:
    """Return an example of a failure."""
    return _example(TABLE[code].message, m.ErrorResponse(result(code, _MESSAGES.get(code))))


def failures(codes: list[ResultCode]) -> Json:
    """Return an example for each code, by its name."""
    return {code.value: failure(code) for code in codes}


REQUESTS: Final[dict[str, Json]] = {
    "createQROrder": {
        "smallest": _example(
            "The required members (the example of docs/signing.md)",
            m.CreateQROrderRequest("ORDER_CODE", _PRODUCT, "CGCP", _ORDER_ID, _AMOUNT),
        ),
        "complete": _example(
            "Everything, scripted to fail in the sandbox",
            m.CreateQROrderRequest(
                "ORDER_CODE",
                _PRODUCT,
                "CGCP",
                "order-2026-000124",
                _AMOUNT,
                m.Order(
                    "Two coffees and a croissant",
                    "table 7",
                    "52.5170",
                    "13.3889",
                    "Berlin||Unter den Linden 1||10117||DE||Germany",
                    _STORE,
                ),
                "https://shop.example.com/hooks/pay",
                '{"sandbox":{"outcome":"FAIL","resultCode":"INSUFFICIENT_BALANCE","delayMs":5000}}',
            ),
        ),
    },
    "retailPay": {
        "scanned": _example(
            "A code scanned at the till",
            m.RetailPayRequest(
                _PRODUCT,
                "till-4-000777",
                "281012020262467128",
                _AMOUNT,
                m.Order("A pair of shoes", merchant=_STORE),
            ),
        ),
        "declined": _example(
            "Scripted to be declined in the sandbox",
            m.RetailPayRequest(
                _PRODUCT,
                "till-4-000778",
                "281012020262467129",
                _AMOUNT,
                extend_info='{"sandbox":{"outcome":"FAIL","resultCode":"USER_REJECTED"}}',
            ),
        ),
    },
    "linkPayCreate": {
        "online": _example(
            "From a web shop into the wallet app and back",
            m.LinkPayCreateRequest(
                _PRODUCT,
                "web-2026-004711",
                _AMOUNT,
                m.DescribedOrder(order_description="A pair of shoes"),
                "https://shop.example.com/hooks/pay",
                "https://shop.example.com/thanks?order=4711",
                m.SettlementStrategy("EUR"),
            ),
        ),
    },
    "inquiryPayment": {
        "byRequestId": _example(
            "By the merchant's own identifier", m.InquiryPaymentRequest(payment_request_id=_ORDER_ID)
        ),
        "byPaymentId": _example(
            "By the service's identifier, or by an acquirementId",
            m.InquiryPaymentRequest(payment_id=_PAYMENT_ID),
        ),
    },
}

_ACCEPTED: Final = result(ResultCode.ACCEPTED)
_SUCCESS: Final = result(ResultCode.SUCCESS)
_PLATFORM: Final = {"target_path": f"/pay/{_PAYMENT_ID}", "short_url": f"{_WEB}/s/{_PAYMENT_ID}"}

ANSWERS: Final[dict[str, Json]] = {
    "createQROrder": {
        "accepted": _example(
            "Accepted: show the QR code",
            m.CreateQROrderResponse(_ACCEPTED, _ORDER_ID, _PAYMENT_ID, f"{_WEB}/q/{_PAYMENT_ID}"),
        ),
    },
    "retailPay": {
        "paid": _example(
            "Paid", m.RetailPayResponse(_SUCCESS, "till-4-000777", _PAYMENT_ID, _AMOUNT, _PAID_AT)
        ),
        "waiting": _example(
            "The customer must confirm", m.RetailPayResponse(_ACCEPTED, "till-4-000777", _PAYMENT_ID, _AMOUNT)
        ),
        "declined": failure(ResultCode.USER_REJECTED),
    },
    "linkPayCreate": {
        "accepted": _example(
            "Accepted: send the customer to redirectUrl",
            m.LinkPayCreateResponse(
                _ACCEPTED,
                "web-2026-004711",
                f"{_WEB}/pay/{_PAYMENT_ID}",
                m.AppLinks(
                    m.AppLinkPlatform("org.payaccept.wallet", **_PLATFORM),
                    m.AppLinkPlatform("org.payaccept.wallet", "org.payaccept.wallet", **_PLATFORM),
                ),
                _ACQUIREMENT_ID,
            ),
        ),
    },
    "inquiryPayment": {
        "paid": _example(
            "Paid",
            m.InquiryPaymentResponse(_SUCCESS, "SUCCESS", _PAYMENT_ID, _ORDER_ID, _AMOUNT, _PAID_AT),
        ),
        "processing": _example(
            "Not decided yet",
            m.InquiryPaymentResponse(_SUCCESS, "PROCESSING", _PAYMENT_ID, _ORDER_ID, _AMOUNT),
        ),
        "failed": _example(
            "Failed; the inquiry itself is a success",
            m.InquiryPaymentResponse(
                _SUCCESS,
                "FAIL",
                _PAYMENT_ID,
                _ORDER_ID,
                _AMOUNT,
                _PAID_AT,
                ResultCode.INSUFFICIENT_BALANCE,
                TABLE[ResultCode.INSUFFICIENT_BALANCE].message,
            ),
        ),
    },
}


def _notification(code: ResultCode, summary: str, store: m.MerchantData | None = None) -> Json:
    succeeded = code is ResultCode.SUCCESS
    notification = m.Notification(
        event_id=EVENT_ID,
        event_type="payment.succeeded" if succeeded else "payment.failed",
        create_time="2026-03-01T09:30:02.104Z",
        environment="sandbox",
        client_id=CLIENT_ID,
        payment_id=_PAYMENT_ID,
        acquirement_id=_ACQUIREMENT_ID,
        payment_request_id=_ORDER_ID,
        merchant_trans_id=_ORDER_ID,
        payment_status="SUCCESS" if succeeded else "FAIL",
        payment_time=_PAID_AT,
        payment_amount=_AMOUNT,
        result=result(code),
    )
    return _example(
        summary, notification if store is None else msgspec.structs.replace(notification, merchant_data=store)
    )


NOTIFICATIONS: Final[Json] = {
    "succeeded": _notification(ResultCode.SUCCESS, "payment.succeeded (the example of docs/signing.md)"),
    "failed": _notification(ResultCode.ORDER_EXPIRED, "payment.failed", m.MerchantData("berlin-01")),
}
TEST_NOTIFICATIONS: Final[Json] = {
    "test": _example(
        "webhook.test",
        m.TestNotification(
            event_id=EVENT_ID,
            event_type=m.TEST_EVENT,
            create_time="2026-03-01T09:30:02.104Z",
            environment="sandbox",
            client_id=CLIENT_ID,
            test=True,
        ),
    ),
}
