"""Webhooks in Chromium, with the real worker: an endpoint set and tried, an event sent again, a range replayed."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser import (
    LOOKS,
    axe_problems,
    contrast_problems,
    naming_problems,
    opened_page,
    overflow,
    running_browser,
)
from deployment import numbers
from event_rows import insert_events
from processes import Sandbox
from traffic import Arrival, Receiver, respond

PASSWORD = "seven green lamps hum"
LIVE_MS = 20_000


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    # The first retry is far away: what is sent again before it, was sent by hand.
    directory = tmp_path_factory.mktemp("webhooks") / "data"
    with Sandbox(directory, "--retry-schedule", "600,600", "--webhook-timeout", "2") as started:
        yield started


@pytest.fixture(scope="module")
def url(sandbox: Sandbox) -> str:
    return f"http://127.0.0.1:{sandbox.portal_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def page(chromium: Browser, url: str) -> AsyncIterator[Page]:
    async with opened_page(chromium, url) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as opened:
        yield opened


async def unwell(_arrival: Arrival, writer: asyncio.StreamWriter) -> None:
    await respond(writer, 503)


async def sign_up(page: Page) -> str:
    """A new merchant; returns its Client-Id."""
    await page.goto("/sign-up")
    await page.get_by_label("Merchant").fill("Corner shop")
    await page.get_by_label("Your name").fill("Anna")
    await page.get_by_label("E-mail address").fill(f"hooks{next(numbers)}@example.com")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create merchant").click()
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()
    return page.url.rpartition("/")[2]


async def set_endpoint(page: Page, address: str) -> None:
    await page.get_by_role("link", name="Set the endpoint").click()
    field = page.get_by_role("textbox", name="Address of your endpoint")
    await field.fill("ftp://shop.example/hooks")
    await expect(page.locator(".verdict")).to_contain_text("must be an absolute https URL")
    await field.fill(address)
    await expect(page.locator(".verdict")).to_contain_text(
        "A good address. The path that is signed is /hooks."
    )
    await page.get_by_role("button", name="Set the endpoint").click()
    await expect(page.get_by_text("Send a test to try it.")).to_be_visible()


def state(page: Page, text: str) -> object:
    return page.locator("#state .pill").get_by_text(text, exact=True)


async def test_an_endpoint_is_set_tried_fails_and_gets_the_event_again(page, receiver):
    await sign_up(page)
    await set_endpoint(page, f"{receiver.base_url}/hooks")
    await page.get_by_role("button", name="Send a test event").click()
    await expect(state(page, "Acknowledged")).to_be_visible(timeout=LIVE_MS)
    await expect(page.get_by_text("after the test was asked for")).to_be_visible()
    receiver.behaviour["hooks"] = unwell
    await page.get_by_role("link", name="← Webhooks").click()
    await page.get_by_role("button", name="Send a test event").click()
    # The page notices by itself: first the refusal, then, sent again by hand, that it was taken.
    await expect(state(page, "Retrying")).to_be_visible(timeout=LIVE_MS)
    await expect(page.locator(".attempts").get_by_text("HTTP 503", exact=True)).to_be_visible()
    event_id = page.url.rpartition("/")[2]
    receiver.behaviour.clear()
    await page.get_by_role("button", name="Send now").dblclick()
    await expect(state(page, "Acknowledged")).to_be_visible(timeout=LIVE_MS)
    arrived = [one for one in receiver.at("/hooks") if one.headers["Event-Id"] == event_id]
    assert [one.headers["Delivery-Attempt"] for one in arrived] == ["1", "2"]
    assert arrived[0].body == arrived[1].body
    await expect(page.get_by_label("The body, byte for byte")).to_have_text(arrived[0].body.decode())


async def test_a_range_is_sent_again_while_the_page_shows_how_far_it_is(page, sandbox, receiver):
    client_id = await sign_up(page)
    await set_endpoint(page, f"{receiver.base_url}/hooks")
    times = [datetime.now(UTC) - timedelta(minutes=10, milliseconds=number) for number in range(40)]
    made = insert_events(sandbox.database_url, client_id, times, state="DEAD")
    await page.get_by_role("link", name="Send a range again").click()
    await page.get_by_label("At most so many a second").fill("10")
    await page.get_by_role("button", name="Count them").click()
    await expect(page.get_by_text("At 10 a second it takes 4.0 s")).to_be_visible()
    await page.get_by_role("button", name="Start sending 40 events").click()
    await expect(page.get_by_text(re.compile(r"\b[1-9][0-9]? of 40 events"))).to_be_visible(timeout=LIVE_MS)
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_text("Stopped. What was sent again stays sent.")).to_be_visible()
    await page.get_by_role("button", name="Go on").click()
    await expect(page.get_by_text("All were looked at.")).to_be_visible(timeout=LIVE_MS)
    await expect(page.get_by_text("40 of 40 events")).to_be_visible()
    assert set(receiver.by_event()) == set(made)


async def test_webhooks_work_without_javascript(chromium, url, receiver):
    async with opened_page(chromium, url, scripts=False) as page:
        await sign_up(page)
        await page.get_by_role("link", name="Set the endpoint").click()
        field = page.get_by_role("textbox", name="Address of your endpoint")
        await field.fill("shop.example")
        await page.get_by_role("button", name="Set the endpoint").click()
        await expect(page.locator("#url-error")).to_contain_text("must be an absolute https URL")
        await field.fill(f"{receiver.base_url}/hooks")
        await page.get_by_role("button", name="Set the endpoint").click()
        await page.get_by_role("button", name="Send a test event").click()
        for _ in range(50):
            if await page.locator("#state .pill.good").count():
                break
            await page.wait_for_timeout(100)
            await page.reload()
        await page.get_by_role("button", name="Send again").click()
        await expect(page.get_by_text("On its way again")).to_be_visible()


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_fits_the_screen_and_can_be_read_by_eye_and_by_screen_reader(
    chromium, url, sandbox, receiver, phone, dark
):
    async with opened_page(chromium, url, phone=phone, dark=dark) as page:
        found = {}

        async def look(what: str) -> None:
            problems = [*await overflow(page), *await contrast_problems(page), *await naming_problems(page)]
            problems += await axe_problems(page)
            if problems:
                found[what] = problems

        client_id = await sign_up(page)
        home = page.url
        await page.goto(f"{home}/webhooks")
        await look("nothing yet")
        await page.goto(home)
        receiver.behaviour["hooks"] = unwell
        await set_endpoint(page, f"{receiver.base_url}/hooks")
        await page.get_by_role("button", name="Send a test event").click()
        await expect(state(page, "Retrying")).to_be_visible(timeout=LIVE_MS)
        await look("an event")
        for kind in ("ACKNOWLEDGED", "DEAD", None):
            insert_events(sandbox.database_url, client_id, [datetime.now(UTC)] * 2, state=kind)
        for hours in (2, 30):
            sandbox.sql(
                "INSERT INTO failing_lanes (lane, client_id, failures, failing_since, opened_at, last_reason,"
                " updated_at) VALUES (%s, %s, 9, now() - %s * interval '1 hour', now(), 'refused', now())"
                " RETURNING lane",
                f"{client_id} https://shop{hours}.example:443",
                client_id,
                hours,
            )
            await page.goto(f"{home}/webhooks")
            await look(f"failing for {hours} hours")
        await page.goto(f"{home}/webhooks?find=nothing")
        await look("a search")
        await page.locator("summary", has_text="Change or remove").click()
        await look("the endpoint to be changed")
        await page.goto(f"{home}/webhooks/replay")
        await look("a range")
        await page.get_by_label("At most so many a second").fill("many")
        await page.get_by_role("button", name="Count them").click()
        await look("a mistaken range")
        await page.get_by_label("At most so many a second").fill("1")
        await page.get_by_role("button", name="Count them").click()
        await look("a counted range")
        await page.get_by_role("button", name=re.compile("Start sending")).click()
        await look("a replay")
        await page.get_by_role("button", name="Stop").click()
        await look("a stopped replay")
        assert found == {}
