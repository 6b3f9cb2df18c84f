"""TLS: the certificate is of the host in the URL, whatever address it is dialled at."""

import asyncio
import ssl
import time

import pytest

from certificates import Authority
from endpoints import OK, Endpoint, Names, Talk, answering, outbound, post
from payaccept.adapters.outbound.dialling import make_tls_context
from payaccept.domain.delivery import Answered, Unreachable

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {"shop_example": [["127.0.0.1"]]}
CLOSED = Unreachable("the connection was closed during the TLS handshake")


async def test_the_name_of_the_url_is_asked_for_and_the_answer_comes_over_tls(authority: Authority):
    context = authority.serving("shop.example")
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with (
        Endpoint(answering(OK), tls=context) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES)) as client,
    ):
        first = await post(client, endpoint.url(host="shop.example"))
        second = await post(client, endpoint.url(host="shop.example"))
        assert (first.outcome, first.answer) == (Answered(200), b"{}")
        assert second.outcome == Answered(200)
        assert endpoint.connections == 1
        assert endpoint.requests[0].headers["host"] == f"shop.example:{endpoint.port}"
    assert asked == ["shop.example"]
    assert first.timing.tls_us is not None
    assert second.timing.tls_us is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_certificate_for_an_address_serves_a_url_with_the_address(host: str, authority: Authority):
    asked: list[str | None] = []
    context = authority.serving(host)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with (
        Endpoint(answering(OK), host=host, tls=context) as endpoint,
        outbound(tls=authority.trusting()) as client,
    ):
        assert (await post(client, endpoint.url())).outcome == Answered(200)
    assert asked == [None]  # an address is no server name (RFC 6066)


@pytest.mark.parametrize(
    ("names", "fault", "words"),
    [
        (["other.example"], {}, "the certificate is not valid for this host"),
        (["127.0.0.1"], {}, "the certificate is not valid for this host"),
        (["*.shop.example"], {}, "the certificate is not valid for this host"),
        (["shop.example"], {"from_days": -3, "until_days": -1}, "the certificate has expired"),
        (["shop.example"], {"from_days": 1, "until_days": 2}, "the certificate is not valid yet"),
        (["shop.example"], {"self_signed": True}, "the certificate is self-signed"),
    ],
)
async def test_a_certificate_that_is_not_good_is_refused_before_anything_is_sent(
    names: list[str], fault: dict[str, int], words: str, authority: Authority
):
    async with (
        Endpoint(answering(OK), tls=authority.serving(*names, **fault)) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES)) as client,
    ):
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == Unreachable(words)
        assert exchange.timing.connect_us is not None
        assert exchange.timing.tls_us is None
        assert not endpoint.requests


async def test_an_issuer_that_this_machine_does_not_trust_is_refused(authority: Authority):
    async with (
        Endpoint(answering(OK), tls=authority.serving("shop.example")) as endpoint,
        outbound(resolver=Names(**NAMES)) as client,
    ):
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == Unreachable(
            "the certificate's issuer is unknown, or an intermediate certificate is missing"
        )


async def test_a_certificate_for_the_name_does_not_serve_the_bare_address(authority: Authority):
    async with (
        Endpoint(answering(OK), tls=authority.serving("shop.example")) as endpoint,
        outbound(tls=authority.trusting()) as client,
    ):
        exchange = await post(client, endpoint.url())
        assert exchange.outcome == Unreachable("the certificate is not valid for this host")


def over_plain_tcp(endpoint: Endpoint) -> str:
    return f"https://shop.example:{endpoint.port}/"


async def hang(talk: Talk) -> None:
    await talk.hang()


async def drip(talk: Talk) -> None:
    """The beginning of a record that never gets whole."""
    await talk.reader.read(1)
    await talk.drip(b"\x16\x03\x03\x40\x00" + b"\x02" * 1000, 0.02)


@pytest.mark.parametrize("behave", [hang, drip])
async def test_the_deadline_is_over_the_handshake(behave, authority: Authority):
    async with (
        Endpoint(behave) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES), timeout_s=0.3) as client,
    ):
        begun = time.perf_counter()
        exchange = await post(client, over_plain_tcp(endpoint))
        took_s = time.perf_counter() - begun
    assert exchange.outcome == Unreachable("no complete answer within 0.3 s")
    assert exchange.timing.tls_us is None
    assert 0.29 <= took_s <= 0.55


async def test_the_connection_is_closed_when_the_handshake_is_given_up(authority: Authority):
    ended = asyncio.Event()

    async def behave(talk: Talk) -> None:
        await talk.reader.read()
        ended.set()

    async with (
        Endpoint(behave) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES), timeout_s=0.2) as client,
    ):
        await post(client, over_plain_tcp(endpoint))
        async with asyncio.timeout(1):
            await ended.wait()


async def close(talk: Talk) -> None:
    """At once."""


async def close_after_the_hello(talk: Talk) -> None:
    await talk.reader.read(1)


async def speak_first(talk: Talk) -> None:
    await talk.say(b"220 mail.example ESMTP\r\n")
    await talk.hang()


async def answer_in_plain(talk: Talk) -> None:
    await talk.reader.read(1)
    await talk.say(b"HTTP/1.1 400 The plain HTTP request was sent to HTTPS port\r\n\r\n")
    await talk.hang()


@pytest.mark.parametrize(
    ("behave", "outcomes"),
    [
        (close, {CLOSED}),
        (close_after_the_hello, {CLOSED}),
        (speak_first, {Unreachable("TLS failed")}),
        (answer_in_plain, {Unreachable("TLS failed")}),
    ],
)
async def test_what_is_no_tls_is_told_in_words(behave, outcomes, authority: Authority):
    async with (
        Endpoint(behave) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES), timeout_s=2) as client,
    ):
        for _ in range(5):
            assert (await post(client, over_plain_tcp(endpoint))).outcome in outcomes


async def test_an_old_version_of_tls_is_refused(authority: Authority):
    context = authority.serving("shop.example")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with (
        Endpoint(answering(OK), tls=context) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES)) as client,
    ):
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome in {Unreachable("TLS failed"), CLOSED}
        assert exchange.timing.tls_us is None
        assert not endpoint.requests


async def test_the_deployments_own_context_checks_certificates_and_names_and_wants_tls_1_2():
    context = make_tls_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


async def test_a_body_over_tls_that_never_ends_is_left(authority: Authority):
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await talk.say(b"z" * 65536)

    async with (
        Endpoint(behave, tls=authority.serving("shop.example")) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES), timeout_s=3) as client,
    ):
        exchange = await post(client, endpoint.url(host="shop.example"))
        assert exchange.outcome == Answered(200)
        assert exchange.answer == b"z" * 4096


async def test_an_answer_without_a_length_ends_with_the_tls_connection(authority: Authority):
    async def behave(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\nhello")

    async with (
        Endpoint(behave, tls=authority.serving("shop.example")) as endpoint,
        outbound(tls=authority.trusting(), resolver=Names(**NAMES)) as client,
    ):
        for _ in range(2):
            exchange = await post(client, endpoint.url(host="shop.example"))
            assert (exchange.outcome, exchange.answer) == (Answered(200), b"hello")
