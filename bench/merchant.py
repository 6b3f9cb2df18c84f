"""A merchant that signs its requests beforehand, so that a run measures the service and not the signing."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from payaccept.wire import signing, timestamps

CHUNK = 500


class Merchant(NamedTuple):
    """Who signs: `private_pem` is made for this run only."""

    client_id: str
    private_pem: bytes


class Work(NamedTuple):
    """Requests to be signed: the operation, and the bodies; the merchants sign in turn.

    `sent_at` is when the first will be sent, or each of them when `per_s` is None; after it so many in a second.
    """

    merchants: Sequence[Merchant]
    host: str
    operation: str
    bodies: list[bytes]
    sent_at: datetime
    per_s: float | None = None


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
    pieces = [
        (work._replace(bodies=work.bodies[i : i + CHUNK]), i) for i in range(0, len(work.bodies), CHUNK)
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool, path.open("wb") as file:
        for written in pool.map(_sign, *zip(*pieces, strict=True)):
            file.write(written)


def _sign(work: Work, first: int) -> bytes:
    return b"".join(_requests(work, first))


@cache
def _key(private_pem: bytes) -> RSAPrivateKey:
    key = load_pem_private_key(private_pem, password=None)
    assert isinstance(key, RSAPrivateKey)
    return key


def _requests(work: Work, first: int) -> Iterator[bytes]:
    path = f"/v1/payments/{work.operation}"
    for number, body in enumerate(work.bodies, first):
        by = work.merchants[number % len(work.merchants)]
        after_s = number / work.per_s if work.per_s else 0.0
        at = timestamps.write_seconds(work.sent_at + timedelta(seconds=after_s))
        string = signing.request_string("POST", path, by.client_id, at, body)
        signature = signing.write_header(1, signing.sign(_key(by.private_pem), string))
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {work.host}\r\nContent-Type: application/json\r\n"
            f"Client-Id: {by.client_id}\r\nRequest-Time: {at}\r\nSignature: {signature}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        yield b"%d\n" % len(head + body) + head + body


def signatures_per_second(private_pem: bytes, seconds: float = 1.0) -> float:
    """Measure how many RSA-2048 signatures one core makes in a second, here and now.

    A second of processor time, as whatever is compared with it: others may want the core too.
    """
    key = _key(private_pem)
    payload = b"x" * 700
    started = time.thread_time()
    count = 0
    while time.thread_time() - started < seconds:
        for _ in range(50):
            signing.sign(key, payload)
        count += 50
    return count / (time.thread_time() - started)
