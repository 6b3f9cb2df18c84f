"""A post as it should be: what goes out, what comes back, and which connection it takes."""

import asyncio

import pytest

from endpoints import BODY, OK, Endpoint, FullListener, Names, Talk, answering, outbound, post
from payaccept.adapters.outbound.connection import Connection
from payaccept.adapters.outbound.pool import Pool
from payaccept.domain.delivery import Answered, Unreachable
from processes import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("", "/"),
        ("/", "/"),
        ("?a=b", "/?a=b"),
        ("/hook?shop=7&x=%7E", "/hook?shop=7&x=%7E"),
        ("/a/../b//c/./d;p=1", "/a/../b//c/./d;p=1"),
        ("/caf%C3%A9/%7Euser/a%2fb/100%", "/caf%C3%A9/%7Euser/a%2fb/100%"),
        ("/a|b/[c]/{d}?e^f`g", "/a|b/[c]/{d}?e^f`g"),
        ("/with?query#fragment?no#query", "/with?query"),
        ("/@user:pass@host", "/@user:pass@host"),
        ("/http://elsewhere.example/", "/http://elsewhere.example/"),
    ],
)
async def test_the_path_and_the_query_go_out_exactly_as_given(given, sent):
    async with Endpoint(answering(OK)) as endpoint, outbound() as client:
        await post(client, endpoint.url(given))
        assert endpoint.requests[0].line == f"POST {sent} HTTP/1.1"


async def test_a_request_has_the_given_headers_a_host_a_length_and_no_other():
    async with Endpoint(answering(OK)) as endpoint, outbound() as client:
        exchange = await post(client, endpoint.url())
        [request] = endpoint.requests
    assert request.body == BODY
    assert request.headers == {
        "host": f"127.0.0.1:{endpoint.port}",
        "content-type": "application/json",
        "event-id": "evt_1",
        "content-length": str(len(BODY)),
    }
    assert exchange.outcome == Answered(200)
    assert exchange.answer == b"{}"


async def test_a_name_is_looked_up_and_the_host_header_names_it_in_lower_case():
    names = Names(shop_example=[["127.0.0.1"]])
    async with Endpoint(answering(OK)) as endpoint, outbound(resolver=names) as client:
        exchange = await post(client, endpoint.url(host="SHOP.Example"))
        assert exchange.outcome == Answered(200)
        assert endpoint.requests[0].headers["host"] == f"shop.example:{endpoint.port}"
    assert names.asked == ["shop.example"]


async def test_an_ipv6_address_is_dialled_and_stands_in_brackets_in_the_host_header():
    async with Endpoint(answering(OK), host="::1") as endpoint, outbound() as client:
        exchange = await post(client, f"http://[0:0::1]:{endpoint.port}/")
        assert exchange.outcome == Answered(200)
        assert endpoint.requests[0].headers["host"] == f"[::1]:{endpoint.port}"


async def test_an_address_that_refuses_is_followed_by_the_next_one():
    names = Names(shop_example=[["127.0.0.3", "::1", "127.0.0.1"]])
    async with Endpoint(answering(OK)) as endpoint, outbound(resolver=names) as client:
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == Answered(200)


async def test_an_address_that_does_not_answer_holds_up_the_next_one_for_a_moment_only():
    names = Names(shop_example=[["127.0.0.1", "127.0.0.2"]])
    with FullListener() as full:
        other = Endpoint(answering(OK), host="127.0.0.2", port=full.port)
        async with other, outbound(resolver=names) as client:
            exchange = await post(client, other.url(host="shop.example"))
            assert exchange.outcome == Answered(200)
            assert 200_000 < exchange.timing.connect_us < 900_000


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n", 304, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n", 200, b"hello"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, b""),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 20 + OK, 200, b"{}"),
        (b"HTTP/1.1 500\r\nContent-Length: 0\r\n\r\n", 500, b""),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x00", 200, b"\x1f\x8b\x00"),
        (b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n", 200, b""),
    ],
)  # fmt: skip
async def test_every_form_of_answer_is_read_and_its_connection_serves_the_next_request(answer, status, body):
    async with Endpoint(answering(answer)) as endpoint, outbound() as client:
        for _ in range(3):
            exchange = await post(client, endpoint.url())
            assert (exchange.outcome.status, exchange.answer) == (status, body)
        assert endpoint.connections == 1
        assert all("cookie" not in request.headers for request in endpoint.requests)


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", 101, b""),
    ],
)
async def test_an_answer_that_ends_its_connection_is_read_and_the_next_request_takes_a_new_one(
    answer, status, body
):
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(answer)

    async with Endpoint(behave) as endpoint, outbound() as client:
        for _ in range(2):
            exchange = await post(client, endpoint.url())
            assert (exchange.outcome.status, exchange.answer) == (status, body)
        assert endpoint.connections == 2


async def test_the_timing_has_the_stages_and_none_of_those_a_kept_connection_skips():
    async def behave(talk: Talk) -> None:
        while True:
            await talk.hear()
            await asyncio.sleep(0.05)
            await talk.drip(OK, 0.001)

    names = Names(shop_example=[["127.0.0.1"]])
    async with Endpoint(behave) as endpoint, outbound(resolver=names) as client:
        first = (await post(client, endpoint.url(host="shop.example"))).timing
        second = (await post(client, endpoint.url(host="shop.example"))).timing
    assert first.resolve_us is not None
    assert first.connect_us is not None
    assert first.tls_us is None
    assert (second.resolve_us, second.connect_us, second.tls_us) == (None, None, None)
    for timing in (first, second):
        assert 45_000 < timing.first_byte_us < timing.total_us - 20_000
    assert first.total_us >= first.resolve_us + first.connect_us + first.first_byte_us


async def test_a_redirect_is_not_followed_and_says_so():
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(
            f"HTTP/1.1 307 Here\r\nLocation: {endpoint.url('/there')}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        await talk.hear()

    async with Endpoint(behave) as endpoint, outbound() as client:
        exchange = await post(client, endpoint.url())
        await asyncio.sleep(0.05)
        assert exchange.outcome == Answered(307, refusal="HTTP 307: redirects are not followed")
        assert [request.target for request in endpoint.requests] == ["/hook"]


async def test_no_proxy_of_the_environment_is_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with Endpoint(answering(OK)) as endpoint, outbound() as client:
        assert (await post(client, endpoint.url())).outcome == Answered(200)


async def test_a_kept_connection_that_was_closed_meanwhile_is_replaced_within_the_same_attempt():
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(OK)
        if talk.number == 1:
            await talk.hear()  # and hangs up without a word
        else:
            await talk.hang()

    async with Endpoint(behave) as endpoint, outbound() as client:
        await post(client, endpoint.url())
        exchange = await post(client, endpoint.url())
        assert exchange.outcome == Answered(200)
        assert exchange.timing.connect_us is not None
        assert endpoint.connections == 2
        assert len(endpoint.requests) == 3


async def test_a_new_connection_that_is_closed_without_an_answer_is_not_replaced():
    async def behave(talk: Talk) -> None:
        await talk.hear()

    async with Endpoint(behave) as endpoint, outbound() as client:
        exchange = await post(client, endpoint.url())
        assert exchange.outcome == Unreachable("the connection was closed before an answer came")
        assert endpoint.connections == 1


async def test_the_replacement_of_a_kept_connection_is_not_replaced_again():
    async def behave(talk: Talk) -> None:
        await talk.hear()
        if talk.number == 1:
            await talk.say(OK)
            await talk.hear()

    async with Endpoint(behave) as endpoint, outbound() as client:
        await post(client, endpoint.url())
        exchange = await post(client, endpoint.url())
        assert exchange.outcome == Unreachable("the connection was closed before an answer came")
        assert endpoint.connections == 2


async def test_a_kept_connection_that_has_begun_to_answer_is_not_replaced():
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(OK)
        await talk.hear()
        await talk.say(b"HTTP/1.1 2")

    async with Endpoint(behave) as endpoint, outbound() as client:
        await post(client, endpoint.url())
        exchange = await post(client, endpoint.url())
        assert exchange.outcome == Unreachable("the connection was closed in the middle of the answer")
        assert endpoint.connections == 1


@pytest.mark.parametrize("late", [False, True])
async def test_what_is_said_beyond_an_answer_is_never_taken_for_the_next_one(late):
    async def behave(talk: Talk) -> None:
        await talk.hear()
        extra = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
        await talk.say(OK if late else OK + extra)
        if late:
            await asyncio.sleep(0.02)
            await talk.say(extra)
        await talk.hang()

    async with Endpoint(behave) as endpoint, outbound() as client:
        for _ in range(2):
            assert (await post(client, endpoint.url())).outcome == Answered(200)
            await asyncio.sleep(0.06)
        assert endpoint.connections == 2


@pytest.mark.parametrize("garbage", [b"X", b"\x00" * 1000, b"HTTP/1.1 200 OK\r\n\r\n" * 100])
async def test_garbage_after_an_answer_spoils_the_connection_and_not_the_answer(garbage):
    async with Endpoint(answering(OK + garbage)) as endpoint, outbound() as client:
        for _ in range(2):
            assert (await post(client, endpoint.url())).outcome == Answered(200)
        assert endpoint.connections == 2


async def test_an_answer_before_the_request_was_read_counts_and_its_connection_is_not_kept():
    async def behave(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
        await talk.hang()

    async with Endpoint(behave) as endpoint, outbound() as client:
        exchange = await post(client, endpoint.url(), b"x" * 20_000_000)  # more than fits on the way
        assert exchange.outcome == Answered(503, retry_after_s=7.0)
        await post(client, endpoint.url())
        assert endpoint.connections == 2


async def test_an_answer_to_no_request_at_all_and_a_close_count_as_that_answer():
    async def behave(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 429 Later\r\nConnection: close\r\n\r\nfull")
        talk.writer.write_eof()
        await talk.reader.read()

    async with Endpoint(behave) as endpoint, outbound() as client:
        for _ in range(5):
            exchange = await post(client, endpoint.url())
            assert (exchange.outcome, exchange.answer) == (Answered(429), b"full")


async def test_requests_at_the_same_time_have_connections_of_their_own():
    async def behave(talk: Talk) -> None:
        while True:
            request = await talk.hear()
            await asyncio.sleep(0.05)
            body = request.target.encode()
            await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async with Endpoint(behave) as endpoint, outbound() as client:
        for _ in range(2):
            exchanges = await asyncio.gather(
                *(post(client, endpoint.url(f"/{number:02}")) for number in range(20))
            )
            assert [exchange.answer for exchange in exchanges] == [b"/%02d" % number for number in range(20)]
        assert endpoint.connections == 20


async def test_idle_connections_are_closed_after_their_time_and_the_oldest_when_there_are_too_many():
    lost: list[Connection] = []
    loop = asyncio.get_running_loop()
    pool = Pool(loop, idle_s=0.1, max_idle=3)

    def on_lost(connection: Connection) -> None:
        lost.append(connection)
        pool.forget(connection)

    async with Endpoint(answering(OK)) as endpoint:
        made = []
        for _ in range(5):
            _, connection = await loop.create_connection(
                lambda: Connection(loop, on_lost), endpoint.host, endpoint.port
            )
            made.append(connection)
            pool.keep(("http", endpoint.host, endpoint.port), connection)
        await asyncio.sleep(0.02)
        assert lost == made[:2]
        assert len(pool) == 3
        taken = pool.take(("http", endpoint.host, endpoint.port))
        assert taken is made[4]
        assert pool.take(("https", endpoint.host, endpoint.port)) is None
        await asyncio.sleep(0.15)
        assert set(lost) == set(made[:4])
        assert len(pool) == 0
        taken.close()
        await asyncio.sleep(0.01)


async def test_a_post_that_is_given_up_closes_its_connection():
    closed = asyncio.Event()

    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.reader.read()
        closed.set()

    async with Endpoint(behave) as endpoint, outbound() as client:
        attempt = asyncio.create_task(post(client, endpoint.url()))
        await eventually(lambda: endpoint.requests, "the request arrives")
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        async with asyncio.timeout(2):
            await closed.wait()
