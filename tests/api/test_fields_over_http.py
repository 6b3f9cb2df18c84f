"""Every bound of every field from both sides, and strict JSON, as a merchant meets them."""

import json
from typing import Any

import httpx
import pytest

from merchant import CREATES, OPERATIONS, PREFIX, Merchant, compact, new_request_id, request_of
from payaccept.domain.money import active_currencies
from unit.test_fields import ABSENT, BOUNDS, EACH_FIELD, REQUIRED, changed

# The protocol takes any three capital letters, some hosts, and a script; the service looks closer.
NO_TENDER = ("AAA", "ZZZ")
NO_HOSTS = ("https://bücher.example/ü",)


async def send(
    api: httpx.AsyncClient, merchant: Merchant, operation: str, request: Any
) -> tuple[int, str, str]:
    """Status, result code and message of a request."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    answer = await merchant.send(api, operation, body)
    result = answer.json()["result"]
    if answer.status_code == 400:
        assert set(answer.json()) == {"result"}
    return answer.status_code, result["resultCode"], result["resultMessage"]


def with_fresh_id(operation: str, path: str, value: Any) -> dict[str, Any]:
    """The smallest request with one member changed, under a paymentRequestId never used."""
    request = changed(operation, path, value)
    if path != "paymentRequestId" and operation != "inquiryPayment":
        request["paymentRequestId"] = new_request_id()
    return request


@pytest.mark.parametrize(("operation", "path"), EACH_FIELD)
async def test_values_within_the_bounds_are_taken(api, register, operation, path):
    merchant = await register() if path == "paymentRequestId" else await register("Any")
    for value in BOUNDS[path][0]:
        if value in (NO_TENDER if path.endswith("urrency") else ()) or value in (
            NO_HOSTS if "Url" in path else ()
        ):
            continue
        request = with_fresh_id(operation, path, value)
        status, code, message = await send(api, merchant, operation, request)
        if operation == "inquiryPayment":
            assert (status, code) == (404, "ORDER_NOT_EXIST"), (value, message)
        else:
            taken = {"ACCEPTED"} if operation != "retailPay" else {"SUCCESS", "PROCESS_FAIL"}  # as scripted
            assert (status, code in taken) == (200, True), (value, message)


@pytest.mark.parametrize(("operation", "path"), EACH_FIELD)
async def test_values_outside_the_bounds_are_refused_and_named(api, merchant, operation, path):
    for value in BOUNDS[path][1]:
        try:
            json.dumps(value).encode()
        except ValueError:
            continue
        request = with_fresh_id(operation, path, value)
        status, code, message = await send(api, merchant, operation, request)
        assert (status, code) == (400, "PARAM_ILLEGAL"), (value, message)
        strict = message.startswith("the body ")  # NUL, half a surrogate pair: no string at all
        assert strict or message.startswith((f"{path} ", f"{path}.")), (value, message)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_exactly_the_required_fields_are_required(api, merchant, operation):
    for path in REQUIRED[operation]:
        request = with_fresh_id(operation, path, ABSENT)
        if path == "paymentRequestId":
            request.pop("paymentRequestId", None)
        assert await send(api, merchant, operation, request) == (400, "PARAM_ILLEGAL", f"{path} is required")
    if operation == "inquiryPayment":
        _, code, message = await send(api, merchant, operation, {})
        assert (code, message) == ("PARAM_ILLEGAL", "paymentId or paymentRequestId is required")


async def test_all_problems_are_listed_the_first_named_first(api, merchant):
    request = request_of(
        "linkPayCreate",
        productCode=7,
        paymentAmount={"currency": "EURO", "value": True},
        order={"latitude": "91", "orderMemo": "m" * 513},
        paymentNotifyUrl="ftp://x",
        extendInfo="[]",
    )
    _, code, message = await send(api, merchant, "linkPayCreate", request)
    assert code == "PARAM_ILLEGAL"
    named = [problem.split(" ")[0] for problem in message.split("; ")]
    assert named[0] == "productCode"
    assert set(named) == {
        "productCode",
        "paymentAmount.currency",
        "paymentAmount.value",
        "order.orderDescription",
        "order.orderMemo",
        "order.latitude",
        "paymentNotifyUrl",
        "extendInfo",
    }


async def test_unknown_members_are_ignored_and_an_unknown_member_may_hold_anything(api, merchant):
    for operation in CREATES:
        request = request_of(operation) | {"unknown": {"deep": [1, {"x": None}], "big": 10**300, "f": 1e-300}}
        status, code, _ = await send(api, merchant, operation, request)
        assert (status, code) == (200, "SUCCESS" if operation == "retailPay" else "ACCEPTED")


# Currencies


@pytest.mark.parametrize("operation", CREATES)
async def test_only_active_currencies_that_are_money_are_taken(api, merchant, operation):
    for currency in ("EUR", "USD", "JPY", "KWD", "CLF"):
        request = request_of(operation, paymentAmount={"currency": currency, "value": 1})
        assert (await send(api, merchant, operation, request))[0] == 200, currency
    for currency in ("DEM", "AAA", "ZZZ", "XXX", "XTS", "XAU", "BTC", "HRK", "FRF"):
        request = request_of(operation, paymentAmount={"currency": currency, "value": 1})
        status, code, message = await send(api, merchant, operation, request)
        assert (status, code) == (400, "PARAM_ILLEGAL"), currency
        assert message == f"paymentAmount.currency {currency} is not an active ISO 4217 currency code"


async def test_the_settlement_currency_is_money_too(api, merchant):
    assert "EUR" in active_currencies()
    request = request_of("linkPayCreate", settlementStrategy={"settlementCurrency": "DEM"})
    _, code, message = await send(api, merchant, "linkPayCreate", request)
    assert (code, message.split(" ")[0]) == ("PARAM_ILLEGAL", "settlementStrategy.settlementCurrency")


# URLs, as a deployment judges them


@pytest.mark.parametrize(
    "url",
    [
        "https://bücher.example/",
        "https://0x7f.1/",
        "https://2130706433/",
        "https://127.1/",
        "https://-shop.example/",
        "https://shop..example/",
        "https://shop.example%2f@evil.example/",
        "https://[fe80::1%25eth0]/",
        "https://" + "a" * 64 + ".example/",
        "https://" + "a." * 130 + "example/",
    ],
)
@pytest.mark.parametrize(
    ("operation", "field"),
    [
        ("createQROrder", "paymentNotifyUrl"),
        ("retailPay", "paymentNotifyUrl"),
        ("linkPayCreate", "paymentRedirectUrl"),
    ],
)
async def test_a_url_with_a_doubtful_host_is_refused_even_in_a_local_sandbox(
    api, merchant, operation, field, url
):
    status, code, message = await send(api, merchant, operation, request_of(operation, **{field: url}))
    assert (status, code) == (400, "PARAM_ILLEGAL"), message
    assert message.startswith(field + " ")


# Strict JSON

EXTEND = '{"extendInfo":"%s"}'
STRICT: dict[str, tuple[str, str]] = {
    "a member twice": ('"note":1,"note":2', "twice"),
    "a member twice below": ('"a":{"b":[{"c":1,"c":1}]}', "twice"),
    "a member twice by an escape": ('"note":1,"n\\u006fte":2', "twice"),
    "NaN": ('"a":NaN', "NaN"),
    "Infinity": ('"a":Infinity', "Infinity"),
    "-Infinity": ('"a":[-Infinity]', "Infinity"),
    "a number out of range": ('"a":1e999', "too large"),
    "a NUL character": ('"a":"\\u0000"', "NUL"),
    "a NUL character in a name": ('"\\u0000":1', "NUL"),
    "half a surrogate pair": ('"a":"\\ud800"', "surrogate"),
    "17 levels": ('"a":' + "[" * 16 + "]" * 16, "deeper than 16"),
    "a thousand levels": ('"a":' + "[" * 1000 + "]" * 1000, "deeper than 16"),
    "a huge integer": ('"a":' + "9" * 5000, "4300 digits"),
    "a comma too many": ('"a":1,', "not JSON"),
    "single quotes": ("'a':1", "not JSON"),
    "a comment": ('"a":1/*x*/', "not JSON"),
    "a leading zero": ('"a":01', "not JSON"),
    "a plus sign": ('"a":+1', "not JSON"),
    "a tab in a string": ('"a":"\t"', "not JSON"),
    "an unknown escape": ('"a":"\\x41"', "not JSON"),
}


def _json_with(members: str, request: dict[str, Any]) -> bytes:
    return (json.dumps(request)[:-1] + "," + members + "}").encode()


@pytest.mark.parametrize("name", STRICT)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_json_that_two_readers_could_read_differently_is_refused(api, merchant, operation, name):
    members, words = STRICT[name]
    status, code, message = await send(api, merchant, operation, _json_with(members, request_of(operation)))
    assert (status, code) == (400, "PARAM_ILLEGAL")
    assert message.startswith("the body ")
    assert words in message


@pytest.mark.parametrize("name", STRICT)
@pytest.mark.parametrize("operation", CREATES)
async def test_the_same_holds_inside_extend_info(api, merchant, operation, name):
    members, words = STRICT[name]
    request = request_of(operation, extendInfo="{" + members + "}")
    if len(request["extendInfo"]) > 2048:
        words = "2048"
    status, code, message = await send(api, merchant, operation, request)
    assert (status, code) == (400, "PARAM_ILLEGAL")
    assert message.startswith("extendInfo ")
    assert words in message


async def test_sixteen_levels_are_not_too_deep(api, merchant):
    nested = '"a":' + "[" * 15 + "]" * 15
    body = _json_with(nested, request_of("createQROrder"))
    assert (await send(api, merchant, "createQROrder", body))[0] == 200
    request = request_of("createQROrder", extendInfo="{" + nested + "}")
    assert (await send(api, merchant, "createQROrder", request))[0] == 200


@pytest.mark.parametrize("space", [b" ", b"\n", b"\t", b"\r\n"])
async def test_white_space_between_tokens_is_json(api, merchant, space):
    body = compact(request_of("createQROrder")).replace(b":", b":" + space) + space
    assert (await send(api, merchant, "createQROrder", body))[0] == 200


async def test_an_integer_written_another_way_is_no_amount(api, merchant):
    for value, accepted in (
        ("1999", True),
        ("1999.0", False),
        ("1.999e3", False),
        ("-0", False),
        ("19990e-1", False),
    ):
        body = compact(request_of("createQROrder")).replace(b'"value":1999', f'"value":{value}'.encode())
        status, _, _ = await send(api, merchant, "createQROrder", body)
        assert (status == 200) is accepted, value


# The sandbox's script

GOOD_SCRIPTS: list[dict[str, Any]] = [
    {},
    {"outcome": "SUCCESS"},
    {"outcome": "FAIL"},
    {"outcome": "FAIL", "resultCode": "RISK_REJECT"},
    {"outcome": "MANUAL"},
    {"outcome": "UNKNOWN"},
    {"outcome": "UNKNOWN", "resultCode": "PROCESS_FAIL"},
    {"delayMs": 0},
    {"delayMs": 86_400_000},
    {"webhook": []},
    {"webhook": ["duplicate", "late", "tampered"]},
    {"outcome": "SUCCESS", "delayMs": 1, "webhook": ["late"]},
]
BAD_SCRIPTS: list[tuple[Any, str]] = [
    (None, "object"),
    ([], "object"),
    ("SUCCESS", "object"),
    ({"outcom": "FAIL"}, "outcom"),
    ({"Outcome": "FAIL"}, "Outcome"),
    ({"result_code": "RISK_REJECT"}, "result_code"),
    ({"outcome": "fail"}, "fail"),
    ({"outcome": "DECLINED"}, "DECLINED"),
    ({"outcome": None}, "sandbox"),
    ({"outcome": "FAIL", "resultCode": "NOPE"}, "NOPE"),
    ({"outcome": "FAIL", "resultCode": "SUCCESS"}, "resultCode"),
    ({"outcome": "FAIL", "resultCode": "PARAM_ILLEGAL"}, "resultCode"),
    ({"outcome": "SUCCESS", "resultCode": "RISK_REJECT"}, "resultCode"),
    ({"resultCode": "RISK_REJECT"}, "resultCode"),
    ({"outcome": "MANUAL", "resultCode": "RISK_REJECT"}, "resultCode"),
    ({"delayMs": -1}, "sandbox"),
    ({"delayMs": 86_400_001}, "sandbox"),
    ({"delayMs": 1.5}, "sandbox"),
    ({"delayMs": "5"}, "sandbox"),
    ({"delayMs": True}, "sandbox"),
    ({"webhook": "late"}, "sandbox"),
    ({"webhook": ["never"]}, "never"),
    ({"webhook": ["late", "late"]}, "twice"),
    ({"webhook": ["late"] * 4}, "sandbox"),
    ({"webhook": [None]}, "sandbox"),
]


@pytest.mark.parametrize("operation", CREATES)
async def test_a_script_that_is_understood_is_taken(api, merchant, operation):
    for script in GOOD_SCRIPTS:
        request = request_of(operation, extendInfo=json.dumps({"note": 1, "sandbox": script}))
        status, _, message = await send(api, merchant, operation, request)
        silent = operation == "retailPay" and script.get("outcome") == "UNKNOWN"
        assert status == (503 if silent else 200), (script, message)


@pytest.mark.parametrize("operation", CREATES)
async def test_a_script_with_a_mistake_is_refused_and_the_mistake_named(api, merchant, operation):
    for script, words in BAD_SCRIPTS:
        request = request_of(operation, extendInfo=json.dumps({"sandbox": script}))
        status, code, message = await send(api, merchant, operation, request)
        assert (status, code) == (400, "PARAM_ILLEGAL"), script
        assert message.startswith("extendInfo sandbox"), message
        assert words in message, message


async def test_a_script_hidden_behind_escapes_is_a_script(api, merchant):
    request = request_of("createQROrder", extendInfo='{"\\u0073andbox":{"outcom":1}}')
    assert (await send(api, merchant, "createQROrder", request))[1] == "PARAM_ILLEGAL"


async def test_what_is_only_called_sandbox_further_down_is_no_script(api, merchant):
    request = request_of("createQROrder", extendInfo='{"a":{"sandbox":{"outcom":1}}}')
    assert (await send(api, merchant, "createQROrder", request))[0] == 200


async def test_a_refused_request_leaves_no_payment_behind(api, merchant):
    request = request_of("createQROrder", paymentAmount={"currency": "DEM", "value": 1})
    await send(api, merchant, "createQROrder", request)
    answer = await merchant.inquire(api, paymentRequestId=request["paymentRequestId"])
    assert answer.status_code == 404
    request["paymentAmount"]["currency"] = "EUR"
    assert (await send(api, merchant, "createQROrder", request))[0] == 200


def test_the_prefix_is_versioned():
    assert PREFIX == "/v1/payments/"
