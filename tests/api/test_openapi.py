"""openapi.json is what the code says, is OpenAPI 3.1, and its examples are true."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schemathesis.specs.openapi import definitions

from payaccept.api import openapi
from payaccept.api.gate import MAX_SKEW
from payaccept.api.openapi_examples import NOTIFICATIONS, TEST_NOTIFICATIONS
from payaccept.api.openapi_headers import SIGNATURE_PATTERN
from payaccept.wire import fields, messages, signing
from payaccept.wire.codes import TABLE, ResultCode, ResultStatus
from vectors import golden

KEPT = Path(__file__).parents[2] / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(openapi.document())
SIGNED = {path: item["post"] for path, item in DOCUMENT["paths"].items() if "post" in item}
DOCUMENTS = {path: item["get"] for path, item in DOCUMENT["paths"].items() if "get" in item}
STATUSES = {
    "createQROrder": {200, 400, 401, 403, 409, 413, 415, 429, 500, 503},
    "retailPay": {200, 400, 401, 403, 409, 413, 415, 429, 500, 503},
    "linkPayCreate": {200, 400, 401, 403, 409, 413, 415, 429, 500, 503},
    "inquiryPayment": {200, 400, 401, 403, 404, 413, 415, 429, 500, 503},
}


def resolve(value: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference inside the document."""
    if set(value) != {"$ref"}:
        return value
    found: Any = DOCUMENT
    for step in value["$ref"].removeprefix("#/").split("/"):
        found = found[step.replace("~1", "/").replace("~0", "~")]
    return found


def walk(value: Any, path: str = "#"):
    """Every object of the document with its path."""
    if isinstance(value, dict):
        yield path, value
        for name, member in value.items():
            yield from walk(member, f"{path}/{name}")
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from walk(member, f"{path}/{number}")


def validator(schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """A validator of a schema of the document, formats included."""
    return jsonschema_rs.Draft202012Validator(
        {**schema, "components": DOCUMENT["components"]}, validate_formats=True
    )


def codes_in(schema: Any) -> set[str]:
    """The result codes that a schema lets an answer have."""
    return {
        code
        for path, item in walk(schema)
        if path.endswith("/resultCode") and "enum" in item
        for code in item["enum"]
    }


def media_types():
    """Every place with a schema and examples: its path and itself."""
    for path, item in walk(DOCUMENT):
        if "schema" in item and ("examples" in item or "example" in item):
            yield path, item


# The copy beside the code


def test_the_kept_copy_is_what_the_code_says():
    assert KEPT.read_bytes() == openapi.document(), "run: python -m payaccept.api.openapi > openapi.json"


async def test_the_api_serves_the_same_bytes(api: httpx.AsyncClient):
    answer = await api.get("/openapi.json")
    assert answer.status_code == 200
    assert answer.content == openapi.document()


# OpenAPI 3.1


def test_it_is_openapi_3_1():
    jsonschema_rs.Draft202012Validator(definitions.OPENAPI_31).validate(DOCUMENT)
    assert DOCUMENT["openapi"] == "3.1.0"
    assert re.fullmatch(r"\d+\.\d+\.\d+", DOCUMENT["info"]["version"])


def test_every_schema_is_a_json_schema():
    for name, schema in DOCUMENT["components"]["schemas"].items():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        validator(schema)
        assert schema["title"] == name
        assert schema["description"]


def test_every_reference_leads_somewhere_and_nothing_is_left_over():
    referred = {item["$ref"] for _, item in walk(DOCUMENT) if "$ref" in item}
    for reference in referred:
        assert resolve({"$ref": reference})
    kept = {
        f"#/components/{kind}/{name}"
        for kind in ("parameters", "headers", "responses", "schemas")
        for name in DOCUMENT["components"][kind]
    }
    # The two answers that belong to no path are described for whoever meets them.
    assert kept - referred == {
        "#/components/responses/UnknownPath",
        "#/components/responses/MethodNotAllowed",
    }


def test_operation_ids_and_tags():
    webhooks = [webhook["post"] for webhook in DOCUMENT["webhooks"].values()]
    operations = [*SIGNED.values(), *DOCUMENTS.values(), *webhooks]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    assert {tag for operation in operations for tag in operation["tags"]} == {
        tag["name"] for tag in DOCUMENT["tags"]
    }


def test_patterns_are_ecma_regular_expressions():
    patterns = {item["pattern"] for _, item in walk(DOCUMENT) if isinstance(item.get("pattern"), str)}
    assert len(patterns) > 8
    for pattern in patterns:
        assert jsonschema_rs.is_valid({"format": "regex"}, pattern, validate_formats=True), pattern
        # What Python and ECMAScript understand differently has no place here.
        assert not re.search(r"\\[AZzdwsDWSbB]|\(\?[<P#ims-]", pattern), pattern


# What it describes


def test_the_operations_and_documents_are_those_that_are_served(kernel):
    assert (
        set(SIGNED) == set(kernel._endpoints) == {messages.PATH_PREFIX + name for name in messages.REQUESTS}
    )
    assert set(DOCUMENTS) == set(kernel._documents)
    assert set(SIGNED) | set(DOCUMENTS) == set(DOCUMENT["paths"])


@pytest.mark.parametrize("operation", messages.REQUESTS)
def test_an_operation_has_all_its_parts(operation: str):
    described = SIGNED[messages.PATH_PREFIX + operation]
    assert described["operationId"] == operation
    headers = [resolve(parameter) for parameter in described["parameters"]]
    assert [header["name"] for header in headers] == ["Client-Id", "Request-Time", "Signature"]
    for header in headers:
        assert header["in"] == "header"
        assert header["required"] is True
        assert header["description"]
        assert re.fullmatch(header["schema"]["pattern"], header["example"])
    assert described["security"] == [{"requestSignature": []}]
    assert described["requestBody"]["required"] is True
    content = described["requestBody"]["content"]
    assert list(content) == ["application/json"]
    assert content["application/json"]["examples"]
    assert {int(status) for status in described["responses"]} == STATUSES[operation]


@pytest.mark.parametrize("path", sorted(DOCUMENT["paths"]))
def test_answers_have_the_codes_of_their_status(path: str):
    ((_, described),) = DOCUMENT["paths"][path].items()
    for status, reference in described["responses"].items():
        response = resolve(reference)
        assert set(response["content"]) == {"application/json"}
        assert response["headers"]["Request-Id"] == {"$ref": "#/components/headers/Request-Id"}
        content = response["content"]["application/json"]
        codes = codes_in(content["schema"])
        assert all(TABLE[ResultCode(code)].http == int(status) for code in codes), (path, status)
        if status != "200":
            expected = {code.value for code, meaning in TABLE.items() if meaning.http == int(status)}
            assert codes == expected - {"NOT_FOUND", "METHOD_NOT_ALLOWED"}
            assert set(content["examples"]) == codes


def test_the_headers_of_refusals():
    responses = DOCUMENT["components"]["responses"]
    assert set(responses["TooManyRequests"]["headers"]) == {
        "Request-Id",
        "Retry-After",
        "RateLimit-Policy",
        "RateLimit",
    }
    assert set(responses["Busy"]["headers"]) == {"Request-Id", "Retry-After"}
    assert set(responses["MethodNotAllowed"]["headers"]) == {"Request-Id", "Allow"}


def test_every_result_code_is_somewhere_in_the_answers():
    assert codes_in(DOCUMENT["paths"]) | codes_in(DOCUMENT["components"]["responses"]) | codes_in(
        DOCUMENT["components"]["schemas"]["Notification"]
    ) == {code.value for code in ResultCode}


def test_bounds_are_those_of_the_wire_types():
    schemas = DOCUMENT["components"]["schemas"]
    create = schemas["CreateQROrderRequest"]["properties"]
    assert create["paymentRequestId"]["maxLength"] == 64
    assert create["paymentRequestId"]["pattern"] == messages.VISIBLE_ASCII
    assert create["productCode"]["maxLength"] == 32
    assert create["paymentNotifyUrl"]["maxLength"] == 2048
    assert create["paymentNotifyUrl"]["format"] == "uri"
    assert create["extendInfo"]["maxLength"] == 2048
    assert schemas["Amount"]["properties"]["value"]["maximum"] == messages.MAX_VALUE
    assert schemas["DescribedOrder"]["required"] == ["orderDescription"]
    for name in ("Order", "DescribedOrder"):
        assert "exactly five parts" in schemas[name]["properties"]["transactionAddress"]["description"]
    assert schemas["InquiryPaymentRequest"]["anyOf"] == [
        {"required": ["paymentId"]},
        {"required": ["paymentRequestId"]},
    ]


@pytest.mark.parametrize("operation", messages.REQUESTS)
def test_requests_may_have_members_of_their_own_and_answers_may_not(operation: str):
    described = SIGNED[messages.PATH_PREFIX + operation]
    asked = described["requestBody"]["content"]["application/json"]
    for example in asked["examples"].values():
        assert validator(asked["schema"]).is_valid({**example["value"], "aMemberOfTheirOwn": 1})
    for status in described["responses"]:
        answered = resolve(described["responses"][status])["content"]["application/json"]
        for example in answered["examples"].values():
            value = example["value"]
            assert not validator(answered["schema"]).is_valid({**value, "undocumented": 1})
            grown = {**value, "result": {**value["result"], "undocumented": 1}}
            assert not validator(answered["schema"]).is_valid(grown)
            if "paymentAmount" in value:
                grown = {**value, "paymentAmount": {**value["paymentAmount"], "undocumented": 1}}
                assert not validator(answered["schema"]).is_valid(grown)


def test_answers_that_contradict_themselves_are_not_allowed():
    def answered(operation: str, name: str) -> tuple[jsonschema_rs.Draft202012Validator, dict[str, Any]]:
        content = SIGNED[messages.PATH_PREFIX + operation]["responses"]["200"]["content"]["application/json"]
        return validator(content["schema"]), content["examples"][name]["value"]

    retail, paid = answered("retailPay", "paid")
    _, waiting = answered("retailPay", "waiting")
    assert not retail.is_valid({**waiting, "paymentTime": paid["paymentTime"]})
    assert not retail.is_valid({name: member for name, member in paid.items() if name != "paymentTime"})
    assert not retail.is_valid({"result": {**paid["result"]}})
    inquiry, failed = answered("inquiryPayment", "failed")
    assert not inquiry.is_valid({**failed, "paymentStatus": "SUCCESS"})
    assert not inquiry.is_valid({**failed, "failureCode": "REPEAT_REQUEST"})
    assert not inquiry.is_valid({name: member for name, member in failed.items() if name != "failureCode"})


@given(st.text("|a\n", max_size=24))
def test_the_pattern_of_an_address_is_five_parts(text: str):
    pattern = DOCUMENT["components"]["schemas"]["Order"]["properties"]["transactionAddress"]["pattern"]
    matches = jsonschema_rs.is_valid({"pattern": pattern}, text)
    assert matches == (text.count("||") == 4)


@given(st.from_regex(r"\A-?[0-9]{1,4}(\.[0-9]{1,3})?\Z"), st.sampled_from(["latitude", "longitude"]))
def test_the_pattern_of_a_coordinate_is_its_range(text: str, name: str):
    pattern = DOCUMENT["components"]["schemas"]["Order"]["properties"][name]["pattern"]
    try:
        whole = {
            "productCode": "p",
            "paymentRequestId": "r",
            "paymentAmount": {"currency": "EUR", "value": 1},
        }
        fields.read({**whole, "order": {"orderDescription": "x", name: text}}, messages.LinkPayCreateRequest)
    except fields.FieldsRefused:
        read = False
    else:
        read = True
    assert jsonschema_rs.is_valid({"pattern": pattern}, text) == read


# Examples


@pytest.mark.parametrize(("path", "item"), [pytest.param(*place, id=place[0]) for place in media_types()])
def test_an_example_follows_its_schema(path: str, item: dict[str, Any]):
    shown = item.get("examples", {"example": {"value": item.get("example")}})
    for name, example in shown.items():
        validator(item["schema"]).validate(example["value"])
        assert name == "example" or example["summary"]


@pytest.mark.parametrize("operation", messages.REQUESTS)
def test_an_example_request_is_one_that_the_service_reads(operation: str):
    asked = SIGNED[messages.PATH_PREFIX + operation]["requestBody"]["content"]["application/json"]
    for example in asked["examples"].values():
        assert fields.read(example["value"], messages.REQUESTS[operation])


def test_the_first_request_is_the_golden_one_with_its_signature():
    vector = golden.REQUESTS[0]
    described = SIGNED[vector["path"]]
    example = described["requestBody"]["content"]["application/json"]["examples"]["smallest"]["value"]
    assert json.dumps(example, separators=(",", ":")) == vector["body"]
    shown = {header["name"]: header["example"] for header in map(resolve, described["parameters"])}
    assert shown == {
        "Client-Id": vector["clientId"],
        "Request-Time": vector["requestTime"],
        "Signature": vector["signatureHeader"],
    }


def test_the_webhook_is_the_golden_one_with_its_signature():
    vector = golden.NOTIFICATIONS[0]
    webhook = DOCUMENT["webhooks"]["payment"]["post"]
    example = webhook["requestBody"]["content"]["application/json"]["examples"]["succeeded"]["value"]
    body = json.dumps(example, separators=(",", ":"))
    assert body == vector["body"]
    shown = {header["name"]: header["example"] for header in map(resolve, webhook["parameters"])}
    assert shown["Event-Id"] == example["eventId"]
    signed = signing.notification_string(vector["path"], shown["Request-Time"], body.encode())
    header = signing.parse_header(shown["Signature"])
    signing.verify(golden.public_key(), header.signature, signed)


def test_the_signature_pattern_takes_what_is_written():
    header = signing.write_header(17, bytes(range(256)))
    assert re.fullmatch(SIGNATURE_PATTERN, header)
    for wrong in (header + "=", header.replace("keyVersion=17", "keyVersion=0"), header[:-2], header.upper()):
        assert not re.fullmatch(SIGNATURE_PATTERN, wrong)


# The webhook


@pytest.mark.parametrize("name", ["payment", "test"])
def test_the_webhook_says_what_acknowledges(name):
    webhook = DOCUMENT["webhooks"][name]["post"]
    assert set(webhook["responses"]) == {"2XX", "3XX", "429", "503", "default"}
    acknowledgement = validator(webhook["responses"]["2XX"]["content"]["application/json"]["schema"])
    assert acknowledgement.is_valid({})
    assert acknowledgement.is_valid({"result": {"resultStatus": ResultStatus.S}})
    assert not acknowledgement.is_valid({"result": {"resultStatus": ResultStatus.F}})
    headers = {resolve(parameter)["name"] for parameter in webhook["parameters"]}
    counted = {"Event-Id", "Event-Sequence", "Delivery-Attempt"}
    assert headers == {"Request-Time", "Signature", "User-Agent"} | counted


@pytest.mark.parametrize("name", ["payment", "test"])
def test_a_notification_may_get_new_members(name):
    webhook = DOCUMENT["webhooks"][name]["post"]["requestBody"]["content"]["application/json"]
    for example in webhook["examples"].values():
        assert validator(webhook["schema"]).is_valid({**example["value"], "new": 1})


def test_nobody_takes_a_test_for_a_payment():
    payment, test = (
        webhook["post"]["requestBody"]["content"]["application/json"]["schema"]
        for webhook in DOCUMENT["webhooks"].values()
    )
    for example in TEST_NOTIFICATIONS.values():
        assert validator(test).is_valid(example["value"])
        assert not validator(test).is_valid({**example["value"], "test": False})
        assert not validator(payment).is_valid(example["value"])
    for example in NOTIFICATIONS.values():
        assert not validator(test).is_valid(example["value"])


def test_the_window_is_told_as_it_is():
    assert timedelta(minutes=5) == MAX_SKEW
    assert "5 minutes" in DOCUMENT["components"]["securitySchemes"]["requestSignature"][
        "description"
    ].replace("\n", " ")
