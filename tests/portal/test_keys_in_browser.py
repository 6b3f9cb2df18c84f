"""Keys and requests in Chromium, with the real API: from signing up to the first signed request, and a rotation."""

import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from browser import LOOKS, contrast_problems, naming_problems, opened_page, overflow, running_browser
from deployment import numbers
from processes import Sandbox

PASSWORD = "seven green lamps hum"
LIVE_MS = 20_000  # a page looks every five seconds


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("keys") / "data") as started:
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


async def sign_up(page: Page) -> None:
    await page.goto("/sign-up")
    await page.get_by_label("Merchant").fill("Corner shop")
    await page.get_by_label("Your name").fill("Anna")
    await page.get_by_label("E-mail address").fill(f"keys{next(numbers)}@example.com")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Create merchant").click()
    await expect(page.get_by_role("heading", name="Home")).to_be_visible()


def run(command: str, directory: Path) -> str:
    """A command that was copied from a page, as a merchant's developer runs it."""
    done = subprocess.run(
        ["sh", "-ec", command], cwd=directory, check=True, capture_output=True, text=True, timeout=30
    )
    return done.stdout


async def copied(page: Page, what: str) -> str:
    await page.get_by_role("button", name=f"Copy {what}").click()
    return await page.evaluate("navigator.clipboard.readText()")


async def upload(page: Page, directory: Path) -> None:
    """Make a pair as the page says, and upload its public half."""
    await page.get_by_role("link", name="Add a key").first.click()
    run(await copied(page, "the command that makes the private key"), directory)
    run(await copied(page, "the command that takes the public half out"), directory)
    await page.get_by_label("Or the file it is in").set_input_files(directory / "public-key.pem")
    await expect(page.locator(".verdict")).to_contain_text("A good key: RSA with 2048 bits")
    await page.get_by_role("button", name="Check and add").click()
    await expect(page.get_by_text("This key is good, and waits for its proof")).to_be_visible()


async def test_from_signing_up_to_the_first_signed_request(page, tmp_path):
    await sign_up(page)
    await upload(page, tmp_path)
    command = await copied(page, "the commands that send a signed request")
    answer = json.loads(run(command, tmp_path))
    assert answer["result"]["resultCode"] == "ORDER_NOT_EXIST"
    # The page notices by itself, and so does the list.
    await expect(page.get_by_text("About this key")).to_be_visible()
    await expect(page.get_by_text("1 in the last hour, 100 % of yours; 1 in all")).to_be_visible(
        timeout=LIVE_MS
    )
    payment = re.sub(r"BODY='.*'", f"BODY='{PAYMENT}'", command).replace("inquiryPayment", "createQROrder")
    answer = json.loads(run(payment, tmp_path))
    assert answer["result"]["resultStatus"] == "A"
    await page.get_by_role("link", name="Requests", exact=True).click()
    await page.get_by_role("link", name="With accepted ones").click()
    await expect(page.get_by_text(answer["paymentId"])).to_be_visible()
    assert json.loads(run(payment, tmp_path))["result"]["resultCode"] == "REPEAT_REQUEST"
    await expect(page.get_by_text("The paymentRequestId was used before").first).to_be_visible(
        timeout=LIVE_MS
    )


PAYMENT = json.dumps(
    {
        "bizType": "ORDER_CODE",
        "productCode": "51051000101000100031",
        "codeType": "CGCP",
        "paymentRequestId": "first-order",
        "paymentAmount": {"currency": "EUR", "value": 1999},
    },
    separators=(",", ":"),
)


async def test_a_key_is_rotated_by_the_guide(page, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    await sign_up(page)
    await page.get_by_role("link", name="Keys").click()
    await page.get_by_role("link", name="Add your first key").click()
    await page.go_back()
    await upload(page, old)
    first = await copied(page, "the commands that send a signed request")
    run(first, old)
    await expect(page.get_by_text("About this key")).to_be_visible()
    await page.get_by_role("link", name="← Keys").click()
    await upload(page, new)
    printed = run(await copied(page, "the command that signs the text"), new)
    await page.get_by_label("What the command printed").fill(printed)
    await page.get_by_role("button", name="Check the proof").click()
    await expect(page.get_by_text("Proved: keyVersion 2 is active.")).to_be_visible()
    await page.get_by_role("link", name="← Keys").click()
    await expect(
        page.get_by_text("In the last hour keyVersion 2 signed 0 % of your requests")
    ).to_be_visible()
    run(first.replace("keyVersion=1", "keyVersion=2"), new)
    await expect(page.get_by_text("keyVersion 2 signed 50 % of your requests")).to_be_visible(timeout=LIVE_MS)
    await expect(page.get_by_text("Not yet: it is still in use.")).to_be_visible()
    await page.get_by_role("link", name="keyVersion 1").click()
    await expect(page.get_by_text("It is still in use: 1 request in the last hour")).to_be_visible()
    await page.locator("summary", has_text="Deactivate keyVersion 1").click()
    await page.get_by_role("button", name="Deactivate now").click()
    await expect(page.locator("#sure-error")).to_contain_text("Say that you mean it")
    await page.get_by_label("I mean it").check()
    await page.get_by_role("button", name="Deactivate now").click()
    await expect(page.get_by_text("keyVersion 1 is deactivated")).to_be_visible()

    def refused() -> bool:
        return "is retired" in run(first, old)

    for _ in range(20):
        if refused():
            break
        await page.wait_for_timeout(100)
    assert refused()


async def test_a_private_key_does_not_leave_the_page(page, tmp_path):
    await sign_up(page)
    sent: list[str] = []
    await page.get_by_role("link", name="Add a key").click()
    page.on(
        "request", lambda request: sent.append(request.post_data or "") if request.method == "POST" else None
    )
    pem = run("openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048", tmp_path)
    await page.get_by_label("Public key", exact=True).fill(pem)
    await expect(page.locator(".verdict")).to_contain_text("That is a private key. It was not sent")
    await expect(page.get_by_label("Public key", exact=True)).to_have_value("")
    await page.get_by_label("Public key", exact=True).fill(pem)
    await page.get_by_role("button", name="Check and add").click()
    await expect(page.locator(".verdict")).to_contain_text("That is a private key. It was not sent")
    (tmp_path / "private-key.pem").write_text(pem)
    await page.get_by_label("Or the file it is in").set_input_files(tmp_path / "private-key.pem")
    await expect(page.locator(".verdict")).to_contain_text("It was not sent")
    await page.get_by_role("button", name="Check and add").click()
    await page.wait_for_timeout(300)
    assert [body for body in sent if pem.splitlines()[3] in body] == []


async def test_keys_work_without_javascript(chromium, url, tmp_path):
    async with opened_page(chromium, url, scripts=False) as page:
        await sign_up(page)
        await page.get_by_role("link", name="Add a key").click()
        run(
            "openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out private-key.pem",
            tmp_path,
        )
        public = run("openssl pkey -in private-key.pem -pubout", tmp_path)
        await page.get_by_label("Public key", exact=True).fill(public)
        await page.get_by_role("button", name="Check and add").click()
        run(
            await page.get_by_label("The commands that send a signed request", exact=True).inner_text(),
            tmp_path,
        )
        await page.reload()
        await expect(page.get_by_text("About this key")).to_be_visible()


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_fits_the_screen_and_can_be_read_by_eye_and_by_screen_reader(
    chromium, url, tmp_path, phone, dark
):
    async with opened_page(chromium, url, phone=phone, dark=dark) as page:
        found = {}

        async def look(what: str) -> None:
            problems = [*await overflow(page), *await contrast_problems(page), *await naming_problems(page)]
            if problems:
                found[what] = problems

        await sign_up(page)
        home = page.url
        for path in ("/keys", "/keys/new", "/requests", "/requests?show=all", "/requests/doctor"):
            await page.goto(home + path)
            await look(path)
        await page.goto(home + "/keys")
        await upload(page, tmp_path)
        await look("a pending key")
        command = await copied(page, "the commands that send a signed request")
        run(command, tmp_path)
        run(command.replace('-d "$BODY"', '-d "$BODY "'), tmp_path)
        await expect(page.get_by_text("About this key")).to_be_visible()
        await look("an active key")
        await page.goto(home + "/keys")
        await look("keys in use")
        await page.goto(home + "/requests")
        await expect(page.get_by_text("INVALID_SIGNATURE").first).to_be_visible(timeout=LIVE_MS)
        await look("refused requests")
        await page.locator("#list tbody a").first.click()
        await expect(page.get_by_text("Examined to the end")).to_be_visible()
        await look("a refused request")
        await page.get_by_role("link", name="Open in the doctor").click()
        await page.get_by_role("button", name="Examine").click()
        await expect(page.locator("#result")).to_be_focused()
        await look("the doctor's findings")
        assert found == {}
