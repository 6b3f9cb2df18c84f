"""Measure the service in one run, on this machine, and print a table.

    python -m bench [--seconds 5] [--lives 6000] [--full]

Creates and inquiries are driven by wrk over 64 connections with requests signed beforehand; pgbench does the
bare one-row insert into the same table before and after each of three rounds of creates, and the mean of both
is what that round is compared with: a machine's speed changes while one looks. Payments that live their whole
life are timed from the first request to the last acknowledgement. Then come the webhooks: see bench.webhooks.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench import merchant, service, usage, webhooks
from bench.merchant import Work
from bench.receiver import receiving
from bench.report import Report, say
from bench.service import Service
from payaccept.adapters.postgres.embedded import program

CONNECTIONS: Final = 64
ROUNDS: Final = 3
HERE: Final = Path(__file__).parent
CREATE_SHARE: Final = 0.55
LIFE_SHARE: Final = 0.25
API_MIB: Final = 120.0
WORKER_MIB: Final = 150.0
EXPECTED_PER_S: Final = 18_000
INQUIRED: Final = 20_000


class Driven(NamedTuple):
    """What wrk saw: answers with status 200, others, seconds, and latencies in milliseconds."""

    good: int
    bad: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def per_second(self) -> float:
        """Return good answers per second."""
        return self.good / self.seconds


class Round(NamedTuple):
    """Creates, and the bare inserts per second measured just before and just after them."""

    creates: Driven
    bare: float

    @property
    def share(self) -> float:
        """Return the creates as a share of the bare inserts."""
        return self.creates.per_second / self.bare


def main() -> int:
    """Run everything; 0 when every goal is reached."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=int, default=5, help="how long each of the loads lasts")
    parser.add_argument("--lives", type=int, default=6000, help="payments that live their whole life")
    parser.add_argument(
        "--full", action="store_true", help="webhooks for as long as their goals say: half an hour"
    )
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        print(
            "make bench needs wrk, the HTTP load tool: apt-get install wrk, or brew install wrk",
            file=sys.stderr,
        )
        return 2
    service.end_in_order()
    report = Report()
    with service.fresh() as running:
        _measure_payments(report, running, arguments.seconds, arguments.lives)
    webhooks.measure_all(report, full=arguments.full)
    return report.show()


def _measure_payments(report: Report, running: Service, seconds: int, lives: int) -> None:
    port = service.free_port()
    with service.api(running, port) as pid:
        rounds, inquiries = _creates_and_inquiries(running, port, seconds)
        api_mib = usage.resident_mib(pid)
    for number, it in enumerate(rounds, 1):
        report.row(
            f"createQROrder, round {number}",
            f"{it.creates.per_second:,.0f}/s = {it.share:.2f} of {it.bare:,.0f}/s",
        )
        report.row("  latency", _latency(it.creates))
    share = median(it.share for it in rounds)
    report.row("createQROrder, of pgbench", f"{share:.2f}, the median round", f">= {CREATE_SHARE}",
        reached=share >= CREATE_SHARE)  # fmt: skip
    created = rounds[-1].creates.per_second
    report.row("inquiryPayment, signed", f"{inquiries.per_second:,.0f}/s", ">= creates",
        reached=inquiries.per_second >= created)  # fmt: skip
    report.row("  latency", _latency(inquiries))
    signatures = merchant.signatures_per_second(running.merchant.private_pem)
    lived, worker_mib = _lives(running, lives)
    again = merchant.signatures_per_second(running.merchant.private_pem)
    bound = (signatures + again) / 2
    report.row("RSA-2048 signatures, one core", f"{bound:,.0f}/s")
    report.row("whole lives, to the last webhook", f"{lived:,.0f}/s = {lived / bound:.2f} of signatures",
        f">= {LIFE_SHARE}", reached=lived / bound >= LIFE_SHARE)  # fmt: skip
    report.row("API worker, resident", f"{api_mib:.0f} MiB", f"< {API_MIB:.0f} MiB",
        reached=api_mib < API_MIB)  # fmt: skip
    report.row("worker, resident", f"{worker_mib:.0f} MiB", f"< {WORKER_MIB:.0f} MiB",
        reached=worker_mib < WORKER_MIB)  # fmt: skip


def _latency(driven: Driven) -> str:
    return f"p50 {driven.p50_ms:.1f} ms, p99 {driven.p99_ms:.1f} ms, {driven.bad} refused"


def _creates_and_inquiries(running: Service, port: int, seconds: int) -> tuple[list[Round], Driven]:
    requests = running.directory / "requests"
    rounds = []
    before = _pgbench(running, seconds)
    for number in range(ROUNDS):
        names = [f"bench-{number}-{each:06d}" for each in range(EXPECTED_PER_S * seconds)]
        _sign(running, port, "createQROrder", [merchant.qr_order(name) for name in names], requests)
        say("creating")
        creates = _wrk(requests, port, seconds)
        after = _pgbench(running, seconds)
        rounds.append(Round(creates, (before + after) / 2))
        before = after
    asked = names[1 : min(INQUIRED, creates.good // 2)]  # wrk takes the first for a rehearsal
    _sign(running, port, "inquiryPayment", [merchant.inquiry(name) for name in asked], requests)
    say("inquiring")
    inquiries = _wrk(requests, port, seconds, loops=True)
    requests.unlink()
    return rounds, inquiries


def _sign(running: Service, port: int, operation: str, bodies: list[bytes], requests: Path) -> None:
    say(f"signing {len(bodies):,} requests")
    work = Work([running.merchant], f"127.0.0.1:{port}", operation, bodies, datetime.now(UTC))
    merchant.sign_all(work, requests)


def _wrk(requests: Path, port: int, seconds: int, *, loops: bool = False) -> Driven:
    environ = {"PAYACCEPT_BENCH_REQUESTS": str(requests), "PAYACCEPT_BENCH_LOOPS": "1" if loops else "0"}
    ran = subprocess.run(
        [
            "wrk",
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{seconds}s",
            "-s",
            str(HERE / "requests.lua"),
            f"http://127.0.0.1:{port}",
        ],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    line = next(line for line in ran.stdout.splitlines() if line.startswith("BENCH "))
    good, bad, duration_us, p50_us, p99_us = (int(word) for word in line.split()[1:6])
    if bad:
        say(f"{bad} answers were not 200, the first: {line.split(maxsplit=7)[7:]}")
    return Driven(good, bad, duration_us / 1e6, p50_us / 1e3, p99_us / 1e3)


def _pgbench(running: Service, seconds: int) -> float:
    say("pgbench")
    ran = subprocess.run(
        [
            str(program("pgbench")), "-n", "-M", "prepared", f"-c{CONNECTIONS}", "-j2", f"-T{seconds}",
            "-f", str(HERE / "pgbench_insert.sql"), running.settings.database_url,
        ],
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    line = next(line for line in ran.stdout.splitlines() if line.startswith("tps = "))
    return float(line.split()[2])


def _lives(running: Service, lives: int) -> tuple[float, float]:
    """Return whole lives per second, and the worker's resident memory after them in MiB."""
    port = service.free_port()
    with (
        receiving() as receiver,
        service.api(running, port, settle_delay_s=0.0),
        service.worker(running, settle_delay_s=0.0) as worker_pid,
    ):
        url = f"http://127.0.0.1:{receiver.ports.good}/webhooks"
        bodies = [merchant.qr_order(f"life-{number:06d}", url) for number in range(lives + 1)]
        requests = running.directory / "requests"
        _sign(running, port, "createQROrder", bodies, requests)
        time.sleep(2)
        say("living")
        started = time.time()
        load = subprocess.Popen(
            ["wrk", "-t1", f"-c{CONNECTIONS}", "-d60s", "-s", str(HERE / "requests.lua"),
             f"http://127.0.0.1:{port}"],
            env={**os.environ, "PAYACCEPT_BENCH_REQUESTS": str(requests)},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            last_at = receiver.wait_for(lives, 60).last_at
            return lives / (last_at - started), usage.resident_mib(worker_pid)
        finally:
            load.terminate()
            load.wait()


if __name__ == "__main__":
    sys.exit(main())
