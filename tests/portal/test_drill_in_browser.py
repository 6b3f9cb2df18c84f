"""The webhook drill in Chromium, against an endpoint that listens: started, followed while it runs, read."""

import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser import LOOKS, contrast_problems, naming_problems, opened_page, overflow, running_browser
from deployment import numbers
from processes import Sandbox

PASSWORD = "seven green lamps hum"
ANSWER_AFTER_S = 0.4
ENDED_MS = 30_000


class Careless(BaseHTTPRequestHandler):
    """Acknowledges whatever comes, after a moment."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(ANSWER_AFTER_S)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hooks"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("drill") / "data") as started:
        yield started


@pytest.fixture(scope="module")
def url(sandbox: Sandbox) -> str:
    return f"http://127.0.0.1:{sandbox.portal_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


async def sign_up(page: Page) -> str:
    """Sign up; returns the path of the merchant's pages."""
    await page.goto("/sign-up")
    await page.get_by_label("Merchant").fill("Corner shop")
    await page.get_by_label("Your name").fill("Anna")
    await page.get_by_label("E-mail address").fill(f"drill{next(numbers)}@example.com")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create merchant").click()
    await page.wait_for_url(re.compile("/m/"))
    return page.url


async def give_endpoint(sandbox: Sandbox, home: str, endpoint: str) -> None:
    await sandbox.acli("merchant", "set", home.rpartition("/")[2], "--webhook-url", endpoint)


async def test_a_drill_is_followed_while_it_runs_and_read_when_it_has_ended(chromium, sandbox, url, endpoint):
    async with opened_page(chromium, url) as page:
        home = await sign_up(page)
        await give_endpoint(sandbox, home, endpoint)
        await page.goto(f"{home}/webhooks")
        await page.get_by_role("link", name="Webhook drill").click()
        await page.get_by_role("button", name="Start the drill").click()
        await expect(page.get_by_text("Drill under way")).to_be_visible()
        # Nobody reloads the page.
        await expect(page.locator("#report .pill").first).to_have_text(re.compile("[1-7] of 8 sent"))
        await expect(page.get_by_text("What your endpoint did")).to_be_visible(timeout=ENDED_MS)
        await expect(page.locator("#report .pill").first).to_have_text("3 of 6 handled wrongly")
        await page.get_by_role("link", name="An old one, played back").click()
        await page.locator("summary", has_text="What was sent").nth(6).click()
        await page.get_by_role("button", name="Copy notification 7 as it was sent").click()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("POST /hooks HTTP/1.1\nHost: 127.0.0.1:")
        assert '"eventType":"webhook.test"' in copied.partition("\n\n")[2]
        await page.get_by_role("link", name="With the SDK").first.click()
        await page.get_by_role("button", name="Copy the program").click()
        program = await page.evaluate("navigator.clipboard.readText()")
        assert f'from_url("{sandbox.base_url}/.well-known/payaccept/webhook-keys")' in program
        await page.get_by_role("link", name="In the documentation").first.click()
        await expect(page.get_by_role("heading", name="Verify it")).to_be_in_viewport()


async def test_a_drill_works_without_javascript(chromium, sandbox, url, endpoint):
    async with opened_page(chromium, url, scripts=False) as page:
        home = await sign_up(page)
        await give_endpoint(sandbox, home, endpoint)
        await page.goto(f"{home}/webhooks/drill")
        await page.get_by_role("button", name="Start the drill").click()
        await expect(page.get_by_text("Drill under way")).to_be_visible()
        deadline = time.monotonic() + ENDED_MS / 1000
        while not await page.get_by_text("What your endpoint did").count():
            assert time.monotonic() < deadline
            await page.reload()
        await expect(page.get_by_text("3 are handled wrongly:")).to_be_visible()
        await page.get_by_role("button", name="Start another drill").click()
        await expect(page.get_by_text("The last drill began less than a minute ago")).to_be_visible()


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_fits_the_screen_and_can_be_read_by_eye_and_by_screen_reader(
    chromium, sandbox, url, endpoint, phone, dark
):
    async with opened_page(chromium, url, phone=phone, dark=dark) as page:
        found = {}

        async def look(what: str) -> None:
            problems = [*await overflow(page), *await contrast_problems(page), *await naming_problems(page)]
            if problems:
                found[what] = problems

        home = await sign_up(page)
        await page.goto(f"{home}/webhooks/drill")
        await look("without an endpoint")
        await give_endpoint(sandbox, home, endpoint)
        await page.reload()
        await look("before the first")
        await page.get_by_role("button", name="Start the drill").click()
        await expect(page.get_by_text("Drill under way")).to_be_visible()
        await look("while it runs")
        await expect(page.get_by_text("What your endpoint did")).to_be_visible(timeout=ENDED_MS)
        for summary in await page.locator("#report summary").all():
            await summary.click()
        await look("the report")
        await page.get_by_role("button", name="Start another drill").click()
        await expect(page.get_by_text("less than a minute ago")).to_be_visible()
        await look("too soon")
        assert found == {}
