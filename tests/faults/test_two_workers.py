"""Two workers share the deliveries, and `kill -9` meets now the one and now the other, a hundred times in all.

They are under load all the time, and each has work in hand before it is killed.

The receiver's journal is the oracle: every event arrived and was acknowledged, the same bytes whenever, rightly
signed; and what arrived again had been in hand when a worker was killed.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
import pytest_asyncio

from deployment import NOW, Parts, fetch_all, merchant_made, settings_for
from payaccept.adapters.postgres.merchants import PostgresMerchants
from payaccept.config import Settings
from payaccept.domain.merchant import Merchant
from processes import eventually
from traffic import Arrival, Receiver, acknowledge, verify
from two_workers import Workers

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KILLS = 100
SHOPS = 10
PAUSE_S = 0.12
LEASE_S = 3.0
CLAIMS = "SELECT event_id, claim_id FROM deliveries WHERE claim_id IS NOT NULL"


async def buy(parts: Parts, shops: list[Merchant], url: str, stopped: asyncio.Event) -> int:
    """Take payments of all shops, one after the other, until told to stop; returns how many."""
    count = 0
    while not stopped.is_set():
        at = datetime.now(UTC)
        await asyncio.gather(*(parts.create(shop, "retailPay", at, paymentNotifyUrl=url) for shop in shops))
        count += len(shops)
        await asyncio.sleep(PAUSE_S)
    return count


async def acknowledge_later(arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    """Answer after a moment, in which a worker may be killed."""
    await asyncio.sleep(random.uniform(0.0, 0.05))  # noqa: S311 - no secret
    await acknowledge(arrival, writer)


@pytest.fixture(scope="module")
def settings(database_url: str, master_key_file: Path) -> Settings:
    return settings_for(
        database_url,
        master_key_file,
        webhook_timeout_s=1.0,
        webhook_lease_s=LEASE_S,
        retry_schedule_s=(0.5,) * 8,
    )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def keys(settings: Settings) -> AsyncIterator[dict[int, str]]:
    store = PostgresMerchants(settings.database_url, process="test")
    yield {key.key_version: key.public_key_pem for key in await store.list_provider_keys()}
    await store.close()


async def test_no_event_is_lost_and_none_is_doubled_that_was_not_in_hand(
    settings: Settings, keys: dict[int, str]
) -> None:
    url = settings.database_url
    shops = [merchant_made(NOW, base_bucket=number) for number in range(SHOPS)]
    in_hand: set[tuple[str, UUID]] = set()  # at any of the kills: an event, and the claim on it
    killed: list[int] = []
    hit = 0
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Receiver(hook=acknowledge_later))
        parts = await stack.enter_async_context(Parts(settings))
        reading = stack.enter_context(psycopg.connect(url, autocommit=True))
        workers = Workers(settings)
        stack.callback(workers.stop)
        stopped = asyncio.Event()
        buying = asyncio.create_task(buy(parts, shops, f"{receiver.base_url}/hook", stopped))
        stack.push_async_callback(asyncio.wait, [buying])
        stack.callback(stopped.set)
        await eventually(lambda: len(receiver.journal) > 20, "webhooks arrive", 30)
        for number in range(KILLS):
            arrived = len(receiver.journal)
            await eventually(lambda so_far=arrived: len(receiver.journal) >= so_far + 5, "they work", 30)
            await asyncio.sleep(random.uniform(0.02, 0.1))  # noqa: S311 - no secret
            killed.append(workers.running[number % 2].pid or 0)
            await asyncio.to_thread(workers.kill, number % 2)
            claimed = set(reading.execute(CLAIMS).fetchall())
            hit += bool(claimed - in_hand)
            in_hand |= claimed
            workers.start(number % 2)
        stopped.set()
        count = await buying
        pending = "SELECT count(*) FROM deliveries WHERE state <> 'ACKNOWLEDGED'"
        await eventually(lambda: reading.execute(pending.encode()).fetchone() == (0,), "all is delivered", 40)
    assert len(set(killed)) == KILLS, "each time another process"
    assert hit > KILLS * 0.8, "there was load: nearly every time something new was in hand"
    journal_agrees(url, receiver, keys, count, Counter(event_id for event_id, _ in in_hand))


def journal_agrees(
    url: str, receiver: Receiver, keys: dict[int, str], count: int, in_hand: Counter[str]
) -> None:
    rows = fetch_all(
        url,
        "SELECT e.event_id, e.client_id, e.sequence, p.body, d.attempts FROM events AS e"
        " JOIN payloads AS p USING (bucket, event_id) JOIN deliveries AS d USING (bucket, event_id)",
    )
    assert len(rows) == count
    arrived = receiver.by_event()
    sequences = defaultdict(list)
    for event_id, client_id, sequence, body, attempts in rows:
        arrivals = arrived.pop(event_id)
        sequences[client_id].append(sequence)
        assert {arrival.body for arrival in arrivals} == {body}
        assert {arrival.headers["Event-Sequence"] for arrival in arrivals} == {str(sequence)}
        numbers = [arrival.attempt for arrival in arrivals]
        assert numbers == sorted(set(numbers)), "no attempt is made twice"
        assert numbers[-1] == attempts
        assert len(arrivals) - 1 <= in_hand[event_id], "it had been in hand when a worker was killed"
        for arrival in arrivals:
            verify(arrival, keys)
    assert arrived == {}, "events that nobody knows"
    for numbers in sequences.values():
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
