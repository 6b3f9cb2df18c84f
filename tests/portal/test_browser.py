"""The portal in Chromium: what people do there, and how it looks and reads."""

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser import (
    LOOKS,
    contrast_problems,
    naming_problems,
    opened_page,
    overflow,
    portal_process,
    running_browser,
)
from deployment import numbers
from payaccept.config import Settings
from payaccept.domain import totp

PASSWORD = "seven green lamps hum"


@pytest.fixture(scope="module")
def url(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real portal process is."""
    with portal_process(settings, tmp_path_factory.mktemp("portal") / "portal.log") as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def page(chromium: Browser, url: str) -> AsyncIterator[Page]:
    async with opened_page(chromium, url) as opened:
        yield opened


def new_email() -> str:
    return f"browser{next(numbers)}@example.com"


async def sign_up(page: Page, merchant: str = "Corner shop") -> str:
    """Sign up as somebody new; returns the address."""
    email = new_email()
    await page.goto("/sign-up")
    await page.get_by_label("Merchant").fill(merchant)
    await page.get_by_label("Your name").fill("Anna Ünder")
    await page.get_by_label("E-mail address").fill(email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create merchant").click()
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()
    return email


async def sign_in(page: Page, email: str, password: str = PASSWORD) -> None:
    await page.goto("/sign-in")
    await page.get_by_label("E-mail address").fill(email)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def test_who_guesses_is_told_to_wait_and_keeps_the_address_that_was_typed(page):
    email = new_email()
    for _ in range(5):
        await sign_in(page, email, "guess guess guess")
        await expect(page.get_by_role("alert")).not_to_contain_text("Wait")
    await sign_in(page, email, "guess guess guess")
    await expect(page.get_by_role("alert")).to_contain_text("Wait")
    await expect(page.get_by_label("E-mail address")).to_have_value(email)
    await expect(page.get_by_label("Password", exact=True)).to_have_value("")


async def test_a_newcomer_signs_up_signs_out_and_signs_in_again(page):
    await page.goto("/")
    await page.get_by_role("link", name="Create a sandbox merchant").click()
    email = await sign_up(page)
    await expect(page.get_by_role("status").first).to_contain_text("Welcome. Corner shop is ready")
    await expect(page.get_by_text("Register a public key")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("You are signed out.")).to_be_visible()
    await sign_in(page, email)
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()


async def test_the_client_id_is_copied_with_one_click(page):
    await sign_up(page)
    await page.get_by_role("button", name="Copy the Client-Id").click()
    client_id = page.url.rpartition("/")[2]
    assert await page.evaluate("navigator.clipboard.readText()") == client_id
    await expect(page.locator("#said")).to_have_text("Copied")


async def test_times_are_the_viewer_s_with_utc_on_hover(page):
    await sign_up(page)
    await page.get_by_role("link", name="Audit log").click()
    time = page.locator("time").first
    at = datetime.fromisoformat(await time.get_attribute("datetime"))
    assert (datetime.now(UTC) - at).total_seconds() < 60
    assert (await time.get_attribute("title")).endswith("UTC")
    shown = await time.inner_text()
    assert "UTC" not in shown
    assert f"{at.astimezone().year}" in shown


async def test_the_second_step_is_switched_on_and_asked_for(page):
    email = await sign_up(page)
    await page.get_by_role("link", name="Account").click()
    await page.get_by_role("link", name="Switch on").click()
    await page.get_by_label("Present password").fill(PASSWORD)
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("img", name="QR code for an authenticator app")).to_be_visible()
    secret = (await page.locator(".copyable code").inner_text()).replace(" ", "")
    await page.get_by_role("textbox", name="Code").fill("000000")
    await page.get_by_role("button", name="Switch on").click()
    await expect(page.locator("#code-error")).to_contain_text("This code is not right")
    await page.get_by_role("textbox", name="Code").fill(totp.code_at(secret, datetime.now(UTC)))
    await page.get_by_role("button", name="Switch on").click()
    await expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    codes = await page.locator(".codes li").all_inner_texts()
    await page.get_by_role("button", name="Copy all").click()
    assert await page.evaluate("navigator.clipboard.readText()") == "\n".join(codes)
    await page.get_by_role("button", name="Sign out").click()
    await sign_in(page, email)
    await expect(page.get_by_role("heading", name="The second step")).to_be_visible()
    await page.get_by_role("textbox", name="Code").fill(codes[0])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()


async def test_too_many_guesses_are_told_and_a_browser_that_was_here_before_is_let_in(page, chromium, url):
    email = await sign_up(page)
    await page.get_by_role("button", name="Sign out").click()
    async with opened_page(chromium, url) as stranger:
        for _ in range(5):
            await sign_in(stranger, email, "guess guess guess")
            await expect(stranger.get_by_role("alert")).to_contain_text("is not right")
        await sign_in(stranger, email)
        await expect(stranger.get_by_role("alert")).to_contain_text("Too many attempts. Wait")
        await expect(stranger.get_by_label("E-mail address")).to_have_value(email)
    await sign_in(page, email)
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()


async def test_a_colleague_is_invited_joins_is_made_developer_and_is_removed(page, chromium, url):
    await sign_up(page)
    await page.get_by_role("link", name="People").click()
    await page.get_by_role("link", name="Invite somebody").first.click()
    await page.get_by_label("E-mail address").fill(new_email())
    await page.get_by_label("Viewer").check()
    await page.get_by_role("button", name="Make the invitation").click()
    link = await page.locator("code").inner_text()
    async with opened_page(chromium, url) as colleague:
        await colleague.goto(link)
        await colleague.get_by_label("Your name").fill("Bert")
        await colleague.get_by_label("Password").fill(PASSWORD)
        await colleague.get_by_role("button", name="Create account and join").click()
        await expect(colleague.get_by_text("Welcome to Corner shop.")).to_be_visible()
        await expect(colleague.get_by_role("link", name="Audit log")).to_have_count(0)
        await page.get_by_role("link", name="Done").click()
        await page.get_by_role("link", name="Change Bert").click()
        await page.get_by_label("Developer").check()
        await page.get_by_role("button", name="Save role").click()
        await colleague.reload()
        await expect(colleague.get_by_role("link", name="Audit log")).to_be_visible()
        await page.get_by_role("link", name="Change Bert").click()
        await page.locator("summary", has_text="Remove").click()
        await page.get_by_role("button", name="Yes, remove").click()
        await expect(page.get_by_text("The person is out")).to_be_visible()
        await colleague.reload()
        await expect(colleague.get_by_role("heading", name="Nothing here")).to_be_visible()


async def test_a_form_with_mistakes_leads_from_each_message_to_its_field(page):
    await page.goto("/sign-up")
    await page.get_by_label("Merchant").fill("Kept as it was")
    await page.get_by_label("E-mail address").fill("anna")
    await page.get_by_label("Password").fill("password1234")
    await page.eval_on_selector("main form", "form => { form.noValidate = true; }")
    await page.get_by_role("button", name="Create merchant").click()
    alert = page.get_by_role("alert")
    await expect(alert).to_be_focused()
    await expect(alert.get_by_role("link")).to_have_count(3)
    await alert.get_by_role("link", name=re.compile("e-mail")).click()
    await expect(page.get_by_label("E-mail address")).to_be_focused()
    await expect(page.get_by_label("E-mail address")).to_have_accessible_description(
        "This is not an e-mail address: it looks like name@example.com."
    )
    await expect(page.get_by_label("Merchant")).to_have_value("Kept as it was")
    await expect(page.get_by_label("Password")).to_have_value("")


async def test_everything_works_without_javascript(chromium, url):
    async with opened_page(chromium, url, scripts=False) as page:
        email = await sign_up(page)
        await expect(page.get_by_role("button", name="Copy the Client-Id")).to_have_count(0)
        await page.get_by_role("link", name="Audit log").click()
        await expect(page.locator("time").first).to_contain_text("UTC")
        await page.get_by_role("button", name="Sign out").click()
        await sign_in(page, email)
        await expect(page.get_by_role("heading", name="Home")).to_be_visible()


async def test_a_keyboard_is_enough_and_leads_past_the_navigation(page):
    email = await sign_up(page)
    await page.get_by_role("button", name="Sign out").click()
    await page.goto("/sign-in")
    await expect(page.get_by_label("E-mail address")).to_be_focused()
    await page.keyboard.type(email)
    await page.keyboard.press("Tab")
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()


async def test_on_a_phone_a_table_is_a_table_to_a_screen_reader(chromium, url):
    async with opened_page(chromium, url, phone=True) as page:
        await sign_up(page)
        await page.goto("/account")
        assert (
            await page.locator("table tr").first.evaluate("row => getComputedStyle(row).display") == "block"
        )
        session = await page.context.new_cdp_session(page)
        nodes = (await session.send("Accessibility.getFullAXTree"))["nodes"]
        told = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]
        roles = [role for role, _ in told]
        assert ("table", "Your open sessions") in told
        assert ("columnheader", "Last used") in told
        assert ("rowheader", "Chrome on Linux") in told or "rowheader" in roles
        assert roles.count("row") >= 4
        assert roles.count("cell") >= 4
        # What stands before each cell for the eye is the heading that the reader has told already.
        assert (
            "Address" not in [name for role, name in told if role == "StaticText" and name == "Address"][1:]
        )


async def test_a_browser_keeps_to_the_policy_of_the_page(chromium, url):
    async with opened_page(chromium, url, expected="Content Security Policy") as page:
        await page.goto("/sign-in")
        refused = await page.evaluate(
            """async () => {
                const said = [];
                document.addEventListener("securitypolicyviolation", (e) => said.push(e.effectiveDirective));
                const script = document.createElement("script");
                script.textContent = "window.broken = true";
                document.body.append(script);
                document.body.setAttribute("style", "color: red");
                await new Promise((done) => setTimeout(done, 200));
                return [said, window.broken === undefined];
            }"""
        )
    assert refused == [["script-src-elem", "style-src-attr"], True]


PAGES = ["", "/people", "/people/invite", "/audit"]
OTHERS = ["/account", "/account/password", "/account/second-factor", "/merchants/new", "/nothing"]
PUBLIC = ["/", "/sign-in", "/sign-up", "/forgotten-password"]


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_fits_the_screen_and_can_be_read_by_eye_and_by_screen_reader(
    chromium, url, phone, dark
):
    async with opened_page(chromium, url, phone=phone, dark=dark) as page:
        found = {}
        paths = list(PUBLIC)

        async def look(path: str) -> None:
            problems = [*await overflow(page), *await contrast_problems(page), *await naming_problems(page)]
            if problems:
                found[path] = problems

        for path in paths:
            await page.goto(path)
            await look(path)
        await sign_up(page, "Überaus lange Händlerbezeichnung und Söhne GmbH & Co. Kommanditgesellschaft")
        home = page.url
        for path in [home + below for below in PAGES] + OTHERS:
            await page.goto(path)
            await look(path)
        assert found == {}
