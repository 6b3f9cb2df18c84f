"""The sandbox's demo merchant and its owner, made at the first start of a data directory."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from payaccept.cli import demo_merchant
from payaccept.config import Settings
from payaccept.operations.sign_in import Browser, SignedIn
from payaccept.people_wiring import PeopleAdministration
from payaccept.wiring import now_utc

BASE = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def shared(settings: Settings) -> Settings:
    """A database that several data directories work on."""
    return replace(settings, web_base_url="http://127.0.0.1:8081")


def started(directory: Path, settings: Settings) -> dict[str, str]:
    directory.mkdir(exist_ok=True)
    demo_merchant.prepare(directory, settings, BASE)
    return json.loads((directory / "demo-merchant.json").read_bytes())


def merchants_of(settings: Settings, told: dict[str, str]) -> set[str]:
    """The merchants of who signs in as the file says; none when that is not right."""

    async def look() -> set[str]:
        async with PeopleAdministration(settings) as people:
            browser = Browser(address="192.0.2.9", user_agent="")
            signed = await people.sign_in.with_password(
                told["portalUser"], told["portalPassword"], browser, now_utc()
            )
            if not isinstance(signed, SignedIn):
                return set()
            viewer = await people.sign_in.find_viewer(signed.token, now_utc(), in_use=True)
            assert viewer is not None
            return {membership.client_id for membership in viewer.memberships}

    return asyncio.run(look())


def test_two_data_directories_on_one_database_leave_each_other_s_owner_alone(shared, tmp_path):
    first = started(tmp_path / "first", shared)
    second = started(tmp_path / "second", shared)
    assert first["portalUser"] != second["portalUser"]
    assert merchants_of(shared, first) == {first["clientId"]}
    assert merchants_of(shared, second) == {second["clientId"]}
    assert started(tmp_path / "first", shared) == first


def test_a_first_start_that_was_cut_short_goes_on_with_what_it_had_made(shared, tmp_path):
    whole = started(tmp_path / "cut", shared)
    path = tmp_path / "cut" / "demo-merchant.json"
    kept = {name: value for name, value in whole.items() if name not in {"portalUser", "portalPassword"}}
    path.write_bytes(json.dumps(kept).encode())
    completed = started(tmp_path / "cut", shared)
    assert (completed["clientId"], completed["portalUser"]) == (whole["clientId"], whole["portalUser"])
    assert merchants_of(shared, completed) == {whole["clientId"]}
    assert merchants_of(shared, whole) == set()
