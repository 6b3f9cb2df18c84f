"""The operator's page of provider keys: rotated as by the command, withdrawn with a warning."""

import pytest
import pytest_asyncio

from payaccept.domain.provider_key import ProviderKeyStatus, status_of
from payaccept.domain.user import COMMAND_LINE
from payaccept.operations.oversight import AuditFilter
from payaccept.operations.users import LAST_ENTRY_ID

ROOT = "/operator/keys"


@pytest_asyncio.fixture(loop_scope="session")
async def employee(portal):
    return await portal.employee()


@pytest_asyncio.fixture(loop_scope="session")
async def staff(employee):
    return await employee.browser()


async def states(portal):
    keys = await portal.services.key_ring.list_keys()
    return [status_of(key, keys, portal.clock()) for key in keys]


async def entries(portal):
    return (await portal.services.oversight.list_entries(AuditFilter(), LAST_ENTRY_ID))[0]


async def signing(portal):
    portal.clock.move(seconds=2)  # the lead of the tests
    return (await states(portal)).index(ProviderKeyStatus.ACTIVE) + 1


async def test_a_rotation_shows_first_what_happens_when_and_is_recorded(portal, employee, staff):
    old = await signing(portal)
    seen = await staff.get(ROOT)
    assert "No webhook is lost" in seen.text
    assert f"keyVersion {old + 1} is made and published" in seen.text
    seen = await staff.send(seen, f"{ROOT}/rotate")
    new = old + 1
    assert f"keyVersion {new} is published" in seen.text
    assert "A rotation is under way." in seen.text
    assert f"keyVersion {new} signs, and no older one" in seen.text
    entry = (await entries(portal))[0]
    assert (entry.action, entry.actor) == ("provider key.published", employee.email)
    assert entry.subject == f"provider keyVersion {new}"
    assert await signing(portal) == new


async def test_a_second_rotation_waits_for_the_first(portal, staff):
    await signing(portal)
    first = await staff.get(ROOT)
    await staff.send(first, f"{ROOT}/rotate")
    seen = await staff.send(first, f"{ROOT}/rotate")
    assert "under way already: nothing was changed" in seen.text
    await signing(portal)


async def test_a_key_that_waits_is_taken_back(portal, employee, staff):
    old = await signing(portal)
    await staff.send(await staff.get(ROOT), f"{ROOT}/rotate")
    new = (await portal.services.key_ring.list_keys())[-1].key_version
    portal.clock.move(seconds=0.2)
    path = f"{ROOT}/{new}"
    assert "merchants notice nothing" in (await staff.get(path)).text
    seen = await staff.fill(path, f"{path}/withdraw", reason="Too early", version=str(new))
    assert f"keyVersion {new} is withdrawn." in seen.text
    assert (await entries(portal))[0].after == {"signs": f"provider keyVersion {old}", "reason": "Too early"}
    assert await signing(portal) == old


async def test_the_key_that_signs_is_withdrawn_only_by_who_names_it(portal, staff):
    version = await signing(portal)
    path = f"{ROOT}/{version}"
    seen = await staff.get(path)
    assert "This key signs now. It stops at once and for good" in seen.text
    assert "every webhook" in seen.text
    for fields in ({"reason": "", "version": str(version)}, {"reason": "Leaked", "version": "99"}):
        seen = await staff.fill(path, f"{path}/withdraw", **fields)
        assert seen.status == 422
        assert await signing(portal) == version
    seen = await staff.fill(path, f"{path}/withdraw", reason="Leaked", version=str(version))
    assert f"keyVersion {version} is withdrawn." in seen.text
    assert (await states(portal))[version - 1] is ProviderKeyStatus.WITHDRAWN
    assert await signing(portal) != version
    assert f"{path}/withdraw" not in [form.action for form in (await staff.get(path)).forms]


async def test_a_key_that_was_withdrawn_meanwhile_is_told_of(portal, staff):
    version = await signing(portal)
    path = f"{ROOT}/{version}"
    seen = await staff.get(path)
    await portal.services.key_ring.withdraw(version, portal.clock(), COMMAND_LINE, "meanwhile")
    seen = await staff.send(seen, f"{path}/withdraw", reason="Leaked", version=str(version))
    assert seen.status == 422
    assert "is withdrawn already" in seen.text


@pytest.mark.parametrize("version", ["0", "99", "x", "01"])
async def test_a_key_that_is_not_there_has_no_page(staff, version):
    assert (await staff.get(f"{ROOT}/{version}")).status == 404


async def test_nothing_of_a_private_half_is_on_any_page(portal, staff):
    for path in (ROOT, *(f"{ROOT}/{key.key_version}" for key in await portal.services.key_ring.list_keys())):
        seen = await staff.get(path)
        assert "PRIVATE" not in seen.html
        for key in await portal.services.key_ring.list_keys():
            assert key.sealed_private_key.decode() not in seen.html
