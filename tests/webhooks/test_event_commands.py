"""An operator looks after webhooks from the command line: lists them, sends them again, tries an endpoint out."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest_asyncio

from deployment import register_with
from payaccept.config import Settings
from payaccept.domain.event import EventStatus
from payaccept.operations.merchants import Changes
from payaccept.wire import timestamps
from payaccept.wiring import Administration
from processes import PAYACCEPT, Sandbox, environment, eventually, one_line, payaccept
from traffic import Receiver, Till, respond, verify


class Shop:
    """A merchant of one test, whose webhooks go to a receiver of its own."""

    def __init__(
        self, sandbox: Sandbox, administration: Administration, client_id: str, receiver: Receiver, till: Till
    ) -> None:
        self.sandbox = sandbox
        self.administration = administration
        self.client_id = client_id
        self.receiver = receiver
        self.till = till

    async def send_to(self, url: str) -> None:
        """Configure an endpoint, a path of the receiver's or another's; every process knows after a second."""
        url = self.receiver.base_url + url if url.startswith("/") else url
        changes = Changes(webhook_url=url)
        await self.administration.merchants.change(self.client_id, changes, datetime.now(UTC))
        await asyncio.sleep(1)

    async def sell(self, number: int = 1) -> None:
        answers = await asyncio.gather(*(self.till.create("retailPay") for _ in range(number)))
        assert {answer.code for answer in answers} == {"SUCCESS"}

    async def until(self, status: EventStatus, number: int = 1) -> list[str]:
        """Wait until so many events have a status; returns their ids."""
        deadline = asyncio.get_running_loop().time() + 20
        while True:
            found = await self.administration.events.list_events(self.client_id, statuses={status})
            if len(found.events) >= number:
                return [event.event_id for event in found.events]
            assert asyncio.get_running_loop().time() < deadline, found
            await asyncio.sleep(0.1)

    async def say(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Run a command as a person does."""
        return await asyncio.to_thread(payaccept, *arguments, "--data-dir", self.sandbox.data_dir)


@pytest_asyncio.fixture(loop_scope="session")
async def shop(sandbox: Sandbox, receiver: Receiver) -> AsyncIterator[Shop]:
    # Not acknowledged, but alive: the circuit breaker leaves such an endpoint alone.
    receiver.behaviour["wrong"] = lambda _, writer: respond(writer, 404, b"<h1>where?</h1>")
    receiver.behaviour["broken"] = lambda _, writer: respond(writer, 500)
    async with Administration(Settings(database_url=sandbox.database_url)) as administration:
        merchant = await register_with(administration)("Corner shop")
        async with Till(sandbox.base_url, merchant) as till:
            yield Shop(sandbox, administration, merchant.client_id, receiver, till)


async def test_what_was_given_up_is_sent_again_when_the_endpoint_is_mended(
    shop: Shop, keys: dict[int, str]
) -> None:
    await shop.send_to("/wrong")
    await shop.sell()
    [event_id] = await shop.until(EventStatus.DEAD)
    shown = await shop.sandbox.acli("event", "show", event_id, "--answers")
    assert (shown["sequence"], shown["bodyKept"], shown["delivery"]["lastReason"]) == (1, True, "HTTP 404")
    assert [attempt["attempt"] for attempt in shown["attempts"]] == [1, 2, 3, 4]
    told = {(a["outcome"], a["status"], a["answerBytes"], a["answer"]) for a in shown["attempts"]}
    assert told == {("REFUSED", 404, 15, "<h1>where?</h1>")}

    await shop.send_to("/mended")
    resent = await shop.sandbox.acli("event", "resend", event_id)
    assert (resent["resent"], resent["delivery"]["url"]) == (True, f"{shop.receiver.base_url}/mended")
    assert await shop.until(EventStatus.ACKNOWLEDGED) == [event_id]
    before = shop.receiver.at("/wrong")
    [again] = shop.receiver.at("/mended")
    assert (len(before), again.attempt, again.body) == (4, 5, before[0].body)
    for name in ("Event-Id", "Event-Sequence"):
        assert again.headers[name] == before[0].headers[name]
    verify(again, keys)
    said = (await shop.say("event", "show", event_id)).stdout
    assert "where?" not in said
    assert "answer 15 bytes" in said


async def test_a_span_of_dead_ones_is_replayed_and_no_other(shop: Shop) -> None:
    await shop.send_to("/good")
    await shop.sell(2)
    await shop.until(EventStatus.ACKNOWLEDGED, 2)
    await shop.send_to("/wrong")
    await shop.sell(6)
    dead = await shop.until(EventStatus.DEAD, 6)
    await shop.send_to("/mended")
    since = timestamps.write_seconds(datetime.now(UTC) - timedelta(hours=1))
    span = ("event", "replay", shop.client_id, "--from", since, "--status", "dead", "--rate", 100)
    replayed = await shop.sandbox.acli(*span)
    assert (replayed["total"], replayed["resent"]) == (6, 6)
    assert set(replayed["skipped"].values()) == {0}
    await shop.until(EventStatus.ACKNOWLEDGED, 8)
    arrived = [arrival.headers["Event-Id"] for arrival in shop.receiver.at("/mended")]
    assert sorted(arrived) == sorted(dead)
    done = await shop.say(*span)
    assert (done.returncode, done.stdout) == (0, "0 events of 0 sent again.\n")


async def test_an_interrupted_replay_says_how_to_go_on(shop: Shop) -> None:
    await shop.send_to("/good")
    await shop.sell(30)
    await shop.until(EventStatus.ACKNOWLEDGED, 30)
    since = timestamps.write_seconds(datetime.now(UTC) - timedelta(hours=1))
    command = [*PAYACCEPT, "event", "replay", shop.client_id, "--from", since, "--rate", "10"]
    process = await asyncio.to_thread(
        subprocess.Popen,
        [*command, "--data-dir", str(shop.sandbox.data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    await eventually(lambda: len(shop.receiver.journal) >= 34, "some are sent again")
    os.kill(process.pid, signal.SIGINT)
    out, said = await asyncio.to_thread(process.communicate, timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in said
    told = said.rpartition("To go on: payaccept ")[2].split()
    rest = await shop.sandbox.acli(*told, "--rate", 1000)
    assert 0 < rest["total"] < 30
    await eventually(lambda: len(shop.receiver.journal) >= 60, "the rest is sent again")
    await asyncio.sleep(0.3)
    assert {len(arrivals) for arrivals in shop.receiver.by_event().values()} == {2}


async def test_a_merchant_sees_that_nothing_is_missing(shop: Shop) -> None:
    await shop.sell(3)  # with nowhere to send them
    await shop.send_to("/good")
    await shop.sell(4)
    await shop.until(EventStatus.ACKNOWLEDGED, 4)
    [unsent, *_] = await shop.until(EventStatus.UNSENT, 3)
    listed = await shop.sandbox.acli("event", "list", shop.client_id, "--after", 0)
    numbers = {event["eventId"]: event["sequence"] for event in listed["events"]}
    assert list(numbers.values()) == list(range(1, 8))
    assert listed["lastSequence"] == 7
    arrived = [
        (arrival.headers["Event-Id"], arrival.headers["Event-Sequence"]) for arrival in shop.receiver.journal
    ]
    assert all(numbers[event_id] == int(sequence) for event_id, sequence in arrived)
    done = await shop.say("event", "list", shop.client_id, "--after", 2)
    assert len(done.stdout.splitlines()) == 5
    assert done.stderr == "Numbers 3 to 7, without a gap; the last one given is 7.\n"
    await shop.sandbox.acli("event", "resend", unsent)
    await eventually(lambda: unsent in shop.receiver.by_event(), "it is sent after all")


async def test_a_failing_destination_is_named_until_it_answers(shop: Shop) -> None:
    def failing(also: str = "true") -> list[tuple[str]]:
        query = f"SELECT lane FROM failing_lanes WHERE client_id = %s AND {also}"  # noqa: S608
        return shop.sandbox.sql(query, shop.client_id)

    await shop.send_to("/broken")
    await shop.sell(3)
    await eventually(lambda: failing("opened_at IS NOT NULL"), "its circuit breaker is open")
    shown = await shop.sandbox.acli("event", "lanes")
    [lane] = [lane for lane in shown if lane["clientId"] == shop.client_id]
    assert (lane["destination"], lane["lastReason"]) == (shop.receiver.base_url, "HTTP 500")
    assert lane["failures"] >= 5
    assert lane["openTime"] is not None
    shop.receiver.behaviour.pop("broken")
    await shop.until(EventStatus.ACKNOWLEDGED, 1)
    await eventually(lambda: not failing(), "it is well again")


async def test_a_test_event_arrives_and_is_shown_as_one_by_listen(shop: Shop) -> None:
    keys_url = f"{shop.sandbox.base_url}/.well-known/payaccept/webhook-keys"
    listening = await asyncio.to_thread(
        subprocess.Popen,
        [*PAYACCEPT, "listen", "--port", "0", "--count", "1", "--json", "--keys-url", keys_url],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert listening.stdout is not None
        url = json.loads(await asyncio.to_thread(listening.stdout.readline))["listening"]
        await shop.send_to(f"{url}hook")
        sent = await shop.sandbox.acli("event", "test", shop.client_id, "--wait")
        assert (sent["status"], sent["eventType"], sent["sequence"]) == ("ACKNOWLEDGED", "webhook.test", 1)
        received = json.loads(await asyncio.to_thread(listening.stdout.readline))
        assert await asyncio.to_thread(listening.wait, 10) == 0
    finally:
        listening.kill()
        listening.communicate()
    assert (received["verified"], received["sequence"], received["attempt"]) == (True, 1, 1)
    assert received["notification"] == {
        "eventId": sent["eventId"],
        "eventType": "webhook.test",
        "createTime": sent["createTime"],
        "environment": "sandbox",
        "clientId": shop.client_id,
        "test": True,
    }
    again = await shop.say("event", "test", shop.client_id, "--wait")
    assert again.returncode == 1, "nobody listens any more"
    assert "UNREACHABLE" in again.stdout


async def test_what_cannot_be_done_is_told_in_one_line(shop: Shop) -> None:
    await shop.sell()
    [event_id] = await shop.until(EventStatus.UNSENT)
    replay = ("replay", shop.client_id, "--from")
    cases = (
        (("resend", event_id), 1, "no endpoint configured"),
        (("show", "evt_1"), 1, "no event evt_1"),
        (("list", "sandbox_nobody"), 1, "no merchant"),
        ((*replay, "yesterday"), 2, "--from takes a day"),
        ((*replay, "2026-01-31", "--to", "2026-01-30T08:30Z"), 1, "ends before it begins"),
        (("list", shop.client_id, "--status", "lost"), 2, "lost"),
    )
    said = await asyncio.gather(*(shop.say("event", *arguments) for arguments, _, _ in cases))
    for (arguments, code, words), done in zip(cases, said, strict=True):
        assert (done.returncode, done.stdout) == (code, ""), arguments
        assert words in one_line(done.stderr), arguments
