"""One-time links to a new password, and links that come by mail."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from payaccept.adapters.mail import SmtpMail
from payaccept.domain import totp
from payaccept.portal.app import create_app
from portals import PASSWORD
from post_office import PostOffice, post_office
from processes import eventually
from visitor import Visitor

NEW = "eight blue lamps hum"


@pytest.fixture
async def office() -> AsyncIterator[PostOffice]:
    async with post_office() as opened:
        yield opened


@pytest.fixture
async def posting(open_portal, office):
    """A portal that sends mail."""
    return await open_portal(
        web_base_url="http://portal.test", smtp_url=office.url, mail_from="portal@pay.example"
    )


async def test_an_invitation_is_mailed_and_shown_where_there_is_mail(posting, office):
    owner = await posting.owner()
    visitor = await owner.browser()
    path = f"{owner.home}/people/invite"
    seen = await visitor.fill(path, path, email="new@example.com", role="viewer")
    assert "on its way to new@example.com" in seen.text
    [letter] = office.letters
    assert letter["To"] == "new@example.com"
    assert letter["From"] == "portal@pay.example"
    assert letter["Subject"] == "Invitation to Corner shop"
    [link] = re.findall(r"http://portal\.test(/invitation/\S+)", letter.get_content())
    assert "Join Corner shop" in (await posting.visitor().get(link)).text


async def test_mail_that_cannot_be_sent_is_told_and_the_link_is_there_all_the_same(posting, office):
    office.refuses = True
    owner = await posting.owner()
    visitor = await owner.browser()
    path = f"{owner.home}/people/invite"
    seen = await visitor.fill(path, path, email="new@example.com", role="viewer")
    assert "The mail could not be sent" in seen.text
    assert "http://portal.test/invitation/" in seen.html


async def test_who_has_forgotten_the_password_gets_a_link_by_mail_and_chooses_a_new_one(posting, office):
    owner = await posting.owner()
    elsewhere = await owner.browser()
    visitor = posting.visitor()
    seen = await visitor.fill("/forgotten-password", "/forgotten-password", email=owner.email)
    assert "If there is an account with this address" in seen.text
    await eventually(lambda: office.letters, "a letter")
    [link] = re.findall(r"http://portal\.test(/new-password/\S+)", office.letters[0].get_content())
    page = await visitor.get(link)
    seen = await visitor.send(page, link, password="2short")
    assert seen.status == 422
    seen = await visitor.send(page, link, password=NEW)
    assert seen.path == owner.home
    assert (await elsewhere.get("/account")).path == "/sign-in"
    assert (await visitor.get(link)).status == 410
    assert (await posting.visitor().sign_in(owner.email, PASSWORD)).status == 422
    assert (await posting.visitor().sign_in(owner.email, NEW)).path == owner.home


async def test_who_changes_a_way_in_is_told_to_the_owner_of_the_account_by_mail(posting, office):
    owner = await posting.owner()
    visitor = posting.visitor("203.0.113.9")
    await visitor.sign_in(owner.email, PASSWORD)
    await visitor.fill("/account/password", "/account/password", current=PASSWORD, password=NEW)
    page = await visitor.fill("/account/second-factor", "/account/second-factor", current=NEW)
    [secret] = re.findall(r'data-copy="((?:[A-Z2-7]{4} ?){8})"', page.html)
    secret = secret.replace(" ", "")
    code = totp.code_at(secret, posting.clock())
    await visitor.send(page, "/account/second-factor/on", code=code)
    await visitor.fill("/account/recovery-codes", "/account/recovery-codes", current=NEW)
    await visitor.fill("/account/second-factor/off", "/account/second-factor/off", current=NEW)
    await eventually(lambda: len(office.letters) == 4, "four letters")
    assert {letter["To"] for letter in office.letters} == {owner.email}
    assert {letter["Subject"] for letter in office.letters} == {
        "Your password was changed",
        "The second step of signing in was switched on",
        "Your recovery codes were replaced",
        "The second step of signing in was switched off",
    }
    for letter in office.letters:
        assert "From: 203.0.113.9" in letter.get_content()
        assert "http://portal.test/account" in letter.get_content()
        assert secret not in letter.as_string()
        assert NEW not in letter.as_string()


async def test_an_unknown_address_is_answered_the_same_and_gets_no_mail(posting, office):
    visitor = posting.visitor()
    seen = await visitor.fill("/forgotten-password", "/forgotten-password", email="ghost@example.com")
    assert "If there is an account with this address" in seen.text
    await asyncio.sleep(0.1)
    assert office.letters == []


async def test_nobody_s_mailbox_is_filled(posting, office):
    owner = await posting.owner()
    for _ in range(6):
        await posting.visitor().fill("/forgotten-password", "/forgotten-password", email=owner.email)
    await eventually(lambda: len(office.letters) == 3, "three letters")
    await asyncio.sleep(0.1)
    assert len(office.letters) == 3


async def test_without_mail_it_is_said_whom_to_ask(portal):
    seen = await portal.visitor().get("/forgotten-password")
    assert "payaccept operator password-link" in seen.text
    assert seen.forms == []


async def test_a_link_to_a_new_password_does_not_go_around_the_second_step(portal):
    owner = await portal.owner()
    browser = await owner.browser()
    page = await browser.fill("/account/second-factor", "/account/second-factor", current=PASSWORD)
    [secret] = re.findall(r'data-copy="((?:[A-Z2-7]{4} ?){8})"', page.html)
    code = totp.code_at(secret.replace(" ", ""), portal.clock())
    await browser.send(page, "/account/second-factor/on", code=code)
    services = portal.services
    account = await services.users.get_account(owner.user_id)
    sent = await services.people.send_password_link(account.user, portal.clock())
    visitor = portal.visitor()
    link = sent.url.removeprefix("http://portal.test")
    seen = await visitor.send(await visitor.get(link), link, password=NEW)
    assert seen.path == "/sign-in"
    assert "session" not in visitor.cookies
    assert (await visitor.sign_in(owner.email, NEW)).path == "/sign-in/code"


async def test_a_link_to_a_new_password_ends_after_an_hour_and_no_link_serves_for_another(portal):
    owner = await portal.owner()
    services = portal.services
    account = await services.users.get_account(owner.user_id)
    sent = await services.people.send_password_link(account.user, portal.clock())
    token = sent.url.rpartition("/")[2]
    assert (await portal.visitor().get(f"/invitation/{token}")).status == 410
    portal.clock.move(minutes=60)
    assert (await portal.visitor().get(f"/new-password/{token}")).status == 410


class Lines:
    """A request log that keeps its lines."""

    def __init__(self) -> None:
        self.kept: list[dict[str, object]] = []

    def write(self, **members: object) -> None:
        self.kept.append(members)


async def test_the_secret_of_a_link_is_not_in_the_log(portal):
    log = Lines()
    visitor = Visitor(create_app(portal.process.services(), portal.process, log))
    for path in (
        "/invitation/" + "s" * 43,
        "/new-password/" + "s" * 43,
        "/sign-in?next=/invitation/" + "s" * 43,
    ):
        await visitor.get(path)
    await visitor.client.aclose()
    assert [line["path"] for line in log.kept] == ["/invitation/…", "/new-password/…", "/sign-in"]
    assert "sss" not in str(log.kept)


async def test_a_server_elsewhere_has_to_speak_tls(office):
    mail = SmtpMail(office.url.replace("127.0.0.1", "127.1"), "a@b.de")  # the same one, by another name
    assert await mail.send("a@example.com", "Subject", "Text") is False
    assert office.letters == []


async def test_a_server_that_is_away_or_refuses_is_no_error_of_ours():
    mail = SmtpMail("smtp://127.0.0.1:1", "")
    assert await mail.send("a@example.com", "Subject", "Text") is False
