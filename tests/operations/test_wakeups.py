"""Hints between processes: what has become due, and where."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from delivering import Time, at_hand, insert_due
from deployment import fetch_all, run_sql
from payaccept.adapters.postgres.wakeups import CHANNEL, WakeupListener, WakeupSender
from processes import eventually

LANE = "sandbox_1 https://shop.example:443"


class Both:
    """Somebody who tells, and somebody who hears."""

    def __init__(self, database_url: str) -> None:
        self.heard: list[str | None] = []
        self.sender = WakeupSender(database_url, process="test")
        self.listener = WakeupListener(database_url, self.heard.append)


@pytest_asyncio.fixture(loop_scope="session")
async def both(database_url) -> AsyncIterator[Both]:
    opened = Both(database_url)
    listening = asyncio.create_task(opened.listener.run())
    await eventually(
        lambda: opened.heard == [None], "it listens, and takes it that something was said before"
    )
    opened.heard.clear()
    yield opened
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await opened.sender.close()


async def test_the_lanes_told_within_a_moment_are_heard_once_each(both):
    for lane in (LANE, "another", LANE):
        both.sender.send(lane)
    await eventually(lambda: both.heard == [LANE, "another"], "both are heard")
    both.sender.send("a third")
    await eventually(lambda: both.heard[2:] == ["a third"], "it is heard")


async def test_what_may_be_anywhere_is_heard_as_that(both):
    both.sender.send(LANE)
    both.sender.send()
    await eventually(lambda: both.heard == [None], "it is heard")


async def test_more_lanes_than_a_hint_holds_are_heard_as_anywhere(both):
    for number in range(500):
        both.sender.send(f"{LANE}{number}")
    await eventually(lambda: both.heard == [None], "it is heard")


async def test_who_lost_the_connection_listens_again_and_looks_everywhere(both, database_url):
    run_sql(
        database_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'payaccept-worker-listen'",
    )
    await eventually(lambda: both.heard == [None], "it listens again")
    run_sql(database_url, f"NOTIFY {CHANNEL}")
    await eventually(lambda: both.heard == [None, None], "it hears")


async def test_a_lane_that_was_told_of_is_looked_into_without_looking_for_others(fresh_database):
    url, time = fresh_database(), Time()
    async with at_hand(url, time) as hand:
        await hand.step()
        insert_due(url, {"shop.example": "sandbox_1", "another.example": "sandbox_2"})
        time.go_on(0.01)
        hand.sending.look(LANE)
        await hand.sending.fill()
        await hand.settle_down()
        assert [post.host for post in hand.endpoints.journal] == ["shop.example"]
        time.go_on(0.2)
        await hand.sending.walk()
        await hand.sending.fill()
        await hand.settle_down()
        assert fetch_all(url, "SELECT DISTINCT state FROM deliveries") == [("ACKNOWLEDGED",)]


async def test_what_one_is_told_of_does_not_wait_for_the_pause_after_what_was_found(fresh_database):
    url, time = fresh_database(), Time()
    async with at_hand(url, time) as hand:
        await hand.step()
        hand.sending._rest_at_s = time.monotonic_s + 10
        insert_due(url, {"shop.example": "sandbox_1", "another.example": "sandbox_2"})
        time.go_on(1)
        hand.sending.look(LANE)
        await hand.sending.walk()
        wait_s = await hand.sending.fill()
        await hand.settle_down()
        assert [post.host for post in hand.endpoints.journal] == ["shop.example"]
        assert wait_s == 0, "the rest has its turn"
        assert await hand.sending.fill() == pytest.approx(9)
        time.go_on(9)
        await hand.sending.fill()
        await hand.settle_down()
        assert [post.host for post in hand.endpoints.journal] == ["shop.example", "another.example"]
