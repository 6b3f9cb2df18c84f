"""The numbers of events: contiguous for each merchant, whoever gives them, and in nobody's way."""

import asyncio
import random
from datetime import timedelta

import psycopg
import pytest

from deployment import NOW, after, fetch_all, merchant_made
from event_rows import insert_events
from payaccept.adapters.postgres import numbering as module
from payaccept.adapters.postgres.connections import SharedLine
from payaccept.adapters.postgres.numbering import BATCH, PostgresNumbering, number_events


@pytest.fixture
def url(fresh_database):
    return fresh_database()


@pytest.fixture
async def numbering(url):
    opened = PostgresNumbering(url, process="test")
    yield opened
    await opened.close()


def unnumbered(url: str) -> list[tuple[int, str, str]]:
    return fetch_all(url, "SELECT bucket, event_id, client_id FROM events WHERE sequence IS NULL")


def sequences(url: str, client_id: str) -> list[int]:
    """A merchant's numbers in the order of its events' ids."""
    rows = fetch_all(url, "SELECT sequence FROM events WHERE client_id = %s ORDER BY event_id", client_id)
    return [row[0] for row in rows]


async def give(url: str, events: list[tuple[int, str, str]]) -> dict[str, int]:
    line = SharedLine(url, "test-give")
    async with line.connection() as connection, connection.transaction():
        numbers = await number_events(connection, events)
    await line.close()
    return numbers


async def test_each_merchants_events_are_numbered_from_one_in_the_order_of_their_ids(url):
    for client_id in ("sandbox_b", "sandbox_a"):
        insert_events(url, client_id, [after(second) for second in (3, 1, 2)])
    events = unnumbered(url)
    random.shuffle(events)
    numbers = await give(url, events)
    assert sequences(url, "sandbox_a") == sequences(url, "sandbox_b") == [1, 2, 3]
    assert numbers == dict(fetch_all(url, "SELECT event_id, sequence FROM events"))
    insert_events(url, "sandbox_a", [NOW], bucket=9)
    assert sorted((await give(url, unnumbered(url))).values()) == [4]


async def test_an_event_keeps_the_number_it_has_and_one_that_does_not_exist_gets_none(url):
    first, second = insert_events(url, "sandbox_a", [NOW, after(1)])
    assert await give(url, [(7, second, "sandbox_a")]) == {second: 1}
    everything = [(7, first, "sandbox_a"), (7, second, "sandbox_a"), (7, "evt_none", "sandbox_a")]
    assert await give(url, everything) == {first: 2, second: 1}
    assert await give(url, []) == {}
    assert fetch_all(url, "SELECT * FROM event_counters") == [("sandbox_a", 2)]


async def test_many_number_at_once_some_are_taken_back_and_no_number_is_missing_or_double(url):
    clients = [f"sandbox_{name}" for name in "cab"]
    times = [after(number / 100) for number in range(200)]
    events = [
        (7, event_id, client_id) for client_id in clients for event_id in insert_events(url, client_id, times)
    ]
    lines = [SharedLine(url, f"test-{number}") for number in range(2)]
    told: dict[str, int] = {}

    async def number(line: SharedLine, seed: int) -> None:
        chance = random.Random(seed)  # noqa: S311 - the same at every run
        for _ in range(25):
            some = chance.sample(events, 30)
            taken_back = chance.random() < 0.3
            async with line.connection() as connection, connection.transaction(force_rollback=taken_back):
                numbers = await number_events(connection, some)
            if taken_back:
                continue
            assert numbers.keys() == {event_id for _, event_id, _ in some}
            for event_id, sequence in numbers.items():
                assert told.setdefault(event_id, sequence) == sequence

    await asyncio.gather(*(number(lines[seed % 2], seed) for seed in range(8)))
    for line in lines:
        await line.close()
    await give(url, unnumbered(url))
    for client_id in clients:
        assert sorted(sequences(url, client_id)) == list(range(1, 201))
    assert told.items() <= dict(fetch_all(url, "SELECT event_id, sequence FROM events")).items()


async def test_several_workers_number_what_waits_at_once(url, numbering):
    for client_id in ("sandbox_a", "sandbox_b"):
        insert_events(url, client_id, [after(number / 1000) for number in range(700)])
    others = [PostgresNumbering(url, process=f"test{number}") for number in range(3)]
    while unnumbered(url):
        await asyncio.gather(*(one.number_waiting(NOW) for one in [numbering, *others]))
    for one in others:
        await one.close()
    assert sorted(sequences(url, "sandbox_a")) == sorted(sequences(url, "sandbox_b")) == list(range(1, 701))


async def test_what_waits_is_numbered_oldest_first_and_a_batch_at_a_time(url, numbering):
    insert_events(url, "sandbox_a", [after(number / 1000) for number in range(BATCH + 3)])
    assert [await numbering.number_waiting(NOW) for _ in range(2)] == [BATCH + 3, 0]
    assert sequences(url, "sandbox_a") == list(range(1, BATCH + 4))
    insert_events(url, "sandbox_a", [after(60)] * (BATCH + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCHES", 1)
        assert [await numbering.number_waiting(NOW) for _ in range(3)] == [BATCH, 1, 0]


async def test_old_events_are_looked_for_now_and_then(url, numbering):
    insert_events(url, "sandbox_a", [NOW - timedelta(hours=5), NOW])
    assert await numbering.number_waiting(NOW) == 2, "the first look has no bound"
    insert_events(url, "sandbox_a", [NOW - timedelta(hours=4), after(1)])
    assert await numbering.number_waiting(NOW) == 1
    numbering._swept_at -= 6
    assert await numbering.number_waiting(NOW) == 1
    assert sequences(url, "sandbox_a") == [1, 4, 2, 3]


async def test_a_merchant_whose_counter_somebody_holds_keeps_no_other_waiting(url, numbering):
    insert_events(url, "sandbox_a", [NOW, after(1)])
    await numbering.number_waiting(NOW)
    insert_events(url, "sandbox_a", [after(2)])
    insert_events(url, "sandbox_b", [after(3)])
    with psycopg.connect(url) as holder:
        holder.execute(
            "UPDATE event_counters SET last_sequence = last_sequence WHERE client_id = 'sandbox_a'"
        )
        async with asyncio.timeout(2):
            assert await numbering.number_waiting(NOW) == 1
    assert sequences(url, "sandbox_b") == [1]
    assert await numbering.number_waiting(NOW) == 1
    assert sequences(url, "sandbox_a") == [1, 2, 3]


async def test_payments_of_a_merchant_become_final_while_its_counter_is_held(settings, parts):
    shop = merchant_made(NOW)
    insert_events(settings.database_url, shop.client_id, [NOW])
    line = SharedLine(settings.database_url, "test-hold")
    async with line.connection() as connection, connection.transaction():
        mine = [event for event in unnumbered(settings.database_url) if event[2] == shop.client_id]
        assert list((await number_events(connection, mine)).values()) == [1]
        async with asyncio.timeout(2):
            answers = await asyncio.gather(*(parts.create(shop, "createQROrder", NOW) for _ in range(20)))
            assert len(await parts.look(after(1))) >= len(answers)
    await line.close()
    states = fetch_all(
        settings.database_url, "SELECT DISTINCT state FROM payments WHERE client_id = %s", shop.client_id
    )
    assert states == [("SUCCESS",)]
