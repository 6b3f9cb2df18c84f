"""A merchant's payments, page by page: without a gap, with bounded looks, and never another's."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import pytest_asyncio

from deployment import NOW, merchant_made, payment_id_of
from event_rows import insert_events
from payaccept.adapters.postgres.events import PostgresEvents
from payaccept.adapters.postgres.line_pool import LinePool
from payaccept.adapters.postgres.payment_lists import PostgresPaymentLists
from payaccept.domain import identifiers
from payaccept.domain.payment import PaymentState
from payaccept.domain.payment_search import ListedPayment, PaymentSearch
from payaccept.operations.events import Operator, Owner
from payaccept.operations.payment_lists import PER_PAGE, PaymentLists
from payment_rows import insert_payments

COUNT = 3000
SHOP, OTHER = "sandbox_shop", "sandbox_other"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def lists(settings, parts):
    lines = LinePool(settings.database_url, "test-lists")
    events = PostgresEvents(settings.database_url, process="test")
    insert_payments(settings.database_url, SHOP, COUNT, NOW)
    insert_payments(settings.database_url, OTHER, 50, NOW)
    yield PaymentLists(PostgresPaymentLists(lines), parts.store, events)
    await lines.close()
    await events.close()


async def all_of(
    lists: PaymentLists, search: PaymentSearch, look_at: int = 20_000
) -> tuple[list[ListedPayment], int]:
    """Every payment that is looked for, and how many pages it took."""
    found: list[ListedPayment] = []
    before = None
    for pages in range(1, 200):
        page = await lists.search(SHOP, search, before, look_at=look_at)
        found += page.payments
        if page.older is None:
            return found, pages
        assert before is None or page.older < before
        before = page.older
    raise AssertionError("there is no end of it")


def numbers(payments: list[ListedPayment]) -> list[int]:
    return [int(payment.payment_request_id.removeprefix("order-")) for payment in payments]


async def test_all_payments_come_page_by_page_the_newest_first_without_a_gap(lists):
    found, pages = await all_of(lists, PaymentSearch())
    assert numbers(found) == list(range(COUNT, 0, -1))
    assert pages == COUNT // PER_PAGE
    first = await lists.search(SHOP, PaymentSearch())
    assert len(first.payments) == PER_PAGE
    assert first.looked_back_to is None


@pytest.mark.parametrize("look_at", [60, 100, 250, 997, 3000, 20_000])
@pytest.mark.parametrize(
    ("search", "wanted"),
    [
        (PaymentSearch(state=PaymentState.FAIL), lambda n: n % 50 == 0 and n % 997 != 0),
        (PaymentSearch(state=PaymentState.PROCESSING), lambda n: n % 997 == 0),
        (PaymentSearch(operation="retailPay"), lambda n: n % 3 == 1),
        (PaymentSearch(currency="KWD"), lambda n: n % 10 == 0),
        (
            PaymentSearch(currency="EUR", least_minor=103, most_minor=103),
            lambda n: n % 1000 == 3,
        ),
        (
            PaymentSearch(currency="EUR", least_minor=1090),
            lambda n: n % 1000 >= 990 and n % 10,
        ),
        (PaymentSearch(currency="EUR", most_minor=105), lambda n: n % 1000 <= 5 and n % 10),
        (PaymentSearch(store="store-42"), lambda n: n % 100 == 42),
        (PaymentSearch(store="nowhere"), lambda _: False),
        (PaymentSearch(store="store-42", operation="createQROrder"), lambda n: n % 100 == 42 and n % 3 == 0),
    ],
    ids=lambda value: value.to_query() if isinstance(value, PaymentSearch) else "",
)
async def test_what_is_looked_for_is_found_however_little_is_looked_at_for_a_page(
    lists, search, wanted, look_at
):
    found, pages = await all_of(lists, search, look_at)
    assert numbers(found) == [n for n in range(COUNT, 0, -1) if wanted(n)]
    assert pages >= COUNT // max(look_at, COUNT + 1)


async def test_a_look_that_ended_early_says_how_far_it_went(lists):
    page = await lists.search(SHOP, PaymentSearch(store="nowhere"), look_at=500)
    assert page.payments == []
    assert page.looked_back_to == NOW - timedelta(seconds=500)
    assert page.older is not None
    last = await lists.search(SHOP, PaymentSearch(store="nowhere"), look_at=COUNT + 1)
    assert (last.older, last.looked_back_to) == (None, None)


async def test_a_span_of_time_is_found_without_looking_at_what_is_outside(lists):
    since, until = NOW - timedelta(seconds=2000), NOW - timedelta(seconds=1990)
    span = PaymentSearch(created_from=since, created_until=until)
    found, pages = await all_of(lists, span)
    assert numbers(found) == list(range(COUNT - 1990, COUNT - 2000, -1))
    assert pages == 1
    narrow = PaymentSearch(created_from=since, created_until=until, operation="retailPay")
    assert numbers((await all_of(lists, narrow, 60))[0]) == [n for n in numbers(found) if n % 3 == 1]


async def test_payments_made_meanwhile_neither_repeat_nor_hide_what_is_older(lists, settings):
    first = await lists.search(OTHER, PaymentSearch(), limit=20)
    insert_payments(settings.database_url, "sandbox_third", 5, NOW + timedelta(minutes=1), bucket=9)
    second = await lists.search(OTHER, PaymentSearch(), first.older, limit=20)
    assert numbers(first.payments) + numbers(second.payments) == list(range(50, 10, -1))


@pytest.mark.parametrize("spread", [1, 8])
async def test_a_payment_is_found_by_any_of_its_ids(lists, parts, spread):
    shop = merchant_made(NOW, spread=spread)
    request_id = f"order/{spread} x".replace(" ", "")
    payment_id = payment_id_of(await parts.create(shop, "createQROrder", NOW, paymentRequestId=request_id))
    owner = Owner(shop.client_id)
    for text in (payment_id, identifiers.acquirement_of(payment_id), request_id):
        found = await lists.find(owner, text, shop)
        assert (found.payment_id, found.client_id) == (payment_id, shop.client_id)
    assert (await lists.find(Operator(), payment_id)).client_id == shop.client_id
    assert await lists.find(Operator(), request_id) is None
    stranger = merchant_made(NOW)
    for text in (payment_id, identifiers.acquirement_of(payment_id), request_id):
        assert await lists.find(Owner(stranger.client_id), text, stranger) is None


async def test_a_request_id_that_looks_like_one_of_ours_is_found_all_the_same(lists, parts):
    shop = merchant_made(NOW)
    request_id = identifiers.new(identifiers.PAYMENT, 3, 0)
    payment_id = payment_id_of(await parts.create(shop, "createQROrder", NOW, paymentRequestId=request_id))
    found = await lists.find(Owner(shop.client_id), request_id, shop)
    assert found.payment_id == payment_id


async def test_an_event_leads_to_its_payment(lists, settings):
    [event_id] = insert_events(settings.database_url, "sandbox_events", [datetime.now(UTC)])
    with psycopg.connect(settings.database_url) as connection:
        row = connection.execute("SELECT payment_id FROM events WHERE event_id = %s", [event_id]).fetchone()
    assert (await lists.find(Owner("sandbox_events"), event_id)).payment_id == row[0]
    assert await lists.find(Owner("sandbox_shop"), event_id) is None


@pytest.mark.parametrize("text", ["", "pay_", "pay_" + "g" * 36, "evt_" + "0" * 36, "x" * 300, "☂"])
async def test_what_names_no_payment_finds_none(lists, text):
    shop = merchant_made(NOW)
    assert await lists.find(Owner(shop.client_id), text, shop) is None
