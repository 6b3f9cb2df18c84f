"""`kill -9` of the worker in the middle of a drill: another goes on, and sends nothing twice."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from payaccept.config import Settings
from payaccept.domain.drill import Finding, judge
from payaccept.domain.user import COMMAND_LINE
from payaccept.operations.merchants import Changes
from payaccept.wiring import Administration
from processes import Sandbox, eventually
from traffic import Arrival, Receiver, acknowledge

pytestmark = [pytest.mark.faults, pytest.mark.slow]

LEASE_S = 3.0
ENDED_S = 30.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sandbox() -> AsyncIterator[Sandbox]:
    directory = Path(tempfile.mkdtemp(prefix="payaccept-faults-"))
    try:
        with Sandbox(
            directory / "data", "--webhook-timeout", "1", PAYACCEPT_WEBHOOK_LEASE_S=str(LEASE_S)
        ) as running:
            yield running
    finally:
        shutil.rmtree(directory)


async def test_a_drill_whose_worker_was_killed_goes_on_and_says_what_is_not_known(sandbox: Sandbox) -> None:
    async def answer(arrival: Arrival, writer: asyncio.StreamWriter) -> None:
        if len(receiver.journal) == 3:
            os.kill(sandbox.worker(), signal.SIGKILL)
        else:
            await acknowledge(arrival, writer)

    async with (
        Administration(Settings(database_url=sandbox.database_url)) as administration,
        Receiver(hooks=answer) as receiver,
    ):
        drills = administration.drills
        assert drills is not None
        made = await administration.merchants.create("Drilled shop", datetime.now(UTC))
        changes = Changes(webhook_url=f"{receiver.base_url}/hooks")
        await administration.merchants.change(made.client_id, changes, datetime.now(UTC))
        drill = await drills.start(made.client_id, datetime.now(UTC), COMMAND_LINE)
        query = "SELECT drill_id FROM drills WHERE drill_id = %s AND ended_at IS NOT NULL"
        await eventually(lambda: sandbox.sql(query, drill.drill_id), "the drill has ended", ENDED_S)
        ended = await drills.find(made.client_id, drill.drill_id)
        assert ended is not None
        findings = [finding for judged in judge(ended) for _, finding in judged.steps]
        assert findings == [
            *(Finding.ACKNOWLEDGED, Finding.ACKNOWLEDGED, Finding.INTERRUPTED),
            *(Finding.ACKNOWLEDGED, Finding.ACKNOWLEDGED),
            *(Finding.ACCEPTED, Finding.ACCEPTED, Finding.ACCEPTED),
        ]
        sent = [(arrival.headers["Event-Id"], arrival.attempt) for arrival in receiver.at("/hooks")]
        assert sent == [(step.event_id, step.attempt) for step in ended.steps]
