"""Group commit: concurrent calls of one store method, gathered and sent as one statement.

There is no timer, but where nobody waits for the outcome. A lone call goes out at once; calls that arrive while
every connection is busy are sent together by the first that comes free. Every caller gets its own outcome: one
bad row never fails its neighbours, and when the connection breaks the callers hear "unknown", never a false success.

Calls are routed in *lanes*. On one PostgreSQL there is one lane; on one sharded by bucket there is a
lane for each bucket, so that every batch goes to one shard. That is a function given here, not other code.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import psycopg
from psycopg import AsyncConnection

from payaccept.adapters.postgres.connections import STATEMENT_TIMEOUT_S, Line, is_data_error, meaning_of
from payaccept.adapters.postgres.tallies import batches_of
from payaccept.domain.errors import OutcomeOpen, OutcomeUnknown, StoreUnavailable

I = TypeVar("I")  # noqa: E741 - the item
O = TypeVar("O")  # noqa: E741 - the outcome

MAX_WAITING: Final = 10_000

Execute = Callable[[AsyncConnection[Any], list[I]], Awaitable[Sequence[O | Exception]]]
Routing = Callable[[int], int]

_log = logging.getLogger(__name__)


def one_lane(_bucket: int) -> int:
    """Route every bucket to one lane: a single PostgreSQL."""
    return 0


def lane_per_bucket(bucket: int) -> int:
    """Route each bucket to a lane of its own: PostgreSQL sharded by bucket."""
    return bucket


class GroupCommit(Generic[I, O]):
    """One store method, its queue and its connections.

    `execute` does a batch in one transaction and returns the outcomes in the order of the items (an
    Exception in its place is raised to that caller); what it raises, it raises for the whole batch. `gather_s` is
    how long a call waits for company, where a batch's price matters and nobody is kept waiting by it.
    """

    def __init__(
        self,
        execute: Execute[I, O],
        lines: Sequence[Line],
        *,
        bucket_of: Callable[[I], int],
        routing: Routing = one_lane,
        max_batch: int = 256,
        gather_s: float = 0.0,
    ) -> None:
        self._execute = execute
        self._lines = lines
        self._bucket_of = bucket_of
        self._routing = routing
        self._max_batch = max_batch
        self._gather_s = gather_s
        self._lanes: dict[int, deque[tuple[I, asyncio.Future[O]]]] = {}
        self._waiting = 0
        # A line is named for its process and its method: "api-create".
        self._tally = batches_of(lines[0].name.partition("-")[2] if lines else "")
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start one task for each connection; to be called in the running loop."""
        self._tasks = [asyncio.create_task(self._serve(line)) for line in self._lines]

    async def close(self) -> None:
        """Stop; whoever still waits hears that nothing was done."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for lane in self._lanes.values():
            _refuse(list(lane), StoreUnavailable("the service is stopping"))
            self._tally.waiting -= len(lane)
        self._lanes.clear()
        for line in self._lines:
            await line.drop()

    async def submit(self, item: I) -> O:
        """Do the method for one item, together with whoever else calls it just now.

        Raises: StoreUnavailable, OutcomeUnknown, or what the method raises for this item.
        """
        if self._waiting >= MAX_WAITING:
            raise StoreUnavailable("too many requests are waiting for the database")
        future: asyncio.Future[O] = asyncio.get_running_loop().create_future()
        lane = self._routing(self._bucket_of(item))
        queue = self._lanes.get(lane)
        if queue is None:
            self._lanes[lane] = queue = deque()
        queue.append((item, future))
        self._waiting += 1
        self._tally.waiting += 1
        if self._idle:
            wake = self._idle.popleft()
            if not wake.done():
                wake.set_result(None)
        return await future

    async def _serve(self, line: Line) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._lanes:
                wake = loop.create_future()
                self._idle.append(wake)
                await wake
            if self._gather_s and self._waiting < self._max_batch:
                await asyncio.sleep(self._gather_s)
            batch = self._take()
            if not batch:
                continue
            try:
                await self._run(line, batch)
            except Exception:  # noqa: BLE001 - a bug of ours; this connection must go on serving
                _log.exception("group commit failed")
                await line.drop()
            finally:
                # Whatever happened, at the end of the process too: nobody is left waiting.
                _refuse(batch, OutcomeUnknown("the service stopped before the database answered"))

    def _take(self) -> list[tuple[I, asyncio.Future[O]]]:
        """Take a batch of the lane that has waited longest; its rest goes behind the others."""
        lane = next(iter(self._lanes), None)
        if lane is None:  # another connection was faster
            return []
        queue = self._lanes.pop(lane)
        batch: list[tuple[I, asyncio.Future[O]]] = []
        while queue and len(batch) < self._max_batch:
            item, future = queue.popleft()
            self._waiting -= 1
            self._tally.waiting -= 1
            if not future.done():  # its caller has given up: nothing was sent, nothing is done
                batch.append((item, future))
        if queue:
            self._lanes[lane] = queue
        return batch

    async def _run(self, line: Line, batch: list[tuple[I, asyncio.Future[O]]]) -> None:
        try:
            connection = await line.get()
        except StoreUnavailable as away:
            _refuse(batch, away)
            return
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(STATEMENT_TIMEOUT_S + 1):
                outcomes = await self._execute(connection, [item for item, _ in batch])
        except (psycopg.Error, TimeoutError) as error:
            await self._run_failed(line, connection, batch, error)
        except Exception as error:  # noqa: BLE001 - a bug of ours; it must not stop the others
            _log.exception("group commit failed")
            await line.drop()
            _refuse(batch, error)
        else:
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        finally:
            self._tally.count(len(batch), time.perf_counter() - begun)

    async def _run_failed(
        self,
        line: Line,
        connection: AsyncConnection[Any],
        batch: list[tuple[I, asyncio.Future[O]]],
        error: psycopg.Error | TimeoutError,
    ) -> None:
        if isinstance(error, psycopg.Error) and is_data_error(error) and len(batch) > 1:
            # The whole statement was refused and nothing done: find the bad row by halves.
            half = len(batch) // 2
            await self._run(line, batch[:half])
            await self._run(line, batch[half:])
            return
        refusal = meaning_of(error, connection)
        if refusal is not None:
            await line.drop()
        _refuse(batch, refusal or error)


def _refuse(batch: list[tuple[I, asyncio.Future[O]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            # Each caller gets an exception of its own: tracebacks are written into the raised one.
            copy = type(error)(*error.args) if isinstance(error, OutcomeOpen) else error
            copy.__cause__ = error.__cause__
            with contextlib.suppress(asyncio.InvalidStateError):
                future.set_exception(copy)
