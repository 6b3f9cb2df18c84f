"""Every payment by any id, for the provider's staff; who looked at what is recorded."""

import pytest
import pytest_asyncio

from deployment import fetch_all, numbers, run_sql
from event_rows import insert_events
from merchant import Merchant, private_key, public_pem
from payaccept.domain import identifiers
from payaccept.domain.merchant import DuplicatePolicy
from payaccept.operations.merchants import Changes

ROOT = "/operator/payments"


@pytest_asyncio.fixture(loop_scope="session")
async def employee(portal):
    return await portal.employee()


@pytest_asyncio.fixture(loop_scope="session")
async def staff(employee):
    return await employee.browser()


@pytest_asyncio.fixture(loop_scope="session")
async def owner(portal):
    return await portal.owner("Corner shop")


@pytest_asyncio.fixture(loop_scope="session")
async def payment(portal, owner, api):
    """A paid payment of the owner's, as its answer to the merchant, with its paymentRequestId."""
    key = private_key(next(numbers))
    merchants = portal.services.merchants
    stored = await merchants.add_key(owner.client_id, public_pem(key), portal.clock())
    await merchants.change(owner.client_id, Changes(duplicates=DuplicatePolicy.REPLAY), portal.clock())
    shop = Merchant(owner.client_id)
    shop.use_key(stored.key_version, key)
    request_id = f"order-{next(numbers)}"
    answer = await shop.create(api, "createQROrder", paymentRequestId=request_id)
    return {"paymentId": answer.json()["paymentId"], "paymentRequestId": request_id}


async def looks(portal, owner):
    entries = await portal.services.people.list_entries(owner.client_id)
    return [(e.action, e.actor, e.subject) for e in entries if ".viewed" in e.action or ".listed" in e.action]


async def test_a_payment_is_found_by_each_of_its_ids(staff, owner, payment):
    payment_id, request_id = payment["paymentId"], payment["paymentRequestId"]
    for query in (
        f"find={payment_id}",
        f"find=%20{identifiers.acquirement_of(payment_id)}%20",
        f"find={request_id}&merchant={owner.client_id}",
    ):
        seen = await staff.get(f"{ROOT}?{query}")
        assert seen.path == f"{ROOT}/{payment_id}", query
        assert "Its story" in seen.text


async def test_a_look_is_recorded_where_the_merchant_reads_it(portal, employee, staff, owner, payment):
    await staff.get(f"{ROOT}/{payment['paymentId']}")
    assert await looks(portal, owner) == [("payment.viewed", employee.email, payment["paymentId"])]
    seen = await (await owner.browser()).get(f"{owner.home}/audit")
    assert "Payment looked at by the provider" in seen.text
    assert employee.email in seen.text


async def test_a_search_alone_tells_nothing_and_is_not_recorded(portal, staff, owner, payment):
    seen = await staff.get(f"{ROOT}?find={payment['paymentId']}", follow=False)
    assert seen.status == 303
    assert await looks(portal, owner) == []


@pytest.mark.parametrize(
    ("query", "field", "told"),
    [
        ("find=pay_" + "0" * 36, "find", "No payment has this id"),
        ("find=order-1", "find", "give the Client-Id as well"),
        ("find=order-1&merchant=nobody", "merchant", "There is no merchant"),
        ("find=" + "x" * 65, "find", "At most 64"),
    ],
)
async def test_what_is_not_found_is_told_beside_the_field_which_keeps_what_was_typed(
    staff, query, field, told
):
    seen = await staff.get(f"{ROOT}?{query}")
    assert seen.status == 422
    assert told in seen.text
    assert f"{field}-error" in seen.ids
    assert query.partition("&")[0].removeprefix("find=") in seen.html


async def test_another_merchants_request_id_is_not_found_under_this_one(portal, staff, payment):
    other = await portal.owner()
    seen = await staff.get(f"{ROOT}?find={payment['paymentRequestId']}&merchant={other.client_id}")
    assert "This merchant has no payment with this id." in seen.text


@pytest.mark.parametrize("payment_id", ["pay_" + "0" * 36, "acq_" + "0" * 36, "x", "pay_"])
async def test_a_payment_that_is_not_there_has_no_page(staff, payment_id):
    assert (await staff.get(f"{ROOT}/{payment_id}")).status == 404


async def test_a_merchants_payments_are_listed_and_the_look_is_recorded(
    portal, employee, staff, owner, payment
):
    path = f"/operator/merchants/{owner.client_id}/payments"
    assert f"{ROOT}/{payment['paymentId']}" in (await staff.get(path)).links
    assert await looks(portal, owner) == [("payments.listed", employee.email, owner.client_id)]
    assert (await staff.get(f"{path}?before=x")).status == 200
    assert "That is all" in (await staff.get(f"{path}?before={payment['paymentId']}")).text


async def test_the_link_for_support_leads_staff_to_their_own_page(staff, payment):
    assert (await staff.get(f"/payments/{payment['paymentId']}")).path == f"{ROOT}/{payment['paymentId']}"


async def test_a_test_event_is_found_by_its_id_and_is_no_payment(portal, staff, owner):
    merchants = portal.services.merchants
    await merchants.change(owner.client_id, Changes(webhook_url="http://127.0.0.1:9/x"), portal.clock())
    event = await portal.services.events.send_test(owner.client_id)
    seen = await staff.get(f"{ROOT}?find={event.event_id}")
    assert seen.path == f"/operator/deliveries/{event.event_id}"
    assert "None: it is a test" in seen.text


async def test_an_event_leads_to_its_payment_with_what_the_endpoint_answered(portal, staff, owner, payment):
    [event_id] = insert_events(portal.settings.database_url, owner.client_id, [portal.clock()])
    [(payment_id,)] = fetch_all(
        portal.settings.database_url, "SELECT payment_id FROM events WHERE event_id = %s", event_id
    )
    run_sql(
        portal.settings.database_url,
        "INSERT INTO attempts (bucket, event_id, attempt, client_id, url, started_at, key_version, outcome, status,"
        " reason, total_us, answer) SELECT bucket, event_id, 1, client_id, url, created_at, 1, 'REFUSED', 500,"
        " 'HTTP 500', 1200, 'what it said' FROM deliveries AS d WHERE NOT EXISTS"
        " (SELECT FROM attempts AS a WHERE a.event_id = d.event_id)",
    )
    seen = await staff.get(f"{ROOT}?find={event_id}")
    assert seen.path == f"{ROOT}/{payment_id}"
    assert "what it said" in seen.text
    merchants_own = await (await owner.browser()).get(f"{owner.home}/payments/{payment_id}")
    assert merchants_own.status == 200
    assert "what it said" not in merchants_own.text
