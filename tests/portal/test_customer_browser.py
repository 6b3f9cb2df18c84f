"""A customer with a real browser: Chromium, on a whole sandbox."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Request, Route, expect

from browser import LOOKS, PHONE, contrast_problems, naming_problems, opened_page, overflow, running_browser
from processes import Sandbox
from shopping import BACK, IPHONE, Shop

# A bill is an article with a header of its own; tables of documents stand below their headings.
ALLOWED = {"not exactly one header", "a table without a caption"}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(Path(tmp_path_factory.mktemp("sandbox")) / "data", "--settle-delay", "2") as running:
        yield running


@pytest.fixture(scope="module")
def web(sandbox) -> str:
    return f"http://127.0.0.1:{sandbox.portal_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(sandbox) -> AsyncIterator[Shop]:
    async with httpx.AsyncClient(base_url=sandbox.base_url) as api:
        yield Shop(api, sandbox.demo_merchant())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@asynccontextmanager
async def customers_page(
    chromium: Browser, web: str, **looks: bool
) -> AsyncIterator[tuple[Page, list[Request]]]:
    """A page of a fresh browser, and how it came to the shop."""
    arrivals: list[Request] = []

    async def welcome(route: Route) -> None:
        if route.request.is_navigation_request():
            arrivals.append(route.request)
        await route.fulfill(body="<h1>Thank you for your order</h1>", content_type="text/html")

    async with opened_page(chromium, web, **looks) as page:
        await page.route("https://shop.example/**", welcome)
        yield page, arrivals


async def test_a_customer_pays_and_is_led_back_to_the_shop(web, shop, chromium):
    payment_id = await shop.link()
    async with customers_page(chromium, web) as (page, arrivals):
        await page.goto(f"/pay/{payment_id}")
        await expect(page).to_have_title("Pay €19.99 to Demo merchant")
        await page.get_by_role("button", name="Approve €19.99").click()
        await expect(page.get_by_text("Thank you: Demo merchant has your payment.")).to_be_visible()
        await page.wait_for_url("https://shop.example/**")
        assert page.url == BACK
        [arrival] = arrivals
        assert f"{arrival.url}#{urlsplit(BACK).fragment}" == BACK
        assert "referer" not in await arrival.all_headers()
    assert (await shop.stands(payment_id))["paymentStatus"] == "SUCCESS"


async def test_a_customer_declines_and_may_stay_to_read_why(web, shop, chromium):
    payment_id = await shop.link()
    async with customers_page(chromium, web) as (page, arrivals):
        await page.goto(f"/pay/{payment_id}")
        await page.get_by_label("Or decline, because").select_option("INSUFFICIENT_BALANCE")
        await page.get_by_role("button", name="Decline").click()
        await expect(page.get_by_text("There was not enough money in your wallet.")).to_be_visible()
        await expect(page.locator("[data-seconds]")).not_to_have_text("15")  # it counts
        await page.get_by_role("link", name="Stay here").click()
        await expect(page.get_by_text("You go back in")).to_have_count(0)
        assert arrivals == []
        await page.get_by_role("link", name="Back to Demo merchant").click()
        await page.wait_for_url("https://shop.example/**")
        assert page.url == BACK
    stands = await shop.stands(payment_id)
    assert (stands["paymentStatus"], stands["failureCode"]) == ("FAIL", "INSUFFICIENT_BALANCE")


async def test_a_payment_that_completes_by_itself_shows_that_without_a_new_page(web, shop, chromium):
    async with customers_page(chromium, web) as (page, _):
        await page.goto(f"/q/{await shop.order(sandbox=None)}")
        await expect(page.get_by_text("Waiting for you to pay")).to_be_visible()
        await page.evaluate("window.sameDocument = true")
        await expect(page.get_by_text("Thank you")).to_be_visible()
        assert await page.evaluate("window.sameDocument") is True
        await expect(page).to_have_title("Paid: €19.99 to Demo merchant")
        await expect(page.get_by_role("status")).to_have_text("Paid: €19.99 to Demo merchant")


async def test_the_time_that_is_left_is_counted_down(web, shop, chromium):
    async with customers_page(chromium, web) as (page, _):
        await page.goto(f"/q/{await shop.order()}")
        left = page.locator("[data-until]")
        await expect(left).to_have_text(re.compile(r"14:\d\d"))
        seen = await left.inner_text()
        await expect(left).not_to_have_text(seen)
        assert await left.inner_text() < seen


async def test_without_javascript_the_page_follows_the_payment_and_leads_back_too(web, shop, chromium):
    async with customers_page(chromium, web, scripts=False) as (page, _):
        await page.goto(f"/pay/{await shop.link(sandbox=None)}")
        await expect(page.get_by_role("link", name="Check again")).to_be_visible()
        await expect(page.get_by_text("Thank you")).to_be_visible(timeout=20_000)
        await page.wait_for_url("https://shop.example/**")
        assert page.url == BACK


async def test_on_a_phone_everything_fits_and_the_app_is_one_tap_away(web, shop, chromium):
    payment_id = await shop.link(
        order={"orderDescription": "Donaudampfschifffahrtsgesellschaftskapitän" * 5},
        paymentAmount={"currency": "IDR", "value": 999_999_999_999},
    )
    async with customers_page(chromium, web, phone=True) as (page, _):
        await page.set_extra_http_headers({"User-Agent": IPHONE})
        await page.goto(f"/pay/{payment_id}")
        assert await overflow(page) == []
        app = page.get_by_role("link", name="Open the wallet app")
        assert await app.get_attribute("href") == f"org.payaccept.wallet://pay/{payment_id}"
        box = await app.bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["y"] + box["height"] <= PHONE["height"]
        code = page.get_by_role("img", name="QR code")
        await expect(code).to_be_hidden()
        await page.get_by_text("Pay with another phone").tap()
        await expect(code).to_be_visible()
        assert await overflow(page) == []
        await page.get_by_role("button", name="Approve").tap()
        await expect(page.get_by_text("Thank you")).to_be_visible()
        assert await overflow(page) == []


async def test_a_code_that_the_till_scans_opens_the_payment_in_the_wallet(web, shop, chromium):
    async with customers_page(chromium, web, phone=True) as (page, _):
        await page.goto("/wallet")
        digits = "".join((await page.get_by_label("Code", exact=True).inner_text()).split())
        life = page.locator("[data-life-text]")
        await expect(life).not_to_have_text("It works once, within 60 seconds.")
        answer = await shop.charge(digits, sandbox={"outcome": "MANUAL"})
        assert answer["result"]["resultStatus"] == "A"
        await page.wait_for_url(f"**/pay/{answer['paymentId']}")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_text("Thank you")).to_be_visible()
    assert (await shop.stands(answer["paymentId"]))["paymentStatus"] == "SUCCESS"


async def test_code_in_documents_is_copied_with_a_button(web, chromium):
    async with customers_page(chromium, web) as (page, _):
        await page.goto("/docs/api/createQROrder")
        await page.get_by_role("button", name="Copy this code").first.click()
        copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
        assert copied["bizType"] == "ORDER_CODE"


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_is_readable_named_and_no_wider_than_the_screen(web, shop, chromium, phone, dark):
    payment_id = await shop.link()
    declined = await shop.order()
    async with customers_page(chromium, web, phone=phone, dark=dark) as (page, _):
        await page.goto(f"/q/{declined}")
        await page.get_by_role("button", name="Decline").click()
        await expect(page.get_by_text("You declined this payment.")).to_be_visible()
        for path in (
            f"/pay/{payment_id}",
            f"/q/{declined}",
            "/q/nothing",
            "/wallet",
            "/wallet/scan?code=nothing",
            "/docs",
            "/docs/signing",
            "/docs/api",
            "/docs/api/retailPay",
        ):
            await page.goto(path)
            assert await overflow(page) == [], path
            assert await contrast_problems(page) == [], path
            assert set(await naming_problems(page)) <= ALLOWED, path
