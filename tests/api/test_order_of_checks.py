"""The checks of a signed request, one by one, and which answers where two things are wrong."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from draft import CREATE, PATH, Draft
from merchant import Merchant, compact, private_key, request_of
from raw_asgi import exchange

CAP = 64 * 1024


class Cast(msgspec.Struct):
    """The merchants of these tests."""

    shop: Merchant
    limited: Merchant
    inactive: Merchant
    keyless: Merchant
    rotated: Merchant


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cast(register, administration, api) -> Cast:
    now = datetime.now(UTC)
    limited = await register("Limited", rate_limit=1)
    inactive = await register("Inactive")
    await administration.merchants.deactivate(inactive.client_id, now)
    keyless = await register("Keyless", keys=0)
    keyless.use_key(1, private_key(1))
    rotated = await register("Rotated", keys=2)
    await administration.merchants.retire_key(rotated.client_id, 1, now)
    await limited.create(api, CREATE)
    return Cast(await register("Shop"), limited, inactive, keyless, rotated)


@pytest.fixture
def draft(cast) -> Draft:
    return Draft(cast.shop)


# What can be wrong, in the order of the checks: its name, the part of the request it takes (two that
# take the same part cannot meet), how it is done, and code and words of the answer.
def _changes(**values: Any) -> Callable[[Draft, Cast], None]:
    def apply(draft: Draft, _cast: Cast) -> None:
        for name, value in values.items():
            setattr(draft, name, value)

    return apply


def _leaves_out(name: str) -> Callable[[Draft, Cast], None]:
    return lambda draft, _cast: draft.left_out.add(name)


def _is_by(name: str) -> Callable[[Draft, Cast], None]:
    def apply(draft: Draft, cast: Cast) -> None:
        draft.merchant = getattr(cast, name)

    return apply


FAULTS: list[tuple[str, str, Callable[[Draft, Cast], None], str, str]] = [
    ("unknown path", "path", _changes(path="/v1/payments/create"), "NOT_FOUND", "nothing at this path"),
    ("another method", "method", _changes(method="PUT"), "METHOD_NOT_ALLOWED", "POST"),
    ("large body", "body", _changes(body=b" " * (CAP + 1)), "PAYLOAD_TOO_LARGE", "64 KiB"),
    ("no Client-Id", "client", _leaves_out("Client-Id"), "INVALID_CLIENT_ID", "Client-Id is missing"),
    ("no Request-Time", "time", _leaves_out("Request-Time"), "TIMESTAMP_INVALID", "Request-Time is missing"),
    ("no Signature", "signature", _leaves_out("Signature"), "INVALID_SIGNATURE", "Signature is missing"),
    ("other type", "type", _changes(content_type="text/json"), "UNSUPPORTED_MEDIA_TYPE", "application/json"),
    (
        "malformed time",
        "time",
        _changes(request_time="2026-13-01T00:00:00Z"),
        "TIMESTAMP_INVALID",
        "no real date",
    ),
    ("early time", "time", _changes(request_time="2026-01-01T00:00:00Z"), "TIMESTAMP_INVALID", "behind"),
    ("malformed client", "client", _changes(client_id="shop"), "INVALID_CLIENT_ID", "not known here"),
    ("other environment", "client", _changes(client_id="live_" + "0" * 24), "ACCESS_DENIED", "production"),
    (
        "unknown client",
        "client",
        _changes(client_id="sandbox_" + "0" * 24),
        "INVALID_CLIENT_ID",
        "not known here",
    ),
    ("inactive client", "merchant", _is_by("inactive"), "INVALID_CLIENT_ID", "not active"),
    ("malformed header", "signature", _changes(signature_header="RSA {signature}"), "INVALID_SIGNATURE", ""),
    (
        "no keyVersion",
        "signature",
        _changes(signature_header="algorithm=SHA256withRSA, signature={signature}"),
        "ACCESS_DENIED",
        "lacks a keyVersion",
    ),
    ("no key", "merchant", _is_by("keyless"), "ACCESS_DENIED", "no public key is registered"),
    (
        "unassigned keyVersion",
        "version",
        _changes(key_version=99),
        "ACCESS_DENIED",
        "keyVersion 99 was never",
    ),
    (
        "retired keyVersion",
        "merchant+version",
        _is_by("rotated"),
        "INVALID_SIGNATURE",
        "keyVersion 1 is retired",
    ),
    ("other bytes signed", "signed", _changes(signed_body=b"{}"), "INVALID_SIGNATURE", ""),
    ("limit reached", "merchant", _is_by("limited"), "REQUEST_TRAFFIC_EXCEED_LIMIT", "more than 1 requests"),
    ("no JSON", "body", _changes(body=b'{"a":1,}'), "PARAM_ILLEGAL", "the body is not JSON"),
    ("illegal field", "body", _changes(body=b'{"bizType":"X"}'), "PARAM_ILLEGAL", "bizType is"),
]


def _pairs() -> list[Any]:
    pairs = []
    for first, second in itertools.combinations(FAULTS, 2):
        if not set(first[1].split("+")) & set(second[1].split("+")):
            pairs.append(pytest.param(first, second, id=f"{first[0]} before {second[0]}"))
    return pairs


def _apply(fault: tuple[str, str, Callable[[Draft, Cast], None], str, str], draft: Draft, cast: Cast) -> None:
    fault[2](draft, cast)
    if fault[0] == "retired keyVersion":
        draft.key_version = 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[0])
async def test_each_thing_wrong_is_answered_with_its_code(kernel, cast, draft, fault):
    _apply(fault, draft, cast)
    answer = await draft.send(kernel)
    assert (answer.code, fault[4] in answer.message) == (fault[3], True), answer.message


@pytest.mark.parametrize(("first", "second"), _pairs())
async def test_of_two_things_wrong_the_earlier_check_answers(kernel, cast, draft, first, second):
    for fault in (second, first):
        _apply(fault, draft, cast)
    answer = await draft.send(kernel)
    assert (answer.code, first[4] in answer.message) == (first[3], True), answer.message


def test_the_pairs_leave_no_fault_out():
    assert {fault[0] for pair in _pairs() for fault in pair.values} == {fault[0] for fault in FAULTS}
    assert len(_pairs()) > 180


# 1: the query string, the size of the body


@pytest.mark.parametrize("query", ["?", "?a=b", "?paymentId=x&productCode=", "?%00%ff", "?" + "q" * 5000])
async def test_a_query_string_is_ignored(kernel, draft, query):
    draft.query = query
    answer = await draft.send(kernel)
    assert (answer.status, answer.code) == (200, "ACCEPTED")


async def test_a_query_string_that_was_signed_is_diagnosed(kernel, draft):
    signer = draft.merchant
    headers = signer.headers(f"{PATH}?a=b", draft.body)
    answer = await exchange(kernel, "POST", f"{PATH}?a=b", headers.items(), draft.body)
    assert answer.code == "INVALID_SIGNATURE"
    assert "query" in answer.message


def _padded_request(size: int) -> bytes:
    request = compact(request_of(CREATE))
    return request + b" " * (size - len(request))


@pytest.mark.parametrize("pieces", [1, 7, 64])
async def test_a_body_of_exactly_64_kib_is_taken_however_it_comes(kernel, cast, pieces):
    body = _padded_request(CAP)
    step = -(-CAP // pieces)
    parts: Any = body if pieces == 1 else [body[at : at + step] for at in range(0, CAP, step)]
    answer = await exchange(kernel, "POST", PATH, cast.shop.headers(PATH, body).items(), parts)
    assert (answer.status, answer.code) == (200, "ACCEPTED")


async def test_a_body_announced_as_larger_is_refused_before_any_of_it_is_read(kernel, cast):
    body = _padded_request(CAP + 1)
    answer = await exchange(kernel, "POST", PATH, cast.shop.headers(PATH, body).items(), body)
    assert (answer.status, answer.code, answer.pieces_read) == (413, "PAYLOAD_TOO_LARGE", 0)


async def test_an_unannounced_body_is_refused_as_soon_as_it_is_larger(kernel, cast):
    body = _padded_request(1024 * 1024)
    pieces = [body[at : at + 1024] for at in range(0, len(body), 1024)]
    answer = await exchange(kernel, "POST", PATH, cast.shop.headers(PATH, body).items(), pieces)
    assert (answer.status, answer.code, answer.pieces_read) == (413, "PAYLOAD_TOO_LARGE", 65)


async def test_a_content_length_that_is_too_small_does_not_open_the_cap(kernel, cast):
    body = _padded_request(CAP + 1)
    headers = [*cast.shop.headers(PATH, body).items(), ("Content-Length", "5")]
    answer = await exchange(kernel, "POST", PATH, headers, [body])
    assert (answer.status, answer.code) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("length", ["-1", "abc", "", "1e9", "\xb2"])
async def test_a_nonsensical_content_length_does_no_harm(kernel, cast, length):
    body = compact(request_of(CREATE))
    headers = [*cast.shop.headers(PATH, body).items(), ("Content-Length", length)]
    answer = await exchange(kernel, "POST", PATH, headers, [body])
    assert (answer.status, answer.code) == (200, "ACCEPTED")


# 2: headers once each, the media type


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Client-Id", "INVALID_CLIENT_ID"),
        ("Request-Time", "TIMESTAMP_INVALID"),
        ("Signature", "INVALID_SIGNATURE"),
        ("Content-Type", "UNSUPPORTED_MEDIA_TYPE"),
    ],
)
async def test_a_header_must_be_there_exactly_once(kernel, draft, header, code):
    draft.doubled = {header}
    answer = await draft.send(kernel)
    assert answer.code == code
    assert f"{header} is there more than once" in answer.message
    draft.doubled, draft.left_out = set(), {header}
    answer = await draft.send(kernel)
    assert answer.code == code
    assert f"{header} is missing" in answer.message


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        'application/json ; charset="utf-8"',
        "Application/JSON",
        "application/json ",
    ],
)
async def test_json_in_utf_8_is_announced_in_several_ways(kernel, draft, content_type):
    draft.content_type = content_type
    assert (await draft.send(kernel)).code == "ACCEPTED"


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "json",
        "application/json;",
        "application/json; charset=utf-16",
        "application/json; charset=utf-8; charset=utf-8",
        "application/json; boundary=x",
        "application/json, application/json",
        "application/vnd.api+json",
        "application/jsonx",
        "text/json",
        "application/json\u00a0",
        "multipart/form-data",
    ],
)
async def test_any_other_media_type_is_refused(kernel, draft, content_type):
    draft.content_type = content_type
    answer = await draft.send(kernel)
    assert (answer.status, answer.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


# 4: whose request it is


@pytest.mark.parametrize(
    "client_id",
    [
        "sandbox_",
        "sandbox_" + "g" * 24,
        "SANDBOX_" + "0" * 24,
        "sandbox_" + "0" * 25,
        " sandbox_" + "0" * 24,
        "x" * 5000,
    ],
)
async def test_a_client_id_of_another_shape_is_unknown(kernel, draft, client_id):
    draft.client_id = client_id
    answer = await draft.send(kernel)
    assert (answer.status, answer.code) == (401, "INVALID_CLIENT_ID")


async def test_a_live_client_id_is_recognised_without_being_looked_up(kernel, draft):
    draft.client_id = draft.merchant.client_id.replace("sandbox_", "live_")
    answer = await draft.send(kernel)
    assert (answer.status, answer.code) == (403, "ACCESS_DENIED")
    assert "production" in answer.message
    assert "sandbox" in answer.message


# 8: the body


@pytest.mark.parametrize(
    "body", [b"", b" ", b"null", b"[]", b'"x"', b"{", b"{}{}", b"\xff{}", b"\xef\xbb\xbf{}"]
)
async def test_a_signed_body_that_is_no_json_object_is_illegal(kernel, draft, body):
    draft.body = body
    answer = await draft.send(kernel)
    assert (answer.status, answer.code) == (400, "PARAM_ILLEGAL")
    assert answer.message.startswith("the body ")
