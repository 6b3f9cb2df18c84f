"""Where the microseconds of a signed createQROrder go, stage by stage.

    python -m bench.hot_path

The stages are the functions that the service runs, on the bytes of a real request, in one thread; the group commit
is timed on the embedded PostgreSQL in batches of 32, our work and the database's together. What a request under load
takes beyond their sum is the HTTP server's and the event loop's.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from cryptography.hazmat.primitives.serialization import load_pem_private_key
from rich.console import Console
from rich.table import Table

from bench import merchant, service
from payaccept.adapters.postgres.payments import PostgresPayments
from payaccept.adapters.postgres.traffic import PostgresTraffic
from payaccept.domain.payment import Payment, SignedBody
from payaccept.operations.payments import Payments, Rules
from payaccept.operations.recorder import Recorder
from payaccept.wire import fields, messages, signing, strict_json, timestamps
from payaccept.wiring import Administration

REPEATS: Final = 5
CALLS: Final = 4000
BATCH: Final = 32
PATH: Final = "/v1/payments/createQROrder"


class _NoStore:
    """A store that says yes."""

    async def insert_payment(self, _payment: Payment) -> bool:
        return True


def microseconds(call: Callable[[], object], calls: int = CALLS) -> float:
    """Return the best of a few runs, for one call."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - started)
    return best / calls * 1e6


async def _async_microseconds(call: Callable[[], Awaitable[object]], calls: int = CALLS) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(calls):
            await call()
        best = min(best, time.perf_counter() - started)
    return best / calls * 1e6


async def _measure(running: service.Service) -> Table:
    table = Table("stage", "µs", title="a signed createQROrder, one thread")
    key: Any = load_pem_private_key(running.merchant.private_pem, password=None)
    public_key = key.public_key()
    body = merchant.qr_order("bench-000001")
    now = datetime.now(UTC)
    at = timestamps.write_seconds(now)
    string = signing.request_string("POST", PATH, running.merchant.client_id, at, body)
    header = signing.write_header(1, signing.sign(key, string))
    signature = signing.parse_header(header).signature
    signed = SignedBody(body, at, 1, signature)
    skew = timestamps.parse(at) - now
    # Never started: what is timed is the request's part of it.
    recorder = Recorder(PostgresTraffic(running.settings.database_url, process="bench"), lambda: now, bool)
    value = strict_json.load_object(body)
    request = fields.read(value, messages.CreateQROrderRequest)
    for name, call in (
        ("Request-Time", lambda: timestamps.parse(at)),
        ("Signature header", lambda: signing.parse_header(header)),
        ("RSA verification", lambda: signing.verify(public_key, signature, string)),
        ("recording", lambda: recorder.used(running.merchant.client_id, 1, now, skew)),
        ("strict JSON", lambda: strict_json.load_object(body)),
        ("typed fields", lambda: fields.read(value, messages.CreateQROrderRequest)),
    ):
        table.add_row(name, f"{microseconds(call):.1f}")
    async with Administration(running.settings) as administration:
        owner = await administration.merchants.get(running.merchant.client_id)
        rules = Rules(
            environment=running.settings.environment, web_base_url="http://127.0.0.1:8081", order_expiry_s=900
        )
        verbs: Any = Payments(_NoStore(), administration.wallet, rules, wake_worker=lambda _lane=None: None)  # type: ignore[arg-type]
        operation = await _async_microseconds(lambda: verbs.create_qr_order(owner, request, signed, now))
    table.add_row("ids, answer, payment", f"{operation:.1f}")
    table.add_row(
        "group commit, one of 32", f"{await _group_commit(running, verbs, owner, request, signed):.1f}"
    )
    return table


async def _group_commit(running: service.Service, verbs: Any, owner: Any, request: Any, signed: Any) -> float:
    """Wall time of a batch on an idle database, for each payment in it: our work and PostgreSQL's."""
    store = PostgresPayments(running.settings.database_url, create_lines=1)
    store.start()
    kept: list[Payment] = []

    class _Keep:
        async def insert_payment(self, payment: Payment) -> bool:
            kept.append(payment)
            return True

    verbs._store = _Keep()  # noqa: SLF001 - the payments are made as the service makes them
    try:
        for number in range(BATCH * 60):
            wanted = messages.CreateQROrderRequest(
                request.biz_type,
                request.product_code,
                request.code_type,
                f"hot-{number}",
                request.payment_amount,
            )
            await verbs.create_qr_order(owner, wanted, signed, datetime.now(UTC))
        for payment in kept[:BATCH]:
            await store.insert_payment(payment)
        started = time.perf_counter()
        for first in range(BATCH, len(kept), BATCH):
            await asyncio.gather(*map(store.insert_payment, kept[first : first + BATCH]))
        return (time.perf_counter() - started) / (len(kept) - BATCH) * 1e6
    finally:
        await store.close()


def main() -> int:
    """Print the table."""
    with service.fresh() as running:
        Console().print(asyncio.run(_measure(running)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
