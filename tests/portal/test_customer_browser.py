"""A customer with a real browser: Chromium, on a whole sandbox."""

import json
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Request, Route, async_playwright, expect

from processes import Sandbox
from shopping import BACK, IPHONE, Shop

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    directory = Path(tempfile.mkdtemp(prefix="payaccept-browser-"))
    try:
        with Sandbox(directory / "data", "--settle-delay", "2") as running:
            yield running
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def web(sandbox) -> str:
    return f"http://127.0.0.1:{sandbox.portal_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(sandbox) -> AsyncIterator[Shop]:
    async with httpx.AsyncClient(base_url=sandbox.base_url) as api:
        yield Shop(api, sandbox.demo_merchant())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        # Without Chromium's own sandbox, which a container's root does not have.
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        await browser.close()


class Screen:
    """A browser's page: what it complained of, and what the shop saw of it."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.context = context
        self.page = page
        self.complaints: list[str] = []
        self.arrivals: list[Request] = []
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    async def welcome(self, route: Route) -> None:
        """Be the shop that the customer comes back to."""
        if route.request.is_navigation_request():
            self.arrivals.append(route.request)
        await route.fulfill(body="<h1>Thank you for your order</h1>", content_type="text/html")

    async def is_as_wide_as_the_screen(self) -> bool:
        """Whether nothing makes the page wider than what is looked at."""
        return bool(await self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@pytest_asyncio.fixture(loop_scope="session")
async def open_screen(chromium):
    """A function that opens a browser's page; at the end, none of them has complained."""
    screens: list[Screen] = []

    async def make(**options) -> Screen:
        context = await chromium.new_context(**{"locale": "en-GB"} | options)
        context.set_default_timeout(15_000)
        screen = Screen(context, await context.new_page())
        await context.route("https://shop.example/**", screen.welcome)
        screens.append(screen)
        return screen

    yield make
    for screen in screens:
        await screen.context.close()
        assert screen.complaints == []


async def test_a_customer_pays_and_is_led_back_to_the_shop(web, shop, open_screen):
    payment_id = await shop.link()
    screen = await open_screen()
    page = screen.page
    await page.goto(f"{web}/pay/{payment_id}")
    await expect(page).to_have_title("Pay €19.99 to Demo merchant")
    await page.get_by_role("button", name="Approve €19.99").click()
    await expect(page.get_by_text("Thank you: Demo merchant has your payment.")).to_be_visible()
    await page.wait_for_url("https://shop.example/**")
    [arrival] = screen.arrivals
    assert arrival.url + "#" + urlsplit(BACK).fragment == BACK
    assert page.url == BACK
    assert "referer" not in await arrival.all_headers()
    assert (await shop.stands(payment_id))["paymentStatus"] == "SUCCESS"


async def test_a_customer_declines_and_may_stay_to_read_why(web, shop, open_screen):
    payment_id = await shop.link()
    screen = await open_screen()
    page = screen.page
    await page.goto(f"{web}/pay/{payment_id}")
    await page.get_by_label("Or decline, because").select_option("INSUFFICIENT_BALANCE")
    await page.get_by_role("button", name="Decline").click()
    await expect(page.get_by_text("There was not enough money in your wallet.")).to_be_visible()
    await expect(page.locator("[data-seconds]")).not_to_have_text("15")  # it counts
    await page.get_by_role("link", name="Stay here").click()
    await expect(page.get_by_text("You go back in")).to_have_count(0)
    assert urlsplit(page.url).path == f"/pay/{payment_id}"
    await page.get_by_role("link", name="Back to Demo merchant").click()
    await page.wait_for_url("https://shop.example/**")
    assert page.url == BACK
    stands = await shop.stands(payment_id)
    assert (stands["paymentStatus"], stands["failureCode"]) == ("FAIL", "INSUFFICIENT_BALANCE")


async def test_a_payment_that_completes_by_itself_shows_that_without_a_new_page(web, shop, open_screen):
    screen = await open_screen()
    page = screen.page
    await page.goto(f"{web}/q/{await shop.order(sandbox=None)}")
    await expect(page.get_by_text("Waiting for you to pay")).to_be_visible()
    await page.evaluate("window.sameDocument = true")
    await expect(page.get_by_text("Thank you")).to_be_visible()
    assert await page.evaluate("window.sameDocument") is True
    await expect(page).to_have_title("Paid: €19.99 to Demo merchant")
    await expect(page.get_by_role("status")).to_have_text("Paid: €19.99 to Demo merchant")


async def test_the_time_that_is_left_is_counted_down(web, shop, open_screen):
    screen = await open_screen()
    await screen.page.goto(f"{web}/q/{await shop.order()}")
    left = screen.page.locator("[data-until]")
    await expect(left).to_have_text(re.compile(r"14:\d\d"))
    seen = await left.inner_text()
    await expect(left).not_to_have_text(seen)
    assert await left.inner_text() < seen


async def test_without_javascript_the_page_follows_the_payment_and_leads_back_too(web, shop, open_screen):
    screen = await open_screen(java_script_enabled=False)
    page = screen.page
    await page.goto(f"{web}/pay/{await shop.link(sandbox=None)}")
    await expect(page.get_by_role("link", name="Check again")).to_be_visible()
    await expect(page.get_by_text("Thank you")).to_be_visible(timeout=15_000)
    await page.wait_for_url("https://shop.example/**")
    assert page.url == BACK


async def test_on_a_phone_everything_fits_and_the_app_is_one_tap_away(web, shop, open_screen):
    screen = await open_screen(viewport=PHONE, user_agent=IPHONE, is_mobile=True, has_touch=True)
    page = screen.page
    payment_id = await shop.link(
        order={"orderDescription": "Donaudampfschifffahrtsgesellschaftskapitän" * 5},
        paymentAmount={"currency": "IDR", "value": 999_999_999_999},
    )
    await page.goto(f"{web}/pay/{payment_id}")
    assert await screen.is_as_wide_as_the_screen()
    app = page.get_by_role("link", name="Open the wallet app")
    assert await app.get_attribute("href") == f"org.payaccept.wallet://pay/{payment_id}"
    box = await app.bounding_box()
    assert box is not None
    assert box["height"] >= 44
    assert box["y"] + box["height"] <= PHONE["height"]
    await expect(page.get_by_role("img", name="QR code")).to_be_hidden()
    await page.get_by_text("Pay with another phone").tap()
    await expect(page.get_by_role("img", name="QR code")).to_be_visible()
    assert await screen.is_as_wide_as_the_screen()
    await page.get_by_role("button", name="Approve").tap()
    await expect(page.get_by_text("Thank you")).to_be_visible()
    assert await screen.is_as_wide_as_the_screen()


@pytest.mark.parametrize("path", ["/wallet", "/wallet/scan", "/docs", "/docs/signing", "/docs/api/retailPay"])
async def test_the_other_pages_fit_on_a_phone(web, open_screen, path):
    screen = await open_screen(viewport=PHONE, is_mobile=True)
    await screen.page.goto(web + path)
    assert await screen.is_as_wide_as_the_screen()


async def test_a_code_that_the_till_scans_opens_the_payment_in_the_wallet(web, shop, open_screen):
    screen = await open_screen(viewport=PHONE)
    page = screen.page
    await page.goto(f"{web}/wallet")
    digits = (await page.get_by_label("Code", exact=True).inner_text()).replace("\n", "").replace(" ", "")
    await expect(page.locator("[data-life-text]")).not_to_have_text("It works once, within 60 seconds.")
    answer = await shop.charge(digits, sandbox={"outcome": "MANUAL"})
    assert answer["result"]["resultStatus"] == "A"
    await page.wait_for_url(f"**/pay/{answer['paymentId']}")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Thank you")).to_be_visible()
    assert (await shop.stands(answer["paymentId"]))["paymentStatus"] == "SUCCESS"


async def test_code_in_documents_is_copied_with_a_button(web, open_screen):
    screen = await open_screen(permissions=["clipboard-read", "clipboard-write"])
    page = screen.page
    await page.goto(f"{web}/docs/api/createQROrder")
    await page.get_by_role("button", name="Copy this code").first.click()
    copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
    assert copied["bizType"] == "ORDER_CODE"
