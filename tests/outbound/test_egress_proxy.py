"""Through a proxy: a tunnel to an address that we have checked, and TLS with the endpoint itself inside it."""

import asyncio
import base64
import logging
import socket
import time

import pytest

from certificates import Authority
from endpoints import LOCAL, NEARBY, OK, Behaviour, Endpoint, Names, Request, Talk, answering, outbound, post
from payaccept.domain.delivery import Answered, Unreachable
from payaccept.domain.egress_proxy import EgressProxy

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def tunnelling(talk: Talk) -> None:
    """Do what a proxy does: connect to the address in the request, and pass everything on."""
    host, _, port = (await talk.hear()).target.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    await talk.say(CONNECTED)

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    try:
        await asyncio.gather(copy(talk.reader, writer), copy(reader, talk.writer), return_exceptions=True)
    finally:
        writer.close()


def through(proxy: Endpoint, login: str = "") -> EgressProxy:
    return EgressProxy.from_url(f"http://{login}{proxy.host}:{proxy.port}")


async def test_plain_http_goes_through_a_tunnel_to_the_checked_address():
    names = Names(shop_example=[["127.0.0.2"], ["127.0.0.1"]])
    async with (
        Endpoint(tunnelling) as proxy,
        Endpoint(answering(OK), host="127.0.0.2") as endpoint,
        outbound(NEARBY, resolver=names, proxy=through(proxy)) as client,
    ):
        for _ in range(2):
            exchange = await post(client, endpoint.url(host="shop.example"))
            assert exchange.outcome == Answered(200)
        place = f"127.0.0.2:{endpoint.port}"
        assert proxy.requests == [Request(f"CONNECT {place} HTTP/1.1", {"host": place}, b"")]
        assert endpoint.requests[0].line == "POST /hook HTTP/1.1"
        assert endpoint.requests[0].headers["host"] == f"shop.example:{endpoint.port}"
        assert proxy.connections == 1


async def test_tls_is_with_the_endpoint_and_not_with_the_proxy(authority: Authority):
    names = Names(shop_example=[["127.0.0.1"]])
    asked: list[str | None] = []
    context = authority.serving("shop.example")
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with (
        Endpoint(tunnelling) as proxy,
        Endpoint(answering(OK), tls=context) as endpoint,
        outbound(resolver=names, proxy=through(proxy), tls=authority.trusting()) as client,
    ):
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == Answered(200)
        assert exchange.timing.tls_us is not None
    assert asked == ["shop.example"]


async def test_an_ipv6_address_stands_in_brackets():
    async with (
        Endpoint(tunnelling) as proxy,
        Endpoint(answering(OK), host="::1") as endpoint,
        outbound(proxy=through(proxy)) as client,
    ):
        assert (await post(client, endpoint.url())).outcome == Answered(200)
        assert proxy.requests[0].target == f"[::1]:{endpoint.port}"


async def test_the_guard_stands_before_the_proxy():
    names = Names(shop_example=[["10.0.0.1"]])
    async with (
        Endpoint(tunnelling) as proxy,
        outbound(NEARBY, resolver=names, proxy=through(proxy)) as client,
    ):
        exchange = await post(client, "https://shop.example/")
        assert exchange.outcome == Unreachable("the host name leads to a private address")
        assert proxy.connections == 0


async def test_the_proxy_itself_may_have_a_name_and_a_private_address():
    names = Names(proxy_internal=[["127.0.0.1"]], shop_example=[["127.0.0.2"]])
    async with Endpoint(tunnelling) as proxy, Endpoint(answering(OK), host="127.0.0.2") as endpoint:
        given = EgressProxy(host="proxy.internal", port=proxy.port)
        async with outbound(NEARBY, resolver=names, proxy=given) as client:
            assert (await post(client, endpoint.url(host="shop.example"))).outcome == Answered(200)


async def test_a_password_goes_to_the_proxy_alone_and_into_no_log(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    async with (
        Endpoint(tunnelling) as proxy,
        Endpoint(answering(OK)) as endpoint,
        outbound(proxy=through(proxy, "me:s%40cret%3A@")) as client,
    ):
        exchange = await post(client, endpoint.url())
        sent = "Basic " + base64.b64encode(b"me:s@cret:").decode()
        assert proxy.requests[0].headers["proxy-authorization"] == sent
        assert "proxy-authorization" not in endpoint.requests[0].headers
    assert "s@cret" not in repr(exchange)
    assert "s@cret" not in caplog.text


async def test_the_next_address_is_tried_when_the_proxy_cannot_connect_to_one():
    async def behave(talk: Talk) -> None:
        if talk.number == 1:
            await talk.hear()
            await talk.say(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        else:
            await tunnelling(talk)

    names = Names(shop_example=[["127.0.0.9", "127.0.0.1"]])
    async with (
        Endpoint(behave) as proxy,
        Endpoint(answering(OK)) as endpoint,
        outbound(resolver=names, proxy=through(proxy)) as client,
    ):
        assert (await post(client, endpoint.url(host="shop.example"))).outcome == Answered(200)
        assert [request.target for request in proxy.requests] == [
            f"127.0.0.9:{endpoint.port}",
            f"127.0.0.1:{endpoint.port}",
        ]


def saying(data: bytes) -> Behaviour:
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(data)

    return behave


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (saying(b"HTTP/1.1 407 Who\r\n\r\n"), "the egress proxy could not connect: it answered HTTP 407"),
        (saying(b"HTTP/1.0 503 No\r\n\r\nsorry"), "the egress proxy could not connect: it answered HTTP 503"),
        (
            saying(b"HTTP/1.1 302 Go\r\nLocation: /\r\n\r\n"),
            "the egress proxy could not connect: it answered HTTP 302",
        ),
        (saying(b""), "the egress proxy closed the connection"),
        (saying(b"HTTP/1.1 200 OK\r\n"), "the egress proxy closed the connection"),
        (saying(b"SSH-2.0-OpenSSH\r\n\r\n"), "the answer of the egress proxy is not HTTP/1.1"),
        (saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), "the answer of the egress proxy is too long"),
        (saying(CONNECTED + OK), "the egress proxy sent something before it was asked"),
    ],
)
async def test_what_a_proxy_does_wrong_is_told_in_words(behave: Behaviour, words: str):
    async with Endpoint(behave) as proxy, outbound(LOCAL, proxy=through(proxy), timeout_s=2) as client:
        exchange = await post(client, "http://127.0.0.1:9/")
        assert exchange.outcome == Unreachable(words)


async def test_a_proxy_that_is_not_there():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        given = EgressProxy(host="127.0.0.1", port=closed.getsockname()[1])
        async with outbound(proxy=given) as client:
            exchange = await post(client, "http://127.0.0.1:9/")
    assert exchange.outcome == Unreachable("the egress proxy could not be reached")


async def hang(talk: Talk) -> None:
    await talk.hang()


async def drip(talk: Talk) -> None:
    await talk.drip(CONNECTED * 10, 0.02)


@pytest.mark.parametrize("behave", [hang, drip])
async def test_the_deadline_is_over_the_proxy_too(behave: Behaviour):
    async with Endpoint(behave) as proxy, outbound(proxy=through(proxy), timeout_s=0.3) as client:
        begun = time.perf_counter()
        exchange = await post(client, "https://127.0.0.1:9/")
        took_s = time.perf_counter() - begun
    # Byte by byte, the head is whole after a while, and what follows it was not asked for.
    assert isinstance(exchange.outcome, Unreachable)
    assert took_s <= 0.55
    if behave is hang:
        assert exchange.outcome == Unreachable("no complete answer within 0.3 s")
        assert took_s >= 0.29
