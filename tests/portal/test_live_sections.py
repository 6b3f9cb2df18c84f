"""What the portal's script adds to pages: parts that keep themselves up to date, passwords that can be looked at."""

import re
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from browser import opened_page, portal_process, running_browser
from payaccept.config import Settings

PAUSE_S = 5
LONGEST_PAUSE_S = 60
PAGE = """<!doctype html><html lang="en"><head><title>Live</title>
<script src="{script}" defer></script></head><body>
<section id="part" data-live="{live}" data-state="{state}"><p>look {number}</p>
<time datetime="2026-01-31T12:00:00Z">noon</time>
<details><summary>More</summary><p>unfolded</p></details>
<label>Note <input name="note"></label><button type="button">Button</button></section></body></html>"""


@pytest.fixture(scope="module")
def url(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real portal process is."""
    with portal_process(settings, tmp_path_factory.mktemp("portal") / "portal.log") as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


class Live:
    """A page with a live part, under the portal's script and a clock that only the test moves."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.looks = 0
        self.status = 200
        self.live = str(PAUSE_S)
        self.state = "open"
        self.shown = page.locator("#part > p")

    async def open(self) -> "Live":
        await self.page.goto("/sign-in")
        found = re.search(r"/static/portal\.\w+\.js", await self.page.content())
        assert found is not None
        self.script = found[0]
        await self.page.route("**/live", self._answer)
        await self.page.clock.install()
        await self.page.goto("/live")
        await expect(self.shown).to_have_text("look 1")
        return self

    async def _answer(self, route: Route) -> None:
        self.looks += 1
        if self.status == 303:
            await route.fulfill(status=303, headers={"location": "/sign-in"})
            return
        body = PAGE.format(script=self.script, number=self.looks, live=self.live, state=self.state)
        await route.fulfill(status=self.status, content_type="text/html", body=body)

    async def after(self, seconds: float) -> int:
        """Let time pass; returns how often the page was asked for until then."""
        await self.page.clock.run_for(int(seconds * 1000))
        await self.page.wait_for_timeout(100)
        return self.looks


@pytest_asyncio.fixture(loop_scope="session")
async def live(chromium: Browser, url: str) -> AsyncIterator[Live]:
    async with opened_page(chromium, url, expected="Failed to load resource") as page:
        yield await Live(page).open()


async def test_a_live_part_is_shown_anew_every_few_seconds(live):
    assert await live.after(PAUSE_S - 1) == 1
    await live.after(1)
    await expect(live.shown).to_have_text("look 2")
    await expect(live.page.locator("time")).to_have_attribute("title", "noon")  # in the viewer's own zone
    await live.after(PAUSE_S)
    await expect(live.shown).to_have_text("look 3")


async def test_what_was_unfolded_stays_unfolded(live):
    await live.page.evaluate("document.querySelector('details').open = true")
    await live.after(PAUSE_S)
    await expect(live.shown).to_have_text("look 2")
    await expect(live.page.get_by_text("unfolded")).to_be_visible()


async def test_where_the_focus_is_nothing_moves(live):
    await live.page.get_by_role("button", name="Button").focus()
    assert await live.after(3 * PAUSE_S) == 1
    await expect(live.page.get_by_role("button", name="Button")).to_be_focused()
    await live.page.evaluate("document.activeElement.blur()")
    await live.after(PAUSE_S)
    await expect(live.shown).to_have_text("look 2")


async def test_what_was_typed_stays(live):
    await live.page.get_by_label("Note").fill("half a sent")
    await live.page.evaluate("document.activeElement.blur()")
    assert await live.after(3 * PAUSE_S) == 1
    await expect(live.page.get_by_label("Note")).to_have_value("half a sent")


async def test_nothing_is_asked_for_while_nobody_looks(live):
    await live.page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    assert await live.after(10 * PAUSE_S) == 1
    await live.page.evaluate("delete document.hidden")
    assert await live.after(PAUSE_S) == 2


@pytest.mark.parametrize("status", [500, 503, 429, 404])
async def test_a_service_in_trouble_is_asked_less_and_less_often(live, status):
    live.status = status
    assert await live.after(PAUSE_S) == 2
    assert await live.after(PAUSE_S) == 2
    assert await live.after(PAUSE_S) == 3  # after twice the pause
    assert await live.after(4 * PAUSE_S - 1) == 3
    assert await live.after(1) == 4
    for _ in range(4):
        before = live.looks
        assert await live.after(LONGEST_PAUSE_S) <= before + 2
    await expect(live.shown).to_have_text("look 1")
    live.status = 200
    await live.after(LONGEST_PAUSE_S)
    await expect(live.shown).to_have_text(re.compile(r"look \d+"))
    before = live.looks
    assert await live.after(PAUSE_S) == before + 1


async def test_the_page_stays_as_it_is_when_nobody_is_signed_in_any_more(live):
    live.status = 303
    await live.after(PAUSE_S)
    await expect(live.shown).to_have_text("look 1")
    assert live.page.url.endswith("/live")
    live.status = 200
    await live.after(2 * PAUSE_S)
    await expect(live.shown).to_have_text(re.compile("look [2-9]"))


async def test_a_part_that_is_final_is_asked_for_no_more(live):
    live.live = ""
    await live.after(PAUSE_S)
    await expect(live.shown).to_have_text("look 2")
    assert await live.after(10 * PAUSE_S) == 2


async def test_what_is_about_another_state_is_loaded_as_a_whole(live):
    live.state = "closed"
    await live.after(PAUSE_S)
    await expect(live.shown).to_have_text("look 3")


async def test_a_password_can_be_looked_at_while_it_is_typed(chromium, url):
    async with opened_page(chromium, url) as page:
        await page.goto("/sign-in")
        field = page.get_by_label("Password")
        await field.fill("seven green")
        await expect(field).to_have_attribute("type", "password")
        await page.get_by_role("button", name="Show what is typed").click()
        await expect(field).to_have_attribute("type", "text")
        await page.get_by_role("button", name="Hide what is typed").click()
        await expect(field).to_have_attribute("type", "password")
        await page.get_by_label("E-mail address").fill("nobody@example.com")
        await page.get_by_role("button", name="Show what is typed").click()
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("is not right")
        await expect(page.get_by_label("Password")).to_have_value("")
    async with opened_page(chromium, url, scripts=False) as page:
        await page.goto("/sign-in")
        await expect(page.get_by_role("button", name="Show")).to_have_count(0)
