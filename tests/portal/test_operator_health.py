"""The operator's overview: which parts are there, what is left to do, charts of how it went."""

import pytest
import pytest_asyncio

from deployment import run_sql
from payaccept.adapters.postgres.health import PostgresPulse
from payaccept.figures import catalogue
from payaccept.figures.pulse import Pulse
from payaccept.figures.slab import Slab


@pytest_asyncio.fixture(loop_scope="session")
async def staff(portal):
    run_sql(portal.settings.database_url, "DELETE FROM processes", "DELETE FROM health_minutes")
    return await (await portal.employee()).browser()


@pytest_asyncio.fixture(loop_scope="session")
async def worker(portal):
    slab = Slab(catalogue.WORKER)
    pulse = Pulse("worker", PostgresPulse(portal.settings.database_url, process="test"), portal.clock, slab)
    yield pulse, slab
    await pulse.close()


async def test_without_a_worker_the_page_says_so(staff):
    seen = await staff.get("/operator")
    assert "None has ever been here" in seen.text
    assert "Not known: no worker says anything" in seen.text


async def test_a_worker_shows_what_is_left_to_do(staff, worker):
    pulse, slab = worker
    slab.number("payaccept_deliveries", "due").set(1234)
    slab.number("payaccept_deliveries", "dead").set(56)
    slab.number("payaccept_deliveries_oldest_due_seconds", "closed").set(75)
    for _ in range(99):
        slab.histogram("payaccept_delivery_acknowledged_seconds").observe(0.04)
    await pulse.beat()
    seen = await staff.get("/operator")
    assert "1,234 due" in seen.text
    assert "Late" in seen.text
    assert "1 min" in seen.text
    assert "100.0 %" in seen.text


async def test_a_process_that_was_killed_is_told_of(portal, staff, worker):
    await worker[0].beat()
    assert "1 process" in (await staff.get("/operator")).text
    portal.clock.move(seconds=31)
    seen = await staff.get("/operator")
    assert "Silent since 31 seconds ago" in seen.text


async def test_two_versions_at_once_are_told_of(portal, staff, worker):
    await worker[0].beat()
    assert "Processes of 2 versions" not in (await staff.get("/operator")).text
    run_sql(
        portal.settings.database_url,
        "INSERT INTO processes SELECT 'prc_2', 'api', host, 2, '9.9.9', started_at, seen_at, 0, 0 FROM processes",
    )
    assert "Processes of 2 versions" in (await staff.get("/operator")).text


@pytest.mark.parametrize("reach", ["hour", "day", "week", "year", ""])
async def test_every_reach_has_its_charts_within_the_size_of_a_page(staff, worker, reach):
    await worker[0].beat()
    seen = await staff.get(f"/operator?reach={reach}")
    assert seen.status == 200
    assert seen.html.count("<figure") == 12
    assert len(seen.response.content) < 60 * 1024
