"""Payments at a steady rate through API and worker: how long until they are acknowledged, whatever else goes on."""

import random
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from bench import lanes, merchant, service, usage
from bench.draining import watch
from bench.merchant import Merchant, Work
from bench.pace import Sent, paced
from bench.receiver import Receiver, receiving
from bench.report import Report, say
from bench.service import Service

P50_MS: Final = 50.0
P99_MS: Final = 250.0
P99_TIMES: Final = 2.0
RATE_TIMES: Final = 0.5
MERCHANTS: Final = 20
ALL_ARRIVE_S: Final = 30.0
_NEVER_MS: Final = float("inf")


class Latency(NamedTuple):
    """Payments per second; seconds of warming up, with all lanes healthy, after some broke, and long after.

    `lanes` break at once, a third hanging, a third refusing, a third answering 500, with `overdue` deliveries
    between them and `trickle` new ones a second.
    """

    per_s: float = 100.0
    warm_s: int = 3
    healthy_s: int = 20
    broken_s: int = 15
    after_s: int = 20
    lanes: int = 500
    overdue: int = 5_000
    trickle: int = 20


class Held(NamedTuple):
    """Payments per second over so many lanes, for so many periods, while so many transactions are held open.

    Before and after it a burst of deliveries is drained, for what it could do.
    """

    per_s: float = 200.0
    lanes: int = 64
    periods: int = 6
    period_s: int = 10
    burst: int = 5_000
    transactions: int = 1


LATENCY_IN_FULL: Final = Latency(healthy_s=60, broken_s=15, after_s=60)
HELD_IN_FULL: Final = Held(periods=10, period_s=60, burst=10_000)
HELD_IN_ONE_LANE_IN_FULL: Final = HELD_IN_FULL._replace(per_s=100.0, lanes=1)


class Times(NamedTuple):
    """Half of the events took at most this, 99 % this, all this, in milliseconds; infinite for what never arrived."""

    p50_ms: float
    p99_ms: float
    worst_ms: float

    def __str__(self) -> str:
        return f"p50 {_ms(self.p50_ms)}, p99 {_ms(self.p99_ms)}, worst {_ms(self.worst_ms)} ms"


class Notified(NamedTuple):
    """When in the run a payment was made; how long from then, and from its final state, to the acknowledgement."""

    at_s: float
    since_created_ms: float
    since_final_ms: float


class Run(NamedTuple):
    """A load: what the payments' makers saw, and what became of each payment's notification.

    `used` has the seconds of processor time that worker and PostgreSQL used in each period, if any were asked for.
    """

    sent: Sent
    notified: list[Notified]
    used: list[tuple[float, float]]

    def times(self, begin_s: float = 0.0, end_s: float = float("inf")) -> Times:
        """Sum up, from final state to acknowledgement, the payments made in some seconds of the run."""
        return _times(one.since_final_ms for one in self.notified if begin_s <= one.at_s < end_s)

    def whole_times(self, begin_s: float, end_s: float) -> Times:
        """Sum up the same from when the payments were made."""
        return _times(one.since_created_ms for one in self.notified if begin_s <= one.at_s < end_s)

    def per_second(self, begin_s: float, end_s: float) -> float:
        """Return how many were acknowledged in each of some seconds of the run."""
        acknowledged = (one.at_s + one.since_created_ms / 1e3 for one in self.notified)
        return sum(begin_s <= at_s < end_s for at_s in acknowledged) / (end_s - begin_s)


def _times(found: Iterable[float]) -> Times:
    times = sorted(found) or [_NEVER_MS]
    return Times(times[len(times) // 2], times[len(times) * 99 // 100], times[-1])


def _ms(time_ms: float) -> str:
    return "never" if time_ms == _NEVER_MS else f"{time_ms:,.0f}"


class Shop(NamedTuple):
    """Everything that runs: merchants who send payments, the API, the worker, the receiver."""

    running: Service
    receiver: Receiver
    merchants: list[Merchant]
    port: int
    worker_pid: int


@contextmanager
def _shop(merchants: int) -> Iterator[Shop]:
    with service.fresh() as running, receiving() as receiver:
        port = service.free_port()
        made = service.make_merchants(running.settings, merchants)
        with (
            service.api(running, port, settle_delay_s=0.0),
            service.worker(running, settle_delay_s=0.0) as worker_pid,
        ):
            yield Shop(running, receiver, made, port, worker_pid)


def latency(report: Report, options: Latency) -> None:
    """Measure healthy lanes alone, then beside broken ones."""
    with _shop(MERCHANTS) as shop:
        _run(shop, "warm", options.per_s, options.warm_s)
        say(f"{options.per_s:g} payments a second, all lanes healthy")
        alone = _run(shop, "alone", options.per_s, options.healthy_s)
        say(f"the same beside {options.lanes} broken lanes")
        with _broken(shop, options):
            beside = _run(shop, "beside", options.per_s, options.broken_s + options.after_s)
        [(failing, opened)] = lanes.rows(
            shop.running.settings.database_url, "SELECT count(*), count(opened_at) FROM failing_lanes"
        )
        tally = shop.receiver.tally
    healthy, after = alone.times(), beside.times(options.broken_s)
    rate = f"{options.per_s:g} payments/s"
    report.row(f"{rate}, commit to acknowledged", str(healthy))
    report.row(
        f"  in the {options.broken_s} s after {options.lanes} lanes broke",
        str(beside.times(0, options.broken_s)),
    )
    report.row(
        f"  in the {options.after_s} s after that",
        str(after),
        f"p50 < {P50_MS:g}, p99 < {P99_MS:g} ms",
        reached=after.p50_ms < P50_MS and after.p99_ms < P99_MS,
    )
    times = after.p99_ms / healthy.p99_ms
    report.row("  p99, of the p99 with none broken", f"{times:.2f}", f"<= {P99_TIMES:g}",
        reached=times <= P99_TIMES)  # fmt: skip
    report.row(
        "  meanwhile",
        f"{failing} lanes failing, {opened} open; {tally.hanging:,} requests left hanging, {tally.failed:,} got 500",
    )
    _check_load(report, alone, beside)


def held(report: Report, options: Held) -> None:
    """Measure a steady rate, period by period, while somebody holds a transaction open."""
    merchants = min(16, options.lanes)
    with _shop(merchants) as shop, ExitStack() as stack:
        url = shop.running.settings.database_url
        _run(shop, "warm", options.per_s, 3, options.lanes)
        for _ in range(options.transactions):
            stack.enter_context(lanes.held_transaction(url))
        first = _burst(shop, options.burst, options.lanes)
        say(f"{options.per_s:g} payments a second for {options.periods} periods of {options.period_s} s")
        run = _run(
            shop, "held", options.per_s, options.periods * options.period_s, options.lanes, options.period_s
        )
        last = _burst(shop, options.burst, options.lanes)
    count = options.per_s * options.period_s
    rates = []
    for period in range(options.periods):
        begin, end = period * options.period_s, (period + 1) * options.period_s
        rates.append(run.per_second(begin, end))
        worker_s, postgres_s = run.used[period]
        report.row(
            f"  {begin} to {end} s",
            f"{rates[-1]:,.0f}/s, {run.whole_times(begin, end)};"
            f" worker {worker_s / count * 1e6:,.0f} µs, PostgreSQL {postgres_s / count * 1e6:,.0f} µs",
        )
    held_s = options.periods * options.period_s
    name = f"{options.transactions} transaction held, {options.per_s:g}/s over {options.lanes} lanes"
    report.row(f"{name}, {held_s} s: last rate of first", f"{rates[-1] / rates[0]:.2f}", f">= {RATE_TIMES}",
        reached=rates[-1] >= RATE_TIMES * rates[0])  # fmt: skip
    report.row("  a burst drained after it, and before", f"{last:,.0f}/s, {first:,.0f}/s", f">= {RATE_TIMES}",
        reached=last >= RATE_TIMES * first)  # fmt: skip
    _check_load(report, run)


def _run(
    shop: Shop, name: str, per_s: float, seconds: int, places: int = MERCHANTS, period_s: int = 0
) -> Run:
    """Send payments at a fixed rate, each to be notified to one of the lanes, and wait for the notifications."""
    count = int(per_s * seconds)
    requests = shop.running.directory / "requests"
    bodies = [
        merchant.qr_order(f"{name}-{number:07d}", lanes.url(number % places, shop.receiver.ports.good))
        for number in range(count)
    ]
    ready_at = datetime.now(UTC) + timedelta(seconds=count / 4000)
    merchant.sign_all(
        Work(shop.merchants, f"127.0.0.1:{shop.port}", "createQROrder", bodies, ready_at, per_s), requests
    )
    before = shop.receiver.tally.events
    with paced(requests, shop.port, per_s) as pace:
        started_at = pace.started_at
        used = _used(shop, started_at, period_s, seconds // period_s) if period_s else []
        sent = pace.result()
        deadline = time.monotonic() + ALL_ARRIVE_S
        while shop.receiver.tally.events < before + sent.good and time.monotonic() < deadline:
            time.sleep(0.1)
    time.sleep(0.5)  # for the last outcomes to be written
    requests.unlink()
    found = lanes.rows(
        shop.running.settings.database_url,
        "SELECT extract(epoch FROM p.created_at)::float8,"
        " coalesce(extract(epoch FROM d.final_at - p.created_at)::float8, 'Infinity'),"
        " coalesce(extract(epoch FROM d.final_at - p.final_at)::float8, 'Infinity')"
        " FROM payments p LEFT JOIN deliveries d"
        " ON d.bucket = p.bucket AND d.event_id = p.event_id AND d.state = 'ACKNOWLEDGED'"
        " WHERE p.payment_request_id LIKE %(name)s",
        {"name": f"{name}-%"},
    )
    return Run(sent, [Notified(at - started_at, *(s * 1e3 for s in took)) for at, *took in found], used)


@contextmanager
def _broken(shop: Shop, options: Latency) -> Iterator[None]:
    """Break lanes: overdue deliveries at once, and a few new ones every second."""
    url, ports = shop.running.settings.database_url, shop.receiver.ports
    kinds = (ports.hanging, ports.refusing, ports.failing)
    broken = [
        lane
        for number in range(options.lanes)
        for lane in lanes.make(1, kinds[number % 3], first=1000 + number)
    ]
    lanes.seed(url, broken, options.overdue, overdue_s=600)
    over = threading.Event()

    def trickle() -> None:
        while not over.wait(1.0):
            lanes.seed(url, random.sample(broken, options.trickle), options.trickle)

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _burst(shop: Shop, count: int, places: int) -> float:
    """Return how many deliveries a second are drained of some that are put in at once."""
    say(f"a burst of {count:,} deliveries")
    before = shop.receiver.tally.events
    lanes.seed(shop.running.settings.database_url, lanes.make(places, shop.receiver.ports.good), count)
    return watch(shop.running, shop.receiver, shop.worker_pid, after=before, count=count).per_second


def _used(shop: Shop, started_at: float, period_s: int, periods: int) -> list[tuple[float, float]]:
    """Return the seconds of processor time that worker and PostgreSQL use in each period from now on."""
    read = []
    for period in range(periods + 1):
        time.sleep(max(0.0, started_at + period * period_s - time.time()))
        read.append((usage.processor_s(shop.worker_pid), usage.tree_processor_s(shop.running.postgres_pid)))
    return [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(read)]


def _check_load(report: Report, *runs: Run) -> None:
    """Tell when the load itself was not what it should have been."""
    for run in runs:
        if run.sent.bad or run.sent.late_p99_ms > P50_MS:
            report.row(
                "  the load",
                f"{run.sent.bad} of {run.sent.good + run.sent.bad} not answered 200,"
                f" p99 sent {run.sent.late_p99_ms:.0f} ms late",
                "all, in time",
                reached=False,
            )
