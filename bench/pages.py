"""Measure the portal's pages with a million payments of one merchant, and print a table.

    python -m bench.pages [--payments 1000000] [--requests 40]

One portal process as in production, signed in to over HTTP; no load beside it. Each page is asked for again and again,
one request after the other; the time is the client's, from sending the request to the last byte of the answer. The
files are read as fast as they come, and once slowly, while the process's memory is watched.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import httpx
import psycopg

from bench import service, usage
from bench.report import Report, say
from bench.service import Service
from payaccept.domain import identifiers
from payaccept.operations.users import Person
from payaccept.people_wiring import Joined

HERE: Final = Path(__file__).parent
DAYS: Final = 90
CHUNK: Final = 100_000
WARM_UP: Final = 3
GOAL_MS: Final = 100.0
GOAL_BYTES: Final = 60 * 1024
GROWTH_MIB: Final = 30.0
SLOW_S: Final = 5.0
EMAIL: Final = "bench@shop.example"
PASSWORD: Final = "seven green lamps hum"  # noqa: S105 - of a database that is removed


class Shop(NamedTuple):
    """The merchant with the payments, and one of them in the middle, as the pages name it."""

    client_id: str
    payment_id: str
    event_id: str
    request_id: str


def main() -> int:
    """Run everything; 0 when every goal is reached."""
    parser = argparse.ArgumentParser(prog="python -m bench.pages", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--payments", type=int, default=1_000_000, help="how many the merchant has")
    parser.add_argument("--requests", type=int, default=40, help="how often each page is asked for")
    arguments = parser.parse_args()
    service.end_in_order()
    report = Report()
    with service.fresh() as running:
        measure(report, running, arguments.payments, arguments.requests)
    return report.show()


def measure(report: Report, running: Service, payments: int, requests: int) -> None:
    """Fill the database, and measure every page and both files."""
    begun = time.monotonic()
    shop = fill(running, payments)
    report.row(f"making {payments:,} payments", f"{time.monotonic() - begun:.0f} s")
    port = service.free_port()
    with service.portal(running, port) as pid, signed_in(port) as client:
        for name, path in paths(shop).items():
            say(name)
            _measure_page(report, client, name, path, requests)
        root = f"/m/{shop.client_id}/reports"
        say("exporting all payments")
        _measure_file(report, client, "all payments as CSV", f"{root}/payments", pid)
        day = (datetime.now(UTC) - timedelta(days=2)).date()
        _measure_file(report, client, "reconciliation of a day", f"{root}/reconciliation?day={day}", pid)
        say("exporting slowly")
        _measure_slow(report, client, f"{root}/payments", pid)


def paths(shop: Shop) -> dict[str, str]:
    """Return the pages that are measured, by the name they have in the report."""
    root = f"/m/{shop.client_id}"
    payments = f"{root}/payments"
    now = datetime.now(UTC)
    day = (now - timedelta(days=40)).date()
    acquirement_id = identifiers.acquirement_of(shop.payment_id)
    return {
        "payments": payments,
        "payments, an older page": f"{payments}?before={shop.payment_id}",
        "search: failed": f"{payments}?state=FAIL",
        "search: unfinished": f"{payments}?state=PROCESSING",
        "search: operation": f"{payments}?operation=linkPayCreate",
        "search: amount": f"{payments}?currency=EUR&amount=12.34",
        "search: amounts from, to": f"{payments}?currency=EUR&amount=100-120",
        "search: a day": f"{payments}?from={day}&until={day}",
        "search: a store": f"{payments}?store=store-7",
        "search: a rare store": f"{payments}?store=store-rare",
        "search: nothing there is": f"{payments}?state=FAIL&currency=JPY&store=nowhere",
        "by paymentId": f"{payments}?id={shop.payment_id}",
        "by acquirementId": f"{payments}?id={acquirement_id}",
        "by paymentRequestId": f"{payments}?id={shop.request_id}",
        "by eventId": f"{payments}?id={shop.event_id}",
        "by an id that there is not": f"{payments}?id=order-none",
        "a payment": f"{payments}/{shop.payment_id}",
        "reports, 30 days": f"{root}/reports",
        "reports, 90 days": f"{root}/reports?days=90",
        "reports, a year": f"{root}/reports?from={(now - timedelta(days=365)).date()}",
        "home": root,
    }


def fill(running: Service, payments: int) -> Shop:
    """Make the merchant with its owner, and its payments."""
    client_id, bucket = asyncio.run(_sign_up(running))
    statements = _statements()
    values: dict[str, Any] = {
        "client_id": client_id,
        "bucket": bucket,
        "count": payments,
        "days": DAYS,
        "now": datetime.now(UTC).replace(microsecond=0),
        "rare": payments // 3 + 1,
    }
    with psycopg.connect(running.settings.database_url) as connection:
        for first in range(0, payments, CHUNK):
            last = min(first + CHUNK, payments) - 1
            say(f"payments up to {last + 1:,}")
            for name in ("create_made", "insert_payments", "insert_events", "insert_deliveries"):
                connection.execute(statements[name], values | {"first": first, "last": last})
            if last == payments - 1:  # of the last ones, what was sent is kept
                connection.execute(statements["insert_payloads"], values)
                connection.execute(statements["insert_attempts"], values)
            connection.commit()
        connection.execute(statements["insert_counter"])
        connection.execute(statements["insert_day_totals"])
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")
        row = connection.execute(
            "SELECT payment_id, event_id, payment_request_id FROM payments WHERE payment_request_id = %s"
            " AND bucket = %s AND client_id = %s",
            [f"order-{payments // 2:08d}", bucket, client_id],
        ).fetchone()
    assert row is not None
    return Shop(client_id, *row)


async def _sign_up(running: Service) -> tuple[str, int]:
    joined = Joined(running.settings, "bench")
    person = Person(email=EMAIL, name="Bench", password=PASSWORD)
    _, merchant = await joined.users.sign_up(
        person, "Busy shop", running.settings.environment, datetime.now(UTC), "127.0.0.1"
    )
    await joined.close()
    return merchant.client_id, merchant.base_bucket


def _statements() -> dict[str, bytes]:
    text = (HERE / "many_payments.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: sql.encode() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


@contextmanager
def signed_in(port: int) -> Iterator[httpx.Client]:
    """Sign in by the form, as a browser does."""
    base = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=base, headers={"Origin": base}, timeout=120) as client:
        token = re.search(r'name="csrf" value="([^"]+)"', client.get("/sign-in").text)
        assert token is not None
        answer = client.post("/sign-in", data={"csrf": token[1], "email": EMAIL, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        yield client


def _measure_page(report: Report, client: httpx.Client, name: str, path: str, requests: int) -> None:
    times = []
    for number in range(requests + WARM_UP):
        begun = time.perf_counter()
        answer = client.get(path)
        if number >= WARM_UP:
            times.append((time.perf_counter() - begun) * 1000)
    if answer.status_code not in {200, 303, 422}:
        report.row(name, f"answered {answer.status_code}", reached=False)
        return
    times.sort()
    p50, p95, size = median(times), times[int(len(times) * 0.95)], len(answer.content)
    report.row(
        name,
        f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, {size / 1024:.1f} KiB",
        f"p95 < {GOAL_MS:.0f} ms, < {GOAL_BYTES // 1024} KiB",
        reached=p95 < GOAL_MS and size < GOAL_BYTES,
    )


def _measure_file(report: Report, client: httpx.Client, name: str, path: str, pid: int) -> None:
    before = greatest = usage.resident_mib(pid)
    begun = time.perf_counter()
    rows = size = 0
    with client.stream("GET", path) as answer:
        assert answer.status_code == 200, answer.status_code
        for piece in answer.iter_raw():
            rows += piece.count(b"\n")  # its CR may be in the piece before
            size += len(piece)
            greatest = max(greatest, usage.resident_mib(pid))
    seconds = time.perf_counter() - begun
    report.row(
        name,
        f"{rows:,} rows, {size / 2**20:.0f} MiB, {rows / seconds:,.0f} rows/s;"
        f" memory {before:.0f} to at most {greatest:.0f} MiB",
        f"+ < {GROWTH_MIB:.0f} MiB",
        reached=greatest - before < GROWTH_MIB,
    )


def _measure_slow(report: Report, client: httpx.Client, path: str, pid: int) -> None:
    """Take the first bytes and then nothing for a while: what is not taken must not be made either."""
    before = greatest = usage.resident_mib(pid)
    begun = time.monotonic()
    with client.stream("GET", path) as answer:
        next(answer.iter_raw(1024))
        while time.monotonic() - begun < SLOW_S:
            greatest = max(greatest, usage.resident_mib(pid))
            time.sleep(0.1)
    report.row(
        f"a client that takes nothing for {SLOW_S:.0f} s",
        f"memory {before:.0f} to at most {greatest:.0f} MiB",
        f"+ < {GROWTH_MIB:.0f} MiB",
        reached=greatest - before < GROWTH_MIB,
    )


if __name__ == "__main__":
    sys.exit(main())
