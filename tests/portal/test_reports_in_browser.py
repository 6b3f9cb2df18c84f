"""Reports in Chromium: payments are counted while one looks, charts can be read, files are saved."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser import LOOKS, contrast_problems, naming_problems, opened_page, overflow, running_browser
from deployment import numbers
from event_rows import insert_events
from processes import Sandbox

PASSWORD = "seven green lamps hum"
COUNTED_MS = 15_000


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("reports") / "data") as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


async def sign_up(page: Page) -> str:
    """Make a merchant; returns its Client-Id."""
    await page.goto("/sign-up")
    await page.get_by_label("Merchant").fill("Corner shop")
    await page.get_by_label("Your name").fill("Anna")
    await page.get_by_label("E-mail address").fill(f"reports{next(numbers)}@example.com")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create merchant").click()
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()
    return page.url.rpartition("/")[2]


def sell(sandbox: Sandbox, client_id: str) -> None:
    """Payments of three weeks, for the sandbox's worker to count; some failed, some are in another currency."""
    now = datetime.now(UTC)
    for count, hours, kind in (
        (70, 7, {}),
        (10, 30, {"failure_code": "INSUFFICIENT_BALANCE"}),
        (3, 40, {"failure_code": "PAYMENT_AMOUNT_EXCEED_LIMIT"}),
        (6, 70, {"currency": "KWD"}),
    ):
        times = [now - timedelta(hours=hours * number) for number in range(count)]
        insert_events(sandbox.database_url, client_id, times, state=None, **kind)


async def until_counted(page: Page, client_id: str) -> None:
    """The page says how many there are as soon as the worker has counted them."""
    for _ in range(COUNTED_MS // 500):
        await page.goto(f"/m/{client_id}/reports")
        if await page.get_by_role("link", name="KWD").count():
            return
        await page.wait_for_timeout(500)
    raise AssertionError("nothing was counted")


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_reports_fit_the_screen_and_can_be_read_by_eye_and_by_screen_reader(
    chromium, sandbox, phone, dark
):
    found = {}
    refused: list[str] = []

    async with opened_page(
        chromium, f"http://127.0.0.1:{sandbox.portal_port}", phone=phone, dark=dark
    ) as page:
        page.on("console", lambda told: refused.append(told.text) if told.type == "error" else None)

        async def look(what: str) -> None:
            problems = [*await overflow(page), *await contrast_problems(page), *await naming_problems(page)]
            if problems:
                found[what] = problems

        client_id = await sign_up(page)
        await page.get_by_role("link", name="Reports").first.click()
        await look("no payments")
        sell(sandbox, client_id)
        await until_counted(page, client_id)
        await look("thirty days")
        await page.get_by_text("The figures as a table").click()
        await expect(page.get_by_role("table", name="EUR by day")).to_be_visible()
        await look("thirty days with their table")
        await page.get_by_role("link", name="KWD").click()
        await look("another currency")
        await page.goto(f"/m/{client_id}/reports?from=2026-02-30&until=1")
        await look("a span that is none")
        assert found == {}
        assert [told for told in refused if "422" not in told] == []


async def test_a_span_is_chosen_and_files_are_saved_without_javascript(chromium, sandbox, tmp_path):
    base = f"http://127.0.0.1:{sandbox.portal_port}"
    async with opened_page(chromium, base, scripts=False) as page:
        client_id = await sign_up(page)
        sell(sandbox, client_id)
        await until_counted(page, client_id)
        await page.get_by_role("link", name="90 days").click()
        await expect(page.get_by_role("heading", name="The last 90 days")).to_be_visible()
        first = (datetime.now(UTC) - timedelta(days=10)).date()
        await page.get_by_label("From").fill(f"{first}")
        await page.get_by_role("button", name="Show").click()
        assert f"from={first}" in page.url
        yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
        await page.get_by_label("Another day").fill(f"{yesterday}")
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name="Download").click()
        file = await waiting.value
        assert file.suggested_filename.startswith(f"reconciliation-{client_id}-{yesterday}")
        await file.save_as(tmp_path / "day.csv")
        assert (tmp_path / "day.csv").read_text().splitlines()[-1].startswith(f"END,{yesterday}")
