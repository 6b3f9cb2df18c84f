"""Drills on a real database: asked for once a minute, done once by one worker, taken up where another has died."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from msgspec.structs import replace

from deployment import fetch_all, run_sql
from merchant import private_key
from payaccept.adapters.postgres.drills import PostgresDrills
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.domain.delivery import Answered, AttemptOutcome, Exchange, Timing, Unreachable
from payaccept.domain.drill import OLD, UNKNOWN_KEY_VERSION, Drill, Exercise, Finding, judge, tamper
from payaccept.domain.errors import DrillRefused, MerchantNotFound, OutcomeUnknown
from payaccept.domain.merchant import Environment
from payaccept.domain.user import Actor
from payaccept.operations.drilling import AT_A_TIME, Drilling
from payaccept.operations.drills import KEPT, Drills
from payaccept.operations.provider_keys import Signer
from payaccept.wire import signing, timestamps
from payaccept.wiring import drills_of
from processes import eventually

URL = "https://shop.example/hooks?shop=1"
ANNA = Actor(user_id="usr_1", name="anna@shop.example", address="192.0.2.1")
MINUTE = timedelta(minutes=1)
OURS, STRANGERS = private_key(7001), private_key(7002)


class Endpoint:
    """Answers what is posted, and keeps it."""

    def __init__(self) -> None:
        self.journal: list[tuple[str, bytes, Mapping[str, str]]] = []
        self.outcome: AttemptOutcome = Answered(200)
        self.let_go = asyncio.Event()
        self.let_go.set()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Exchange:
        self.journal.append((url, body, headers))
        await self.let_go.wait()
        return Exchange(self.outcome, Timing(total_us=1234), b"thanks")


class Work:
    """Drills over the real store, and workers whose clock is moved."""

    def __init__(self, drills: Drills, store: PostgresDrills, endpoint: Endpoint) -> None:
        self.drills = drills
        self.store = store
        self.endpoint = endpoint
        self.now = datetime.now(UTC)

    async def start(self, client_id: str) -> Drill:
        return await self.drills.start(client_id, self.now, ANNA)

    async def find(self, drill: Drill) -> Drill:
        found = await self.drills.find(drill.client_id, drill.drill_id)
        assert found is not None
        return found

    def worker(self, **changes: Any) -> Drilling:
        async def ours() -> Signer:
            return Signer(3, OURS)

        async def strangers() -> Signer:
            return Signer(UNKNOWN_KEY_VERSION, STRANGERS)

        async def sign(signer: Signer, strings: Any) -> list[bytes]:
            return [signing.sign(signer.private_key, string) for string in strings]

        values: dict[str, Any] = {
            "store": self.store,
            "post": self.endpoint.post,
            "sign": sign,
            "signer": ours,
            "stranger": strangers,
            "timeout_s": 1.0,
            "user_agent": "payaccept/test",
            "clock": lambda: self.now,
        }
        return Drilling(**values | changes)

    async def work(self) -> None:
        """Do everything that waits."""
        worker = self.worker()
        await worker.look()
        while worker._tasks:
            await asyncio.wait(worker._tasks)


@pytest_asyncio.fixture(loop_scope="session")
async def work(settings, administration) -> AsyncIterator[Work]:
    lines = LinePool(settings.database_url, "test-drills")
    store = PostgresDrills(lines)
    drills = Drills(store, administration.store, Environment.SANDBOX)
    # What other tests have left is nobody's to do here.
    run_sql(settings.database_url, "UPDATE drills SET ended_at = now(), claim_id = NULL, leased_until = NULL")
    yield Work(drills, store, Endpoint())
    await lines.close()


@pytest.fixture
async def shop(register):
    return await register("Shop", webhook_url=URL)


@asynccontextmanager
async def held(work: Work) -> AsyncIterator[Drilling]:
    """A worker that waits for the answer to what it has sent."""
    work.endpoint.let_go.clear()
    worker = work.worker()
    await worker.look()
    await eventually(lambda: work.endpoint.journal, "something was sent")
    yield worker
    work.endpoint.let_go.set()
    await worker.stop()


def public(key: RSAPrivateKey, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a key has signed a notification."""
    signature = signing.parse_header(headers["Signature"]).signature
    try:
        signing.verify(
            key.public_key(), signature, signing.notification_string("/hooks", headers["Request-Time"], body)
        )
    except signing.SignatureMismatch:
        return False
    return True


# Asking


async def test_a_drill_is_planned_and_written_down_with_who_asked(work, shop, settings):
    drill = await work.start(shop.client_id)
    assert await work.find(drill) == drill
    assert (drill.url, drill.asked_by, drill.is_running) == (URL, ANNA.name, True)
    query = "SELECT actor, action, after FROM audit_log WHERE subject = %s"
    assert fetch_all(settings.database_url, query, drill.drill_id) == [
        (ANNA.name, "drill.started", {"url": URL})
    ]


async def test_without_an_endpoint_there_is_none(work, register):
    shop = await register("Shop")
    with pytest.raises(DrillRefused, match="no endpoint is configured") as caught:
        await work.start(shop.client_id)
    assert caught.value.retry_after_s is None
    with pytest.raises(MerchantNotFound):
        await work.start("sandbox_0")


async def test_one_runs_at_a_time(work, shop):
    await work.start(shop.client_id)
    work.now += 2 * MINUTE
    with pytest.raises(DrillRefused, match="a drill is running"):
        await work.start(shop.client_id)


async def test_of_many_who_ask_at_once_one_gets_a_drill(work, shop):
    asked = await asyncio.gather(*(work.start(shop.client_id) for _ in range(8)), return_exceptions=True)
    assert [type(one) for one in asked if isinstance(one, BaseException)] == [DrillRefused] * 7


async def test_the_next_one_begins_a_minute_after_the_last(work, shop):
    await work.start(shop.client_id)
    await work.work()
    work.now += timedelta(seconds=18.5)
    with pytest.raises(DrillRefused, match="wait 42 s") as caught:
        await work.start(shop.client_id)
    assert caught.value.retry_after_s == 42
    work.now += timedelta(seconds=41.5)
    await work.start(shop.client_id)


async def test_one_merchants_drill_is_no_other_merchants(work, shop, register):
    other = await register("Other", webhook_url=URL)
    drill = await work.start(shop.client_id)
    assert await work.drills.find(other.client_id, drill.drill_id) is None
    assert await work.drills.list_last(other.client_id) == []
    await work.start(other.client_id)


async def test_only_the_newest_are_kept(work, shop, settings):
    started = []
    for _ in range(KEPT + 3):
        started.append((await work.start(shop.client_id)).drill_id)
        await work.work()
        work.now += MINUTE
    last = await work.drills.list_last(shop.client_id)
    assert [drill.drill_id for drill in last] == started[: -KEPT - 1 : -1]
    query = "SELECT count(*) FROM drill_steps AS s WHERE s.drill_id = ANY(%s)"
    assert fetch_all(settings.database_url, query, started) == [(8 * KEPT,)]


def test_there_are_none_in_production(work, settings, administration):
    production = replace(settings, environment=Environment.PRODUCTION)
    assert drills_of(production, work.store, administration.store) is None


# Doing


async def test_each_notification_is_what_its_exercise_says(work, shop):
    drill = await work.start(shop.client_id)
    await work.work()
    sent = dict(zip([step.number for step in drill.steps], work.endpoint.journal, strict=True))
    for step in drill.steps:
        url, body, headers = sent[step.number]
        forged = step.exercise is Exercise.TAMPERED
        stranger = step.exercise is Exercise.UNKNOWN_KEY
        at = work.now - (OLD if step.exercise is Exercise.OLD else timedelta())
        assert url == URL
        assert body == (tamper(step.body) if forged else step.body)
        assert headers["Request-Time"] == timestamps.write_seconds(at)
        assert public(OURS, headers, body) == (not forged and not stranger)
        assert public(STRANGERS, headers, body) == stranger
        assert public(OURS, headers, step.body) == (not stranger)
        version = signing.parse_header(headers["Signature"]).key_version
        assert version == (UNKNOWN_KEY_VERSION if stranger else 3)
        assert headers["Event-Id"] == step.event_id
        assert (headers["Event-Sequence"], headers["Delivery-Attempt"]) == (
            str(step.sequence),
            str(step.attempt),
        )
    assert list(sent[1][2]) == [
        *("Content-Type", "User-Agent", "Request-Time", "Signature"),
        *("Event-Id", "Event-Sequence", "Delivery-Attempt"),
    ]


async def test_what_came_of_each_is_written_down_and_judged(work, shop):
    drill = await work.start(shop.client_id)
    await work.work()
    done = await work.find(drill)
    assert done.ended_at == work.now
    assert {step.outcome for step in done.steps} == {Answered(200)}
    assert {(step.total_us, step.answer_bytes, step.sent_at) for step in done.steps} == {(1234, 6, work.now)}
    assert done.steps[0].headers is not None
    assert done.steps[0].headers.startswith("Content-Type: application/json\nUser-Agent: payaccept/test\n")
    assert [judged.verdict for judged in judge(done)] == ["right"] * 3 + ["wrong"] * 3


@pytest.mark.parametrize("refusal", [None, "HTTP 200 with resultStatus 'F'"])
async def test_a_refusal_in_the_body_is_kept(work, shop, refusal):
    work.endpoint.outcome = Answered(200, refusal)
    drill = await work.start(shop.client_id)
    await work.work()
    assert {step.outcome for step in (await work.find(drill)).steps} == {Answered(200, refusal)}


async def test_without_an_answer_to_the_first_nothing_more_is_sent(work, shop):
    work.endpoint.outcome = Unreachable("no complete answer within 1 s")
    drill = await work.start(shop.client_id)
    await work.work()
    assert len(work.endpoint.journal) == 1
    done = await work.find(drill)
    assert not done.is_running
    assert done.steps[0].outcome == work.endpoint.outcome


async def test_two_workers_do_a_drill_once(work, shop):
    await work.start(shop.client_id)
    await asyncio.gather(*(work.work() for _ in range(4)))
    assert len(work.endpoint.journal) == 8


async def test_a_worker_does_a_few_at_a_time_and_then_the_rest(work, register):
    shops = [await register(webhook_url=URL) for _ in range(AT_A_TIME + 2)]
    drills = [await work.start(shop.client_id) for shop in shops]
    async with held(work) as worker:
        await asyncio.sleep(0.2)
        await worker.look()
        await asyncio.sleep(0.2)
        assert len(work.endpoint.journal) == AT_A_TIME
    for _ in range(2):
        await work.work()
    for drill in drills:
        assert not (await work.find(drill)).is_running


# Dying


async def test_a_worker_that_stops_finishes_its_step_and_leaves_the_rest_to_another(work, shop):
    drill = await work.start(shop.client_id)
    async with held(work) as worker:
        stopping = asyncio.create_task(worker.stop())
        await asyncio.sleep(0.05)
        work.endpoint.let_go.set()
        await stopping
    assert len(work.endpoint.journal) == 1
    assert (await work.find(drill)).steps[0].outcome == Answered(200)
    await work.work()
    assert len(work.endpoint.journal) == 8
    assert not (await work.find(drill)).is_running


async def test_a_drill_of_a_worker_that_died_goes_on_behind_what_may_have_been_sent(work, shop):
    drill = await work.start(shop.client_id)
    claim_id = uuid4()
    until = work.now + timedelta(seconds=30)
    [claimed] = await work.store.claim_drills(claim_id, work.now, until, 8)
    assert claimed.drill_id == drill.drill_id
    assert await work.store.begin_step(drill.drill_id, claim_id, drill.steps[0], work.now, "A: b\n", until)
    await work.work()  # the lease holds
    assert work.endpoint.journal == []
    work.now += timedelta(seconds=31)
    await work.work()
    assert len(work.endpoint.journal) == 7
    done = await work.find(drill)
    assert not done.is_running
    assert [judged.worst for judged in judge(done)][:2] == [Finding.INTERRUPTED, Finding.ACKNOWLEDGED]
    # Whoever comes back to life sends nothing, and ends nothing.
    late = work.now + MINUTE
    assert not await work.store.begin_step(drill.drill_id, claim_id, drill.steps[1], work.now, "A: b\n", late)


async def test_a_step_is_begun_once(work, shop):
    drill = await work.start(shop.client_id)
    claim_id, until = uuid4(), work.now + MINUTE
    await work.store.claim_drills(claim_id, work.now, until, 8)
    begun = [
        await work.store.begin_step(drill.drill_id, claim_id, drill.steps[0], work.now, "A: b\n", until)
        for _ in "12"
    ]
    assert begun == [True, False]


async def test_an_answer_is_written_down_when_the_database_is_back(work, shop):
    class Away(PostgresDrills):
        failures = 2

        async def record_step(self, drill_id, step):
            if self.failures:
                self.failures -= 1
                raise OutcomeUnknown
            await super().record_step(drill_id, step)

    drill = await work.start(shop.client_id)
    worker = work.worker(store=Away(work.store._lines))
    await worker.look()
    while worker._tasks:
        await asyncio.wait(worker._tasks)
    done = await work.find(drill)
    assert not done.is_running
    assert all(step.outcome for step in done.steps)
