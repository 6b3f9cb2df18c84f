"""The webhook drill, on a real sandbox: receivers that are right pass all of it, a careless one fails exactly three."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from payaccept.config import Settings
from payaccept.domain.drill import Exercise, Finding, Judged, judge
from payaccept.domain.drill_lessons import VERIFYING
from payaccept.domain.user import COMMAND_LINE
from payaccept.operations.merchants import Changes
from payaccept.wiring import Administration
from processes import PAYACCEPT, Sandbox, environment, free_port, payaccept, wait_until

ROOT = Path(__file__).parents[2]


class Shop:
    """A merchant of one test."""

    def __init__(self, sandbox: Sandbox, administration: Administration, client_id: str) -> None:
        self.sandbox = sandbox
        self.administration = administration
        self.client_id = client_id
        self.keys_url = f"{sandbox.base_url}/.well-known/payaccept/webhook-keys"

    async def send_to(self, url: str) -> None:
        changes = Changes(webhook_url=url)
        await self.administration.merchants.change(self.client_id, changes, datetime.now(UTC))

    async def drill(self, url: str) -> dict[Exercise, Judged]:
        """Have an endpoint drilled; returns each exercise."""
        await self.send_to(url)
        drills = self.administration.drills
        assert drills is not None
        drill = await drills.start(self.client_id, datetime.now(UTC), COMMAND_LINE)
        async with asyncio.timeout(30):
            while drill.is_running:
                await asyncio.sleep(0.1)
                found = await drills.find(self.client_id, drill.drill_id)
                assert found is not None
                drill = found
        return {judged.exercise: judged for judged in judge(drill)}

    async def say(self, *options: str) -> "subprocess.CompletedProcess[str]":
        """Run the command as a person does."""
        return await asyncio.to_thread(
            payaccept, "event", "drill", self.client_id, *options, "--data-dir", self.sandbox.data_dir
        )


@pytest_asyncio.fixture(loop_scope="session")
async def shop(sandbox: Sandbox) -> AsyncIterator[Shop]:
    async with Administration(Settings(database_url=sandbox.database_url)) as administration:
        made = await administration.merchants.create("Drilled shop", datetime.now(UTC))
        yield Shop(sandbox, administration, made.client_id)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def program(port: int, *command: object) -> Iterator[str]:
    """A merchant's program, while it listens; yields where."""
    process = subprocess.Popen(list(map(str, command)), env=environment(), stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(port), "it listens")
        yield f"http://127.0.0.1:{port}/hooks"
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def endpoint(answer: Callable[[str, list[tuple[str, str]], bytes], int]) -> Iterator[str]:
    """An endpoint that answers with what a function makes of path, headers and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(answer(self.path, self.headers.items(), body))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hooks?shop=1"
        finally:
            server.shutdown()
            thread.join()


def saved(page: str, marker: str) -> str:
    """The program below `<!-- marker -->` in a document."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```\w+\n(.*?)^```\n", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def verdicts(judged: dict[Exercise, Judged]) -> list[str]:
    assert list(judged) == list(Exercise)
    return [one.verdict for one in judged.values()]


async def test_the_commands_own_receiver_passes(shop: Shop) -> None:
    port = free_port()
    with program(port, *PAYACCEPT, "listen", "--port", port, "--keys-url", shop.keys_url) as url:
        assert verdicts(await shop.drill(url)) == ["right"] * 6


async def test_the_receiver_of_the_readme_passes(shop: Shop, tmp_path: Path) -> None:
    port = free_port()
    text = saved("README.md", "file webhooks.py").replace("9001", str(port))
    (tmp_path / "webhooks.py").write_text(
        text.replace("127.0.0.1:8080", f"127.0.0.1:{shop.sandbox.api_port}")
    )
    with program(port, sys.executable, tmp_path / "webhooks.py") as url:
        assert verdicts(await shop.drill(url)) == ["right"] * 6


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
async def test_the_receiver_for_node_passes(shop: Shop, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "webhooks.mjs").write_text(saved("docs/webhooks.md", "tested: node"))
    with program(port, "node", tmp_path / "webhooks.mjs", port, shop.keys_url) as url:
        assert verdicts(await shop.drill(url)) == ["right"] * 6


async def test_what_the_report_shows_to_mend_a_receiver_mends_it(shop: Shop) -> None:
    shown: dict[str, Any] = {}
    exec(VERIFYING.replace("{keys_url}", shop.keys_url), shown)  # noqa: S102 - our own
    with endpoint(shown["receive"]) as url:
        assert verdicts(await shop.drill(url)) == ["right"] * 6


async def test_a_careless_receiver_is_told_exactly_what_it_believed(shop: Shop) -> None:
    with endpoint(lambda *_: 200) as url:
        await shop.send_to(url)
        done = await shop.say("--json")
    assert done.returncode == 1
    judged = {one["exercise"]: one for one in json.loads(done.stdout)["exercises"]}
    assert [one["verdict"] for one in judged.values()] == ["right"] * 3 + ["wrong"] * 3
    assert "not the one that was signed" in judged["tampered"]["told"]
    assert "bytes of the body as they came" in judged["tampered"]["mend"]
    assert "ten minutes" in judged["old"]["mend"]
    assert "keyVersion" in judged["unknown key"]["mend"]


async def test_a_receiver_that_refuses_everything_proves_nothing(shop: Shop) -> None:
    with endpoint(lambda *_: 401) as url:
        assert verdicts(await shop.drill(url)) == ["wrong"] * 3 + ["open"] * 3


async def test_nothing_of_a_drill_is_an_event_a_delivery_or_a_failing_lane(shop: Shop) -> None:
    with endpoint(lambda *_: 500) as url:
        assert verdicts(await shop.drill(url)) == ["wrong"] * 3 + ["open"] * 3
    events = shop.administration.events
    listed = await events.list_events(shop.client_id)
    assert (listed.events, listed.last_sequence, listed.unnumbered) == ([], 0, 0)
    assert shop.client_id not in {lane.client_id for lane in await events.list_failing_lanes()}


async def test_an_endpoint_that_is_not_there_ends_the_drill_at_once(shop: Shop) -> None:
    judged = await shop.drill(f"http://127.0.0.1:{free_port()}/")
    assert verdicts(judged) == ["wrong"] + ["open"] * 5
    assert judged[Exercise.CORRECT].worst is Finding.NO_ANSWER
    assert {one.worst for one in list(judged.values())[1:]} == {Finding.NOT_SENT}


async def test_the_command_says_why_it_cannot(shop: Shop) -> None:
    done = await shop.say()
    assert done.returncode == 1
    assert "no endpoint is configured" in done.stderr
    with endpoint(lambda *_: 200) as url:
        await shop.drill(url)
        done = await shop.say()
    assert done.returncode == 1
    assert "less than a minute ago" in done.stderr


async def test_the_command_shows_a_line_for_each_exercise_and_how_to_mend_it(shop: Shop) -> None:
    with endpoint(lambda *_: 200) as url:
        await shop.send_to(url)
        done = await shop.say()
    assert done.returncode == 1
    first, *lines = done.stdout.splitlines()
    assert first == "3 of 6 handled wrongly."
    assert re.match(
        r"  The same one twice +Handled rightly +HTTP 200 after [\d.]+ ms, HTTP 200 after", lines[1]
    )
    assert re.match(r"  An old one, played back +Handled wrongly +HTTP 200 after [\d.]+ ms$", lines[4])
    assert "An old one, played back: You acknowledged a webhook of eleven minutes ago." in lines
