"""Fairness over the real store: who hangs, fails or has the most due takes nothing from the others."""

import asyncio
import contextlib
import re
from collections import Counter
from datetime import timedelta

import psycopg
import pytest

from delivering import UNWELL, WELL, Endpoints, Time, at_hand, insert_due
from deployment import NOW, fetch_all, run_sql
from payaccept.adapters.postgres import statements
from payaccept.adapters.postgres.membership import PostgresMembership
from payaccept.domain.delivery import Unreachable
from payaccept.domain.errors import OutcomeOpen
from payaccept.domain.lanes import OPENS_AFTER, merchant_of
from payaccept.domain.places import Limits
from payaccept.operations.sending import WALK_LANES

STATES = "SELECT state, count(*) FROM deliveries GROUP BY state"
BACKLOG = 20_000


def states(database_url: str) -> dict[str, int]:
    return dict(fetch_all(database_url, STATES))


@pytest.fixture(scope="module")
def backlogged(fresh_database):
    """20,000 overdue of one merchant whose host is dead, and one each of 299 others, due since after them."""
    url = fresh_database()
    insert_due(url, ("sandbox_0", "dead.example"), BACKLOG, at=NOW - timedelta(hours=3))
    insert_due(url, {f"shop-{number}.example": f"sandbox_{number}" for number in range(1, 300)})
    return url


async def test_a_backlog_of_a_dead_host_keeps_nobody_waiting(backlogged):
    time = Time()
    time.go_on(0.1)
    async with at_hand(backlogged, time) as hand:
        hand.endpoints.behaviour["dead.example"] = lambda _post: Unreachable("refused")
        await hand.step()
        assert len(hand.endpoints.journal) == 96, "as many as a worker tries that it does not know yet"
        time.go_on(0.2)
        for _ in range(3):
            await hand.step()
        assert len({post.host for post in hand.endpoints.journal} - {"dead.example"}) == 299
        assert len(hand.endpoints.at("dead.example")) <= 3


def test_looking_for_lanes_reads_a_few_pages_for_each_however_much_is_due(backlogged):
    sql = statements.load("deliveries.sql")["select_due_lanes"]
    for name, value in {
        "after": "''",
        "since": "'2000-01-01'",
        "now": f"'{NOW + timedelta(minutes=1)}'",
        "limit": "1000",
    }.items():
        sql = sql.replace(f"%({name})b", value)
    with psycopg.connect(backlogged) as connection:
        # As the connections of the worker have it.
        for way in ("seqscan", "hashjoin", "mergejoin", "bitmapscan", "material"):
            connection.execute(f"SET enable_{way} = off".encode())
        lines = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {sql}".encode()).fetchall()
    plan = "\n".join(line for (line,) in lines)
    assert "Seq Scan" not in plan
    assert plan.count("using deliveries_pending") == 2
    [buffers] = re.findall(r"shared hit=(\d+)", plan)[:1]
    assert int(buffers) < 300 * 8, plan


async def test_more_lanes_than_one_look_finds_are_all_reached(fresh_database):
    url, time = fresh_database(), Time()
    count = WALK_LANES + 200
    insert_due(url, {f"shop-{number}.example": f"sandbox_{number}" for number in range(count)})
    time.go_on(1)
    async with at_hand(url, time) as hand:
        await hand.steps(4, 0.2)
        assert states(url) == {"ACKNOWLEDGED": count}


async def test_endpoints_that_hang_do_not_stop_the_others(fresh_database):
    url, time = fresh_database(), Time()
    hanging = {f"hangs-{number}.example": f"sandbox_{number}" for number in range(40)}
    insert_due(url, ("sandbox_known", "known.example"), 1)
    async with at_hand(url, time, limits=Limits(in_all=32)) as hand:
        await hand.step()
        insert_due(url, hanging, 10)
        hand.endpoints.behaviour = dict.fromkeys(hanging, hand.endpoints.hang)
        time.go_on(0.2)
        await hand.step()
        assert len(hand.endpoints.in_flight) == 1 + 12, "half of the places are for those that answer"
        await hand.steps(2.5, 0.1)
        assert len(hand.endpoints.in_flight) == 1 + 14, "of the other half some are for those not known yet"
        insert_due(url, {"known.example": "sandbox_known", "new.example": "sandbox_new"}, 50)
        hand.sending.look("sandbox_new https://new.example:443")
        begun_s = time.monotonic_s
        await hand.steps(30, 0.1)
        assert hand.endpoints.at("known.example")[50].at_s - begun_s < 3
        # One that is not known yet does not wait until some of those that hang have timed out.
        assert hand.endpoints.at("new.example")[0].at_s - begun_s < 2.5
        assert hand.endpoints.at("new.example")[49].at_s - begun_s < 6
        assert max(hand.endpoints.most_in_flight.values()) <= 4


async def test_a_merchant_with_many_hosts_has_no_more_in_flight_than_a_merchant_may(fresh_database):
    url, time = fresh_database(), Time()
    hosts = [f"host-{number}.example" for number in range(60)]
    insert_due(url, dict.fromkeys(hosts, "sandbox_1"), 6)
    time.go_on(1)
    async with at_hand(url, time, limits=Limits(per_merchant=10)) as hand:
        in_flight, most, release = 0, 0, asyncio.Event()

        async def answer(_post):
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            await release.wait()
            in_flight -= 1
            return WELL

        hand.endpoints.behaviour = dict.fromkeys(hosts, answer)
        for _ in range(200):
            await hand.step()
            release.set()
            await hand.settle_down()
            release.clear()
            time.go_on(0.2)
        release.set()
        assert most == 10
        assert states(url) == {"ACKNOWLEDGED": 360}
        assert max(hand.endpoints.most_in_flight.values()) <= 4


async def test_the_breaker_opens_probes_with_one_closes_and_loses_nothing(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 200)
    time.go_on(1)
    async with at_hand(url, time) as hand:
        hand.endpoints.behaviour["shop.example"] = lambda _post: WELL
        await hand.step()  # it answers once, and is known
        hand.endpoints.behaviour["shop.example"] = lambda _post: UNWELL
        await hand.step()
        failed = len(hand.endpoints.journal) - 1
        assert OPENS_AFTER <= failed < OPENS_AFTER + 4, "the rest of what was in hand is given back"
        assert hand.sending.lanes.open == 1
        hand.sending.thin_out()
        await hand.settle_down()
        assert fetch_all(url, "SELECT sum(attempts) FROM deliveries") == [(failed + 1,)]
        assert fetch_all(url, "SELECT count(*) FROM deliveries WHERE claim_id IS NOT NULL") == [(0,)]
        before = len(hand.endpoints.journal)
        await hand.steps(60, 0.2)
        probes = hand.endpoints.journal[before:]
        # After 1, 2, 4, 8 and 16 s, and then every 16 s.
        assert 5 <= len(probes) <= 7
        assert len({post.at_s for post in probes}) == len(probes), "one at a time"
        hand.endpoints.behaviour["shop.example"] = lambda _post: WELL
        await hand.steps(60, 0.2)
        assert hand.sending.lanes.open == 0
        assert states(url) == {"ACKNOWLEDGED": 200}
        attempts = fetch_all(url, "SELECT sum(attempts) FROM deliveries")
        assert attempts == [(len(hand.endpoints.journal),)], "only what was sent is counted"


async def test_what_waits_in_a_lane_that_stops_answering_is_given_back_uncounted(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 60)
    time.go_on(1)
    async with at_hand(url, time) as hand:
        await hand.step()
        hand.endpoints.behaviour["shop.example"] = hand.endpoints.hang
        await hand.step()
        leased = "SELECT count(*) FROM deliveries WHERE claim_id IS NOT NULL"
        assert fetch_all(url, leased) == [(32,)]
        time.go_on(0.3)
        hand.sending.thin_out()
        await hand.settle_down()
        assert fetch_all(url, leased) == [(4,)]
        assert fetch_all(url, "SELECT sum(attempts) FROM deliveries") == [(5,)]


async def test_a_worker_that_stops_gives_back_what_it_has_not_begun_to_send(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "shop.example"), 60)
    time.go_on(1)
    async with at_hand(url, time) as hand:
        await hand.step()
        release = asyncio.Event()

        async def answer(_post):
            await release.wait()
            return WELL

        hand.endpoints.behaviour["shop.example"] = answer
        await hand.step()
        stopping = asyncio.create_task(hand.sending.stop())
        await asyncio.sleep(0.2)
        assert not stopping.done()
        release.set()
        await stopping
        assert len(hand.endpoints.journal) == 5
        assert states(url) == {"ACKNOWLEDGED": 5, "PENDING": 55}
        assert fetch_all(url, "SELECT count(*) FROM deliveries WHERE claim_id IS NOT NULL") == [(0,)]
        assert fetch_all(url, "SELECT sum(attempts) FROM deliveries") == [(5,)]


async def test_what_one_worker_knew_of_failing_lanes_the_next_one_knows(fresh_database):
    url, time = fresh_database(), Time()
    insert_due(url, ("sandbox_1", "dead.example"), 20)
    insert_due(url, ("sandbox_2", "shop.example"), 1)
    time.go_on(1)
    kept = "SELECT lane, client_id, failures, opened_at IS NOT NULL, last_reason FROM failing_lanes"
    lane = "sandbox_1 https://dead.example:443"
    async with at_hand(url, time) as hand:
        hand.endpoints.behaviour["dead.example"] = lambda _post: Unreachable("refused")
        await hand.steps(1, 0.2)
        await hand.sending.keep_lanes()
        assert fetch_all(url, kept) == [(lane, "sandbox_1", OPENS_AFTER, True, "refused")]
    async with at_hand(url, time) as hand:
        hand.endpoints.behaviour["dead.example"] = lambda _post: Unreachable("refused")
        await hand.step()
        await hand.step()
        assert len(hand.endpoints.journal) == 1, "a probe, and a pause"
        hand.endpoints.behaviour["dead.example"] = lambda _post: WELL
        await hand.steps(3, 0.2)
        await hand.sending.keep_lanes()
        assert fetch_all(url, kept) == []
        time.go_on(30)
        await hand.step()
        assert states(url) == {"ACKNOWLEDGED": 21}


# Several workers.


async def test_a_merchant_is_one_workers_and_another_takes_over_when_it_is_gone(fresh_database):
    url, time = fresh_database(), Time()
    endpoints = [Endpoints(time), Endpoints(time), Endpoints(time)]
    insert_due(url, {f"shop-{number}.example": f"sandbox_{number}" for number in range(30)}, 2)
    time.go_on(1)
    async with at_hand(url, time, endpoints[0]) as first, at_hand(url, time, endpoints[1]) as second:
        for hand in (first, second, first, second):
            await hand.sending.meet()
        async with at_hand(url, time, endpoints[2]) as third:
            for hand in (third, first, second):
                await hand.sending.meet()
            for _ in range(3):
                for hand in (first, second, third):
                    await hand.step()
                    time.go_on(0.2)
            hosts = [{post.host for post in of.journal} for of in endpoints]
            assert all(hosts)
            assert sum(map(len, hosts)) == len(set.union(*hosts)) == 30, "each merchant is one worker's"
            insert_due(url, ("sandbox_x", "x.example"), 10, at=time.wall)
        for _ in range(5):
            await asyncio.sleep(0.02)  # until its session has ended
            time.go_on(0.2)
            for hand in (first, second):
                await hand.sending.meet()
                await hand.step()
        assert states(url) == {"ACKNOWLEDGED": 70}
        by_event = Counter(post.event_id for of in endpoints for post in of.journal)
        assert set(by_event.values()) == {1}


async def test_workers_that_do_not_know_of_each_other_still_send_everything_once(fresh_database):
    url, time = fresh_database(), Time()
    endpoints = Endpoints(time)
    insert_due(url, {f"shop-{number}.example": f"sandbox_{number}" for number in range(20)}, 30)
    time.go_on(1)
    async with at_hand(url, time, endpoints) as first, at_hand(url, time, endpoints) as second:
        for hand in (first, second):
            await hand.sending.meet()
            hand.sending._membership.update(1, {1})
        for _ in range(40):
            await asyncio.gather(first.step(), second.step())
            time.go_on(0.2)
        assert states(url) == {"ACKNOWLEDGED": 600}
        assert set(Counter(post.event_id for post in endpoints.journal).values()) == {1}


async def test_who_lives_is_known_at_once_and_who_is_silent_does_not_count(fresh_database):
    url, elsewhere = fresh_database(), fresh_database()
    first, second = PostgresMembership(url, silent_s=0.4), PostgresMembership(url, silent_s=0.4)
    stranger = PostgresMembership(elsewhere)
    try:
        me, _ = await first.list_workers()
        other, workers = await second.list_workers()
        assert workers == {me, other}
        assert await first.list_workers() == (me, {me, other})
        await stranger.list_workers()
        assert (await first.list_workers())[1] == {me, other}
        await asyncio.sleep(0.5)
        assert (await first.list_workers())[1] == {me}, "a process that hangs serves nobody"
        assert (await second.list_workers())[1] == {me, other}, "until it goes on"
        await second.close()
        await asyncio.sleep(0.2)  # not so long that it would count as silent
        assert (await first.list_workers())[1] == {me}
    finally:
        for membership in (first, second, stranger):
            await membership.close()


async def test_a_worker_whose_session_was_ended_comes_back_with_another_number(fresh_database):
    url = fresh_database()
    membership = PostgresMembership(url)
    try:
        me, _ = await membership.list_workers()
        run_sql(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'payaccept-worker-membership'",
        )
        with contextlib.suppress(OutcomeOpen):  # unless it is noticed before
            await membership.list_workers()
        again, workers = await membership.list_workers()
        assert again != me
        assert workers == {again}
    finally:
        await membership.close()


def test_a_lane_names_its_merchant():
    assert merchant_of("sandbox_1 https://shop.example:443") == "sandbox_1"
