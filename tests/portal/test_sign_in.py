"""Signing in and out, sessions, and patience with guesses."""

import asyncio
import re

import pytest
from argon2 import PasswordHasher

from deployment import fetch_all, run_sql
from payaccept.domain.user import Role
from portals import PASSWORD

WRONG = "E-mail address or password is not right."


async def test_who_has_an_account_signs_in_and_lands_at_the_merchant(portal):
    owner = await portal.owner()
    visitor = portal.visitor()
    seen = await visitor.sign_in(owner.email.upper(), PASSWORD)
    assert seen.path == owner.home
    assert owner.client_id in seen.text


async def test_who_wanted_to_see_a_page_sees_it_after_signing_in(portal):
    owner = await portal.owner()
    visitor = portal.visitor()
    seen = await visitor.get(f"{owner.home}/people")
    assert seen.path == "/sign-in"
    seen = await visitor.send(seen, "/sign-in", email=owner.email, password=PASSWORD)
    assert seen.path == f"{owner.home}/people"


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "\\x",
    ],
)
async def test_nobody_is_led_to_another_site_after_signing_in(portal, wanted):
    owner = await portal.owner()
    visitor = portal.visitor()
    page = await visitor.get("/sign-in")
    fields = page.form("/sign-in").fields | {"email": owner.email, "password": PASSWORD, "next": wanted}
    seen = await visitor.post("/sign-in", fields, follow=False)
    assert seen.response.headers["location"] == "/"


async def test_a_wrong_password_and_an_unknown_address_are_told_the_same_and_the_address_stays(portal):
    owner = await portal.owner()
    told = []
    for email in (owner.email, "nobody@example.com"):
        seen = await portal.visitor().sign_in(email, "not the password")
        assert seen.status == 422
        assert WRONG in seen.text
        assert seen.form("/sign-in").fields["email"] == email
        assert seen.form("/sign-in").fields["password"] == ""
        told.append(re.sub(r'value="[^"]*"|req_\w+', "", seen.html))
    assert told[0] == told[1]


async def test_an_empty_form_says_what_is_missing_beside_each_field(portal):
    seen = await portal.visitor().sign_in("", "")
    assert seen.status == 422
    assert "Enter your e-mail address." in seen.text
    assert 'aria-describedby="email-error"' in seen.html
    assert 'id="password-error"' in seen.html


async def test_the_session_s_secret_is_another_at_each_sign_in_and_stored_as_a_hash_only(portal, settings):
    owner = await portal.owner()
    visitor = portal.visitor()
    await visitor.sign_in(owner.email, PASSWORD)
    first = visitor.cookies["session"]
    await visitor.fill("/account", "/sign-out")
    assert "session" not in visitor.cookies
    await visitor.sign_in(owner.email, PASSWORD)
    second = visitor.cookies["session"]
    assert first != second
    stored = str(fetch_all(settings.database_url, "SELECT * FROM sessions")).encode()
    assert first.encode() not in stored
    assert second.encode() not in stored


async def test_a_browser_that_signs_in_again_leaves_no_session_behind(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    page = await visitor.get("/account")
    fields = {
        "csrf": page.forms[0].fields["csrf"],
        "email": owner.email,
        "password": PASSWORD,
    }
    await visitor.post("/sign-in", fields)
    sessions = await portal.services.sign_in.list_sessions(owner.user_id, portal.clock())
    assert len(sessions) == 1


async def test_a_secret_that_was_signed_out_opens_nothing_any_more(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    token = visitor.cookies["session"]
    seen = await visitor.fill("/account", "/sign-out")
    assert "You are signed out." in seen.text
    visitor.client.cookies.set("session", token, domain="portal.test", path="/")
    assert (await visitor.get("/account")).path == "/sign-in"


async def test_a_session_ends_half_an_hour_after_its_last_use(portal, clock):
    owner = await portal.owner()
    visitor = await owner.browser()
    for _ in range(3):
        clock.move(minutes=29)
        assert (await visitor.get("/account")).path == "/account"
    clock.move(minutes=30)
    assert (await visitor.get("/account")).path == "/sign-in"


async def test_a_session_in_use_ends_after_twelve_hours(portal, clock):
    owner = await portal.owner()
    visitor = await owner.browser()
    for _ in range(35):
        clock.move(minutes=20)
        assert (await visitor.get("/account")).path == "/account"
    clock.move(minutes=20)
    assert (await visitor.get("/account")).path == "/sign-in"


async def test_what_a_script_fetches_does_not_keep_a_session_alive(portal, clock):
    owner = await portal.owner()
    visitor = await owner.browser()
    for _ in range(2):
        clock.move(minutes=14)
        assert (await visitor.get("/account", **{"sec-fetch-dest": "empty"})).path == "/account"
    clock.move(minutes=5)
    assert (await visitor.get("/account")).path == "/sign-in"


# Patience with guesses


async def test_a_stranger_has_five_guesses_at_an_account_and_then_one_a_minute(portal, clock):
    owner = await portal.owner()
    stranger = portal.visitor()
    for _ in range(5):
        assert (await stranger.sign_in(owner.email, "guess guess guess")).status == 422
    seen = await stranger.sign_in(owner.email, PASSWORD)  # not even looked at
    assert seen.status == 429
    assert seen.response.headers["retry-after"] == "60"
    assert "Wait 60 seconds" in seen.text
    assert seen.form("/sign-in").fields["email"] == owner.email
    clock.move(seconds=60)
    assert (await stranger.sign_in(owner.email, "guess guess guess")).status == 422
    assert (await stranger.sign_in(owner.email, "guess guess guess")).status == 429
    clock.move(seconds=60)
    assert (await stranger.sign_in(owner.email, PASSWORD)).path == owner.home


async def test_guesses_at_an_account_that_is_not_there_are_limited_just_the_same(portal):
    stranger = portal.visitor()
    told = [(await stranger.sign_in("ghost@example.com", "guess guess")).status for _ in range(6)]
    assert told == [422] * 5 + [429]


async def test_a_guesser_does_not_lock_out_the_owner_in_a_browser_that_was_here_before(portal):
    owner = await portal.owner()
    home = portal.visitor()
    await home.sign_in(owner.email, PASSWORD)
    await home.fill("/account", "/sign-out")
    for _ in range(12):  # from many addresses: even a stranger from a new one has to wait
        stranger = portal.visitor()
        for _ in range(3):
            await stranger.sign_in(owner.email, "guess guess guess")
    assert (await portal.visitor().sign_in(owner.email, PASSWORD)).status == 429
    assert (await home.sign_in(owner.email, PASSWORD)).path == owner.home


async def test_a_guesser_at_one_address_does_not_keep_the_owner_out_at_another(portal):
    owner = await portal.owner()
    stranger = portal.visitor()
    for _ in range(10):
        await stranger.sign_in(owner.email, "guess guess guess")
    assert (await portal.visitor().sign_in(owner.email, PASSWORD)).path == owner.home


async def test_a_known_browser_has_patience_of_its_own_that_ends(portal):
    owner = await portal.owner()
    visitor = portal.visitor()
    await visitor.sign_in(owner.email, PASSWORD)
    await visitor.fill("/account", "/sign-out")
    told = [(await visitor.sign_in(owner.email, "guess guess")).status for _ in range(11)]
    assert told == [422] * 10 + [429]


async def test_the_proof_of_a_known_browser_is_for_one_account_and_ends_with_the_password(portal):
    owner, other = await portal.owner(), await portal.owner()
    visitor = portal.visitor()
    await visitor.sign_in(owner.email, PASSWORD)
    device = visitor.cookies["device"]
    sign_in = portal.services.sign_in
    users = portal.services.users
    accounts = [await users.get_account(one.user_id) for one in (owner, other)]
    assert sign_in._is_known(accounts[0], device, portal.clock())
    assert not sign_in._is_known(accounts[1], device, portal.clock())
    portal.clock.move(seconds=1)
    page = await visitor.get("/account/password")
    await visitor.send(page, "/account/password", current=PASSWORD, password="eight blue lamps hum")
    changed = await users.get_account(owner.user_id)
    assert not sign_in._is_known(changed, device, portal.clock())
    assert sign_in._is_known(changed, visitor.cookies["device"], portal.clock())


async def test_many_accounts_tried_from_one_address_come_to_an_end(portal):
    stranger = portal.visitor()
    told = [(await stranger.sign_in(f"u{n}@example.com", "guess guess")).status for n in range(31)]
    assert told == [422] * 30 + [429]


async def test_who_signs_in_rightly_uses_nothing_up(portal):
    owner = await portal.owner()
    for _ in range(8):
        visitor = portal.visitor("192.0.2.200")
        assert (await visitor.sign_in(owner.email, PASSWORD)).path == owner.home


async def test_guesses_sent_all_at_once_are_counted_one_by_one(portal):
    owner = await portal.owner()
    stranger = portal.visitor()
    page = await stranger.get("/sign-in")
    fields = page.form("/sign-in").fields | {"email": owner.email, "password": "guess guess"}
    told = await asyncio.gather(*(stranger.post("/sign-in", fields) for _ in range(25)))
    assert sorted(seen.status for seen in told) == [422] * 5 + [429] * 20


async def test_a_password_hashed_at_yesterday_s_cost_is_hashed_again_when_it_is_used(portal, settings):
    owner = await portal.owner()
    old = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1).hash(PASSWORD)
    change = f"UPDATE users SET password_hash = '{old}' WHERE user_id = '{owner.user_id}'"  # noqa: S608
    run_sql(settings.database_url, change)
    assert (await portal.visitor().sign_in(owner.email, PASSWORD)).path == owner.home
    account = await portal.services.users.get_account(owner.user_id)
    assert account.password_hash.startswith("$argon2id$v=19$m=8,t=1,p=1$")
    assert (await portal.visitor().sign_in(owner.email, PASSWORD)).path == owner.home


async def test_who_belongs_to_several_merchants_chooses_and_who_belongs_to_none_is_told_what_to_do(portal):
    owner = await portal.owner("First shop")
    visitor = await owner.browser()
    seen = await visitor.fill("/merchants/new", "/merchants/new", merchant="Second shop")
    assert "Second shop is ready" in seen.text
    seen = await visitor.get("/")
    assert "First shop" in seen.text
    assert "Second shop" in seen.text
    colleague = await portal.colleague(owner, Role.VIEWER)
    theirs = await colleague.browser()
    page = await visitor.get(f"{owner.home}/people/{colleague.user_id}")
    await visitor.send(page, f"{owner.home}/people/{colleague.user_id}/remove")
    seen = await theirs.get("/")
    assert "You belong to no merchant" in seen.text
    assert "/merchants/new" in seen.links
