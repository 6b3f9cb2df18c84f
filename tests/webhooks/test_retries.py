"""Receivers that do not answer as they should: retried on schedule, until one attempt is acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import timedelta

import pytest
import pytest_asyncio

from traffic import ACKNOWLEDGE, Arrival, Behaviour, Receiver, Till, acknowledge, respond, verify

SCHEDULE_S = (0.4, 1.2, 0.6)  # as in conftest
TIMEOUT_S = 1.0
JITTER = 0.2
# From an attempt's end to the next arrival: the worker's poll, and a machine with much to do.
LATENESS_S = 2.0

Ended = Callable[..., Awaitable[tuple[str, int, str]]]


def status(number: int, body: bytes = b"", *headers: tuple[str, str]) -> Behaviour:
    async def behave(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
        await respond(writer, number, body, *headers)

    return behave


async def hang(_arrival: Arrival, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def trickle(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    """A good answer, byte by byte, far too slowly."""
    with suppress(OSError):
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0.1)


async def trickle_body(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    with suppress(OSError):
        for _ in range(300):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.1)


async def hang_up(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def hang_up_midway(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
    await writer.drain()
    writer.close()


async def huge_header(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    """10 MB of one header."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Huge: ")
    with suppress(OSError):
        for _ in range(160):
            writer.write(b"h" * 65536)
            await writer.drain()
        await respond(writer, 200)


async def endless_headers(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    with suppress(OSError):
        while True:
            writer.write(b"X-More: headers\r\n" * 1000)
            await writer.drain()


async def nonsense(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\x00\x01\x02\xff\xfe\r\n\r\n")
    await writer.drain()
    writer.close()


FAILED = b'{"result":{"resultStatus":"F","resultCode":"PROCESS_FAIL"}}'
FAILURES: dict[str, Behaviour] = {
    "500": status(500),
    "404": status(404, ACKNOWLEDGE),
    "302": status(302, b"", ("Location", "/elsewhere")),
    "307": status(307, b"", ("Location", "/elsewhere")),
    "refused": status(200, FAILED, ("Content-Type", "application/json")),
    "unknown": status(202, b'\n {"result": {"resultStatus": "U"}}'),
    "hangs": hang,
    "trickles": trickle,
    "trickling-body": trickle_body,
    "hangs-up": hang_up,
    "hangs-up-midway": hang_up_midway,
    "huge-header": huge_header,
    "endless-headers": endless_headers,
    "nonsense": nonsense,
    # A date no calendar holds: the parser of dates fails in a way of its own.
    "far-retry-after": status(503, b"", ("Retry-After", "Mon, 01 Jan 2024 00:00:00 +99999999999999999999")),
}


def until(attempt: int, behaviour: Behaviour) -> Behaviour:
    """Behave badly in the first attempts, and well from this one on."""

    async def behave(arrival: Arrival, writer: asyncio.StreamWriter) -> None:
        await (behaviour if arrival.attempt < attempt else acknowledge)(arrival, writer)

    return behave


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def every_failure(till: Till) -> AsyncIterator[dict[str, tuple[Receiver, str]]]:
    """All these receivers at once, each with one payment, so that they take their time together.

    Each on a port of its own: what fails at one destination holds up what goes to the same.
    """
    async with AsyncExitStack() as stack:
        begun = {}
        for name, behaviour in FAILURES.items():
            receiver = await stack.enter_async_context(Receiver(**{name: until(3, behaviour)}))
            answer = await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/{name}")
            assert answer.code == "SUCCESS"
            begun[name] = receiver, answer.value["paymentRequestId"]
        yield begun


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failed_attempt_is_repeated_until_it_is_acknowledged(
    name: str, keys: dict[int, str], ended: Ended, every_failure: dict[str, tuple[Receiver, str]]
) -> None:
    receiver, request_id = every_failure[name]
    url = f"{receiver.base_url}/{name}"
    assert (await ended(url))[:2] == ("ACKNOWLEDGED", 3)
    arrivals = receiver.at(f"/{name}")
    assert [arrival.attempt for arrival in arrivals] == [1, 2, 3]
    assert len({arrival.body for arrival in arrivals}) == 1
    assert len({arrival.headers["Event-Id"] for arrival in arrivals}) == 1
    assert arrivals[0].json["paymentRequestId"] == request_id
    for arrival in arrivals:
        verify(arrival, keys)
    # Attempts 2 and 3 are more than a second apart: Request-Time and Signature are of the attempt.
    for header in ("Request-Time", "Signature"):
        assert arrivals[1].headers[header] != arrivals[2].headers[header]
    for number, step_s in enumerate(SCHEDULE_S[:2]):
        apart_s = (arrivals[number + 1].at - arrivals[number].at).total_seconds()
        at_least_s = step_s * (1 - JITTER)
        assert at_least_s <= apart_s <= step_s * (1 + JITTER) + TIMEOUT_S + LATENESS_S, name
    assert not receiver.at("/elsewhere"), "a redirect was followed"


async def test_an_attempt_fails_after_the_time_out_and_not_later(
    ended: Ended, every_failure: dict[str, tuple[Receiver, str]]
) -> None:
    for name in ("hangs", "trickles", "trickling-body"):
        receiver, _ = every_failure[name]
        await ended(f"{receiver.base_url}/{name}")
        first, second, _third = receiver.at(f"/{name}")
        apart_s = (second.at - first.at).total_seconds()
        step_s = SCHEDULE_S[0]
        assert (
            TIMEOUT_S + step_s * (1 - JITTER) - 0.1
            <= apart_s
            <= TIMEOUT_S + step_s * (1 + JITTER) + LATENESS_S
        )


async def test_when_the_schedule_is_used_up_the_delivery_is_dead_and_kept(
    till: Till, keys: dict[int, str], ended: Ended, receiver: Receiver
) -> None:
    receiver.behaviour["never"] = status(500)
    await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/never")
    assert await ended(f"{receiver.base_url}/never") == ("DEAD", len(SCHEDULE_S) + 1, "HTTP 500")
    arrivals = receiver.at("/never")
    assert [arrival.attempt for arrival in arrivals] == [1, 2, 3, 4]
    for arrival in arrivals:
        verify(arrival, keys)
    await asyncio.sleep(0.5)
    assert len(receiver.at("/never")) == 4


async def test_nobody_listens_and_the_reason_is_kept(till: Till, ended: Ended) -> None:
    for url, reason in {
        "http://127.0.0.1:1/nobody": "the connection was refused or could not be made",
        "http://no-such-host.invalid/": "the host name is unknown",
    }.items():
        await till.create("retailPay", paymentNotifyUrl=url)
        assert await ended(url) == ("DEAD", len(SCHEDULE_S) + 1, reason)


@pytest.mark.parametrize(
    ("said", "status_code", "at_least", "at_most"),
    [
        ("1", 503, 1.0, 1.0),  # within 1 to 4 steps: as it says
        ("1", 429, 1.0, 1.0),
        ("0", 503, 0.4, 0.4),  # never before the step
        ("3600", 503, 1.6, 1.6),  # never later than four steps
        ("Wed, 01 Jan 2098 00:00:00 GMT", 429, 1.6, 1.6),
        ("1", 500, 0.32, 0.48),  # another status has no say
        ("soon", 503, 0.32, 0.48),  # nonsense is as if it were not there
    ],
)
async def test_retry_after_is_honoured_within_one_and_four_steps(
    said: str, status_code: int, at_least: float, at_most: float, till: Till, ended: Ended, receiver: Receiver
) -> None:
    receiver.behaviour["later"] = until(2, status(status_code, b"", ("Retry-After", said)))
    await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/later")
    assert (await ended(f"{receiver.base_url}/later"))[:2] == ("ACKNOWLEDGED", 2)
    first, second = receiver.at("/later")
    assert timedelta(seconds=at_least) - timedelta(seconds=0.02) <= second.at - first.at
    assert second.at - first.at <= timedelta(seconds=at_most + LATENESS_S)


async def endless_body(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with suppress(OSError):
        while True:
            writer.write(b"1000\r\n" + b"z" * 4096 + b"\r\n")
            await writer.drain()


@pytest.mark.parametrize(
    "behaviour",
    [
        status(204),
        status(299, b"thank you"),
        status(200, b'{"result":{"resultStatus":"S"}}'),
        status(200, b'{"result":{}}'),
        status(200, b"[1, 2"),
        status(200, b'{"x":' + b"[" * 4000),  # deeper than a parser goes
        status(200, b"x" * 1_000_000),
        endless_body,
    ],
)
async def test_any_2xx_acknowledges_whatever_else_it_says(
    behaviour: Behaviour, till: Till, ended: Ended, receiver: Receiver
) -> None:
    receiver.behaviour["good"] = behaviour
    await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/good")
    assert (await ended(f"{receiver.base_url}/good"))[:2] == ("ACKNOWLEDGED", 1)


async def test_a_slow_receiver_gets_each_of_many_notifications_once(
    till: Till, ended: Ended, receiver: Receiver
) -> None:
    async def slowly(arrival: Arrival, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(TIMEOUT_S * 0.6)
        await acknowledge(arrival, writer)

    receiver.behaviour["slow"] = slowly
    urls = [f"{receiver.base_url}/slow-{number}" for number in range(60)]
    await asyncio.gather(*(till.create("retailPay", paymentNotifyUrl=url) for url in urls))
    for url in urls:
        assert (await ended(url))[:2] == ("ACKNOWLEDGED", 1)
    assert len(receiver.journal) == len(urls)
