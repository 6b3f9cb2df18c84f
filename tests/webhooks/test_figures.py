"""What a worker counts and logs of payments and their webhooks."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from deployment import client_of, opened_kernel, running_worker, settings_for
from payaccept.config import Settings
from payaccept.figures import catalogue
from payaccept.worker_wiring import WorkerProcess
from processes import eventually
from traffic import Arrival, Receiver, respond

SCHEDULE_S = (0.1, 0.1)

Count = Callable[..., float]


async def refuse_once(arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    await respond(writer, 200 if arrival.attempt > 1 else 503)


async def refuse(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    await respond(writer, 404)


@pytest.fixture(scope="module")
def settings(database_url, master_key_file) -> Settings:
    return settings_for(database_url, master_key_file, retry_schedule_s=SCHEDULE_S, webhook_timeout_s=1.0)


def count_of(worker: WorkerProcess) -> Count:
    """A function that returns a number of now."""

    def count(name: str, *values: str) -> float:
        return worker.figures.read().cells[catalogue.WORKER.start(name, *values)]

    return count


def counted(worker: WorkerProcess, name: str) -> float:
    """How many values a histogram without labels has."""
    metric = catalogue.WORKER.metric(name)
    start = catalogue.WORKER.start(name)
    return sum(worker.figures.read().cells[start : start + len(metric.bounds) + 1])


async def test_a_payments_life_is_counted(settings, api, merchant):
    async with Receiver(once=refuse_once, never=refuse) as receiver, running_worker(settings) as worker:
        count = count_of(worker)
        for path in ("ok", "ok", "once", "never"):
            hook = f"{receiver.base_url}/{path}"
            assert (await merchant.create(api, "createQROrder", paymentNotifyUrl=hook)).status_code == 200
        failing = {"outcome": "FAIL", "resultCode": "RISK_REJECT"}
        await merchant.create(api, "linkPayCreate", paymentNotifyUrl="http://127.0.0.1:1/", sandbox=failing)
        await eventually(lambda: count("payaccept_deliveries_died_total") == 2, "two are given up")
        await eventually(
            lambda: counted(worker, "payaccept_delivery_acknowledged_seconds") == 3, "three are acknowledged"
        )
        assert count("payaccept_payments_settled_total", "SUCCESS") == 4
        assert count("payaccept_payments_settled_total", "RISK_REJECT") == 1
        attempts = {kind: count("payaccept_delivery_attempts_total", kind) for kind in catalogue.OUTCOMES}
        assert attempts == {"ACKNOWLEDGED": 3, "REFUSED": 1 + 3, "UNREACHABLE": 3}
        assert counted(worker, "payaccept_delivery_first_attempt_seconds") == 5
        assert count("payaccept_delivery_attempts_unrecorded_total") == 0
        assert count("payaccept_signer_key_version") == 1
        await eventually(lambda: count("payaccept_deliveries_in_flight") == 0, "nothing is under way", 3)
        await eventually(lambda: count("payaccept_database_lines_open") > 5, "it says so every second", 3)
        assert count("payaccept_backlog_read_timestamp_seconds") > 0


async def test_what_is_logged_leads_from_the_payment_to_each_attempt(settings, merchant, capfd):
    lines: list[dict[str, Any]] = []

    def logged(event: str, payment_id: str) -> list[dict[str, Any]]:
        lines.extend(json.loads(line) for line in capfd.readouterr().err.splitlines())
        return [line for line in lines if line["event"] == event and line["paymentId"] == payment_id]

    async with (
        Receiver(once=refuse_once) as receiver,
        running_worker(settings),
        opened_kernel(settings) as kernel,
        client_of(kernel) as api,
    ):
        answer = await merchant.create(api, "createQROrder", paymentNotifyUrl=f"{receiver.base_url}/once")
        payment_id = answer.json()["paymentId"]
        await eventually(lambda: len(logged("delivery attempt", payment_id)) == 2, "both attempts are logged")
    [request] = logged("request", payment_id)
    assert request["requestId"] == answer.headers["request-id"]
    [final] = logged("payment final", payment_id)
    first, second = logged("delivery attempt", payment_id)
    assert final["eventId"] == first["eventId"] == second["eventId"]
    assert final["clientId"] == first["clientId"] == request["clientId"] == merchant.client_id
    assert (first["attempt"], first["kind"], first["decision"]) == (1, "REFUSED", "Again")
    assert (second["attempt"], second["kind"], second["decision"]) == (2, "ACKNOWLEDGED", "Acknowledged")
    assert "firstAttemptAfterMs" in first
    assert "acknowledgedAfterMs" in second
