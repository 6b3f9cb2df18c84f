"""`--metrics` of the real processes: one address for all that serve the API, and never the API's own."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from merchant import OPERATIONS, Merchant
from processes import PAYACCEPT, environment, free_port, one_line, payaccept, process_table, wait_until

WORKERS = 2


class Api:
    """A real `payaccept api` with two processes and an address for its figures."""

    def __init__(self, settings, log: Path, **variables: str) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        options = ["--port", str(self.port), "--workers", str(WORKERS)]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*PAYACCEPT, "api", *options, "--metrics", f"127.0.0.1:{self.metrics_port}"],
                env=environment(**settings.to_environ(), **variables),
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        wait_until(lambda: self.sum("payaccept_processes") == WORKERS and self.is_ready(), "it is ready")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def sum(self, name: str, **labels: str) -> float:
        """The sum of a figure's samples with these labels; -1 while nobody answers."""
        try:
            text = httpx.get(f"http://127.0.0.1:{self.metrics_port}/metrics").raise_for_status().text
        except httpx.TransportError:
            return -1.0
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def children(self) -> list[int]:
        """The processes that answer requests."""
        return [
            line.pid
            for line in process_table()
            if line.parent == self.process.pid and "resource_tracker" not in line.args
        ]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()


@contextmanager
def running(settings, log: Path, **variables: str) -> Iterator[Api]:
    api = Api(settings, log, **variables)
    try:
        yield api
    finally:
        if api.process.poll() is None:
            api.stop()


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("figures") / "api.log"


@pytest.fixture(scope="module")
def api(settings, log) -> Iterator[Api]:
    with running(settings, log) as started:
        yield started


async def create(api: Api, merchant: Merchant, count: int) -> list[httpx.Response]:
    """Create orders at once, each on a connection of its own, so that every process gets some."""

    async def one() -> httpx.Response:
        async with httpx.AsyncClient(base_url=api.url, timeout=30) as client:
            return await merchant.create(client, "createQROrder")

    return await asyncio.gather(*(one() for _ in range(count)))


def lines_of(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_bytes().splitlines()]


async def test_one_address_sums_what_all_processes_count(api, log, merchant):
    answers = await create(api, merchant, 60)
    assert {answer.status_code for answer in answers} == {200}
    served = {"operation": "createQROrder"}
    assert api.sum("payaccept_requests_total", **served, code="ACCEPTED") == 60
    assert api.sum("payaccept_request_seconds_count", **served) == 60
    assert api.sum("payaccept_request_seconds_bucket", **served, le="10.0") == 60
    # These are copied once a second.
    wait_until(lambda: api.sum("payaccept_group_commit_batch_size_sum", method="create") == 60, "batches")
    assert api.sum("payaccept_group_commit_seconds_count", method="create") >= 2, "each has made a batch"
    assert api.sum("payaccept_group_commit_waiting") == 0
    assert api.sum("payaccept_database_lines_open") >= 2 * 2
    assert api.sum("payaccept_resident_memory_bytes") > 2 * 20e6
    assert api.sum("payaccept_cpu_seconds_total") > 0
    assert time.time() - api.sum("payaccept_heartbeat_timestamp_seconds") < 5


async def test_each_request_is_logged_with_its_own_payment(api, log, merchant):
    answers = await create(api, merchant, 40)
    wanted = {answer.headers["request-id"]: answer.json()["paymentId"] for answer in answers}
    wait_until(lambda: wanted.keys() <= {line.get("requestId") for line in lines_of(log)}, "they are logged")
    logged = {line["requestId"]: line["paymentId"] for line in lines_of(log) if line["event"] == "request"}
    assert {request: logged[request] for request in wanted} == wanted


async def test_what_is_refused_is_counted_by_its_code_and_not_by_its_path(api, merchant):
    async with httpx.AsyncClient(base_url=api.url) as client:
        for operation in OPERATIONS:
            assert (await merchant.send(client, operation, b"{}")).status_code == 400
        before = api.sum("payaccept_requests_total", operation="other", code="NOT_FOUND")
        for path in ("/v1/payments/none", "/favicon.ico"):
            assert (await client.get(path)).status_code == 404
    for operation in OPERATIONS:
        assert api.sum("payaccept_requests_total", operation=operation, code="PARAM_ILLEGAL") == 1
    assert api.sum("payaccept_requests_total", operation="other", code="NOT_FOUND") == before + 2
    assert api.sum("payaccept_requests_total", operation="document", code="SUCCESS") >= 1


async def test_the_apis_own_address_does_not_serve_the_figures(api):
    async with httpx.AsyncClient(base_url=api.url) as client:
        for path in ("/metrics", "/metrics/", "/v1/payments/metrics"):
            assert (await client.get(path)).status_code == 404


async def test_a_killed_process_stays_in_the_sums_and_another_takes_its_place(api, merchant):
    served = {"operation": "createQROrder", "code": "ACCEPTED"}
    await create(api, merchant, 30)
    before = api.sum("payaccept_requests_total", **served)
    first = api.children()
    assert len(first) == WORKERS
    os.kill(first[0], signal.SIGKILL)
    wait_until(lambda: first[0] not in (now := api.children()) and len(now) == WORKERS, "there is another")
    wait_until(lambda: api.sum("payaccept_processes") == WORKERS, "it counts, too")
    assert api.sum("payaccept_requests_total", **served) == before
    answers = await create(api, merchant, 30)
    made = [answer.status_code for answer in answers].count(200)
    assert api.sum("payaccept_requests_total", **served) == before + made


async def test_it_begins_anew_when_it_is_started_again_and_leaves_nothing_behind(
    settings, tmp_path, merchant
):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for _ in range(2):
        with running(settings, tmp_path / "log", TMPDIR=str(temporary)) as api:
            await create(api, merchant, 5)
            assert api.sum("payaccept_requests_total", operation="createQROrder") == 5
            assert len(list(temporary.iterdir())) == 1
            assert api.stop() == 0
        assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("command", ["api", "worker"])
def test_an_address_that_cannot_be_used_is_told_in_one_line(command, settings, api):
    def refused(*options: str) -> tuple[int, str]:
        done = subprocess.run(
            [*PAYACCEPT, command, *options],
            check=False,
            capture_output=True,
            text=True,
            timeout=30,
            env=environment(**settings.to_environ()),
        )
        return done.returncode, one_line(done.stderr)

    taken = f"127.0.0.1:{api.metrics_port}"
    assert refused("--metrics", taken) == (
        1,
        f"payaccept: cannot listen on {taken} for --metrics: Address already in use",
    )
    code, told = refused("--metrics", "9464")
    assert code == 2
    assert "--metrics must be HOST:PORT" in told


def test_the_figures_have_a_port_of_their_own():
    done = payaccept(
        "api", "--port", "9464", "--metrics", "127.0.0.1:9464", "--database-url", "postgresql://x"
    )
    assert done.returncode == 2
    assert "--metrics needs a port of its own" in one_line(done.stderr)
