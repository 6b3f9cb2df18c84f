"""`kill -9` of everything, under load: nothing acknowledged is lost, nothing is doubled, every event arrives.

What the merchant knows, the answers it got and the journal of its receiver, is held against the database.
"""

import asyncio
import os
import random
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from processes import Sandbox, eventually
from traffic import Load, Receiver, Taken, Till, published_keys, running, verify

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ROUNDS = 10
BACKENDS = ("payaccept-api-create", "payaccept-%-settle", "payaccept-worker-%")
LEASE_S = 30.0  # what a killed worker had in hand comes back after it
RECOVERED_S = 30.0


@dataclass
class Scene:
    """A sandbox, a merchant who keeps buying, and all that became of it so far."""

    sandbox: Sandbox
    receiver: Receiver
    taken: list[Taken] = field(default_factory=list)
    open: list[Taken] = field(default_factory=list)

    async def under_load(self, stack: AsyncExitStack) -> Load:
        """Have payments taken until the stack ends."""
        till = await stack.enter_async_context(Till(self.sandbox.base_url, self.sandbox.demo_merchant()))
        load = Load(till, f"{self.receiver.base_url}/hook")
        stack.callback(lambda: self.taken.extend(load.taken))
        stack.callback(lambda: self.open.extend(load.open))
        await running(load, stack)
        await eventually(lambda: load.acknowledged > 20, "payments are taken")
        return load


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def scene() -> AsyncIterator[Scene]:
    directory = Path(tempfile.mkdtemp(prefix="payaccept-faults-"))
    options = ["--settle-delay", "0.2", "--retry-schedule", "0.5,1,2,4,8,8,8,8", "--webhook-timeout", "2"]
    try:
        with Sandbox(directory / "data", *options) as sandbox:
            client_id = sandbox.demo_merchant().client_id
            await sandbox.acli("merchant", "set", client_id, "--rate-limit", "none")
            async with Receiver() as receiver:
                yield Scene(sandbox, receiver)
    finally:
        shutil.rmtree(directory)


def backend(sandbox: Sandbox, application: str) -> int:
    """The PostgreSQL process that serves a connection of this name just now."""
    found = sandbox.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s ORDER BY random() LIMIT 1",
        application,
    )
    return int(found[0][0])


async def kill(victim: Callable[[], int]) -> int:
    """Kill a process, as soon as there is one."""

    def strike() -> int:
        try:
            pid = victim()
            os.kill(pid, signal.SIGKILL)
        except (IndexError, psycopg.Error, ProcessLookupError):
            return 0  # none yet, or it has ended since it was found: a server whose worker dies again and again does
        return pid

    return int(await eventually(strike, "there is a process to kill", RECOVERED_S))


async def is_taking_payments(load: Load) -> None:
    """Wait until requests sent from now on are acknowledged."""
    count = load.acknowledged
    await eventually(lambda: load.acknowledged > count + 16, "payments are taken again", RECOVERED_S)


async def test_killed_processes_lose_nothing_and_double_nothing(scene: Scene) -> None:
    sandbox = scene.sandbox
    killed: dict[str, set[int]] = {"api": set(), "api worker": set(), "worker": set(), "backend": set()}
    async with AsyncExitStack() as stack:
        load = await scene.under_load(stack)
        for number in range(ROUNDS):
            victims: dict[str, Callable[[], int]] = {
                "api": sandbox.api,
                "api worker": lambda: sandbox.api_workers()[0],
                "worker": sandbox.worker,
                "backend": partial(backend, sandbox, BACKENDS[number % len(BACKENDS)]),
            }
            for name, victim in random.sample(sorted(victims.items()), k=len(victims)):
                killed[name].add(await kill(victim))
                await asyncio.sleep(random.uniform(0.0, 0.3))  # noqa: S311 - no secret
            await is_taking_payments(load)
    assert {name: len(pids) for name, pids in killed.items()} == dict.fromkeys(killed, ROUNDS)
    assert load.unknown > 0, "nothing was under way when the processes were killed"
    await nothing_is_lost_or_doubled(scene)


async def test_the_whole_sandbox_goes_on_with_its_data_after_everything_was_killed(scene: Scene) -> None:
    sandbox = scene.sandbox
    async with AsyncExitStack() as stack:
        load = await scene.under_load(stack)
        await asyncio.sleep(1)
        await asyncio.to_thread(sandbox.kill_everything)
        assert sandbox.left_running() == []
        await asyncio.to_thread(sandbox.start)
        await is_taking_payments(load)
    await nothing_is_lost_or_doubled(scene)


async def nothing_is_lost_or_doubled(scene: Scene) -> None:
    """Every answer that was given holds, and there is one payment for each request."""
    sandbox = scene.sandbox
    assert scene.open == [], "requests that never got a definite answer"
    rows = sandbox.sql("SELECT payment_request_id, payment_id, state, final_at FROM payments")
    payments = {request_id: rest for request_id, *rest in rows}
    assert len(payments) == len(rows)
    for taken in scene.taken:
        assert taken.answer is not None
        if taken.answer.code == "REPEAT_REQUEST":
            assert taken.tries > 1, f"{taken} was sent once"
            assert taken.request_id in payments
            continue
        assert taken.answer.status == 200, taken
        payment_id, state, final_at = payments[taken.request_id]
        assert taken.answer.value["paymentId"] == payment_id
        if taken.operation == "retailPay":
            assert state == "SUCCESS"
            paid_at = datetime.fromisoformat(taken.answer.value["paymentTime"])
            assert abs((paid_at - final_at.astimezone(UTC)).total_seconds()) < 0.001
    assert set(payments) == {taken.request_id for taken in scene.taken}


async def test_then_each_payment_is_final_and_its_one_event_was_delivered(scene: Scene) -> None:
    sandbox = scene.sandbox
    unfinished = (
        "SELECT (SELECT count(*) FROM payments WHERE state = 'PROCESSING')"
        " + (SELECT count(*) FROM deliveries WHERE state <> 'ACKNOWLEDGED')"
    )
    # Twice: a payment that was in hand, and then, were the worst to come, its delivery.
    await eventually(lambda: sandbox.sql(unfinished) == [(0,)], "everything is delivered", 2 * LEASE_S + 15)
    rows = sandbox.sql(
        "SELECT p.payment_id, p.payment_request_id, p.state, p.event_id, e.event_id, b.body, d.attempts"
        " FROM payments AS p LEFT JOIN events AS e USING (bucket, payment_id)"
        " LEFT JOIN payloads AS b ON b.bucket = e.bucket AND b.event_id = e.event_id"
        " LEFT JOIN deliveries AS d ON d.bucket = e.bucket AND d.event_id = e.event_id"
    )
    assert len(rows) == len(scene.taken) == len({row[0] for row in rows})
    keys = await published_keys(sandbox.base_url)
    arrived = scene.receiver.by_event()
    for payment_id, request_id, state, named, event_id, body, attempts in rows:
        assert state == "SUCCESS"
        assert event_id == named
        arrivals = arrived.pop(event_id)
        assert {arrival.body for arrival in arrivals} == {body}
        told = arrivals[0].json
        assert (told["paymentId"], told["paymentRequestId"]) == (payment_id, request_id)
        numbers = [arrival.attempt for arrival in arrivals]
        assert numbers == sorted(set(numbers)), "no attempt is made twice"
        assert numbers[-1] == attempts
        for arrival in arrivals:
            verify(arrival, keys)
    assert arrived == {}, "events that no payment knows"
    async with Till(sandbox.base_url, sandbox.demo_merchant()) as till:
        for taken in random.sample(scene.taken, k=50):
            asked = (await till.inquire(paymentRequestId=taken.request_id)).value
            assert asked["paymentStatus"] == "SUCCESS"
