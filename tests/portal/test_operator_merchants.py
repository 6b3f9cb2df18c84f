"""The operator's pages of merchants: found, made, switched, set, their keys refused in an emergency."""

import pytest
import pytest_asyncio

from deployment import numbers, recorder_of
from merchant import private_key, public_pem
from payaccept.domain.merchant import DuplicatePolicy, KeyState, MerchantState
from payaccept.operations.merchants import Changes
from payaccept.operations.oversight import PER_PAGE
from shops import record, refused

ROOT = "/operator/merchants"


@pytest_asyncio.fixture(loop_scope="session")
async def employee(portal):
    return await portal.employee()


@pytest_asyncio.fixture(loop_scope="session")
async def staff(employee):
    return await employee.browser()


async def last_entry(portal, client_id, action):
    """The last of its kind: on a clock that stands still, entries of different kinds are in no order."""
    found = [e for e in await portal.services.people.list_entries(client_id) if e.action == action]
    return found[0] if found else None


async def test_the_front_page_leads_staff_to_the_overview(staff):
    seen = await staff.get("/")
    assert seen.path == "/operator"
    assert "/operator/merchants" in seen.links


@pytest.mark.parametrize("part", ["name", "client_id", "middle"])
async def test_merchants_are_found_by_name_and_client_id(portal, staff, part):
    name = f"Naïve Bäckerei_{next(numbers)}%"
    owner, other = await portal.owner(name), await portal.owner()
    text = {"name": name.lower(), "client_id": owner.client_id, "middle": owner.client_id[10:24]}[part]
    seen = await staff.get(f"{ROOT}?q={text.replace('%', '%25')}")
    assert f"{ROOT}/{owner.client_id}" in seen.links
    assert f"{ROOT}/{other.client_id}" not in seen.links


async def test_merchants_are_found_by_state(portal, staff):
    owner, other = await portal.owner(), await portal.owner()
    await portal.services.merchants.deactivate(owner.client_id, portal.clock())
    seen = await staff.get(f"{ROOT}?state=INACTIVE")
    assert f"{ROOT}/{owner.client_id}" in seen.links
    assert f"{ROOT}/{other.client_id}" not in seen.links
    assert "No merchant is like that" in (await staff.get(f"{ROOT}?state=PENDING")).text


@pytest.mark.parametrize("query", ["state=x", "behind=nobody", "q=%25", "q=" + "x" * 128])
async def test_a_strange_search_is_no_error(staff, query):
    assert (await staff.get(f"{ROOT}?{query}")).status == 200


async def test_many_merchants_are_read_page_by_page_without_a_gap(portal, staff):
    name = f"Chain {next(numbers)}"
    made = [
        (await portal.services.merchants.create(f"{name} shop {n}", portal.clock())).client_id
        for n in range(PER_PAGE + 3)
    ]
    path, found = f"{ROOT}?q={name}", []
    for _ in range(3):
        seen = await staff.get(path)
        found += [link.rpartition("/")[2] for link in seen.links if link.startswith(f"{ROOT}/sandbox_")]
        older = [link for link in seen.links if "behind=" in link]
        if not older:
            break
        path = ROOT + older[0]
    assert sorted(found) == sorted(made)


async def test_a_merchant_is_made_and_its_owner_invited(portal, employee, staff):
    seen = await staff.fill(f"{ROOT}/new", f"{ROOT}/new", name="New shop")
    assert "New shop is made" in seen.text
    client_id = seen.path.rpartition("/")[2]
    seen = await staff.fill(
        f"{ROOT}/{client_id}/invite", f"{ROOT}/{client_id}/invite", email="new@shop.example"
    )
    assert "It is not shown again" in seen.text
    assert "/invitation/" in seen.html
    assert "new@shop.example" in (await staff.get(f"{ROOT}/{client_id}")).text
    entry = await last_entry(portal, client_id, "member.invited")
    assert (entry.actor, entry.after) == (employee.email, {"role": "owner"})


@pytest.mark.parametrize(("field", "page"), [("name", "new"), ("email", "{}/invite")])
async def test_what_is_typed_wrongly_stays_beside_its_error(portal, staff, field, page):
    path = f"{ROOT}/{page.format((await portal.owner()).client_id)}"
    seen = await staff.fill(path, path, **{field: "x" * 200})
    assert seen.status == 422
    assert f"{field}-error" in seen.ids
    assert "x" * 200 in seen.html


async def test_a_merchant_is_deactivated_for_a_reason_that_the_audit_log_keeps(portal, employee, staff):
    owner = await portal.owner("Closing shop")
    path = f"{ROOT}/{owner.client_id}"
    seen = await staff.fill(path, f"{path}/state", reason="  Chargebacks beyond the agreed share ")
    assert "Closing shop is deactivated" in seen.text
    merchant = await portal.services.merchants.get(owner.client_id)
    assert merchant.state is MerchantState.INACTIVE
    entry = await last_entry(portal, owner.client_id, "merchant.changed")
    assert (entry.actor, entry.user_id) == (employee.email, employee.user_id)
    assert entry.before == {"state": "ACTIVE"}
    assert entry.after == {"state": "INACTIVE", "reason": "Chargebacks beyond the agreed share"}
    seen = await staff.fill(path, f"{path}/state", reason="Settled")
    assert "it takes payments" in seen.text
    assert (await portal.services.merchants.get(owner.client_id)).state is MerchantState.ACTIVE


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
async def test_without_a_reason_a_merchant_stays_as_it_is(portal, staff, reason):
    owner = await portal.owner()
    path = f"{ROOT}/{owner.client_id}"
    seen = await staff.fill(path, f"{path}/state", reason=reason)
    assert seen.status == 422
    assert "reason-error" in seen.ids
    assert (await portal.services.merchants.get(owner.client_id)).state is MerchantState.ACTIVE


async def test_a_state_that_nobody_may_choose_is_refused(portal, staff):
    owner = await portal.owner()
    path = f"{ROOT}/{owner.client_id}"
    seen = await staff.fill(path, f"{path}/state", reason="x", state="PENDING")
    assert seen.status == 422
    assert "Choose whether" in seen.text
    seen = await staff.fill(path, f"{path}/state", reason="x", state="ACTIVE")
    assert "is active already" in seen.text
    assert await last_entry(portal, owner.client_id, "merchant.changed") is None


async def test_settings_are_changed_with_the_name_of_who_does_it(portal, employee, staff):
    owner = await portal.owner()
    path = f"{ROOT}/{owner.client_id}"
    seen = await staff.fill(
        f"{path}/settings",
        f"{path}/settings",
        webhook_url="http://127.0.0.1:9/hook",
        rate_limit="",
        duplicates="replay",
    )
    assert "The settings are changed" in seen.text
    merchant = await portal.services.merchants.get(owner.client_id)
    assert merchant.webhook_url == "http://127.0.0.1:9/hook"
    assert (merchant.rate_limit, merchant.duplicates) == (None, DuplicatePolicy.REPLAY)
    entry = await last_entry(portal, owner.client_id, "merchant.changed")
    assert entry.actor == employee.email
    seen = await staff.fill(f"{path}/settings", f"{path}/settings")
    assert "Nothing was changed" in seen.text


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("webhook_url", "ftp://shop.example", "must be"),
        ("rate_limit", "0", "1 to 100000"),
        ("rate_limit", "-1", "A whole number"),
        ("rate_limit", "\N{ARABIC-INDIC DIGIT ONE}", "A whole number"),
        ("duplicates", "sometimes", "Choose one"),
    ],
)
async def test_settings_are_checked_as_by_the_command(portal, staff, field, value, told):
    owner = await portal.owner()
    path = f"{ROOT}/{owner.client_id}/settings"
    before = await portal.services.merchants.get(owner.client_id)
    seen = await staff.fill(path, path, **{field: value})
    assert seen.status == 422
    assert f"{field}-error" in seen.ids
    assert told in seen.text
    assert await portal.services.merchants.get(owner.client_id) == before


async def test_a_merchants_page_shows_keys_people_lanes_and_refusals(portal, staff):
    owner = await portal.owner()
    key = await portal.services.merchants.add_key(
        owner.client_id, public_pem(private_key(next(numbers))), portal.clock()
    )
    recorder = recorder_of(portal.settings.database_url)
    recorder.used(owner.client_id, 1, portal.clock(), portal.clock() - portal.clock())
    await recorder.close()
    await record(portal, [refused(owner.client_id, next(numbers), received_at=portal.clock())])
    seen = await staff.get(f"{ROOT}/{owner.client_id}")
    assert key.fingerprint[:16] in seen.text
    assert owner.email in seen.text
    assert "PARAM_ILLEGAL" in seen.text
    assert "1 verified in the last hour, 1 refused" in seen.text


async def test_a_key_is_deactivated_in_an_emergency_with_a_reason(portal, employee, staff):
    owner = await portal.owner()
    await portal.services.merchants.add_key(
        owner.client_id, public_pem(private_key(next(numbers))), portal.clock()
    )
    path = f"{ROOT}/{owner.client_id}/keys/1"
    seen = await staff.fill(path, f"{path}/deactivate", reason="")
    assert (seen.status, "reason-error" in seen.ids) == (422, True)
    seen = await staff.fill(path, f"{path}/deactivate", reason="Private half on a public page")
    assert "keyVersion 1 is deactivated" in seen.text
    [key] = await portal.services.merchants.list_keys(owner.client_id)
    assert key.state is KeyState.RETIRED
    entry = await last_entry(portal, owner.client_id, "key.retired")
    assert entry.actor == employee.email
    assert entry.after == {"state": "RETIRED", "reason": "Private half on a public page"}
    assert "Deactivate in an emergency" not in (await staff.get(path)).text


@pytest.mark.parametrize("version", ["2", "x", "01", "-1"])
async def test_a_key_that_is_not_there_has_no_page(portal, staff, version):
    owner = await portal.owner()
    assert (await staff.get(f"{ROOT}/{owner.client_id}/keys/{version}")).status == 404


async def test_a_look_at_a_refused_request_is_recorded_where_the_merchant_reads_it(portal, employee, staff):
    owner = await portal.owner()
    request = refused(owner.client_id, next(numbers), received_at=portal.clock())
    await record(portal, [request])
    seen = await staff.get(f"{ROOT}/{owner.client_id}/requests")
    assert f"{ROOT}/{owner.client_id}/requests/{request.request_id}" in seen.links
    seen = await staff.get(f"{ROOT}/{owner.client_id}/requests/{request.request_id}")
    assert "Examined to the end" in seen.text
    entry = await last_entry(portal, owner.client_id, "request.viewed")
    assert (entry.actor, entry.subject) == (employee.email, request.request_id)
    seen = await (await owner.browser()).get(f"{owner.home}/audit")
    assert "Refused request looked at by the provider" in seen.text


async def test_a_request_of_another_merchant_is_not_under_this_one(portal, staff):
    owner, other = await portal.owner(), await portal.owner()
    request = refused(owner.client_id, next(numbers), received_at=portal.clock())
    await record(portal, [request])
    assert (await staff.get(f"{ROOT}/{other.client_id}/requests/{request.request_id}")).status == 404


async def test_staff_with_a_merchant_of_its_own_sees_both(portal, employee):
    owner = await portal.owner("Own shop")
    account = await portal.services.users.find_account(owner.email)
    await portal.services.users.set_staff(account.user, portal.clock(), staff=True)
    visitor = await owner.browser()
    assert "/operator" in (await visitor.get(owner.home)).links
    seen = await visitor.get(f"{ROOT}/{owner.client_id}")
    assert owner.home in seen.links
    assert f"{owner.home}/keys" not in seen.links


async def test_hostile_names_are_shown_as_text(portal, staff):
    script = "<script>alert(1)</script>"
    owner = await portal.owner(script)
    await portal.services.merchants.change(owner.client_id, Changes(rate_limit=5), portal.clock())
    for path in (f"{ROOT}?q=script", f"{ROOT}/{owner.client_id}", f"{ROOT}/{owner.client_id}/settings"):
        seen = await staff.get(path)
        assert seen.status == 200
        assert script not in seen.html
