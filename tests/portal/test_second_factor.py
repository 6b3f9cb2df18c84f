"""The second step of signing in."""

import asyncio
import re

import pytest

from deployment import fetch_all
from payaccept.domain import totp
from payaccept.domain.user import COMMAND_LINE
from portals import PASSWORD


class Phone:
    """An authenticator app that has read the QR code's text."""

    def __init__(self, portal, secret: str) -> None:
        self.portal = portal
        self.secret = secret

    @property
    def code(self) -> str:
        return totp.code_at(self.secret, self.portal.clock())


async def set_up(portal, visitor) -> tuple[Phone, list[str]]:
    """Switch the second step on, and return the phone and the recovery codes."""
    page = await visitor.fill("/account/second-factor", "/account/second-factor", current=PASSWORD)
    assert "<svg" in page.html
    [secret] = re.findall(r'data-copy="((?:[A-Z2-7]{4} ?){8})"', page.html)
    phone = Phone(portal, secret.replace(" ", ""))
    done = await visitor.send(page, "/account/second-factor/on", code=phone.code)
    assert "The second step is on." in done.text
    codes = re.findall(r"<li>([A-Z2-9]{5}-[A-Z2-9]{5})</li>", done.html)
    assert len(codes) == 10
    portal.clock.move(seconds=90)
    return phone, codes


@pytest.fixture
async def protected(portal):
    """Somebody with a second factor: the person, the phone, the recovery codes."""
    owner = await portal.owner()
    phone, codes = await set_up(portal, await owner.browser())
    return owner, phone, codes


async def test_password_and_code_sign_in_and_the_password_alone_does_not(portal, protected):
    owner, phone, _ = protected
    visitor = portal.visitor()
    seen = await visitor.sign_in(owner.email, PASSWORD)
    assert seen.path == "/sign-in/code"
    assert "session" not in visitor.cookies
    assert (await visitor.get("/account")).path == "/sign-in"
    seen = await visitor.send(await visitor.get("/sign-in/code"), "/sign-in/code", code=phone.code)
    assert seen.path == owner.home
    assert "second-factor" not in visitor.cookies


async def test_who_wanted_to_see_a_page_sees_it_after_both_steps(portal, protected):
    owner, phone, _ = protected
    visitor = portal.visitor()
    seen = await visitor.get(f"{owner.home}/audit")
    seen = await visitor.send(seen, "/sign-in", email=owner.email, password=PASSWORD)
    seen = await visitor.send(seen, "/sign-in/code", code=phone.code)
    assert seen.path == f"{owner.home}/audit"


async def test_a_code_works_once(portal, protected):
    owner, phone, _ = protected
    first, second = portal.visitor(), portal.visitor()
    for visitor in (first, second):
        await visitor.sign_in(owner.email, PASSWORD)
    code = phone.code
    assert (await first.fill("/sign-in/code", "/sign-in/code", code=code)).path == owner.home
    seen = await second.fill("/sign-in/code", "/sign-in/code", code=code)
    assert seen.status == 422
    assert "each works once" in seen.text
    await portal.services.sign_in.close()
    seen = await first.get("/account")
    assert "Sign-in refused (right password, a code that was used before)" in seen.text


async def test_a_code_that_two_browsers_send_at_once_opens_one_session(portal, protected):
    owner, phone, _ = protected
    visitors = [portal.visitor() for _ in range(4)]
    for visitor in visitors:
        await visitor.sign_in(owner.email, PASSWORD)
    code = phone.code
    seen = await asyncio.gather(
        *(visitor.fill("/sign-in/code", "/sign-in/code", code=code) for visitor in visitors)
    )
    assert sorted(one.status for one in seen) == [200, 422, 422, 422]


async def test_a_recovery_code_signs_in_once_and_is_counted(portal, protected):
    owner, _, codes = protected
    visitor = portal.visitor()
    await visitor.sign_in(owner.email, PASSWORD)
    seen = await visitor.fill("/sign-in/code", "/sign-in/code", code=codes[3].lower())
    assert seen.path == owner.home
    account = await visitor.get("/account")
    assert "9 left" in account.text
    assert "Recovery code used" in account.text
    again = portal.visitor()
    await again.sign_in(owner.email, PASSWORD)
    assert (await again.fill("/sign-in/code", "/sign-in/code", code=codes[3])).status == 422


async def test_wrong_codes_come_to_an_end_wherever_they_are_sent_from(portal, protected):
    owner, phone, _ = protected
    told = []
    for _ in range(6):
        visitor = portal.visitor()
        await visitor.sign_in(owner.email, PASSWORD)
        told.append((await visitor.fill("/sign-in/code", "/sign-in/code", code="000000")).status)
    assert told == [422] * 5 + [429]
    stranger = portal.visitor()
    await stranger.sign_in(owner.email, PASSWORD)
    seen = await stranger.fill("/sign-in/code", "/sign-in/code", code=phone.code)
    assert seen.status == 429
    assert "minutes" in seen.text


async def test_the_second_step_has_to_follow_within_five_minutes(portal, protected):
    owner, phone, _ = protected
    visitor = portal.visitor()
    await visitor.sign_in(owner.email, PASSWORD)
    page = await visitor.get("/sign-in/code")
    portal.clock.move(seconds=301)
    seen = await visitor.send(page, "/sign-in/code", code=phone.code)
    assert seen.path == "/sign-in"
    assert "took too long" in seen.text


async def test_a_ticket_of_before_a_new_password_is_worth_nothing(portal, protected):
    owner, phone, _ = protected
    visitor = portal.visitor()
    await visitor.sign_in(owner.email, PASSWORD)
    services = portal.services
    account = await services.users.get_account(owner.user_id)
    await services.users.change_password(account.user, "eight blue lamps hum", portal.clock(), COMMAND_LINE)
    seen = await visitor.fill("/sign-in/code", "/sign-in/code", code=phone.code)
    assert seen.path == "/sign-in"


async def test_nobody_gets_to_the_second_step_without_the_first(portal):
    visitor = portal.visitor()
    assert (await visitor.get("/sign-in/code")).path == "/sign-in"
    visitor.client.cookies.set("second-factor", "x" * 100, domain="portal.test", path="/")
    assert (await visitor.get("/sign-in/code")).path == "/sign-in"


async def test_setting_it_up_asks_for_the_password_first(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    for current, told in (("", "Enter your present password."), ("wrong wrong", "not your present password")):
        seen = await visitor.fill("/account/second-factor", "/account/second-factor", current=current)
        assert seen.status == 422
        assert told in seen.text
        assert '<svg class="qr' not in seen.html


async def test_a_wrong_code_at_the_set_up_shows_the_same_secret_again(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    page = await visitor.fill("/account/second-factor", "/account/second-factor", current=PASSWORD)
    seen = await visitor.send(page, "/account/second-factor/on", code="000000")
    assert seen.status == 422
    assert "not right" in seen.text
    secrets = [re.findall(r'data-copy="((?:[A-Z2-7]{4} ?){8})"', one.html) for one in (page, seen)]
    assert secrets[0] == secrets[1]


async def test_a_set_up_of_somebody_else_or_of_long_ago_is_begun_anew(portal):
    owner, other = await portal.owner(), await portal.owner()
    theirs = await other.browser()
    page = await theirs.fill("/account/second-factor", "/account/second-factor", current=PASSWORD)
    sealed = page.form("/account/second-factor/on").fields["set-up"]
    visitor = await owner.browser()
    mine = await visitor.fill("/account/second-factor", "/account/second-factor", current=PASSWORD)
    form = mine.form("/account/second-factor/on").fields
    seen = await visitor.post("/account/second-factor/on", form | {"set-up": sealed, "code": "000000"})
    assert "took too long" in seen.text
    portal.clock.move(minutes=16)
    seen = await visitor.post("/account/second-factor/on", form | {"code": "000000"})
    assert "took too long" in seen.text


async def test_switching_it_off_asks_for_the_password_and_ends_the_recovery_codes(portal, protected):
    owner, _, codes = protected
    visitor = await owner.browser()
    assert (
        await visitor.fill("/account/second-factor/off", "/account/second-factor/off", current="no")
    ).status == 422
    seen = await visitor.fill("/account/second-factor/off", "/account/second-factor/off", current=PASSWORD)
    assert "The second step is off" in seen.text
    assert (await portal.visitor().sign_in(owner.email, PASSWORD)).path == owner.home
    assert codes
    assert await portal.services.users.count_recovery_codes(owner.user_id) == 0


async def test_new_recovery_codes_replace_the_old_ones(portal, protected):
    owner, _, codes = protected
    visitor = await owner.browser()
    seen = await visitor.fill("/account/recovery-codes", "/account/recovery-codes", current=PASSWORD)
    new = re.findall(r"<li>([A-Z2-9]{5}-[A-Z2-9]{5})</li>", seen.html)
    assert len(new) == 10
    assert not set(new) & set(codes)
    other = portal.visitor()
    await other.sign_in(owner.email, PASSWORD)
    assert (await other.fill("/sign-in/code", "/sign-in/code", code=codes[0])).status == 422
    assert (await other.fill("/sign-in/code", "/sign-in/code", code=new[0])).path == owner.home


async def test_no_secret_of_the_second_factor_can_be_read_in_the_database(portal, protected, settings):
    owner, phone, codes = protected
    stored = str(
        [
            fetch_all(settings.database_url, f"SELECT * FROM {table}")  # noqa: S608
            for table in ("users", "recovery_codes", "audit_log", "sessions")
        ]
    )
    assert owner.user_id in stored
    assert phone.secret not in stored
    for code in codes:
        assert code.replace("-", "") not in stored
    assert PASSWORD not in stored
