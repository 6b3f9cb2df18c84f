"""From keyword arguments to a request: the wire's names in snake_case, `payment_` left out when idle."""

from collections.abc import Mapping
from typing import Any, Final, NotRequired, TypedDict, TypeVar

import msgspec

from payaccept.wire.messages import (
    Amount,
    CreateQROrderRequest,
    CreateRequest,
    DescribedOrder,
    InquiryPaymentRequest,
    LinkPayCreateRequest,
    Order,
    RetailPayRequest,
    SettlementStrategy,
)

R = TypeVar("R", CreateQROrderRequest, RetailPayRequest, LinkPayCreateRequest)


class _Payment(TypedDict):
    payment_request_id: str
    amount: Amount
    product_code: str
    notify_url: NotRequired[str | None]
    extend_info: NotRequired[str | Mapping[str, Any] | None]


class QROrderFields(_Payment):
    """The keywords of `create_qr_order`."""

    order: NotRequired[Order | None]


class RetailPayFields(_Payment):
    """The keywords of `retail_pay`; `auth_code` is the code scanned from the customer's wallet."""

    auth_code: str
    order: NotRequired[Order | None]


class LinkPayFields(_Payment):
    """The keywords of `link_pay_create`; the order needs a description."""

    order: DescribedOrder
    redirect_url: NotRequired[str | None]
    settlement_strategy: NotRequired[SettlementStrategy | None]


_ON_THE_WIRE: Final = {
    "amount": "payment_amount",
    "auth_code": "payment_auth_code",
    "notify_url": "payment_notify_url",
    "redirect_url": "payment_redirect_url",
}
_CONSTANTS: Final[dict[type[CreateRequest], dict[str, Any]]] = {
    CreateQROrderRequest: {"biz_type": "ORDER_CODE", "code_type": "CGCP"},
    RetailPayRequest: {},
    LinkPayCreateRequest: {},
}


def request_of(kind: type[R], request: R | None, fields: Mapping[str, Any]) -> R:
    """Return the request as given, or made of keywords; None leaves an optional field out.

    Raises: TypeError for both at once, or for a keyword that is missing or not known.
    """
    if request is not None:
        if fields:
            raise TypeError("give a request or keywords, not both")
        return request
    members = {_ON_THE_WIRE.get(name, name): value for name, value in fields.items() if value is not None}
    extend_info = members.get("extend_info")
    if isinstance(extend_info, Mapping):
        members["extend_info"] = msgspec.json.encode(extend_info).decode()
    try:
        return kind(**_CONSTANTS[kind], **members)
    except TypeError as error:
        raise TypeError(_in_our_names(str(error))) from None


def inquiry_of(payment_id: str | None, payment_request_id: str | None) -> InquiryPaymentRequest:
    """Make an inquiry by either identifier or both.

    Raises: TypeError when neither is given.
    """
    given = {"payment_id": payment_id, "payment_request_id": payment_request_id}
    members = {name: value for name, value in given.items() if value is not None}
    if not members:
        raise TypeError("give payment_id, payment_request_id, or both")
    return InquiryPaymentRequest(**members)


def _in_our_names(message: str) -> str:
    for keyword, member in _ON_THE_WIRE.items():
        message = message.replace(f"'{member}'", f"'{keyword}'")
    return message
