"""Request-Time: its shape, and five minutes either way with both ends included. The clock is passed in."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from deployment import recorder_of
from merchant import PREFIX, Merchant, compact, request_of
from payaccept.adapters.postgres.directory import PostgresDirectory
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.adapters.postgres.rate_limits import PostgresRateLimits
from payaccept.api.failure_limit import AddressFailureLimit
from payaccept.api.gate import Answer, Gate, SignedRequest
from payaccept.domain.merchant import Environment
from payaccept.operations.key_proofs import KeyProofs
from payaccept.wire.codes import ResultCode

PATH = PREFIX + "createQROrder"
NOW = datetime(2026, 3, 1, 0, 2, 3, 456_789, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gate(database_url) -> AsyncIterator[Gate]:
    directory = PostgresDirectory(database_url, process="test")
    limits = PostgresRateLimits(database_url)
    merchants = PostgresMerchants(database_url, process="test")
    recorder = recorder_of(database_url, directory.knows)
    directory.start()
    limits.start()
    failures = AddressFailureLimit(None)
    yield Gate(Environment.SANDBOX, directory, limits, failures, proofs=KeyProofs(merchants), uses=recorder)
    await recorder.close()
    await merchants.close()
    await limits.close()
    await directory.close()


async def ask(gate: Gate, merchant: Merchant, request_time: str, now: datetime = NOW) -> Answer:
    """Pass a rightly signed request through the gate at `now`; the endpoint says it was reached."""

    async def endpoint(_merchant: object, _signed: object, at: datetime) -> tuple[ResultCode, bytes]:
        assert at == now
        return ResultCode.SUCCESS, b"reached"

    body = compact(request_of("createQROrder"))
    headers = {
        name.lower(): value for name, value in merchant.headers(PATH, body, request_time or "x").items()
    }
    headers["request-time"] = request_time
    request = SignedRequest("POST", PATH, "", "192.0.2.1", lambda name: (headers[name],), body)
    return await gate.pass_through(request, endpoint, now)


def written(at: datetime, digits: int = 6) -> str:
    """An instant with so many digits of its fraction."""
    text = at.strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{at.microsecond:06d}"[: digits + 1] if digits else "") + "Z"


@pytest.mark.parametrize(
    "offset",
    [timedelta(minutes=5), timedelta(minutes=-5), timedelta(), timedelta(minutes=5) - MICROSECOND],
)
async def test_within_five_minutes_a_request_is_let_through(gate, merchant, offset):
    assert (await ask(gate, merchant, written(NOW + offset))).body == b"reached"


@pytest.mark.parametrize("sign", [1, -1])
async def test_a_microsecond_further_it_is_not(gate, merchant, sign):
    at = NOW + sign * (timedelta(minutes=5) + MICROSECOND)
    answer = await ask(gate, merchant, written(at))
    assert (answer.status, answer.code) == (401, "TIMESTAMP_INVALID")
    assert f"300 s {'ahead of' if sign > 0 else 'behind'}" in answer.detail


@pytest.mark.parametrize(
    "now", [NOW.replace(microsecond=0), NOW.replace(microsecond=0) + timedelta(hours=12)]
)
async def test_whole_seconds_have_both_ends_included_too(gate, merchant, now):
    for seconds, reached in ((300, True), (-300, True), (301, False), (-301, False)):
        answer = await ask(gate, merchant, written(now + timedelta(seconds=seconds), digits=0), now)
        assert (answer.body == b"reached") is reached, seconds


@pytest.mark.parametrize("digits", range(1, 10))
async def test_a_fraction_may_have_up_to_nine_digits(gate, merchant, digits):
    request_time = f"2026-03-01T00:02:03.{'4' * digits}Z"
    assert (await ask(gate, merchant, request_time)).body == b"reached"


@pytest.mark.parametrize(
    "request_time",
    [
        "2026-02-28T23:58:03Z",  # over the end of a month
        "2026-03-01T00:00:00Z",
    ],
)
async def test_midnight_and_the_end_of_a_month_are_no_edges(gate, merchant, request_time):
    assert (await ask(gate, merchant, request_time)).body == b"reached"


async def test_a_leap_day_is_a_real_date_in_leap_years_only(gate, merchant):
    leap = datetime(2028, 2, 29, 12, tzinfo=UTC)
    assert (await ask(gate, merchant, "2028-02-29T12:00:00Z", leap)).body == b"reached"
    answer = await ask(gate, merchant, "2026-02-29T12:00:00Z", NOW)
    assert answer.code == "TIMESTAMP_INVALID"
    assert "no real date" in answer.detail


MALFORMED = [
    "",
    "2026-03-01T00:02:03",
    "2026-03-01T00:02:03z",
    "2026-03-01t00:02:03Z",
    "2026-03-01 00:02:03Z",
    "2026-03-01T00:02:03+00:00",
    "2026-03-01T00:02:03+00:00Z",
    "2026-03-01T01:02:03+01:00",
    "2026-03-01T00:02:03.Z",
    "2026-03-01T00:02:03.4444444444Z",
    "2026-03-01T00:02:03,4Z",
    "2026-03-01T00:02Z",
    "2026-03-01T000203Z",
    "20260301T000203Z",
    "2026-060T00:02:03Z",
    "2026-W09-7T00:02:03Z",
    "2026-3-1T00:02:03Z",
    "+2026-03-01T00:02:03Z",
    "02026-03-01T00:02:03Z",
    "2026-03-01T24:00:00Z",
    "2026-03-01T00:60:00Z",
    "2026-02-28T23:59:60Z",
    "2026-00-01T00:02:03Z",
    "2026-03-32T00:02:03Z",
    "0000-03-01T00:02:03Z",
    " 2026-03-01T00:02:03Z",
    "2026-03-01T00:02:03Z ",
    "2026-03-01T00:02:03Z\n",
    "2026\u201003\u201001T00:02:03Z",
    "\uff12026-03-01T00:02:03Z",
    "2026-03-01T00:02:0\u0663Z",
    "1772323323",
    "1772323323000",
    "Sun, 01 Mar 2026 00:02:03 GMT",
    "now",
    "2" * 100_000,
]


@pytest.mark.parametrize("request_time", MALFORMED, ids=lambda text: ascii(text)[:30])
async def test_no_other_shape_is_a_request_time(gate, merchant, request_time):
    answer: Any = await ask(gate, merchant, request_time)
    assert (answer.status, answer.code) == (401, "TIMESTAMP_INVALID")
