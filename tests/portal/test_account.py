"""One's own account."""

import asyncio

import pytest

from deployment import fetch_all
from payaccept.domain.user import Role
from portals import PASSWORD

NEW = "eight blue lamps hum"


async def test_a_name_is_changed_and_an_empty_one_is_refused_beside_the_field(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await visitor.fill("/account", "/account/name", name="Anna Ünder")
    assert "Your name is changed." in seen.text
    assert seen.form("/account/name").fields["name"] == "Anna Ünder"
    seen = await visitor.fill("/account", "/account/name", name=" ")
    assert seen.status == 422
    assert "Enter your name" in seen.text


async def test_a_new_password_ends_all_sessions_but_this_one_which_gets_a_new_secret(portal):
    owner = await portal.owner()
    here, elsewhere = await owner.browser(), await owner.browser()
    before = here.cookies["session"]
    seen = await here.fill("/account/password", "/account/password", current=PASSWORD, password=NEW)
    assert "Your password is changed" in seen.text
    assert here.cookies["session"] != before
    assert (await here.get("/account")).path == "/account"
    assert (await elsewhere.get("/account")).path == "/sign-in"
    assert (await portal.visitor().sign_in(owner.email, PASSWORD)).status == 422
    assert (await portal.visitor().sign_in(owner.email, NEW)).path == owner.home


@pytest.mark.parametrize(
    ("current", "password", "told"),
    [
        ("wrong wrong wrong", NEW, "This is not your present password."),
        ("", NEW, "Enter your present password."),
        (PASSWORD, "2short", "at least 12"),
        (PASSWORD, "", "Enter a password."),
        (PASSWORD, "x" * 129, "Too long"),
    ],
)
async def test_a_new_password_needs_the_old_one_and_follows_the_rules(portal, current, password, told):
    owner = await portal.owner()
    visitor = await owner.browser()
    seen = await visitor.fill("/account/password", "/account/password", current=current, password=password)
    assert seen.status == 422
    assert told in seen.text
    assert password not in seen.html or not password
    assert (await portal.visitor().sign_in(owner.email, PASSWORD)).path == owner.home


async def test_a_stolen_session_cannot_guess_the_password(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    told = []
    for _ in range(11):
        seen = await visitor.fill("/account/password", "/account/password", current="guess", password=NEW)
        told.append("Too many attempts" in seen.text)
    assert told == [False] * 10 + [True]
    seen = await visitor.fill("/account/password", "/account/password", current=PASSWORD, password=NEW)
    assert "Too many attempts" in seen.text


async def test_sessions_are_listed_and_one_can_be_ended(portal):
    owner = await portal.owner()
    here, elsewhere = await owner.browser(), await owner.browser()
    page = await here.get("/account")
    assert page.text.count("Firefox on Linux") >= 2
    assert "This one" in page.text
    seen = await here.send(page, "/account/sessions/ses_*")
    assert "That session is ended." in seen.text
    assert (await elsewhere.get("/account")).path == "/sign-in"
    assert (await here.get("/account")).path == "/account"


async def test_all_other_sessions_can_be_ended_at_once(portal):
    owner = await portal.owner()
    here, *others = [await owner.browser() for _ in range(4)]
    seen = await here.fill("/account", "/account/sessions/end-others")
    assert "3 sessions are ended." in seen.text
    for other in others:
        assert (await other.get("/account")).path == "/sign-in"
    assert "Other sessions ended" in seen.text


async def test_what_happened_to_the_account_is_shown_to_its_owner_alone(portal):
    owner = await portal.owner()
    visitor = portal.visitor("198.51.100.4")
    await visitor.sign_in(owner.email, PASSWORD)
    seen = await visitor.get("/account")
    assert "Signed in (password)" in seen.text
    assert "198.51.100.4" in seen.text
    colleague = await portal.colleague(owner, Role.OWNER)
    theirs = await colleague.browser()
    for path in ("/account", f"{owner.home}/audit", f"{owner.home}/people"):
        assert "198.51.100.4" not in (await theirs.get(path)).text


async def test_staff_is_told_so_and_merchants_are_not_open_to_it(portal):
    owner, employee = await portal.owner(), await portal.employee()
    visitor = await employee.browser()
    assert "Staff" in (await visitor.get("/account")).text
    assert (await visitor.get(owner.home)).status == 404


# Sign-ins that were refused


async def guess(portal, email, times, address=None):
    stranger = portal.visitor(address)
    for _ in range(times):
        await stranger.sign_in(email, "guess guess guess")
    await portal.services.sign_in.close()


async def test_who_was_refused_is_told_to_the_owner_of_the_account_and_to_nobody_else(portal, clock):
    owner = await portal.owner()
    await portal.visitor().sign_in(owner.email, PASSWORD)
    clock.move(seconds=5)
    await guess(portal, owner.email, 2, "203.0.113.77")
    clock.move(seconds=5)
    visitor = portal.visitor()
    await visitor.sign_in(owner.email, PASSWORD)
    seen = await visitor.get("/account")
    assert (
        "2 attempts to sign in to your account were refused since you signed in the time before" in seen.text
    )
    assert "Sign-in refused (wrong password)" in seen.text
    assert "203.0.113.77" in seen.text
    colleague = await (await portal.colleague(owner, Role.OWNER)).browser()
    for path in ("/account", f"{owner.home}/audit"):
        seen = await colleague.get(path)
        assert "refused" not in seen.text
        assert "203.0.113.77" not in seen.text


async def test_what_was_told_at_the_sign_in_before_is_not_told_again(portal, clock):
    owner = await portal.owner()
    await guess(portal, owner.email, 1)
    visitor = portal.visitor()
    for told in (True, False):
        clock.move(seconds=5)
        await visitor.sign_in(owner.email, PASSWORD)
        assert ("One attempt to sign in" in (await visitor.get("/account")).text) is told
        await visitor.fill("/account", "/sign-out")


async def test_whoever_hammers_at_an_account_does_not_fill_its_log(portal, clock, settings):
    owner = await portal.owner()
    for _ in range(10):
        await guess(portal, owner.email, 3)
    count = f"SELECT count(*) FROM audit_log WHERE subject = '{owner.user_id}' AND action = 'sign-in.refused'"  # noqa: S608
    assert fetch_all(settings.database_url, count) == [(10,)]
    seen = await (await owner.browser()).get("/account")
    assert "10 or more attempts to sign in" in seen.text
    clock.move(hours=1)
    await guess(portal, owner.email, 3)
    assert fetch_all(settings.database_url, count) == [(11,)]


async def test_of_an_account_that_is_not_there_nothing_is_recorded(portal, settings):
    await guess(portal, "ghost@example.com", 3)
    told = fetch_all(settings.database_url, "SELECT * FROM audit_log WHERE action = 'sign-in.refused'")
    assert "ghost" not in str(told)


async def test_an_attempt_is_answered_before_it_is_recorded(portal, monkeypatch):
    owner = await portal.owner()
    begun, may_end = asyncio.Event(), asyncio.Event()
    insert = portal.services.sign_in._log.insert_entry

    async def slow(entry):
        begun.set()
        await may_end.wait()
        await insert(entry)

    monkeypatch.setattr(portal.services.sign_in._log, "insert_entry", slow)
    assert (await portal.visitor().sign_in(owner.email, "guess guess guess")).status == 422
    await begun.wait()
    may_end.set()
    await portal.services.sign_in.close()
    entries = await portal.services.users.list_entries(owner.user_id)
    assert "sign-in.refused" in {entry.action for entry in entries}
