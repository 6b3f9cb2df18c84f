"""What the API records of requests: counted in memory, written about once a second, bounded, and never in the way."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from deployment import NOW, after, fetch_all, recorder_of, run_sql
from payaccept.adapters.postgres.traffic import PostgresTraffic
from payaccept.domain.traffic import MAX_BODY, RefusedRequest, presentable
from payaccept.operations import recorder as limits
from payaccept.operations.recorder import Recorder

CODE = "286012020262467128"
MINUTE = NOW.replace(second=0, microsecond=0)
AWAY = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest_asyncio.fixture(loop_scope="session")
async def client_id(administration) -> str:
    return (await administration.merchants.create("Shop", NOW)).client_id


@pytest_asyncio.fixture(loop_scope="session")
async def recorder(database_url) -> AsyncIterator[Recorder]:
    made = recorder_of(database_url, lambda client_id: client_id.startswith("sandbox_"))
    yield made
    await made.close()


def refused(client_id: str, number: int = 1, at: datetime = NOW, **changes: Any) -> RefusedRequest:
    """A request as the kernel hands it on."""
    request = RefusedRequest(
        client_id=client_id,
        request_id=f"req_{number:028d}",
        received_at=at,
        method="POST",
        target="/v1/payments/createQROrder",
        status=400,
        result_code="PARAM_ILLEGAL",
        message="paymentAmount is required",
        skew_ms=None,
        address="192.0.2.1",
        host="api.test",
        user_agent="shop/1",
        content_type="application/json",
        request_time="2026-03-01T11:59:58.500Z",
        signature_header="algorithm=SHA256withRSA",
        body=b'{"a":1}',
        body_bytes=7,
        body_is_whole=True,
    )
    return replace(request, **changes)


def uses(url: str, client_id: str) -> list[tuple[Any, ...]]:
    return fetch_all(
        url,
        "SELECT key_version, minute, uses, least_skew_ms, greatest_skew_ms FROM key_minutes"
        " WHERE client_id = %s ORDER BY minute, key_version",
        client_id,
    )


def counts(url: str, client_id: str) -> list[tuple[Any, ...]]:
    return fetch_all(
        url,
        "SELECT result_code, refused, only_counted FROM refusal_minutes WHERE client_id = %s ORDER BY 1",
        client_id,
    )


def kept(url: str, client_id: str) -> list[str]:
    rows = fetch_all(
        url, "SELECT request_id FROM refused_requests WHERE client_id = %s ORDER BY request_id", client_id
    )
    return [row[0] for row in rows]


async def test_the_uses_of_keys_are_counted_by_the_minute(recorder, database_url, client_id):
    for version, seconds, skew in ((1, 0, 0.25), (1, 30, -1.5), (2, 31, 2)):
        recorder.used(client_id, version, after(seconds), timedelta(seconds=skew))
    await recorder.flush()
    recorder.used(client_id, 1, after(45), timedelta(seconds=3))
    await recorder.flush()
    recorder.used(client_id, 1, after(61), timedelta(0))
    await recorder.flush()
    assert uses(database_url, client_id) == [
        (1, MINUTE, 3, -1500, 3000),
        (2, MINUTE, 1, 2000, 2000),
        (1, after(60), 1, 0, 0),
    ]
    rows = fetch_all(
        database_url,
        "SELECT key_version, uses, first_used_at, last_used_at FROM key_uses WHERE client_id = %s ORDER BY 1",
        client_id,
    )
    assert rows == [(1, 4, NOW, after(61)), (2, 1, after(31), after(31))]


async def test_several_processes_add_up(recorder, database_url, client_id):
    other = recorder_of(database_url)
    for each in (recorder, other):
        each.used(client_id, 1, NOW, timedelta(seconds=1))
        each.refused(refused(client_id, 1 if each is other else 2))
        await each.flush()
    await other.close()
    assert uses(database_url, client_id) == [(1, MINUTE, 2, 1000, 1000)]
    assert counts(database_url, client_id) == [("PARAM_ILLEGAL", 2, 0)]
    assert len(kept(database_url, client_id)) == 2


async def test_a_refused_request_is_kept_as_it_came(recorder, database_url, client_id):
    recorder.refused(refused(client_id))
    await recorder.flush()
    [row] = fetch_all(
        database_url,
        "SELECT request_id, received_at, method, target, status, result_code, message, skew_ms, address, host,"
        " user_agent, content_type, request_time, signature_header, body, body_bytes, body_is_whole"
        " FROM refused_requests WHERE client_id = %s",
        client_id,
    )
    assert row == (
        *(f"req_{1:028d}", NOW, "POST", "/v1/payments/createQROrder", 400, "PARAM_ILLEGAL"),
        *("paymentAmount is required", -1500, "192.0.2.1", "api.test", "shop/1", "application/json"),
        *("2026-03-01T11:59:58.500Z", "algorithm=SHA256withRSA", b'{"a":1}', 7, True),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"body": f'{{"paymentAuthCode":"{CODE}"}}'.encode()},
        {"body": f'{{"productCode":"{CODE}"}}'.encode()},
        {"body": (" " * (MAX_BODY - 30) + f'{{"paymentAuthCode":"{CODE}"}}').encode()},
        {"body": f'{{"paymentAuthCode":"{CODE}"}}'.encode("utf-16")},
        {"message": f'bizType is "{CODE}", which is not one of its values'},
        {"target": f"/v1/payments/retailPay?paymentAuthCode={CODE}"},
        {"user_agent": f"till {CODE}"},
    ],
)
async def test_no_auth_code_is_kept(recorder, database_url, client_id, changes):
    recorder.refused(refused(client_id, **changes))
    await recorder.flush()
    [row] = fetch_all(
        database_url, "SELECT r::text, r.body FROM refused_requests AS r WHERE client_id = %s", client_id
    )
    assert CODE not in row[0]
    for encoding in ("utf-8", "utf-16"):
        assert CODE.encode(encoding)[2:] not in row[1]
    if "body" in changes:
        [(whole,)] = fetch_all(
            database_url, "SELECT body_is_whole FROM refused_requests WHERE client_id = %s", client_id
        )
        assert not whole


def test_a_long_body_is_cut_and_said_to_be():
    request = presentable(refused("sandbox_1", body=b"x" * 60_000))
    assert (len(request.body), request.body_bytes, request.body_is_whole) == (MAX_BODY, 60_000, False)
    assert presentable(refused("sandbox_1")).body_is_whole


def test_a_time_that_is_none_has_no_skew():
    assert presentable(refused("sandbox_1", request_time="yesterday")).skew_ms is None
    assert presentable(refused("sandbox_1", request_time="9999-12-31T23:59:59Z")).skew_ms > 2**40


async def test_what_a_database_cannot_hold_does_not_stop_the_rest(recorder, database_url, client_id):
    recorder.refused(refused(client_id, 1, target="/\0", host="\udcff", signature_header="\0é\udcff"))
    recorder.refused(refused(client_id, 2))
    await recorder.flush()
    assert len(kept(database_url, client_id)) == 2


async def test_of_a_flood_the_last_are_kept_and_all_are_counted(recorder, database_url, client_id):
    for number in range(1, 501):
        recorder.refused(refused(client_id, number))
    await recorder.flush()
    assert kept(database_url, client_id) == [f"req_{n:028d}" for n in range(491, 501)]
    assert counts(database_url, client_id) == [("PARAM_ILLEGAL", 500, 490)]


async def test_one_merchants_flood_costs_another_nothing(recorder, database_url, administration, client_id):
    quiet = (await administration.merchants.create("Quiet", NOW)).client_id
    recorder.refused(refused(quiet))
    for number in range(5000):
        recorder.refused(refused(client_id, number))
        recorder.refused(refused(f"stranger_{number}", number))
    await recorder.flush()
    assert len(kept(database_url, quiet)) == 1


async def test_strangers_are_kept_when_they_turn_out_to_be_merchants(database_url, client_id):
    """A process that has just started has heard of nobody."""
    recorder = recorder_of(database_url, lambda _: False)
    recorder.refused(refused(client_id, 1, result_code="TIMESTAMP_INVALID", status=401))
    recorder.refused(refused("sandbox_nobody", 2, result_code="TIMESTAMP_INVALID", status=401))
    await recorder.close()
    assert len(kept(database_url, client_id)) == 1
    assert counts(database_url, client_id) == [("TIMESTAMP_INVALID", 1, 0)]
    assert kept(database_url, "sandbox_nobody") == counts(database_url, "sandbox_nobody") == []


async def test_who_is_certainly_no_merchant_takes_no_place(database_url):
    recorder = recorder_of(database_url, lambda _: False)
    recorder.refused(refused("sandbox_unknown", result_code="INVALID_CLIENT_ID"))
    recorder.refused(refused("x" * 65))
    recorder.refused(refused("\0"))
    recorder.refused(refused("é"))
    assert recorder._held == recorder._counts == {}
    await recorder.close()


async def test_memory_is_bounded_whoever_asks(database_url):
    recorder = recorder_of(database_url, lambda _: True)
    for number in range(3000):
        recorder.refused(refused(f"sandbox_{number}", number, body=bytes(8192)))
    assert recorder._held_bytes <= limits.MAX_HELD_BYTES
    for number in range(5000):
        recorder.refused(refused(f"sandbox_{number}", number, body=b""))
        recorder.used(f"sandbox_{number % 7}", 1, after(number), timedelta(0))
    assert recorder._held_count <= limits.MAX_HELD
    assert recorder._held_count == sum(map(len, recorder._held.values()))


async def test_while_the_database_is_away_the_uses_wait_and_the_last_refusals_too(database_url, client_id):
    recorder = recorder_of(AWAY, lambda _: True)
    for second in range(4):
        recorder.used(client_id, 1, after(second), timedelta(seconds=second))
        for number in range(8):
            recorder.refused(refused(client_id, second * 100 + number, at=after(second)))
        await recorder.flush()
    there = PostgresTraffic(database_url, process="test")
    await recorder._store.close()
    recorder._store = there
    await recorder.close()
    assert uses(database_url, client_id) == [(1, MINUTE, 4, 0, 3000)]
    assert counts(database_url, client_id) == [("PARAM_ILLEGAL", 32, 22)]
    assert kept(database_url, client_id)[-1] == f"req_{307:028d}"
    assert len(kept(database_url, client_id)) == limits.PER_MERCHANT


async def test_a_database_that_refuses_the_records_stops_nothing(fresh_database, caplog):
    url = fresh_database()
    run_sql(url, "ALTER TABLE key_minutes RENAME COLUMN uses TO used")
    recorder = recorder_of(url, lambda _: True)
    recorder.used("sandbox_1", 1, NOW, timedelta(0))
    recorder.refused(refused("sandbox_1"))
    await recorder.flush()
    assert "recording requests failed" in caplog.text
    assert "refused requests were not recorded" in caplog.text
    run_sql(url, "ALTER TABLE key_minutes RENAME COLUMN used TO uses")
    recorder.used("sandbox_1", 1, NOW, timedelta(0))
    await recorder.close()
    assert len(uses(url, "sandbox_1")) == 1


async def test_each_merchant_keeps_its_newest_and_nobody_the_old(database_url, administration, client_id):
    other = (await administration.merchants.create("Other", NOW)).client_id
    store = PostgresTraffic(database_url, process="test")
    for owner, count in ((client_id, 30), (other, 5)):
        requests = [refused(owner, number, at=after(-number)) for number in range(count)]
        await store.record([], [], requests)
    await store.trim([client_id, other], 10)
    assert kept(database_url, client_id) == [f"req_{n:028d}" for n in range(20, 30)]
    assert len(kept(database_url, other)) == 5
    await store.expire(after(-3), after(-3))
    assert kept(database_url, client_id) == []
    assert kept(database_url, other) == [f"req_{n:028d}" for n in range(4)]
    await store.close()


async def test_records_are_tidied_up_now_and_then(database_url, client_id):
    now = [after(0)]
    recorder = recorder_of(database_url, lambda _: True, clock=lambda: now[0])
    recorder.used(client_id, 1, NOW - timedelta(days=2), timedelta(0))
    recorder.refused(refused(client_id, 1, at=NOW - timedelta(days=8)))
    recorder.refused(refused(client_id, 2))
    await recorder.flush()
    now[0] = after(3601)
    await recorder._tidy()
    assert uses(database_url, client_id) == []
    assert kept(database_url, client_id) == [f"req_{2:028d}"]
    await recorder.close()
