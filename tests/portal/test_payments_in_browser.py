"""Payments in Chromium, with the real API and worker: the first one appears, its story is opened, curl sends it."""

import asyncio
import json
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser import LOOKS, contrast_problems, naming_problems, opened_page, overflow, running_browser
from endpoints import OK, Endpoint, answering
from payaccept.sdk import Amount, Client
from processes import Sandbox

LIVE_MS = 20_000  # a page looks every five seconds
PRODUCT = "51051000101000100031"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("payments") / "data") as started:
        yield started


@pytest.fixture(scope="module")
def told(sandbox: Sandbox) -> dict[str, Any]:
    credentials = sandbox.data_dir / "demo-merchant.json"
    return json.loads(credentials.read_bytes()) | {"credentials": credentials}


@pytest.fixture(scope="module")
def url(sandbox: Sandbox) -> str:
    return f"http://127.0.0.1:{sandbox.portal_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


async def sign_in(page: Page, told: dict[str, Any]) -> str:
    await page.goto("/sign-in")
    await page.get_by_label("E-mail address").fill(told["portalUser"])
    await page.get_by_label("Password").fill(told["portalPassword"])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()
    return f"/m/{told['clientId']}"


def pay(told: dict[str, Any], **changes: Any) -> str:
    """Make an order as the merchant's server does; returns its paymentRequestId."""
    request_id = f"order-{uuid.uuid4()}"
    with Client.from_file(told["credentials"]) as client:
        client.create_qr_order(
            payment_request_id=request_id, amount=Amount("EUR", 1999), product_code=PRODUCT, **changes
        )
    return request_id


async def test_the_first_payment_appears_and_its_story_is_told_while_it_goes_on(
    chromium, url, told, tmp_path
):
    async with opened_page(chromium, url) as page, Endpoint(answering(OK)) as endpoint:
        home = await sign_in(page, told)
        await page.get_by_role("link", name="Payments", exact=True).click()
        await expect(page.get_by_text("No payment yet")).to_be_visible()
        script = {"sandbox": {"delayMs": 3000}}
        request_id = await asyncio.to_thread(pay, told, notify_url=endpoint.url(), extend_info=script)
        await page.reload()
        row = page.get_by_role("row").filter(has_text=request_id)
        await expect(row).to_contain_text("€19.99")
        await row.get_by_role("link").click()
        await expect(page.get_by_role("heading", name="Payment of €19.99")).to_be_visible()
        # The page notices by itself: it becomes final, and its event is sent.
        await expect(page.get_by_text("Delivery attempt 1")).to_be_visible(timeout=LIVE_MS)
        await expect(page.locator("#payment .pill").first).to_have_text("SUCCESS")
        await page.get_by_text("What was signed", exact=True).click()
        await expect(page.get_by_label("What was signed")).to_contain_text(request_id)
        await page.get_by_role("button", name="Copy the request as curl").click()
        command = await page.evaluate("navigator.clipboard.readText()")
        answer = await asyncio.to_thread(run, command, told, tmp_path)
        assert answer["result"]["resultCode"] == "REPEAT_REQUEST"
        other = command.replace(request_id, f"{request_id}-2")
        answer = await asyncio.to_thread(run, other, told, tmp_path)
        assert answer["result"]["resultCode"] == "ACCEPTED"
        await page.get_by_role("button", name="Copy the link for support").first.click()
        link = await page.evaluate("navigator.clipboard.readText()")
        path = page.url
        await page.goto(link)
        assert page.url == path
        await page.goto(f"{home}/payments")
        await page.get_by_label("Find one by any id").fill(f"{request_id}-2")
        await page.get_by_role("button", name="Find").click()
        await expect(page.get_by_role("heading", name="Payment of €19.99")).to_be_visible()


def run(command: str, told: dict[str, Any], directory: Path) -> dict[str, Any]:
    """A command that was copied from a page, as a merchant's developer runs it."""
    key = Path(told["credentials"]).parent / Path(told["privateKeyFile"]).name
    (directory / "private-key.pem").write_bytes(key.read_bytes())
    done = subprocess.run(
        ["sh", "-ec", command], cwd=directory, check=True, capture_output=True, text=True, timeout=30
    )
    return dict(json.loads(done.stdout))


async def test_payments_are_looked_for_by_what_is_known_of_them_also_without_javascript(chromium, url, told):
    request_id = await asyncio.to_thread(pay, told, extend_info={"sandbox": {"outcome": "MANUAL"}})
    async with opened_page(chromium, url, scripts=False) as page:
        home = await sign_in(page, told)
        await page.goto(f"{home}/payments")
        await page.locator("summary", has_text="Look for several").click()
        await page.get_by_label("State", exact=True).select_option("PROCESSING")
        await page.get_by_label("Amount").fill("19,99 €")
        await page.get_by_role("button", name="Look").click()
        assert page.url.endswith("/payments?state=PROCESSING&currency=EUR&amount=19.99")
        await expect(page.get_by_text(request_id)).to_be_visible()
        await page.get_by_role("link", name="State PROCESSING, look without it").click()
        assert page.url.endswith("/payments?currency=EUR&amount=19.99")
        await page.get_by_role("textbox", name="Amount").fill("nineteen")
        await page.get_by_role("button", name="Look").click()
        await expect(page.locator("#amount-error")).to_contain_text("write it like 12.50")
        await expect(page.get_by_role("textbox", name="Amount")).to_have_value("nineteen")


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_fits_the_screen_and_can_be_read_by_eye_and_by_screen_reader(
    chromium, url, told, phone, dark
):
    async with (
        opened_page(chromium, url, phone=phone, dark=dark) as page,
        Endpoint(answering(OK)) as endpoint,
    ):
        found = {}

        async def look(what: str) -> None:
            await page.eval_on_selector_all("main details", "all => all.forEach(one => { one.open = true; })")
            problems = [*await overflow(page), *await contrast_problems(page), *await naming_problems(page)]
            if problems:
                found[what] = problems

        request_id = await asyncio.to_thread(pay, told, notify_url=endpoint.url("/a-rather-long-path" * 5))
        home = await sign_in(page, told)
        await look("home")
        for query in (
            "",
            "?state=FAIL&currency=EUR&amount=1.00-20.00&store=till",
            "?amount=x&currency=EUR",
            "?id=x",
        ):
            await page.goto(f"{home}/payments{query}")
            await look(f"payments{query}")
        await page.goto(f"{home}/payments?id={request_id}")
        await expect(page.get_by_text("Delivery attempt 1")).to_be_visible(timeout=LIVE_MS)
        await look("a payment")
        waiting = await asyncio.to_thread(pay, told, extend_info={"sandbox": {"outcome": "MANUAL"}})
        await page.goto(f"{home}/payments?id={waiting}")
        await expect(page.get_by_text("Next: it expires")).to_be_visible()
        await look("a payment that waits")
        assert found == {}
