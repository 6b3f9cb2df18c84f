"""Stops and crashes of single processes: what is under way is finished, what is gone comes back."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import psycopg
import pytest

from merchant import compact, request_of
from processes import Sandbox, eventually
from traffic import Answered, Receiver, Till

IN_FLIGHT = 24


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("s") / "data", "--settle-delay", "0.2") as running:
        running.cli("merchant", "set", running.demo_merchant().client_id, "--rate-limit", "none")
        yield running


async def is_serving_again(sandbox: Sandbox, gone: int) -> None:
    def replaced() -> bool:
        return gone not in [process.pid for process in sandbox.tree()]

    await eventually(replaced, f"process {gone} is gone", 30)
    async with Till(sandbox.base_url, sandbox.demo_merchant()) as till:
        deadline = time.monotonic() + 20
        while True:
            try:
                if (await till.create("retailPay")).code == "SUCCESS":
                    return
            except aiohttp.ClientError:
                pass
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def test_requests_in_flight_are_answered_before_the_api_ends(sandbox: Sandbox) -> None:
    async with Till(sandbox.base_url, sandbox.demo_merchant(), connections=IN_FLIGHT + 1) as till:
        assert (await till.create("retailPay")).code == "SUCCESS"  # leaves an idle connection
        async with await psycopg.AsyncConnection.connect(sandbox.database_url) as held:
            await held.execute("LOCK TABLE payments IN ACCESS EXCLUSIVE MODE")
            waiting = [asyncio.create_task(till.create("createQROrder")) for _ in range(IN_FLIGHT)]
            await asyncio.sleep(0.7)
            api = sandbox.api()
            os.kill(api, signal.SIGTERM)
            await asyncio.sleep(0.7)
            assert not any(task.done() for task in waiting)
            async with Till(sandbox.base_url, sandbox.demo_merchant()) as late:
                with pytest.raises(aiohttp.ClientConnectorError):
                    await late.create("retailPay")
            await held.rollback()
        answers = await asyncio.gather(*waiting)
    assert [answer.code for answer in answers] == ["ACCEPTED"] * IN_FLIGHT
    begun = time.monotonic()
    await is_serving_again(sandbox, api)
    assert time.monotonic() - begun < 15


async def test_a_request_that_got_no_answer_in_a_graceful_stop_was_never_begun(sandbox: Sandbox) -> None:
    """A connection may end between two requests; nothing that has been accepted goes without its answer."""
    unanswered: list[str] = []
    answered = 0
    stop = asyncio.Event()

    async def buy(till: Till) -> None:
        nonlocal answered
        while not stop.is_set():
            request = request_of("retailPay")
            try:
                assert (await till.send("retailPay", compact(request))).code == "SUCCESS"
                answered += 1
            except aiohttp.ClientError:
                unanswered.append(request["paymentRequestId"])
                await asyncio.sleep(0.01)

    async with AsyncExitStack() as tills:
        merchant = sandbox.demo_merchant()
        opened = [
            await tills.enter_async_context(Till(sandbox.base_url, merchant, connections=1))
            for _ in range(IN_FLIGHT)
        ]
        async with asyncio.TaskGroup() as buyers:
            for till in opened:
                buyers.create_task(buy(till))
            await asyncio.sleep(0.7)
            api = sandbox.api()
            os.kill(api, signal.SIGTERM)
            await asyncio.sleep(0.7)
            stop.set()
    assert answered > IN_FLIGHT
    await is_serving_again(sandbox, api)
    begun = sandbox.sql(
        "SELECT payment_request_id FROM payments WHERE payment_request_id = ANY(%s)", unanswered
    )
    assert begun == []


async def test_the_worker_ends_what_it_has_begun_before_it_ends(sandbox: Sandbox) -> None:
    async def slowly(_arrival, writer) -> None:
        await asyncio.sleep(1.5)
        writer.write(b"HTTP/1.1 204 Thanks\r\n\r\n")

    async with Receiver(slow=slowly) as receiver, Till(sandbox.base_url, sandbox.demo_merchant()) as till:
        url = f"{receiver.base_url}/slow"
        await till.create("retailPay", paymentNotifyUrl=url)
        await eventually(lambda: receiver.journal, "the webhook is under way")
        worker = sandbox.worker()
        os.kill(worker, signal.SIGTERM)
        state = "SELECT state, attempts FROM deliveries WHERE url = %s"
        await eventually(lambda: sandbox.sql(state, url) == [("ACKNOWLEDGED", 1)], "it is acknowledged", 5)
        await eventually(lambda: worker not in [p.pid for p in sandbox.tree()], "the worker has ended", 5)


@pytest.mark.parametrize("name", ["api", "api_worker", "worker", "postgres"])
async def test_a_process_that_crashes_is_started_again(name: str, sandbox: Sandbox) -> None:
    pid = sandbox.api_workers()[0] if name == "api_worker" else getattr(sandbox, name)()
    os.kill(pid, signal.SIGKILL)
    await is_serving_again(sandbox, pid)
    async with Receiver() as receiver, Till(sandbox.base_url, sandbox.demo_merchant()) as till:
        deadline = time.monotonic() + 20
        answer: Answered | None = None
        while answer is None or answer.status != 200:
            assert time.monotonic() < deadline
            answer = await till.create("createQROrder", paymentNotifyUrl=f"{receiver.base_url}/hook")
        await eventually(lambda: receiver.journal, "it is paid, and its webhook sent", 20)


async def test_a_receiver_that_hangs_does_not_keep_it_from_stopping(tmp_path: Path) -> None:
    async def hang(_arrival, _writer) -> None:
        await asyncio.sleep(60)

    with Sandbox(tmp_path / "data", "--webhook-timeout", "4") as sandbox:
        async with Receiver(hang=hang) as receiver, Till(sandbox.base_url, sandbox.demo_merchant()) as till:
            await till.create("retailPay", paymentNotifyUrl=f"{receiver.base_url}/hang")
            await eventually(lambda: receiver.journal, "the webhook is under way")
            begun = time.monotonic()
            assert await asyncio.to_thread(sandbox.stop) == 0
            assert time.monotonic() - begun < 10  # the attempt runs into its time-out, and no further
        assert sandbox.left_running() == []
