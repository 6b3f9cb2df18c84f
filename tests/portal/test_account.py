"""One's own account."""

import pytest

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
