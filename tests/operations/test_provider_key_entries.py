"""Changes of provider keys stand in the audit log, whoever made them."""

from datetime import UTC, datetime

import pytest

from deployment import fetch_all
from payaccept.domain.errors import KeyRefused
from payaccept.domain.user import Actor
from payaccept.operations import provider_keys

BY = Actor(user_id="usr_1", name="anna@pay.example", address="192.0.2.1")


async def test_rotation_and_withdrawal_are_recorded_with_who_and_why(administration, database_url):
    now = datetime.now(UTC)
    store, vault = administration.store, administration.vault()
    await provider_keys.rotate(store, vault, now, lead_s=60, keep_s=60, by=BY)
    await provider_keys.withdraw(store, None, now, 2, BY, "Too early")
    await provider_keys.withdraw(store, vault, now, 1)
    found = fetch_all(database_url, "SELECT action, subject, actor, after FROM audit_log")
    assert {row[:3] for row in found} == {
        ("provider key.published", "provider keyVersion 2", "anna@pay.example"),
        ("provider key.withdrawn", "provider keyVersion 2", "anna@pay.example"),
        ("provider key.withdrawn", "provider keyVersion 1", "command line"),
    }
    by_subject = {(action, subject): after for action, subject, _, after in found}
    assert by_subject["provider key.withdrawn", "provider keyVersion 2"] == {
        "signs": "provider keyVersion 1",
        "reason": "Too early",
    }
    assert by_subject["provider key.withdrawn", "provider keyVersion 1"] == {"signs": "provider keyVersion 3"}


async def test_what_is_refused_is_not_recorded(administration, database_url):
    before = fetch_all(database_url, "SELECT count(*) FROM audit_log")
    with pytest.raises(KeyRefused):
        await provider_keys.withdraw(administration.store, None, datetime.now(UTC), 1)
    assert fetch_all(database_url, "SELECT count(*) FROM audit_log") == before
