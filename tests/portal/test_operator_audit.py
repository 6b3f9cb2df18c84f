"""The audit log over all merchants: all of it, a merchant's, a person's."""

import pytest
import pytest_asyncio

from payaccept.domain.user import Actor
from payaccept.operations.merchants import Changes
from payaccept.operations.oversight import PER_PAGE

ROOT = "/operator/audit"


@pytest_asyncio.fixture(loop_scope="session")
async def staff(portal):
    return await (await portal.employee()).browser()


async def change(portal, somebody, owner, limit):
    portal.clock.move(seconds=1)
    by = Actor(user_id=somebody.user_id, name=somebody.email, address="192.0.2.99")
    await portal.services.merchants.change(owner.client_id, Changes(rate_limit=limit), portal.clock(), by)


async def test_changes_of_all_merchants_are_told(portal, staff):
    anna, ben = await portal.owner("Anna's"), await portal.owner("Ben's")
    await change(portal, anna, anna, 11)
    await change(portal, ben, ben, 22)
    seen = await staff.get(ROOT)
    assert "rateLimit 100 → 11" in seen.text
    assert "rateLimit 100 → 22" in seen.text
    assert f"/operator/merchants/{anna.client_id}" in seen.links


async def test_changes_of_one_merchant_and_by_one_person_are_found(portal, staff):
    anna, ben = await portal.owner("Anna's"), await portal.owner("Ben's")
    await change(portal, anna, anna, 31)
    await change(portal, anna, ben, 32)
    await change(portal, ben, ben, 33)
    for query, told in (
        (f"merchant={ben.client_id}", {32, 33}),
        (f"person={anna.email.upper()}", {31, 32}),
        (f"merchant={ben.client_id}&person={anna.email}", {32}),
    ):
        seen = await staff.get(f"{ROOT}?{query}")
        assert {n for n in (31, 32, 33) if f"→ {n} " in seen.text} == told, query


async def test_a_long_log_is_read_page_by_page_without_a_gap(portal, staff):
    owner = await portal.owner()
    for number in range(2 * PER_PAGE):
        await change(portal, owner, owner, 1000 + number)
    path, found = f"{ROOT}?merchant={owner.client_id}", []
    for _ in range(4):
        seen = await staff.get(path)
        found += [n for n in range(1000, 1100) if f"→ {n} " in seen.text]
        older = [link for link in seen.links if "before=" in link]
        if not older:
            break
        path = ROOT + older[0]
    assert sorted(found) == list(range(1000, 1000 + 2 * PER_PAGE))


@pytest.mark.parametrize(
    ("field", "told"), [("merchant", "There is no merchant"), ("person", "Nobody has an account")]
)
async def test_who_is_not_there_is_told_beside_the_field_which_keeps_what_was_typed(staff, field, told):
    seen = await staff.get(f"{ROOT}?{field}=nobody@nowhere.example")
    assert seen.status == 422
    assert told in seen.text
    assert f"{field}-error" in seen.ids
    assert "nobody@nowhere.example" in seen.html


async def test_the_staffs_log_is_nothing_for_merchants(portal):
    owner = await portal.owner()
    assert (await (await owner.browser()).get(ROOT)).status == 404
