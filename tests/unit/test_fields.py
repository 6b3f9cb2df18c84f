"""Every bound of every field of the four requests, from both sides."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payaccept.wire import fields, messages
from payaccept.wire.fields import FieldsRefused

ABSENT: Any = object()

SMALLEST: dict[str, dict[str, Any]] = {
    "createQROrder": {
        "bizType": "ORDER_CODE",
        "productCode": "p",
        "codeType": "CGCP",
        "paymentRequestId": "r",
        "paymentAmount": {"currency": "EUR", "value": 1},
    },
    "retailPay": {
        "productCode": "p",
        "paymentRequestId": "r",
        "paymentAuthCode": "c",
        "paymentAmount": {"currency": "EUR", "value": 1},
    },
    "linkPayCreate": {
        "productCode": "p",
        "paymentRequestId": "r",
        "paymentAmount": {"currency": "EUR", "value": 1},
        "order": {"orderDescription": "d"},
    },
    "inquiryPayment": {"paymentRequestId": "r"},
}
CREATES = ("createQROrder", "retailPay", "linkPayCreate")
REQUIRED = {
    "createQROrder": [
        "bizType", "productCode", "codeType", "paymentRequestId",
        "paymentAmount", "paymentAmount.currency", "paymentAmount.value",
    ],
    "retailPay": [
        "productCode", "paymentRequestId", "paymentAuthCode",
        "paymentAmount", "paymentAmount.currency", "paymentAmount.value",
    ],
    "linkPayCreate": [
        "productCode", "paymentRequestId", "paymentAmount", "paymentAmount.currency",
        "paymentAmount.value", "order", "order.orderDescription",
    ],
    "inquiryPayment": [],
}  # fmt: skip


def changed(operation: str, path: str, value: Any) -> dict[str, Any]:
    """The smallest request with one member set, or left out when the value is ABSENT."""
    request = json.loads(json.dumps(SMALLEST[operation]))
    *parents, name = path.split(".")
    inner = request
    for parent in parents:
        inner = inner.setdefault(parent, {})
    if value is ABSENT:
        inner.pop(name, None)
    else:
        inner[name] = value
    return request


def read(operation: str, request: dict[str, Any]) -> Any:
    return fields.read(request, messages.REQUESTS[operation])


def problems(operation: str, request: dict[str, Any]) -> list[fields.Problem]:
    with pytest.raises(FieldsRefused) as caught:
        read(operation, request)
    assert caught.value.problems
    assert str(caught.value) == "; ".join(map(str, caught.value.problems))
    return caught.value.problems


def member(message: Any, path: str) -> Any:
    value = msgspec.to_builtins(message)
    for name in path.split("."):
        value = value[name]
    return value


def url_of(length: int) -> str:
    return "https://shop.example/".ljust(length, "x")


def extend_info_of(length: int) -> str:
    return '{"a":"' + "x" * (length - 8) + '"}'


ADDRESS = "Berlin||Unter den Linden 1||10117||DE||Germany"
IDENTIFIER = ("!", "~", "a" * 64, "order-2026/000123", '"', "\\", "{}")
NO_IDENTIFIER = (
    "",
    "a" * 65,
    "a b",
    " a",
    "a ",
    "a\t",
    "a\n",
    "\n",
    "\x7f",
    "é",
    "日本",
    "a\0",
    "\u00a0",
    "😀",
)
NO_TEXT = (None, 1, 1.5, True, ["x"], {"x": 1})
URLS = (
    "https://shop.example", "https://shop.example/", url_of(2048), "http://127.0.0.1:9000/hook",
    "https://shop.example:8443/a?b=c&d=e#f", "https://[::1]:8443/", "HTTPS://SHOP.EXAMPLE/",
    "https://bücher.example/ü",
    "https://shop.example/%C3%BC", "https://10.0.0.1/", "https://shop.example:65535/",
)  # fmt: skip
NO_URLS = (
    "", url_of(2049), "shop.example/hook", "/hook", "//shop.example/", "ftp://shop.example/",
    "javascript:alert(1)",
    "https:shop.example", "https:///path", "https://", "https://?x", "https://u@shop.example/",
    "https://u:p@shop.example/", "https://@shop.example/", "https://shop.example/a b", " https://shop.example/",
    "https://shop.example/\n", "https://shop.example/\r\nX: y", "https://shop.example\\@evil.example/",
    "https://shop.example:0/", "https://shop.example:65536/", "https://shop.example:x/", "https://[::1/",
    "https://shop.example/\x7f", "https://shop.example/\x85", "https://shop.example/\u2028",
    "https://shop.example/\u00a0",
    "https://shop.example:\u0661/",
)  # fmt: skip
EXTEND_INFO = (
    "{}",
    ' { "a" : [1, 2] } ',
    extend_info_of(2048),
    '{"sandbox":{"outcome":"FAIL"}}',
    '{"ü":"😀"}',
)
NO_EXTEND_INFO = (
    "", " ", "null", "[]", '"{}"', "1", "{", '{"a":1,"a":2}', '{"x":{"a":1,"a":2}}', '{"a":NaN}', "{}{}",
    '{"a":"\\u0000"}', '{"a":"\\ud800"}', '{"a":"\ud800"}', "\ufeff{}", '{"a":' * 17 + "1" + "}" * 17,
    extend_info_of(2049),
)  # fmt: skip
LATITUDES = ("0", "90", "-90", "90.0", "-0", "52.520008", "-89.99999999999999999999", "007")
LONGITUDES = ("0", "180", "-180", "180.000", "13.404954", "-179.9", "90.5")
NO_DECIMALS = (
    "", " ", "+1", "1.", ".5", "1e1", "1E1", "0x1", "1,5", "52.5 ", " 52.5", "52.5\n", "52°", "NaN",
    "Infinity",
    "--1", "1_0", "\u0661", "1.2.3", "N52", "1" * 33,
    "0." + "1" * 21,
)  # fmt: skip

# field: (values accepted, values refused), for every operation that has the field.
BOUNDS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "bizType": (("ORDER_CODE",), ("", "order_code", "ORDER_CODE ", "OTHER", *NO_TEXT)),
    "codeType": (("CGCP",), ("", "cgcp", "OTHER", *NO_TEXT)),
    "productCode": (("p", "p" * 32, "é" * 32, "51051000101000100031"), ("", "p" * 33, *NO_TEXT)),
    "paymentRequestId": (IDENTIFIER, (*NO_IDENTIFIER, *NO_TEXT)),
    "paymentAuthCode": (("c", "c" * 128, "281012020262467128", "é😀"), ("", "c" * 129, *NO_TEXT)),
    "paymentAmount": (({"currency": "JPY", "value": 5},), (None, {}, [], "EUR 5", 5, True)),
    "paymentAmount.currency": (
        ("EUR", "AAA", "ZZZ"),
        (
            "",
            "EU",
            "EURO",
            "eur",
            "Eur",
            "E1R",
            "EU ",
            "EUR\n",
            "\nEUR",
            "ÄÖÜ",
            "\uff25\uff35\uff32",
            "978",
            *NO_TEXT,
        ),
    ),
    "paymentAmount.value": (
        (1, 2, 1999, 999_999_999_999),
        (
            0,
            -1,
            1_000_000_000_000,
            2**63,
            2**64,
            10**30,
            -(10**30),
            1.0,
            1.5,
            1e300,
            True,
            False,
            "1",
            None,
            [1],
            {},
        ),
    ),
    "order": (({"orderDescription": "d", "unknown": 1},), (None, [], "x", 1, True)),
    "order.orderDescription": (("d", "d" * 256, "☕" * 256), ("d" * 257, *NO_TEXT)),
    "order.orderMemo": (("", "m" * 512, "line\nbreak"), ("m" * 513, *NO_TEXT)),
    "order.latitude": (LATITUDES, ("90.00001", "-90.1", "91", "180", *NO_DECIMALS, *NO_TEXT)),
    "order.longitude": (LONGITUDES, ("180.00001", "-180.1", "181", "999", *NO_DECIMALS, *NO_TEXT)),
    "order.transactionAddress": (
        (ADDRESS, "||||||||", "a||b||c||d||" + "e" * 500, "a|b||c||d||e||f"),
        ("", "Berlin", "a||b||c||d", "a||b||c||d||e||f", "a|b|c|d|e", "a||b||c||d||" + "e" * 501, *NO_TEXT),
    ),
    "order.merchant": (({}, {"unknown": 1}), (None, [], "x", 1)),
    "order.merchant.store": (({"externalStoreId": "s"},), (None, {}, [], "x", 1)),
    "order.merchant.store.externalStoreId": (("s", "s" * 64, "Zürich 1"), ("", "s" * 65, *NO_TEXT)),
    "paymentNotifyUrl": (URLS, (*NO_URLS, *NO_TEXT)),
    "paymentRedirectUrl": (URLS, (*NO_URLS, *NO_TEXT)),
    "extendInfo": (EXTEND_INFO, (*NO_EXTEND_INFO, *NO_TEXT)),
    "settlementStrategy": (({}, {"settlementCurrency": "EUR"}), (None, [], "EUR", 1)),
    "settlementStrategy.settlementCurrency": (("EUR",), ("", "EU", "EURO", "eur", "EUR\n", *NO_TEXT)),
    "paymentId": (IDENTIFIER, (*NO_IDENTIFIER, *NO_TEXT)),
}
_ORDER = [path for path in BOUNDS if path.split(".")[0] == "order"]
_SHARED = [
    "productCode",
    "paymentRequestId",
    "paymentAmount",
    "paymentAmount.currency",
    "paymentAmount.value",
]
_SHARED += [*_ORDER, "paymentNotifyUrl", "extendInfo"]
FIELDS_OF = {
    "createQROrder": ["bizType", "codeType", *_SHARED],
    "retailPay": ["paymentAuthCode", *_SHARED],
    "linkPayCreate": [
        *_SHARED, "paymentRedirectUrl", "settlementStrategy", "settlementStrategy.settlementCurrency",
    ],
    "inquiryPayment": ["paymentId", "paymentRequestId"],
}  # fmt: skip
EACH_FIELD = [(operation, path) for operation, paths in FIELDS_OF.items() for path in paths]


def _paths(struct: type[msgspec.Struct], prefix: str = "") -> set[str]:
    found = set()
    for field in msgspec.structs.fields(struct):
        found.add(prefix + field.encode_name)
        inner = fields._struct_in(field.type)
        if inner is not None:
            found |= _paths(inner, f"{prefix}{field.encode_name}.")
    return found


@pytest.mark.parametrize("operation", SMALLEST)
def test_the_table_of_bounds_leaves_no_field_of_the_operation_out(operation):
    assert _paths(messages.REQUESTS[operation]) == set(FIELDS_OF[operation])


@pytest.mark.parametrize("operation", SMALLEST)
def test_the_smallest_request_is_accepted(operation):
    request = read(operation, SMALLEST[operation])
    assert type(request) is messages.REQUESTS[operation]
    assert msgspec.to_builtins(request) == SMALLEST[operation]


@pytest.mark.parametrize(("operation", "path"), EACH_FIELD)
def test_values_within_the_bounds_are_taken_as_they_are(operation, path):
    for value in BOUNDS[path][0]:
        request = read(operation, changed(operation, path, value))
        taken = member(request, path)
        known = {n: v for n, v in value.items() if n != "unknown"} if isinstance(value, dict) else value
        assert taken == known, value
        assert type(taken) is type(value)


@pytest.mark.parametrize(("operation", "path"), EACH_FIELD)
def test_values_outside_the_bounds_are_refused_by_their_path(operation, path):
    for value in BOUNDS[path][1]:
        first = problems(operation, changed(operation, path, value))[0]
        # An object that lacks a member is named by the member.
        assert first.path == path or (isinstance(value, dict) and first.path.startswith(path + ".")), value
        assert first.message
        assert str(first) == f"{first.path} {first.message}"


@pytest.mark.parametrize("operation", SMALLEST)
def test_exactly_the_required_fields_are_required(operation):
    for path in FIELDS_OF[operation]:
        request = changed(operation, path, ABSENT)
        if path in REQUIRED[operation]:
            assert [(problem.path, problem.message) for problem in problems(operation, request)] == [
                (path, "is required")
            ]
        elif path == "paymentRequestId":
            assert [problem.path for problem in problems(operation, request)] == ["paymentId"]
        elif path != "order.merchant.store.externalStoreId":
            read(operation, request)


@pytest.mark.parametrize("operation", CREATES)
def test_a_store_must_be_named(operation):
    request = changed(operation, "order.merchant.store", {})
    assert [str(problem) for problem in problems(operation, request)] == [
        "order.merchant.store.externalStoreId is required"
    ]


def test_the_description_may_be_empty_except_for_a_link():
    assert read("createQROrder", changed("createQROrder", "order.orderDescription", ""))
    assert read("retailPay", changed("retailPay", "order.orderDescription", ""))
    first = problems("linkPayCreate", changed("linkPayCreate", "order.orderDescription", ""))[0]
    assert first.path == "order.orderDescription"


def test_an_inquiry_takes_either_identifier_or_both():
    assert read("inquiryPayment", {"paymentId": "p"}).payment_request_id is msgspec.UNSET
    assert read("inquiryPayment", {"paymentRequestId": "r"}).payment_id is msgspec.UNSET
    assert read("inquiryPayment", {"paymentId": "p", "paymentRequestId": "r"})
    for text in ("a", "same", "x" * 64):  # Equal short strings are one object in Python.
        assert read("inquiryPayment", {"paymentId": text, "paymentRequestId": text}).payment_id == text
    assert str(problems("inquiryPayment", {})[0]) == "paymentId or paymentRequestId is required"
    assert problems("inquiryPayment", {"other": 1})[0].path == "paymentId"


@pytest.mark.parametrize("operation", SMALLEST)
def test_unknown_members_are_ignored_at_every_level(operation):
    request = SMALLEST[operation] | {"unknown": {"a": [None]}, "": 1, "PAYMENTREQUESTID": 5, "payment_id": 5}
    assert read(operation, request) == read(operation, SMALLEST[operation])


def test_all_problems_are_listed_in_the_order_of_the_fields():
    request = {
        "bizType": "OTHER",
        "productCode": "p" * 33,
        "paymentRequestId": "a b",
        "paymentAmount": {"currency": "eur", "value": 0},
        "order": {
            "latitude": "91",
            "longitude": "x",
            "transactionAddress": "Berlin",
            "merchant": {"store": {}},
        },
        "paymentNotifyUrl": "ftp://x",
        "extendInfo": "[]",
    }
    assert [problem.path for problem in problems("createQROrder", request)] == [
        "bizType",
        "productCode",
        "codeType",
        "paymentRequestId",
        "paymentAmount.currency",
        "paymentAmount.value",
        "order.latitude",
        "order.longitude",
        "order.transactionAddress",
        "order.merchant.store.externalStoreId",
        "paymentNotifyUrl",
        "extendInfo",
    ]


def test_problems_that_only_a_rule_can_find_are_all_listed_too():
    request = SMALLEST["linkPayCreate"] | {
        "paymentRequestId": "a\n",
        "paymentNotifyUrl": "shop.example",
        "paymentRedirectUrl": "//shop.example",
        "extendInfo": "no",
        "order": {"orderDescription": "d", "latitude": "91", "longitude": "181"},
    }
    assert {problem.path for problem in problems("linkPayCreate", request)} == {
        "paymentRequestId",
        "paymentNotifyUrl",
        "paymentRedirectUrl",
        "extendInfo",
        "order.latitude",
        "order.longitude",
    }


def test_a_huge_value_does_not_make_a_huge_message():
    request = changed("createQROrder", "bizType", "x" * 60_000)
    assert len(str(problems("createQROrder", request)[0])) < 200


def test_the_words_are_ours_and_not_a_librarys():
    request = {"paymentRequestId": "a b", "paymentAmount": {"currency": "eur", "value": None}, "order": None}
    text = "; ".join(map(str, problems("retailPay", request)))
    assert "regex" not in text
    assert "`" not in text
    assert "$" not in text
    assert "paymentRequestId must be visible ASCII characters without a space" in text
    assert "paymentAmount.currency must be three capital letters, for example EUR" in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(EACH_FIELD), value=json_values)
def test_any_json_value_anywhere_is_accepted_or_refused_with_a_path(place, value):
    operation, path = place
    try:
        read(operation, changed(operation, path, value))
    except FieldsRefused as refused:
        assert refused.problems  # noqa: PT017
        assert all(problem.path for problem in refused.problems)  # noqa: PT017
