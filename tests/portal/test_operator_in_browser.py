"""The operator's area in Chromium, with the real processes: every page on every screen, and its forms."""

import json
import re
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser import (
    LOOKS,
    contrast_problems,
    naming_problems,
    opened_page,
    overflow,
    running_browser,
)
from payaccept.sdk import Amount, Client
from payaccept.wire.messages import DescribedOrder
from processes import PAYACCEPT, Sandbox


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("operator") / "data") as started:
        command = [*PAYACCEPT, "operator", "create", "--email", "demo@merchant.example"]
        subprocess.run([*command, "--data-dir", str(started.data_dir)], check=True, capture_output=True)
        yield started


@pytest.fixture(scope="module")
def told(sandbox: Sandbox) -> dict[str, str]:
    """What the demo merchant's file tells; the merchant has taken a payment."""
    credentials = sandbox.data_dir / "demo-merchant.json"
    with Client.from_file(credentials) as client:
        answer = client.link_pay_create(
            payment_request_id=f"operator-{uuid.uuid4()}",
            amount=Amount("EUR", 4250),
            product_code="51051000101000100031",
            order=DescribedOrder(order_description="Two pairs of running shoes"),
            redirect_url="https://shop.example/thanks",
        )
    return json.loads(credentials.read_bytes()) | {"paymentId": str(answer.redirect_url).rpartition("/")[2]}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


async def sign_in(page: Page, told: dict[str, str]) -> None:
    await page.goto("/sign-in")
    await page.get_by_label("E-mail address").fill(told["portalUser"])
    await page.get_by_label("Password").fill(told["portalPassword"])
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(re.compile("/operator"))


async def problems_of(page: Page) -> list[str]:
    return [
        *await overflow(page),
        *await contrast_problems(page),
        *await naming_problems(page),
    ]


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_fits_the_screen_and_can_be_read_by_eye_and_by_screen_reader(
    chromium, told, phone, dark
):
    merchant = f"/operator/merchants/{told['clientId']}"
    pages = (
        "/operator",
        "/operator?reach=week",
        "/operator/merchants",
        "/operator/merchants?q=nobody",
        "/operator/merchants/new",
        merchant,
        f"{merchant}/settings",
        f"{merchant}/invite",
        f"{merchant}/keys/1",
        f"{merchant}/payments",
        f"{merchant}/requests",
        "/operator/payments",
        "/operator/payments?find=nothing",
        f"/operator/payments/{told['paymentId']}",
        "/operator/deliveries",
        "/operator/keys",
        "/operator/keys/1",
        "/operator/audit",
        "/operator/audit?person=nobody@nowhere.example",
    )
    async with opened_page(chromium, told["portalUrl"], phone=phone, dark=dark) as page:
        await sign_in(page, told)
        found = {}
        for path in pages:
            await page.goto(path)
            for summary in await page.locator("details.confirm > summary").all():
                await summary.click()
            if problems := await problems_of(page):
                found[path] = problems
        assert found == {}


async def test_a_merchant_is_switched_off_and_on_without_javascript(chromium, told):
    async with opened_page(chromium, told["portalUrl"], scripts=False) as page:
        await sign_in(page, told)
        await page.get_by_role("link", name="Merchants", exact=True).click()
        await page.get_by_label("Name or Client-Id").fill("demo")
        await page.get_by_role("button", name="Search").click()
        await page.locator("main").get_by_role("link", name="Demo merchant", exact=True).click()
        for verb, told_after in (("Deactivate", "is deactivated"), ("Activate", "is active")):
            await page.locator("summary", has_text=verb).click()
            await page.get_by_label("Why").fill("   ")
            await page.get_by_role("button", name=f"{verb} now").click()
            await expect(page.locator("#reason-error")).to_contain_text("Say why")
            described_by = await page.locator("#reason").get_attribute("aria-describedby")
            assert described_by == "reason-error reason-hint"
            await page.get_by_label("Why").fill("A drill")
            await page.get_by_role("button", name=f"{verb} now").click()
            await expect(page.get_by_role("status")).to_contain_text(told_after)
        await page.locator("main").get_by_role("link", name="Audit log", exact=True).click()
        await expect(page.get_by_text("A drill").first).to_be_visible()


async def test_the_overview_shows_the_processes_as_they_come(chromium, told):
    async with opened_page(chromium, told["portalUrl"]) as page:
        await sign_in(page, told)
        for name in ("API", "Worker", "Portal"):
            part = page.locator("#parts .card", has=page.get_by_role("heading", name=name, exact=True))
            await expect(part).to_contain_text("Running", timeout=30_000)
        await expect(page.get_by_role("img", name="Webhook attempts")).to_be_visible()
