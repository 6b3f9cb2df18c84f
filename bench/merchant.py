"""A merchant that signs its requests beforehand, so that a run measures the service and not the signing."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.serialization import load_pem_private_key

from payaccept.wire import signing, timestamps

CHUNK = 500


class Merchant(NamedTuple):
    """Who signs: `private_pem` is made for this run only."""

    client_id: str
    private_pem: bytes


class Work(NamedTuple):
    """Requests to be signed: the operation, and the bodies."""

    merchant: Merchant
    host: str
    operation: str
    bodies: list[bytes]


def qr_order(request_id: str, notify_url: str | None = None) -> bytes:
    """Write the body of an ordinary createQROrder."""
    notify = f',"paymentNotifyUrl":"{notify_url}"' if notify_url else ""
    return (
        '{"bizType":"ORDER_CODE","productCode":"51051000101000100031","codeType":"CGCP",'
        f'"paymentRequestId":"{request_id}","paymentAmount":{{"currency":"EUR","value":1999}},'
        f'"order":{{"orderDescription":"Two coffees and a croissant"}}{notify}}}'
    ).encode()


def inquiry(request_id: str) -> bytes:
    """Write the body of an inquiry."""
    return f'{{"paymentRequestId":"{request_id}"}}'.encode()


def sign_all(work: Work, path: Path) -> None:
    """Sign every body on all cores, and write whole HTTP requests, each after a line with its length."""
    pieces = [work._replace(bodies=work.bodies[i : i + CHUNK]) for i in range(0, len(work.bodies), CHUNK)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool, path.open("wb") as file:
        for written in pool.map(_sign, pieces):
            file.write(written)


def _sign(work: Work) -> bytes:
    key = load_pem_private_key(work.merchant.private_pem, password=None)
    return b"".join(_requests(work, key))


def _requests(work: Work, key: object) -> Iterator[bytes]:
    path = f"/v1/payments/{work.operation}"
    at = timestamps.write_seconds(datetime.now(UTC))
    for body in work.bodies:
        string = signing.request_string("POST", path, work.merchant.client_id, at, body)
        signature = signing.write_header(1, signing.sign(key, string))  # type: ignore[arg-type]
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {work.host}\r\nContent-Type: application/json\r\n"
            f"Client-Id: {work.merchant.client_id}\r\nRequest-Time: {at}\r\nSignature: {signature}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        yield b"%d\n" % len(head + body) + head + body


def signatures_per_second(private_pem: bytes, seconds: float = 1.0) -> float:
    """Measure how many RSA-2048 signatures one core makes in a second, here and now."""
    key = load_pem_private_key(private_pem, password=None)
    payload = b"x" * 700
    started = time.perf_counter()
    count = 0
    while time.perf_counter() - started < seconds:
        for _ in range(50):
            signing.sign(key, payload)  # type: ignore[arg-type]
        count += 50
    return count / (time.perf_counter() - started)
