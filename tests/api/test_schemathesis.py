"""The API against its own description: generated requests, right ones and wrong ones, signed and not.

The kernel runs in this process; each generated request is serialised once, and the bytes that are signed are
the bytes that are sent. Everything is derandomised, so that a run that fails fails again.
"""

import asyncio
import copy
import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import httpx
import jsonschema_rs
import pytest
import pytest_asyncio
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.config import (
    CoveragePhaseConfig,
    GenerationConfig,
    PhasesConfig,
    ProjectConfig,
    ProjectsConfig,
    SchemathesisConfig,
)
from schemathesis.specs.openapi import checks

from deployment import Register
from merchant import CREATES, Merchant
from payaccept.api import openapi
from payaccept.domain.money import active_currencies
from payaccept.wire.codes import PAYMENT_FAILURES
from payaccept.wire.messages import PATH_PREFIX, REQUESTS

DOCUMENT: dict[str, Any] = json.loads(openapi.document())
CONFORMANCE = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.allow_header_conformance,
    checks.unsupported_method,
]
NUMBERS = itertools.count()
GOOD_ID = re.compile(r"[!-~]{1,64}", re.ASCII)
CREATED: list[str] = []
ANSWERED: Counter[tuple[str, int]] = Counter()
# What answers a request that was not signed, whatever else is wrong with it.
REFUSED = {401, 403, 405, 415}

Send = Callable[[Case, Merchant | None], httpx.Response]

SCENARIO = jsonschema_rs.Draft202012Validator(
    {"$ref": "#/components/schemas/Scenario", "components": DOCUMENT["components"]}
)

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
SCRIPTS = st.fixed_dictionaries(
    {},
    optional={
        # UNKNOWN is left out: it asks retailPay for an honest 503.
        "outcome": st.sampled_from(["SUCCESS", "FAIL", "MANUAL"]),
        "resultCode": st.sampled_from(sorted(PAYMENT_FAILURES)),
        "delayMs": st.integers(0, 86_400_000),
        "webhook": st.lists(st.sampled_from(["duplicate", "late", "tampered"]), max_size=3),
    },
).filter(SCENARIO.is_valid)
EXTEND_INFO = st.one_of(
    st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.booleans(), st.none()), max_size=4),
    st.fixed_dictionaries({"sandbox": SCRIPTS}),
)
schemathesis.openapi.format("extend-info", EXTEND_INFO.map(json.dumps))
schemathesis.openapi.format(
    "uri",
    st.from_regex(r"\Ahttps://[a-z]{1,12}\.example(:[1-9][0-9]{0,3})?/[a-z0-9/_-]{0,40}(\?[a-z=&]{0,9})?\Z"),
)


def bodies_only() -> dict[str, Any]:
    """The description of the signed operations without what signs them: the test does that itself.

    What a schema can only describe is named, so that a right request is one that this deployment takes.
    """
    document = copy.deepcopy(DOCUMENT)
    document["paths"] = {path: item for path, item in document["paths"].items() if "post" in item}
    for item in document["paths"].values():
        del item["post"]["parameters"], item["post"]["security"]
    schemas = document["components"]["schemas"]
    currencies = sorted(active_currencies())
    schemas["Amount"]["properties"]["currency"]["enum"] = currencies
    schemas["SettlementStrategy"]["properties"]["settlementCurrency"]["enum"] = currencies
    for request in ("CreateQROrderRequest", "RetailPayRequest", "LinkPayCreateRequest"):
        schemas[request]["properties"]["extendInfo"] = {"type": "string", "format": "extend-info"}
    return document


def headers_only() -> dict[str, Any]:
    """The whole description, but with any body for the signed operations: unsigned, none is ever read."""
    document = copy.deepcopy(DOCUMENT)
    for item in document["paths"].values():
        if "post" in item:
            item["post"]["requestBody"]["content"]["application/json"] = {"schema": {"type": "object"}}
    return document


def load(document: dict[str, Any], max_examples: int, *, coverage: bool) -> schemathesis.BaseSchema:
    """Load a description, with a bound on how much is generated."""
    generation = GenerationConfig(
        max_examples=max_examples, deterministic=True, no_shrink=True, allow_x00=False
    )
    project = ProjectConfig(
        base_url="http://api.test",
        generation=generation,
        phases=PhasesConfig(coverage=CoveragePhaseConfig(enabled=coverage)),
    )
    return schemathesis.openapi.from_dict(
        document, config=SchemathesisConfig(seed=1, projects=ProjectsConfig(default=project))
    )


SIGNED = load(bodies_only(), 70, coverage=False)
UNSIGNED = load(headers_only(), 20, coverage=True)


@SIGNED.hook("map_body")
def write_whole_numbers(context: schemathesis.HookContext, body: Any) -> Any:
    """Write 1.0 as 1: to JSON Schema they are the same integer, to the protocol they are not."""
    amount = body.get("paymentAmount") if isinstance(body, dict) else None
    value = amount.get("value") if isinstance(amount, dict) else None
    if isinstance(value, float) and value.is_integer():
        return {**body, "paymentAmount": {**amount, "value": int(value)}}
    return body


@SIGNED.hook("map_body")
def name_what_exists(context: schemathesis.HookContext, body: Any) -> Any:
    """Use most identifiers once, and ask about payments that exist: one good identifier for another."""
    given = body.get("paymentRequestId") if isinstance(body, dict) else None
    if not isinstance(given, str) or GOOD_ID.fullmatch(given) is None:
        return body
    assert context.operation is not None
    number = next(NUMBERS)
    if context.operation.path.endswith("inquiryPayment"):
        exists = bool(CREATED) and number % 2 == 1
        return {**body, "paymentRequestId": CREATED[number % len(CREATED)]} if exists else body
    return {**body, "paymentRequestId": f"{number}-{given}"[:64]} if number % 4 else body


quickly = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def send(api: httpx.AsyncClient) -> AsyncIterator[Send]:
    """A function for tests that are not coroutines: sends a case, signed by a merchant or as it is."""
    loop = asyncio.get_running_loop()

    def send_case(case: Case, merchant: Merchant | None) -> httpx.Response:
        prepared = requests.Request(**case.as_transport_kwargs(base_url="http://api.test")).prepare()
        body = prepared.body or b""
        body = body if isinstance(body, bytes) else body.encode()
        headers = dict(prepared.headers)
        if merchant is not None:
            headers |= merchant.headers(case.formatted_path, body)
        raw = [(name.encode("latin-1"), _bytes(value)) for name, value in headers.items()]
        assert prepared.method is not None
        assert prepared.url is not None
        return loop.run_until_complete(
            api.send(httpx.Request(prepared.method, prepared.url, headers=raw, content=body))
        )

    yield send_case


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def merchants(register: Register) -> dict[str, Merchant]:
    """A merchant for each way to create a payment; the first one's payments are inquired."""
    made = {PATH_PREFIX + operation: await register(operation) for operation in CREATES}
    return made | {PATH_PREFIX + "inquiryPayment": made[PATH_PREFIX + "createQROrder"]}


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")


@quickly
@SIGNED.parametrize()
def test_signed_requests(case: Case, send: Send, merchants: dict[str, Merchant]):
    """Right bodies are taken, wrong ones refused, and every answer is a described one."""
    response = send(case, merchants[case.path])
    ANSWERED[case.path, response.status_code] += 1
    if response.status_code == HTTPStatus.OK and case.path.endswith("createQROrder"):
        CREATED.append(response.json()["paymentRequestId"])
    case.validate_response(
        response, checks=[*CONFORMANCE, checks.positive_data_acceptance, checks.negative_data_rejection]
    )


@quickly
@UNSIGNED.parametrize()
def test_unsigned_requests(case: Case, send: Send):
    """No headers that were not made with the key are let in, whatever they look like."""
    response = send(case, None)
    case.validate_response(response, checks=[*CONFORMANCE, checks.missing_required_header])
    if case.path.startswith(PATH_PREFIX):
        assert response.status_code in REFUSED


@pytest.mark.parametrize("operation", REQUESTS)
def test_what_was_generated_was_right_and_wrong(operation: str):
    """Nothing above is proved by requests that are all refused."""
    if not ANSWERED:
        pytest.skip("test_signed_requests did not run")
    path = PATH_PREFIX + operation
    assert ANSWERED[path, 200] >= 3
    assert ANSWERED[path, 400] >= 3
    assert ANSWERED[path, 404 if operation == "inquiryPayment" else 409] >= 1
