"""Endpoints that mean harm or are broken: each costs its deadline at most, and a few KiB."""

import asyncio
import os
import socket
import struct
import time
import tracemalloc
from collections.abc import Sequence

import pytest

from certificates import Authority
from endpoints import OK, Endpoint, FullListener, Names, Talk, answering, outbound, post
from payaccept.adapters.outbound.answer import MAX_BODY_BYTES
from payaccept.domain.delivery import Answered, Unreachable
from processes import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIMEOUT_S = 0.3
LATENESS_S = 0.25  # a machine with much to do
TOO_LATE = Unreachable("no complete answer within 0.3 s")
TOO_LONG = Unreachable("the headers of the answer are longer than 32 KiB")
NOT_HTTP = Unreachable("the answer is not HTTP/1.1")
MIDWAY = Unreachable("the connection was closed in the middle of the answer")


async def hang_at_once(talk: Talk) -> None:
    await talk.hang()


async def hang_after_the_request(talk: Talk) -> None:
    await talk.hear()
    await talk.hang()


async def drip_headers(talk: Talk) -> None:
    await talk.hear()
    await talk.drip(OK * 10, 0.02)


async def drip_a_body(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    await talk.drip(b"x" * 1000, 0.02)


async def drip_a_body_without_length(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\n\r\n")
    await talk.drip(b"x" * 1000, 0.02)


async def drip_interim_answers(talk: Talk) -> None:
    await talk.hear()
    while True:
        await talk.say(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await asyncio.sleep(0.02)


async def promise_a_body(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    await talk.hang()


async def never_end_the_chunks(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")
    await talk.hang()


@pytest.mark.parametrize(
    "behave",
    [
        hang_at_once,
        hang_after_the_request,
        drip_headers,
        drip_a_body,
        drip_a_body_without_length,
        drip_interim_answers,
        promise_a_body,
        never_end_the_chunks,
    ],
)
async def test_the_deadline_is_over_everything_and_exact(behave):
    async with Endpoint(behave) as endpoint, outbound(timeout_s=TIMEOUT_S) as client:
        begun = time.perf_counter()
        exchange = await post(client, endpoint.url())
        took_s = time.perf_counter() - begun
    assert exchange.outcome == TOO_LATE
    assert TIMEOUT_S - 0.01 <= took_s <= TIMEOUT_S + LATENESS_S
    assert abs(exchange.timing.total_us / 1e6 - took_s) < 0.05
    assert exchange.answer == b""


async def test_the_deadline_is_over_a_connection_that_is_never_accepted():
    with FullListener() as full:
        async with outbound(timeout_s=TIMEOUT_S) as client:
            begun = time.perf_counter()
            exchange = await post(client, f"http://127.0.0.1:{full.port}/")
            took_s = time.perf_counter() - begun
    assert exchange.outcome == TOO_LATE
    assert exchange.timing.connect_us is None
    assert TIMEOUT_S - 0.01 <= took_s <= TIMEOUT_S + LATENESS_S


async def test_the_deadline_is_over_names_that_are_not_answered():
    class Slow(Names):
        async def resolve(self, host: str) -> Sequence[str]:
            await asyncio.sleep(60)
            return await super().resolve(host)

    async with outbound(timeout_s=TIMEOUT_S, resolver=Slow()) as client:
        begun = time.perf_counter()
        exchange = await post(client, "http://shop.example/")
        took_s = time.perf_counter() - begun
    assert exchange.outcome == TOO_LATE
    assert exchange.timing.resolve_us is None
    assert TIMEOUT_S - 0.01 <= took_s <= TIMEOUT_S + LATENESS_S


async def test_the_retry_on_a_new_connection_has_what_is_left_of_the_time():
    async def behave(talk: Talk) -> None:
        await talk.hear()
        if talk.number > 1:
            await talk.hang()
        await talk.say(OK)
        await talk.hear()
        await asyncio.sleep(0.2)

    async with Endpoint(behave) as endpoint, outbound(timeout_s=TIMEOUT_S) as client:
        await post(client, endpoint.url())
        begun = time.perf_counter()
        exchange = await post(client, endpoint.url())
        took_s = time.perf_counter() - begun
        assert endpoint.connections == 2
    assert exchange.outcome == TOO_LATE
    assert TIMEOUT_S - 0.01 <= took_s <= TIMEOUT_S + LATENESS_S


async def ten_megabytes_of_headers(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\n")
    for _ in range(160):
        await talk.say(b"X-More: headers and headers and headers and headers and headers\r\n" * 1000)


async def one_header_of_ten_megabytes(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nX-Huge: ")
    for _ in range(160):
        await talk.say(b"h" * 65536)


async def one_name_of_a_header_without_end(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\n")
    while True:
        await talk.say(b"X" * 65536)


async def a_status_line_without_end(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 ")
    while True:
        await talk.say(b"O" * 65536)


async def flood_of_interim_answers(talk: Talk) -> None:
    await talk.hear()
    while True:
        await talk.say(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n" * 1000)


async def flood_of_continues(talk: Talk) -> None:
    await talk.hear()
    while True:
        await talk.say(b"HTTP/1.1 100 Continue\r\n\r\n")


async def flood_before_the_request(talk: Talk) -> None:
    while True:
        await talk.say(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


async def body_without_end(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await talk.say(b"z" * 65536)


async def chunks_without_end(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await talk.say(b"1000\r\n" + b"z" * 4096 + b"\r\n")


async def a_huge_length(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
    while True:
        await talk.say(b"z" * 65536)


async def chunk_extensions_without_end(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=")
    while True:
        await talk.say(b"x" * 65536)


async def trailers_without_end(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    while True:
        await talk.say(b"X-Trailer: and another\r\n" * 1000)


@pytest.mark.parametrize(
    ("behave", "outcome"),
    [
        (ten_megabytes_of_headers, TOO_LONG),
        (one_header_of_ten_megabytes, TOO_LONG),
        (one_name_of_a_header_without_end, TOO_LONG),
        (a_status_line_without_end, TOO_LONG),
        (flood_of_interim_answers, TOO_LONG),
        (flood_of_continues, TOO_LONG),
        (body_without_end, Answered(200)),
        (chunks_without_end, Answered(200)),
        (a_huge_length, Answered(200)),
        (chunk_extensions_without_end, Answered(200)),
        (trailers_without_end, Answered(200)),
    ],
)
async def test_what_never_ends_is_left_soon_and_not_kept_in_memory(behave, outcome):
    async with Endpoint(behave) as endpoint, outbound(timeout_s=3) as client:
        await post(client, endpoint.url())
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            exchange = await post(client, endpoint.url())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert exchange.outcome == outcome
        assert len(exchange.answer) <= MAX_BODY_BYTES
        # What one read takes from the socket, twice, and what the endpoint itself holds to send.
        assert peak - before < 1_500_000
        assert endpoint.connections == 2


async def test_a_flood_before_the_request_is_not_kept_either():
    async with Endpoint(flood_before_the_request) as endpoint, outbound(timeout_s=3) as client:
        exchange = await post(client, endpoint.url())
        # Sooner or later than the request, as it happens.
        assert exchange.outcome in {TOO_LONG, Unreachable("the connection was closed before an answer came")}


async def reset(talk: Talk) -> None:
    await talk.hear()
    sock = talk.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.writer.transport.abort()


async def reset_midway(talk: Talk) -> None:
    await talk.hear()
    await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await asyncio.sleep(0.02)
    sock = talk.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.writer.transport.abort()


async def close_at_once(talk: Talk) -> None:
    """And hear nothing."""


def saying(data: bytes):
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(data)

    return behave


CLOSED = Unreachable("the connection was closed before an answer came")


@pytest.mark.parametrize(
    ("behave", "outcome"),
    [
        (reset, CLOSED),
        (reset_midway, MIDWAY),
        (close_at_once, CLOSED),
        (saying(b""), CLOSED),
        (saying(b"H"), MIDWAY),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"), MIDWAY),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), MIDWAY),
        (saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"), MIDWAY),
        (saying(b"HTTP/1.1 100 Continue\r\n\r\n"), MIDWAY),
        (saying(b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello"), NOT_HTTP),
        (saying(b"SSH-2.0-OpenSSH_9.2\r\n\x00\x01\xff\r\n\r\n"), NOT_HTTP),
        (saying(b"<html>hello</html>"), NOT_HTTP),
        (saying(b"\x15\x03\x01\x00\x02\x02\x16"), NOT_HTTP),
        (saying(b"ICY 200 OK\r\n\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 099 Low\r\n\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 20 OK\r\n\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 2000 OK\r\n\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), NOT_HTTP),
        (saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), NOT_HTTP),
        (saying(b"HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n"), NOT_HTTP),
    ],
)
async def test_what_is_no_whole_answer_is_told_in_words(behave, outcome):
    async with Endpoint(behave) as endpoint, outbound(timeout_s=3) as client:
        assert (await post(client, endpoint.url())).outcome == outcome


async def test_nobody_listens():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with outbound() as client:
            exchange = await post(client, f"http://127.0.0.1:{closed.getsockname()[1]}/")
    assert exchange.outcome == Unreachable("the connection was refused or could not be made")
    assert exchange.timing.connect_us is None
    assert exchange.timing.first_byte_us is None


async def test_many_hanging_endpoints_take_nothing_from_one_that_answers():
    async with (
        Endpoint(hang_after_the_request) as hanging,
        Endpoint(saying(OK)) as good,
        outbound(timeout_s=1) as client,
    ):
        held = [asyncio.create_task(post(client, hanging.url())) for _ in range(200)]
        await asyncio.sleep(0.3)
        begun = time.perf_counter()
        assert (await post(client, good.url())).outcome == Answered(200)
        assert time.perf_counter() - begun < LATENESS_S
        assert {(await task).outcome for task in held} == {Unreachable("no complete answer within 1 s")}


async def test_no_failure_leaves_a_descriptor_open(authority: Authority):
    def count() -> int:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - of a directory that changes meanwhile

    async def hang_until_left(talk: Talk) -> None:
        await talk.reader.read()

    names = Names(shop_example=[["127.0.0.1"]], two_example=[["127.0.0.1", "127.0.0.2"]])
    with FullListener() as full:
        async with (
            Endpoint(hang_until_left) as hanging,
            Endpoint(close_at_once) as closing,
            Endpoint(answering(OK), tls=authority.serving("other.example")) as wrong,
            Endpoint(flood_of_interim_answers) as flood,
            outbound(timeout_s=0.1, resolver=names) as client,
        ):
            urls = [
                hanging.url(),
                f"https://shop.example:{hanging.port}/",
                f"http://two.example:{full.port}/",
                closing.url(),
                f"https://shop.example:{closing.port}/",
                wrong.url(host="shop.example"),
                flood.url(),
                "http://127.0.0.1:1/",
                "http://unknown.example/",
            ]
            await asyncio.gather(*(post(client, url) for url in urls))
            before = await eventually(count, "there are descriptors")
            for _ in range(5):
                exchanges = await asyncio.gather(*(post(client, url) for url in urls))
                assert all(isinstance(exchange.outcome, Unreachable) for exchange in exchanges)
            await eventually(lambda: count() <= before, "all descriptors are closed again")
