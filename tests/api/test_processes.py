"""The real thing: `payaccept api` behind granian, spoken to over sockets, two processes on one database."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from deployment import fetch_all
from merchant import OPERATIONS, PREFIX, Merchant, compact, new_request_id, request_of
from payaccept.domain.merchant import DuplicatePolicy
from processes import PAYACCEPT, environment, free_port

CREATE = "createQROrder"
PATH = PREFIX + CREATE
CAP = 64 * 1024


def started_api(settings: Any, port: int, *options: str) -> "subprocess.Popen[bytes]":
    """Start an API process on a port and wait until it is ready."""
    process = subprocess.Popen(
        [*PAYACCEPT, "api", "--port", str(port), *options],
        env=environment(**settings.to_environ()),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 15
    while True:
        try:
            answer = raw(port, b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        except OSError:
            answer = b""
        if answer.startswith(b"HTTP/1.1 200"):
            return process
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline, "it did not become ready"
        time.sleep(0.05)


def stop(process: "subprocess.Popen[bytes]") -> int:
    """Ask it to end, and see that it does."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def raw(port: int, request: bytes, *more: bytes, pause_s: float = 0.0) -> bytes:
    """Send bytes over a socket as they are, and return all that comes back until it is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        for piece in more:
            if pause_s:
                time.sleep(pause_s)
            try:
                connection.sendall(piece)
            except OSError:
                break
        answer = b""
        while True:
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            answer += piece
        return answer


def parsed(answer: bytes) -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON of a raw answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split(" ")[1]), headers, json.loads(body) if body else None


def request_bytes(
    target: str, headers: dict[str, str] | list[tuple[str, str]], body: bytes = b"", method: str = "POST"
) -> bytes:
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not any(name.lower() in {"content-length", "transfer-encoding"} for name, _ in pairs):
        pairs.append(("Content-Length", str(len(body))))
    lines = [f"{method} {target} HTTP/1.1", "Host: api.test", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in pairs]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def ports(settings) -> Iterator[tuple[int, int]]:
    """Two API processes on one database, the second with two workers."""
    first, second = free_port(), free_port()
    processes = [started_api(settings, first)]
    try:
        processes.append(started_api(settings, second, "--workers", "2"))
        yield first, second
    finally:
        codes = [stop(process) for process in processes]
    assert codes == [0, 0]


@pytest.fixture
def port(ports) -> int:
    return ports[0]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        yield session


async def post(
    http: aiohttp.ClientSession, port: int, merchant: Merchant, operation: str, body: bytes
) -> tuple[int, bytes]:
    path = PREFIX + operation
    url = f"http://127.0.0.1:{port}{path}"
    async with http.post(url, data=body, headers=merchant.headers(path, body)) as answer:
        return answer.status, await answer.read()


# The answers


async def test_all_four_operations_answer_over_a_socket(ports, http, merchant):
    for number, operation in enumerate(OPERATIONS[:3]):
        body = compact(request_of(operation))
        status, answer = await post(http, ports[number % 2], merchant, operation, body)
        assert status == 200, answer
        request_id = json.loads(body)["paymentRequestId"]
        status, answer = await post(
            http,
            ports[(number + 1) % 2],
            merchant,
            "inquiryPayment",
            compact({"paymentRequestId": request_id}),
        )
        assert (status, json.loads(answer)["paymentRequestId"]) == (200, request_id)


def assert_failure(answer: bytes, status: int, code: str) -> dict[str, str]:
    got, headers, value = parsed(answer)
    assert (got, value["result"]["resultCode"]) == (status, code), value
    assert set(value) == {"result"}
    assert headers["content-type"] == "application/json"
    assert headers["request-id"].startswith("req_")
    return headers


def test_refusals_over_a_socket_look_as_they_should(port, merchant):
    body = compact(request_of(CREATE))
    good = merchant.headers(PATH, body)
    assert_failure(raw(port, request_bytes("/nothing", {})), 404, "NOT_FOUND")
    assert_failure(raw(port, request_bytes("/%2e%2e/etc/passwd", {}, method="GET")), 404, "NOT_FOUND")
    headers = assert_failure(raw(port, request_bytes(PATH, {}, method="DELETE")), 405, "METHOD_NOT_ALLOWED")
    assert headers["allow"] == "POST"
    headers = assert_failure(raw(port, request_bytes("/healthz", {})), 405, "METHOD_NOT_ALLOWED")
    assert headers["allow"] == "GET, HEAD"
    assert_failure(
        raw(port, request_bytes(PATH, good | {"Content-Type": "text/plain"}, body)),
        415,
        "UNSUPPORTED_MEDIA_TYPE",
    )
    assert_failure(raw(port, request_bytes(PATH, good, body + b" ")), 401, "INVALID_SIGNATURE")
    assert_failure(raw(port, request_bytes(PATH, {}, body)), 401, "INVALID_CLIENT_ID")


@pytest.mark.parametrize("name", ["Client-Id", "Request-Time", "Signature", "Content-Type"])
def test_a_header_sent_twice_is_noticed(port, merchant, name):
    body = compact(request_of(CREATE))
    headers = merchant.headers(PATH, body)
    codes = {
        "Client-Id": (401, "INVALID_CLIENT_ID"),
        "Request-Time": (401, "TIMESTAMP_INVALID"),
        "Signature": (401, "INVALID_SIGNATURE"),
        "Content-Type": (415, "UNSUPPORTED_MEDIA_TYPE"),
    }
    answer = raw(port, request_bytes(PATH, [*headers.items(), (name.lower(), headers[name])], body))
    assert_failure(answer, *codes[name])


@pytest.mark.parametrize("name", ["Client-Id", "Request-Time", "Signature", "Content-Type", "X-Other"])
def test_bytes_that_are_no_text_in_a_header_are_no_bug(port, merchant, name):
    body = compact(request_of(CREATE))
    headers = merchant.headers(PATH, body) | {name: "\xff\xfe"}
    status, _, value = parsed(raw(port, request_bytes(PATH, headers, body)))
    assert status < 500, value
    assert (status == 200) == (name == "X-Other")
    if value is not None:
        assert "result" in value


@pytest.mark.parametrize("target", [PATH + "?a=b", PATH + "?", PATH + "?%ff"])
def test_a_query_string_is_ignored_over_a_socket(port, merchant, target):
    body = compact(request_of(CREATE))
    status, _, value = parsed(raw(port, request_bytes(target, merchant.headers(PATH, body), body)))
    assert (status, value["result"]["resultCode"]) == (200, "ACCEPTED")


@pytest.mark.parametrize("path", ["/healthz", "/nothing", PATH])
def test_head_has_no_body(port, path):
    answer = raw(port, request_bytes(path, {}, method="HEAD"))
    status, headers, value = parsed(answer)
    assert status == {"/healthz": 200, "/nothing": 404, PATH: 405}[path]
    assert value is None
    assert headers["request-id"].startswith("req_")


# The cap


def _padded(size: int) -> bytes:
    request = compact(request_of(CREATE))
    return request + b" " * (size - len(request))


def _chunked(body: bytes, step: int) -> list[bytes]:
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    return [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces] + [b"0\r\n\r\n"]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "status"), [(CAP, 200), (CAP + 1, 413)])
def test_the_cap_is_64_kib_announced_or_not(port, merchant, chunked, size, status):
    body = _padded(size)
    headers = merchant.headers(PATH, body)
    if chunked:
        head = request_bytes(PATH, headers | {"Transfer-Encoding": "chunked"})
        answer = raw(port, head, *_chunked(body, 8192))
    else:
        answer = raw(port, request_bytes(PATH, headers, body))
    assert parsed(answer)[0] == status


def test_a_body_announced_as_larger_is_refused_before_it_is_sent(port, merchant):
    head = request_bytes(PATH, merchant.headers(PATH, b"") | {"Content-Length": str(10**9)})
    started = time.monotonic()
    assert_failure(raw(port, head), 413, "PAYLOAD_TOO_LARGE")
    assert time.monotonic() - started < 2


def test_an_endless_body_is_refused_while_it_is_still_coming(port, merchant):
    head = request_bytes(PATH, merchant.headers(PATH, b"") | {"Transfer-Encoding": "chunked"})
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    started = time.monotonic()
    answer = raw(port, head, *[piece] * 40, pause_s=0.02)
    assert time.monotonic() - started < 5
    assert_failure(answer, 413, "PAYLOAD_TOO_LARGE")


# Stopping


async def test_on_sigterm_requests_in_flight_are_finished(settings, merchant, http):
    own = free_port()
    process = started_api(settings, own)
    bodies = [compact(request_of(CREATE)) for _ in range(60)]
    calls = [asyncio.create_task(post(http, own, merchant, CREATE, body)) for body in bodies]
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    code = await asyncio.to_thread(stop, process)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert code == 0
    accepted = 0
    for body, answer in zip(bodies, answers, strict=True):
        rows = fetch_all(
            settings.database_url,
            "SELECT FROM payments WHERE payment_request_id = %s",
            json.loads(body)["paymentRequestId"],
        )
        if isinstance(answer, BaseException):
            assert isinstance(answer, aiohttp.ClientError)
        else:
            assert answer[0] == 200
            accepted += 1
            assert len(rows) == 1
    assert accepted > 0


# Once


async def _round(
    http: aiohttp.ClientSession, ports: tuple[int, int], merchant: Merchant, operation: str
) -> tuple[str, list[tuple[int, bytes]]]:
    body = compact(request_of(operation))
    path = PREFIX + operation
    headers = merchant.headers(path, body)  # signed once: the copies are identical to the last byte

    async def send(number: int) -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{ports[number % 2]}{path}"
        async with http.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    return json.loads(body)["paymentRequestId"], await asyncio.gather(*(send(number) for number in range(32)))


@pytest.mark.slow
@pytest.mark.parametrize("policy", DuplicatePolicy)
async def test_in_200_rounds_of_32_identical_creates_exactly_one_makes_a_payment(
    ports, http, register, settings, policy
):
    merchant = await register(duplicates=policy)
    for number in range(200):
        operation = OPERATIONS[number % 3]
        request_id, answers = await _round(http, ports, merchant, operation)
        made = [body for status, body in answers if status == 200]
        refused = [json.loads(body)["result"] for status, body in answers if status == 409]
        if policy is DuplicatePolicy.STRICT:
            assert (len(made), len(refused)) == (1, 31)
            assert {result["resultCode"] for result in refused} == {"REPEAT_REQUEST"}
        else:
            assert (len(made), len(set(made))) == (32, 1), answers
        [(payment_id,)] = fetch_all(
            settings.database_url,
            "SELECT payment_id FROM payments WHERE client_id = %s AND payment_request_id = %s",
            merchant.client_id,
            request_id,
        )
        assert payment_id[4:].encode() in made[0]


async def test_the_rate_limit_is_exact_over_three_processes(ports, http, register):
    merchant = await register(rate_limit=100)
    body = compact({"paymentRequestId": new_request_id()})
    answers = await asyncio.gather(
        *(post(http, ports[number % 2], merchant, "inquiryPayment", body) for number in range(160))
    )
    statuses = [status for status, _ in answers]
    assert (statuses.count(404), statuses.count(429)) == (100, 60)
