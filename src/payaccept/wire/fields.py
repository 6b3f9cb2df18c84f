"""From a JSON object to a typed request, naming every problem it has.

The usual request costs one conversion. Only a refused one is read again, field by field, so that all
its problems can be told at once.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct

from payaccept.wire import messages as m
from payaccept.wire import strict_json

R = TypeVar("R", bound=Struct)

_PATH_IN_MESSAGE: Final = re.compile(r" - at `\$?\.?(?P<path>[^`]*)`$")
_DECIMAL: Final = re.compile(r"-?\d{1,3}(?:\.\d{1,20})?", re.ASCII)
_ADDRESS_PARTS: Final = 5
# Of a refused value the message shows so many characters.
_SHOWN: Final = 64


class Problem(Struct, frozen=True):
    """One thing wrong with a request: the JSON path of the field, and what is wrong with it."""

    path: str
    message: str

    def __str__(self) -> str:
        """`paymentAmount.value must be at least 1`."""
        return f"{self.path} {self.message}" if self.path else self.message


class FieldsRefused(ValueError):
    """The request has problems; all of them are listed, in the order of its fields."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


def read(value: Mapping[str, Any], request_type: type[R]) -> R:
    """Convert a JSON object to a request of the given type, with every bound checked.

    Raises: FieldsRefused.
    """
    try:
        request = msgspec.convert(value, request_type)
    except msgspec.ValidationError:
        problems = list(_problems_of(value, request_type, ""))
        raise FieldsRefused(problems) from None
    problems = list(_rules(request))
    if problems:
        raise FieldsRefused(problems)
    return request


def _problems_of(value: Mapping[str, Any], struct: type[Struct], prefix: str) -> Iterator[Problem]:
    """Every problem of an object that does not convert, member by member and down the tree."""
    for field in msgspec.structs.fields(struct):
        path = prefix + field.encode_name
        if field.encode_name not in value:
            if field.required:
                yield Problem(path, "is required")
            continue
        member = value[field.encode_name]
        try:
            msgspec.convert(member, field.type)
        except msgspec.ValidationError as error:
            nested = _struct_in(field.type)
            if nested is not None and isinstance(member, dict):
                yield from _problems_of(member, nested, path + ".")
            else:
                yield Problem(path, in_our_words(str(error)))
        else:
            if isinstance(member, str):
                yield from _text_rules(path, field.encode_name, member)


def _struct_in(annotation: Any) -> type[Struct] | None:
    candidates = getattr(annotation, "__args__", (annotation,))
    return next((c for c in candidates if isinstance(c, type) and issubclass(c, Struct)), None)


def in_our_words(message: str) -> str:
    """Turn a conversion error into a sentence that follows the name of a field."""
    message = _PATH_IN_MESSAGE.sub("", message)
    message = message.replace(" | null", "")
    if "matching regex" in message:
        if m.VISIBLE_ASCII in message:
            return "must be visible ASCII characters without a space"
        return "must be three capital letters, for example EUR"
    if message.startswith("Invalid enum value"):
        value = message.removeprefix("Invalid enum value").strip()
        shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        return f"is {shown}, which is not one of its values"
    return message[0].lower() + message[1:].replace("`", "")


def _rules(request: Struct) -> Iterator[Problem]:
    """The rules of the protocol that a type cannot say."""
    for name in (
        "payment_request_id",
        "payment_id",
        "payment_notify_url",
        "payment_redirect_url",
        "extend_info",
    ):
        text = getattr(request, name, UNSET)
        if text is not UNSET:
            wire_name = _WIRE_NAMES[name]
            yield from _text_rules(wire_name, wire_name, text)
    order = getattr(request, "order", UNSET)
    if order is not UNSET:
        for name in ("latitude", "longitude", "transaction_address"):
            text = getattr(order, name)
            if text is not UNSET:
                yield from _text_rules("order." + _WIRE_NAMES[name], _WIRE_NAMES[name], text)
    if isinstance(request, m.InquiryPaymentRequest):
        names_nothing = request.payment_id is UNSET and request.payment_request_id is UNSET
        if names_nothing:
            yield Problem("paymentId", "or paymentRequestId is required")


_WIRE_NAMES: Final = {
    "payment_request_id": "paymentRequestId",
    "payment_id": "paymentId",
    "payment_notify_url": "paymentNotifyUrl",
    "payment_redirect_url": "paymentRedirectUrl",
    "extend_info": "extendInfo",
    "latitude": "latitude",
    "longitude": "longitude",
    "transaction_address": "transactionAddress",
}


def _text_rules(path: str, name: str, text: str) -> Iterator[Problem]:
    problem = None
    if name in {"paymentRequestId", "paymentId"}:
        # `$` of a regular expression also matches before a final line feed.
        problem = "must be visible ASCII characters without a space" if text.endswith("\n") else None
    elif name in {"paymentNotifyUrl", "paymentRedirectUrl"}:
        problem = _url_problem(text)
    elif name == "extendInfo":
        problem = _extend_info_problem(text)
    elif name in {"latitude", "longitude"}:
        problem = _coordinate_problem(text, 90 if name == "latitude" else 180)
    elif name == "transactionAddress" and text.count("||") != _ADDRESS_PARTS - 1:
        problem = (
            "must have exactly five parts separated by ||: city, street, postal code, country code, country"
        )
    if problem is not None:
        yield Problem(path, problem)


def _url_problem(text: str) -> str | None:
    if " " in text or "\\" in text or not text.isprintable():
        return "must not hold blanks, control characters or backslashes"
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return "must be an absolute URL"
    if parts.scheme not in {"https", "http"} or not parts.hostname or not port_is_valid:
        return "must be an absolute https URL"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password"
    return None


def _extend_info_problem(text: str) -> str | None:
    try:
        strict_json.load_object(text.encode("utf-8", "surrogatepass"))
    except strict_json.JsonRefused as error:
        return f"must be a JSON object written as a string: it {error}"
    return None


def _coordinate_problem(text: str, limit: int) -> str | None:
    if _DECIMAL.fullmatch(text) is None or not math.fabs(float(text)) <= limit:
        return f"must be decimal degrees from -{limit} to {limit}"
    return None
