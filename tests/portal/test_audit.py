"""The audit log: every change, who, when, from where, before and after."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from deployment import fetch_all, numbers
from merchant import private_key, public_pem
from payaccept.adapters.postgres import statements
from payaccept.domain.audit import entry
from payaccept.domain.merchant import DuplicatePolicy
from payaccept.domain.user import COMMAND_LINE, Actor, Role
from payaccept.operations.merchants import Changes
from payaccept.portal.audit import TOLD

BY = Actor(user_id="usr_1", name="anna@shop.example", address="192.0.2.44")


async def test_what_is_done_to_a_merchant_is_told_with_who_and_from_where(portal):
    owner = await portal.owner()
    merchants, now = portal.services.merchants, portal.clock()
    changes = Changes(webhook_url="http://127.0.0.1:9/hook", duplicates=DuplicatePolicy.REPLAY)
    await merchants.change(owner.client_id, changes, now, BY)
    key = await merchants.add_key(owner.client_id, public_pem(private_key(next(numbers))), now, BY)
    await merchants.retire_key(owner.client_id, key.key_version, now, BY)
    await merchants.deactivate(owner.client_id, now, BY)
    colleague = await portal.colleague(owner, Role.VIEWER)
    visitor = await owner.browser()
    path = f"{owner.home}/people/{colleague.user_id}"
    await visitor.fill(path, f"{path}/role", role="developer")
    seen = await visitor.get(f"{owner.home}/audit")
    for told in (
        "Merchant created",
        "Settings changed",
        "webhookUrl none → http://127.0.0.1:9/hook",
        "duplicates strict → replay",
        "Key added",
        "Key deactivated",
        "state ACTIVE → RETIRED",
        "state ACTIVE → INACTIVE",
        "Invited",
        "Joined",
        "Role changed",
        "role viewer → developer",
        "anna@shop.example",
        "192.0.2.44",
    ):
        assert told in seen.text, told
    assert key.fingerprint in seen.text


async def test_values_that_stay_are_not_told(portal):
    owner = await portal.owner()
    portal.clock.move(seconds=1)
    await portal.services.merchants.change(owner.client_id, Changes(rate_limit=50), portal.clock(), BY)
    [entry, *_] = await portal.services.people.list_entries(owner.client_id)
    assert (entry.before, entry.after) == ({"rateLimit": 100}, {"rateLimit": 50})


async def test_changes_by_the_administrator_s_commands_are_told_too(portal, administration):
    owner = await portal.owner()
    await administration.merchants.change(owner.client_id, Changes(rate_limit=7), datetime.now(UTC))
    seen = await (await owner.browser()).get(f"{owner.home}/audit")
    assert "command line" in seen.text


async def test_a_merchant_reads_of_its_own_changes_only(portal):
    owner, other = await portal.owner("Ours"), await portal.owner("Theirs")
    seen = await (await owner.browser()).get(f"{owner.home}/audit")
    assert other.email not in seen.text
    assert other.client_id not in seen.text


async def test_a_long_log_is_read_page_by_page_without_a_gap(portal):
    owner = await portal.owner()
    for number in range(120):
        portal.clock.move(seconds=1)
        await portal.services.merchants.change(
            owner.client_id, Changes(rate_limit=1000 + number), portal.clock(), BY
        )
    visitor = await owner.browser()
    path, found = f"{owner.home}/audit", []
    while True:
        seen = await visitor.get(path)
        assert len(seen.response.content) < 60 * 1024
        found += [
            int(word)
            for word in seen.text.split()
            if word.isdigit() and word.startswith("1") and len(word) == 4
        ]
        older = [link for link in seen.links if link.startswith("?before=")]
        if not older:
            break
        path = f"{owner.home}/audit{older[0]}"
    assert set(found) == set(range(1000, 1120))


@pytest.mark.parametrize("before", ["", "x", "aud_0", "'; DROP TABLE audit_log; --", "\x00"])
async def test_any_page_that_is_asked_for_is_answered(portal, before):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await visitor.client.get(f"{owner.home}/audit", params={"before": before})
    assert seen.status_code in {200, 404}


def test_no_statement_changes_or_deletes_an_entry():
    folder = Path(statements.__file__).parent / "sql"
    for file in folder.glob("*.sql"):
        text = file.read_text(encoding="utf-8").lower()
        assert "update audit_log" not in text
        assert "delete from audit_log" not in text


def test_entries_are_in_the_order_of_time_by_their_ids():
    made = [
        entry(COMMAND_LINE, datetime.fromtimestamp(at, UTC), "a.b", "c").entry_id
        for at in (0, 1, 1.000001, 1.7e9, 1.8e9)
    ]
    assert made == sorted(made)


async def test_every_action_that_was_done_in_these_tests_has_its_words(portal, settings):
    done = {row[0] for row in fetch_all(settings.database_url, "SELECT DISTINCT action FROM audit_log")}
    assert done
    assert done <= TOLD.keys()
