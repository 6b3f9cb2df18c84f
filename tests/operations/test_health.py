"""The pulse of the processes, and what the database keeps of it."""

from datetime import timedelta

import pytest

from deployment import NOW, after, fetch_all
from payaccept.adapters.postgres.health import PostgresHealth, PostgresPulse
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.errors import StoreUnavailable
from payaccept.domain.health import Figure
from payaccept.figures import catalogue
from payaccept.figures.pulse import Pulse
from payaccept.figures.slab import Slab
from payaccept.operations.health import DAY, HOUR, WEEK, Health
from visitor import Clock


class Deployment:
    """Processes that beat on one database."""

    def __init__(self, url):
        self.url = url
        self.clock = Clock(NOW)
        self.lines = LinePool(url, "test")
        self.health = Health(PostgresHealth(self.lines), self.ping)
        self.pulses = []

    async def ping(self):
        raise StoreUnavailable("away")

    def process(self, kind, layout=None):
        slab = None if layout is None else Slab(layout)
        pulse = Pulse(kind, PostgresPulse(self.url, process="test"), self.clock, slab)
        self.pulses.append(pulse)
        return pulse, slab

    async def hour(self):
        return await self.health.list_spans(HOUR, self.clock())

    async def close(self):
        for pulse in self.pulses:
            await pulse.close()
        await self.lines.close()


@pytest.fixture
async def deployment(fresh_database):
    made = Deployment(fresh_database())
    yield made
    await made.close()


async def test_counts_of_all_processes_are_added_up_minute_by_minute(deployment):
    beats = []
    for _ in range(2):
        pulse, slab = deployment.process("api", catalogue.API)
        counter = slab.number("payaccept_requests_total", "createQROrder", "SUCCESS")
        other = slab.number("payaccept_requests_total", "retailPay", "SUCCESS")
        beats.append((pulse, counter, other))
    for seconds in (0, 10, 70):
        deployment.clock.now = after(seconds)
        for pulse, counter, other in beats:
            counter.add(3)
            other.add(2)
            await pulse.beat()
    spans = await deployment.hour()
    assert [span.at for span in spans[-2:]] == [NOW, after(60)]
    assert [span.of(Figure.REQUESTS, "SUCCESS") for span in spans[-2:]] == [20, 10]
    assert (len(spans), spans[0].figures) == (60, {})


async def test_of_a_state_the_worst_of_the_minute_is_kept_whoever_tells_it(deployment):
    for due, oldest_s in ((5, 1.5), (9, 0.25), (0, 0.0)):
        pulse, slab = deployment.process("worker", catalogue.WORKER)
        slab.number("payaccept_deliveries", "due").set(due)
        slab.number("payaccept_deliveries_oldest_due_seconds", "closed").set(oldest_s)
        await pulse.beat()
        await pulse.beat()
    [*_, present] = await deployment.hour()
    assert present.of(Figure.DELIVERIES, "due") == 9
    assert present.of(Figure.OLDEST_DUE, "closed") == 1500


async def test_distributions_are_kept_by_their_bounds(deployment):
    pulse, slab = deployment.process("worker", catalogue.WORKER)
    histogram = slab.histogram("payaccept_delivery_acknowledged_seconds")
    for seconds in (0.004, 0.02, 0.02, 1e9):
        histogram.observe(seconds)
    await pulse.beat()
    [*_, present] = await deployment.hour()
    assert present.figures[Figure.ACKNOWLEDGED] == {"0.005": 1, "0.025": 2, "inf": 1}


async def test_health_checks_are_no_requests(deployment):
    pulse, slab = deployment.process("api", catalogue.API)
    slab.number("payaccept_requests_total", catalogue.DOCUMENT, "SUCCESS").add(100)
    slab.histogram("payaccept_request_seconds", catalogue.DOCUMENT).observe(0.001)
    await pulse.beat()
    assert (await deployment.hour())[-1].figures == {}


async def test_a_process_is_there_from_its_first_beat_to_its_end(deployment):
    pulse, _ = deployment.process("portal")
    assert await deployment.health.list_processes() == []
    await pulse.beat()
    deployment.clock.move(seconds=10)
    await pulse.beat()
    [process] = await deployment.health.list_processes()
    assert (process.kind, process.started_at, process.seen_at) == ("portal", NOW, after(10))
    assert process.memory_bytes > 1_000_000
    assert process.cpu_permille >= 0
    await pulse.close()
    assert await deployment.health.list_processes() == []


async def test_what_a_process_counted_last_is_written_when_it_ends(deployment):
    pulse, slab = deployment.process("worker", catalogue.WORKER)
    await pulse.beat()
    slab.number("payaccept_deliveries_died_total").add(4)
    await pulse.close()
    assert (await deployment.hour())[-1].of(Figure.DIED, "") == 4


async def test_while_the_database_is_away_counts_wait_for_it(fresh_database):
    url = fresh_database()
    slab = Slab(catalogue.API)
    counter = slab.number("payaccept_requests_total", "retailPay", "SUCCESS")
    counter.add(7)

    class Away(PostgresPulse):
        async def beat(self, *_):
            raise StoreUnavailable("away")

    away = Away(url, process="test")
    pulse = Pulse("api", away, lambda: NOW, slab)
    with pytest.raises(StoreUnavailable):
        await pulse.beat()
    pulse._store = PostgresPulse(url, process="test")
    counter.add(1)
    await pulse.beat()
    await pulse.close()
    assert fetch_all(url, "SELECT sum(amount) FROM health_minutes WHERE figure = 'requests'") == [(8,)]


async def test_a_week_is_kept_and_silent_processes_a_day(deployment):
    pulse, slab = deployment.process("worker", catalogue.WORKER)
    slab.number("payaccept_deliveries_died_total").add()
    await pulse.beat()
    for days, minutes, processes in ((0.9, 1, 1), (6.9, 1, 0), (7.1, 0, 0)):
        deployment.clock.now = NOW + timedelta(days=days)
        pulse._expired_at_s = 0.0
        await pulse._expire()
        assert fetch_all(deployment.url, "SELECT count(*) FROM health_minutes") == [(minutes,)]
        assert fetch_all(deployment.url, "SELECT count(*) FROM processes") == [(processes,)]


@pytest.mark.parametrize(("reach", "count"), [(HOUR, 60), (DAY, 72), (WEEK, 84)])
async def test_every_reach_is_told_in_whole_spans_the_present_one_last(deployment, reach, count):
    pulse, slab = deployment.process("worker", catalogue.WORKER)
    number = slab.number("payaccept_deliveries_died_total")
    step = timedelta(minutes=reach.step_min)
    for spans_ago in (count, count - 1, 0):
        deployment.clock.now = after(61) - spans_ago * step
        number.add()
        await pulse.beat()
    spans = await deployment.health.list_spans(reach, deployment.clock())
    assert len(spans) == count
    assert [span.total(Figure.DIED) for span in spans] == [1, *[0] * (count - 2), 1]
    assert spans[-1].at <= deployment.clock() < spans[-1].at + step


async def test_a_database_that_does_not_answer_is_not_ready(deployment):
    assert not await deployment.health.is_database_ready()


async def test_figures_of_another_version_are_passed_over(deployment):
    pulse, _ = deployment.process("portal")
    await pulse.beat()
    async with deployment.lines.connection() as connection:
        await connection.execute(
            "INSERT INTO health_minutes (minute, figure, label, amount) VALUES (%s, 'novel', '', 1)", [NOW]
        )
    assert (await deployment.hour())[-1].figures == {}
