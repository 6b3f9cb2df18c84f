"""One worker and deliveries that are due: how fast it drains them, what it uses meanwhile, and in which order."""

import time
from typing import Final, NamedTuple

from bench import lanes, merchant, service, usage
from bench.receiver import Receiver, receiving
from bench.report import Report, say
from bench.service import Service

SHARE: Final = 0.5
GROWTH: Final = 1.1
FAIR: Final = 2.0
SAMPLED_EVERY_S: Final = 0.1
SLOWEST_PER_S: Final = 200
WARM_S: Final = 5.0


class Throughput(NamedTuple):
    """What to drain: over many lanes, then over a single one."""

    deliveries: int = 20_000
    lanes: int = 64
    single: int = 3_000


class Backlog(NamedTuple):
    """What to drain while memory is watched."""

    deliveries: int = 40_000
    lanes: int = 64


class Fairness(NamedTuple):
    """What is overdue in one dead lane, and how many healthy lanes have one delivery each."""

    overdue: int = 50_000
    lanes: int = 999


THROUGHPUT_IN_FULL: Final = Throughput(deliveries=100_000, single=20_000)
BACKLOG_IN_FULL: Final = Backlog(deliveries=200_000)
FAIRNESS_IN_FULL: Final = Fairness(overdue=200_000)


class Sample(NamedTuple):
    """How far it was, and what had been used: seconds of processor time, the worker's memory."""

    at: float
    events: int
    worker_s: float
    postgres_s: float
    worker_mib: float


class Drain(NamedTuple):
    """A drain from when a tenth was acknowledged until nine tenths were; memory until the end."""

    tenth: Sample
    nine_tenths: Sample
    end: Sample

    @property
    def events(self) -> int:
        """How many were acknowledged in that time."""
        return self.nine_tenths.events - self.tenth.events

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.nine_tenths.at - self.tenth.at

    @property
    def per_second(self) -> float:
        """Acknowledged deliveries per second."""
        return self.events / self.seconds

    @property
    def worker_us(self) -> float:
        """The worker's processor time for a delivery."""
        return (self.nine_tenths.worker_s - self.tenth.worker_s) / self.events * 1e6

    @property
    def postgres_us(self) -> float:
        """PostgreSQL's processor time for a delivery."""
        return (self.nine_tenths.postgres_s - self.tenth.postgres_s) / self.events * 1e6

    @property
    def cores(self) -> float:
        """How many cores the worker used."""
        return self.worker_us * self.per_second / 1e6


def watch(running: Service, receiver: Receiver, worker_pid: int, *, after: int, count: int) -> Drain:
    """Watch the worker until so many more events are acknowledged than there were `after`.

    Raises: RuntimeError when that takes too long.
    """
    deadline = time.monotonic() + 30 + count / SLOWEST_PER_S
    marks = [count // 10, count * 9 // 10, count]
    reached: list[Sample] = []
    while len(reached) < len(marks):
        tally = receiver.tally
        if tally.events - after >= marks[len(reached)]:
            reached.append(
                Sample(
                    time.time(),
                    tally.events,
                    usage.processor_s(worker_pid),
                    usage.tree_processor_s(running.postgres_pid),
                    usage.resident_mib(worker_pid),
                )
            )
            continue
        if time.monotonic() > deadline or usage.has_ended(worker_pid):
            raise RuntimeError(f"only {tally.events - after:,} of {count:,} deliveries arrived in time")
        time.sleep(SAMPLED_EVERY_S)
    return Drain(*reached)


def throughput(report: Report, options: Throughput) -> None:
    """Measure deliveries per second as a share of what the cores that the worker used could sign."""
    drain, signatures = _drained(report, options.deliveries, options.lanes)
    share = drain.per_second / (signatures * drain.cores)
    report.row(
        f"webhooks over {options.lanes} lanes",
        f"{drain.per_second:,.0f}/s on {drain.cores:.2f} cores = {share:.2f} of signatures",
        f">= {SHARE}",
        reached=share >= SHARE,
    )
    report.row("  one signature", f"{1e6 / signatures:,.0f} µs")
    report.row("  one delivery", f"worker {drain.worker_us:,.0f} µs, PostgreSQL {drain.postgres_us:,.0f} µs")
    single, _ = _drained(report, options.single, 1)
    report.row("webhooks over a single lane", f"{single.per_second:,.0f}/s on {single.cores:.2f} cores")


def backlog(report: Report, options: Backlog) -> None:
    """Measure what a long drain costs in memory."""
    drain, _ = _drained(report, options.deliveries, options.lanes)
    growth = drain.end.worker_mib / drain.tenth.worker_mib
    report.row(
        f"{options.deliveries:,} overdue webhooks",
        f"{drain.per_second:,.0f}/s; worker {drain.tenth.worker_mib:.0f} MiB after a tenth,"
        f" {drain.end.worker_mib:.0f} MiB at the end",
        f"<= {GROWTH} times",
        reached=growth <= GROWTH,
    )


def fairness(report: Report, options: Fairness) -> None:
    """Measure how long healthy lanes wait beside one that hangs and has everything else overdue."""
    with (
        service.fresh() as running,
        receiving() as receiver,
        service.worker(running, settle_delay_s=0.0) as worker,
    ):
        receiver_ports = receiver.ports
        url = running.settings.database_url

        def healthy(first: int) -> float:
            """Return after how long one delivery for each of the healthy lanes was acknowledged."""
            places = lanes.make(options.lanes, receiver_ports.good, first=first)
            before = receiver.tally.events
            lanes.seed(url, places, options.lanes)
            seeded_at = time.time()
            return receiver.wait_for(before + options.lanes, 120).last_at - seeded_at

        say("waiting for the worker")
        lanes.seed(url, lanes.make(1, receiver_ports.good), 1)
        receiver.wait_for(1, 30)
        say("healthy lanes alone")
        alone_s = healthy(1)
        say(f"{options.overdue:,} overdue in one lane that hangs")
        dead = lanes.make(1, receiver_ports.hanging, first=options.lanes + 1)
        lanes.seed(url, dead, options.overdue, overdue_s=3600)
        lanes.settle_down(url)
        time.sleep(WARM_S)
        beside_s = healthy(options.lanes + 2)
        mib = usage.resident_mib(worker)
    report.row(
        f"{options.lanes} lanes, one webhook each",
        f"all acknowledged after {alone_s:.2f} s; beside {options.overdue:,} overdue in a dead lane"
        f" after {beside_s:.2f} s",
        f"<= {FAIR:g} times",
        reached=beside_s <= FAIR * alone_s,
    )
    report.row("  worker, resident", f"{mib:.0f} MiB")


def _drained(report: Report, count: int, places: int) -> tuple[Drain, float]:
    """Drain so many deliveries over so many lanes; also the signatures per second of a core, here and now."""
    with service.fresh() as running, receiving() as receiver:
        say(f"putting in {count:,} deliveries for {places} lanes")
        lanes.seed(running.settings.database_url, lanes.make(places, receiver.ports.good), count)
        lanes.settle_down(running.settings.database_url)
        key = running.merchant.private_pem
        before = merchant.signatures_per_second(key)
        say("draining them")
        with service.worker(running, settle_delay_s=0.0) as worker:
            drain = watch(running, receiver, worker, after=0, count=count)
        signatures = (before + merchant.signatures_per_second(key)) / 2
        [(acknowledged, attempts)] = lanes.rows(
            running.settings.database_url,
            "SELECT count(*) FILTER (WHERE state = 'ACKNOWLEDGED'), sum(attempts) FROM deliveries",
        )
    if (acknowledged, attempts) != (count, count):
        report.row(
            f"  {count:,} deliveries",
            f"{acknowledged:,} acknowledged in {attempts:,} attempts",
            "each once",
            reached=False,
        )
    return drain, signatures
