"""Replays that a page has asked for: run page by page, stopped, taken up, and gone on with by another worker."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import pytest_asyncio

from deployment import fetch_all
from event_rows import insert_events
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.replays import PostgresReplays
from payaccept.domain.errors import SendingRefused
from payaccept.domain.event import EventStatus
from payaccept.domain.replay import Replay, ReplayState
from payaccept.domain.user import Actor
from payaccept.operations.events import Span
from payaccept.operations.replays import LEASE, ReplayRunner, Replays
from visitor import Clock

NOW = datetime.now(UTC)  # payloads go to today's partition
HOUR = timedelta(hours=1)
SPAN = Span(beginning=NOW - 2 * HOUR, end=NOW)
ANNA = Actor(user_id=None, name="anna@example.com", address="192.0.2.1")


@pytest.fixture
def clock():
    return Clock(NOW)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lines(settings):
    pool = LinePool(settings.database_url, "test")
    yield pool
    await pool.close()


@pytest.fixture
def replays(lines, administration, clock):
    return Replays(PostgresReplays(lines), administration.events, clock=clock)


@pytest.fixture
def worker(lines, administration, clock):
    return ReplayRunner(PostgresReplays(lines), administration.events, clock=clock)


@pytest.fixture
async def shop(register):
    return await register("Shop", webhook_url="https://shop.example/now")


def dead(settings, shop, count: int) -> list[str]:
    times = [NOW - HOUR + timedelta(milliseconds=number) for number in range(count)]
    return insert_events(settings.database_url, shop.client_id, times, state="DEAD")


def pending(settings, shop) -> set[str]:
    query = "SELECT event_id FROM deliveries WHERE client_id = %s AND state = 'PENDING'"
    return {event_id for (event_id,) in fetch_all(settings.database_url, query, shop.client_id)}


async def found(replays, replay: Replay) -> Replay:
    again = await replays.find(replay.client_id, replay.replay_id)
    assert again is not None
    return again


async def test_a_replay_sends_a_page_at_a_time_at_its_rate_until_all_are_sent(
    settings, shop, replays, worker, clock
):
    made = dead(settings, shop, 25)
    assert await replays.count(shop.client_id, SPAN) == 25
    replay = await replays.start(shop.client_id, SPAN, 50, ANNA)
    assert (replay.total, replay.looked_at, replay.page_size) == (25, 0, 10)
    await worker.run_pages()
    assert pending(settings, shop) == set(made[:10])
    await worker.run_pages()  # no time has passed
    assert pending(settings, shop) == set(made[:10])
    for _ in range(3):
        clock.move(seconds=0.2)
        await worker.run_pages()
    replay = await found(replays, replay)
    assert pending(settings, shop) == set(made)
    assert (replay.state, replay.looked_at, replay.resent) == (ReplayState.DONE, 25, 25)
    assert (replay.last_event_id, replay.ended_at) == (made[-1], clock.now)


async def test_only_the_statuses_that_are_wanted_are_sent_again(settings, shop, replays, worker, clock):
    made = dead(settings, shop, 3)
    times = [NOW - HOUR] * 4
    insert_events(settings.database_url, shop.client_id, times)
    span = Span(beginning=SPAN.beginning, end=SPAN.end, statuses=frozenset({EventStatus.DEAD}))
    replay = await replays.start(shop.client_id, span, 50, ANNA)
    for _ in range(2):
        await worker.run_pages()
        clock.move(seconds=1)
    assert pending(settings, shop) == set(made)
    assert (await found(replays, replay)).total == 3


async def test_a_replay_is_stopped_and_taken_up_where_it_stopped(settings, shop, replays, worker, clock):
    made = dead(settings, shop, 4)
    replay = await replays.start(shop.client_id, SPAN, 5, ANNA)
    await worker.run_pages()
    clock.move(seconds=0.1)
    assert await replays.stop(shop.client_id, replay.replay_id, ANNA)
    assert not await replays.stop(shop.client_id, replay.replay_id, ANNA)
    clock.move(seconds=10)
    await worker.run_pages()
    assert pending(settings, shop) == {made[0]}
    assert (await found(replays, replay)).state is ReplayState.STOPPED
    assert await replays.resume(shop.client_id, replay.replay_id, ANNA)
    assert not await replays.resume(shop.client_id, replay.replay_id, ANNA)
    for _ in range(4):
        await worker.run_pages()
        clock.move(seconds=1)
    ended = await found(replays, replay)
    assert (ended.state, ended.looked_at, ended.total) == (ReplayState.DONE, 4, 4)
    assert pending(settings, shop) == set(made)
    query = "SELECT action, actor FROM audit_log WHERE subject = %s ORDER BY entry_id"
    entries = fetch_all(settings.database_url, query, replay.replay_id)
    assert entries == [(f"replay.{verb}", ANNA.name) for verb in ("started", "stopped", "resumed")]


async def test_a_merchant_has_one_replay_running(settings, shop, replays, clock):
    dead(settings, shop, 1)
    first = await replays.start(shop.client_id, SPAN, 50, ANNA)
    with pytest.raises(SendingRefused, match="another replay"):
        await replays.start(shop.client_id, SPAN, 50, ANNA)
    await replays.stop(shop.client_id, first.replay_id, ANNA)
    clock.move(seconds=1)
    second = await replays.start(shop.client_id, SPAN, 50, ANNA)
    assert not await replays.resume(shop.client_id, first.replay_id, ANNA)
    assert [one.replay_id for one in await replays.list_last(shop.client_id)] == [
        second.replay_id,
        first.replay_id,
    ]


async def test_eight_starts_at_once_begin_one(settings, shop, replays):
    dead(settings, shop, 1)
    outcomes = await asyncio.gather(
        *(replays.start(shop.client_id, SPAN, 50, ANNA) for _ in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, Replay) for one in outcomes) == 1
    assert sum(isinstance(one, SendingRefused) for one in outcomes) == 7


async def test_another_worker_goes_on_when_one_has_died(
    settings, shop, replays, lines, administration, clock
):
    made = dead(settings, shop, 2)
    replay = await replays.start(shop.client_id, SPAN, 5, ANNA)
    died = PostgresReplays(lines)
    [claimed] = [
        one
        for one in await died.claim_replays(clock.now, clock.now + LEASE, 100)
        if one.replay_id == replay.replay_id
    ]
    second = ReplayRunner(PostgresReplays(lines), administration.events, clock=clock)
    clock.move(seconds=LEASE.total_seconds() - 1)
    await second.run_pages()
    assert pending(settings, shop) == set()
    clock.move(seconds=1)
    await second.run_pages()
    assert pending(settings, shop) == {made[0]}
    # What the first one says then counts no more.
    page = await administration.events.replay_page(shop.client_id, SPAN, 2)
    await died.record_page(claimed, page, clock.now, clock.now, is_done=False)
    assert (await found(replays, replay)).looked_at == 1


async def test_two_workers_never_do_a_page_twice(settings, shop, replays, lines, administration, clock):
    made = dead(settings, shop, 30)
    replay = await replays.start(shop.client_id, SPAN, 25, ANNA)
    workers = [ReplayRunner(PostgresReplays(lines), administration.events, clock=clock) for _ in range(3)]
    for _ in range(12):
        await asyncio.gather(*(worker.run_pages() for worker in workers))
        clock.move(seconds=0.3)
    ended = await found(replays, replay)
    assert (ended.looked_at, ended.resent) == (30, 30)
    assert pending(settings, shop) == set(made)


async def test_a_stop_while_a_page_is_under_way_keeps_what_the_page_did(
    settings, shop, replays, lines, administration, clock
):
    dead(settings, shop, 3)
    replay = await replays.start(shop.client_id, SPAN, 5, ANNA)
    store = PostgresReplays(lines)
    [claimed] = [
        one
        for one in await store.claim_replays(clock.now, clock.now + LEASE, 100)
        if one.replay_id == replay.replay_id
    ]
    page = await administration.events.replay_page(shop.client_id, SPAN, 1)
    await replays.stop(shop.client_id, replay.replay_id, ANNA)
    await store.record_page(claimed, page, clock.now, clock.now, is_done=False)
    stopped = await found(replays, replay)
    assert (stopped.state, stopped.looked_at, stopped.resent) == (ReplayState.STOPPED, 1, 1)


async def test_a_replay_of_another_merchant_is_not_there(settings, shop, replays, register):
    dead(settings, shop, 1)
    replay = await replays.start(shop.client_id, SPAN, 50, ANNA)
    other = await register("Other")
    assert await replays.find(other.client_id, replay.replay_id) is None
    assert not await replays.stop(other.client_id, replay.replay_id, ANNA)
    assert not await replays.resume(other.client_id, replay.replay_id, ANNA)
    assert await replays.list_last(other.client_id) == []


@pytest.mark.parametrize("rate", [0, 1001])
async def test_a_rate_has_bounds(shop, replays, rate):
    with pytest.raises(SendingRefused, match="a rate is 1 to 1000"):
        await replays.start(shop.client_id, SPAN, rate, ANNA)


async def test_a_replay_that_nobody_is_at_says_so(settings, shop, replays, clock):
    dead(settings, shop, 1)
    replay = await replays.start(shop.client_id, SPAN, 50, ANNA)
    assert not replay.waits(clock.now)
    assert replay.waits(clock.now + timedelta(minutes=1))
    with psycopg.connect(settings.database_url) as connection:
        connection.execute("UPDATE replays SET state = 'STOPPED', next_at = NULL, ended_at = now()")
    assert not (await found(replays, replay)).waits(clock.now + timedelta(minutes=1))
