"""Group commit by itself: which calls go out together, and who hears what when something fails."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from payaccept.adapters.postgres import group_commit
from payaccept.adapters.postgres.connections import Line
from payaccept.adapters.postgres.group_commit import GroupCommit, lane_per_bucket
from payaccept.domain.errors import OutcomeOpen, OutcomeUnknown, StoreUnavailable


class Batches:
    """Collects the batches and answers each item with its double, when it is let."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._sent = asyncio.Condition()

    async def sent(self, count: int) -> None:
        """Wait until so many batches were sent."""
        async with self._sent:
            await self._sent.wait_for(lambda: len(self.seen) >= count)

    async def __call__(self, _connection: Any, items: list[int]) -> Sequence[int]:
        async with self._sent:
            self.seen.append(items)
            self._sent.notify_all()
        await self.gate.wait()
        return [2 * item for item in items]


@contextlib.asynccontextmanager
async def opened(
    database_url: str, execute: Any, lines: int = 1, **options: Any
) -> AsyncIterator[GroupCommit[int, int]]:
    commit = GroupCommit[int, int](
        execute,
        [Line(database_url, "test-commit") for _ in range(lines)],
        bucket_of=lambda item: item % 256,
        **options,
    )
    commit.start()
    try:
        yield commit
    finally:
        await commit.close()


async def test_a_lone_call_goes_out_at_once(database_url):
    batches = Batches()
    async with opened(database_url, batches) as commit:
        for number in range(5):
            assert await asyncio.wait_for(commit.submit(number), 1) == 2 * number
    assert batches.seen == [[0], [1], [2], [3], [4]]


async def test_calls_that_come_meanwhile_go_out_together(database_url):
    batches = Batches()
    async with opened(database_url, batches, max_batch=50) as commit:
        await commit.submit(0)
        batches.gate.clear()
        first = asyncio.create_task(commit.submit(1))
        await batches.sent(2)
        calls = [asyncio.create_task(commit.submit(number)) for number in range(2, 122)]
        await asyncio.sleep(0)
        batches.gate.set()
        assert await asyncio.gather(first, *calls) == [2 * number for number in range(1, 122)]
    assert [len(batch) for batch in batches.seen] == [1, 1, 50, 50, 20]


async def test_lanes_are_served_in_turn_and_a_batch_holds_one_lane(database_url):
    batches = Batches()
    async with opened(database_url, batches, routing=lane_per_bucket, max_batch=2) as commit:
        calls = [commit.submit(number) for number in (1, 257, 513, 2, 258)]
        assert await asyncio.gather(*calls) == [2, 514, 1026, 4, 516]
    assert batches.seen == [[1, 257], [2, 258], [513]]


async def test_a_caller_that_gave_up_before_it_was_sent_is_not_sent(database_url):
    batches = Batches()
    async with opened(database_url, batches) as commit:
        await commit.submit(0)
        batches.gate.clear()
        first = asyncio.create_task(commit.submit(1))
        await batches.sent(2)
        second, third = asyncio.create_task(commit.submit(2)), asyncio.create_task(commit.submit(3))
        await asyncio.sleep(0)
        second.cancel()
        batches.gate.set()
        assert await asyncio.gather(first, third) == [2, 6]
    assert batches.seen == [[0], [1], [3]]


async def test_a_caller_that_gave_up_while_it_was_sent_harms_nobody(database_url):
    batches = Batches()
    async with opened(database_url, batches) as commit:
        await commit.submit(0)
        batches.gate.clear()
        calls = [asyncio.create_task(commit.submit(number)) for number in (1, 2)]
        await batches.sent(2)
        calls[0].cancel()
        await asyncio.sleep(0)
        batches.gate.set()
        assert await calls[1] == 4
        assert await commit.submit(5) == 10


async def test_a_bug_in_one_batch_is_told_to_its_callers_and_stops_nobody_else(database_url, caplog):
    async def execute(_connection: Any, items: list[int]) -> Sequence[int]:
        if 13 in items:
            raise ZeroDivisionError("a bug")
        return items

    async with opened(database_url, execute) as commit:
        with pytest.raises(ZeroDivisionError):
            await commit.submit(13)
        assert await commit.submit(14) == 14
    assert "group commit failed" in caplog.text


async def test_an_exception_among_the_outcomes_is_its_callers_own(database_url):
    async def execute(_connection: Any, items: list[int]) -> Sequence[Any]:
        return [KeyError(item) if item % 2 else item for item in items]

    async with opened(database_url, execute) as commit:
        outcomes = await asyncio.gather(
            *(commit.submit(number) for number in range(6)), return_exceptions=True
        )
    assert [outcome if isinstance(outcome, int) else outcome.args[0] for outcome in outcomes] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]


async def test_at_the_end_nobody_is_left_waiting(database_url):
    batches = Batches()
    async with opened(database_url, batches) as commit:
        await commit.submit(0)
        batches.gate.clear()
        sent = asyncio.create_task(commit.submit(1))
        await batches.sent(2)
        waiting = [asyncio.create_task(commit.submit(number)) for number in range(3)]
        await asyncio.sleep(0)
    outcomes = await asyncio.wait_for(asyncio.gather(sent, *waiting, return_exceptions=True), 1)
    assert isinstance(outcomes[0], OutcomeUnknown), "it was sent"
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes[1:]), "these were not"


async def test_at_the_end_nobody_is_left_waiting_for_a_connection_that_does_not_come(database_url):
    class NeverLine(Line):
        async def get(self) -> Any:
            await asyncio.Event().wait()

    commit = GroupCommit[int, int](Batches(), [NeverLine(database_url, "test-never")], bucket_of=lambda _: 0)
    commit.start()
    call = asyncio.create_task(commit.submit(1))
    await asyncio.sleep(0.01)
    await commit.close()
    with pytest.raises(OutcomeOpen):
        await asyncio.wait_for(call, 1)


async def test_a_bug_where_the_connection_comes_from_stops_nobody_else(database_url, caplog):
    class StumblingLine(Line):
        stumbled = False

        async def get(self) -> Any:
            if not self.stumbled:
                self.stumbled = True
                raise ZeroDivisionError("a bug")
            return await super().get()

    line = StumblingLine(database_url, "test-stumbling")
    commit = GroupCommit[int, int](Batches(), [line], bucket_of=lambda _: 0)
    commit.start()
    try:
        with pytest.raises(OutcomeOpen):
            await asyncio.wait_for(commit.submit(1), 1)
        assert await asyncio.wait_for(commit.submit(2), 1) == 4
    finally:
        await commit.close()
    assert "group commit failed" in caplog.text


async def test_a_wrong_number_of_outcomes_is_a_bug_that_leaves_nobody_waiting(database_url, caplog):
    async def execute(_connection: Any, items: list[int]) -> Sequence[int]:
        return items[:-1] if 13 in items else items

    async with opened(database_url, execute) as commit:
        with pytest.raises(OutcomeOpen):
            await asyncio.wait_for(commit.submit(13), 1)
        assert await asyncio.wait_for(commit.submit(14), 1) == 14
    assert "group commit failed" in caplog.text


async def test_the_queue_has_an_end(database_url, monkeypatch):
    monkeypatch.setattr(group_commit, "MAX_WAITING", 3)
    batches = Batches()
    async with opened(database_url, batches) as commit:
        await commit.submit(0)
        batches.gate.clear()
        sent = asyncio.create_task(commit.submit(1))
        await batches.sent(2)
        calls = [asyncio.create_task(commit.submit(number)) for number in range(5)]
        await asyncio.sleep(0)
        batches.gate.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        await sent
    assert outcomes[:3] == [0, 2, 4]
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes[3:])
