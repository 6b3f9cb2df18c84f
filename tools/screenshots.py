"""Pictures of the portal's pages, wide and on a phone, light and dark: `make screenshots`.

It starts a sandbox of its own, and writes to `build/screenshots`, or to the directory that is given. Further
arguments are parts of names: `make screenshots ARGS="/tmp/shots home people"` takes only those.
"""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, Page

from browser import opened_page, overflow, running_browser
from payaccept.sdk import Amount, Client
from payaccept.wire.messages import DescribedOrder
from processes import PAYACCEPT, Sandbox

Steps = Callable[[Page, "Visit"], Awaitable[None]]
LOOKS = [(phone, dark) for phone in (False, True) for dark in (False, True)]


class Visit:
    """One browser, and the demo merchant's owner, who signs in when a page asks for it."""

    def __init__(self, told: dict[str, Any], look: int) -> None:
        self.home = f"/m/{told['clientId']}"
        self.user = told["portalUser"]
        self.password = told["portalPassword"]
        self.look = look
        self.credentials = told["credentials"]
        self.endpoint = told["endpoint"]
        self._is_in = False
        self._is_staff = False

    def bill(self) -> str:
        """Make a payment that waits for its customer; returns the address of its page."""
        with Client.from_file(self.credentials) as client:
            answer = client.link_pay_create(
                payment_request_id=f"picture-{uuid.uuid4()}",
                amount=Amount("EUR", 4250),
                product_code="51051000101000100031",
                order=DescribedOrder(order_description="Two pairs of running shoes, size 42"),
                redirect_url="https://shop.example/thanks",
                extend_info={"sandbox": {"outcome": "MANUAL"}},
            )
        return urlsplit(str(answer.redirect_url)).path

    def join_the_staff(self) -> None:
        """Open the operator's area to the demo merchant's owner."""
        if not self._is_staff:
            directory = str(self.credentials.parent)
            command = [*PAYACCEPT, "operator", "create", "--email", self.user, "--data-dir", directory]
            subprocess.run(command, check=True, capture_output=True)
            self._is_staff = True

    def sale(self) -> str:
        """Make a payment at a till, whose webhook finds nobody; returns its paymentRequestId."""
        request_id = f"picture-{uuid.uuid4()}"
        with Client.from_file(self.credentials) as client:
            client.retail_pay(
                payment_request_id=request_id,
                amount=Amount("EUR", 1999),
                product_code="51051000101000100031",
                auth_code="281012020262467128",
                notify_url="http://127.0.0.1:9/hooks/payaccept",
            )
        return request_id

    async def sign_in(self, page: Page) -> None:
        if self._is_in:
            return
        await page.goto("/sign-in")
        await page.get_by_label("E-mail address").fill(self.user)
        await page.get_by_label("Password").fill(self.password)
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(re.compile("/m/|/operator"))
        self._is_in = True


def at(path: str) -> Steps:
    """A page of everybody's."""

    async def steps(page: Page, _visit: Visit) -> None:
        await page.goto(path)

    return steps


def own(path: str) -> Steps:
    """A page of the signed-in; `{home}` is the merchant's."""

    async def steps(page: Page, visit: Visit) -> None:
        await visit.sign_in(page)
        await page.goto(path.format(home=visit.home))

    return steps


def operators(path: str) -> Steps:
    """A page of the operator's area; `{client_id}` is the demo merchant's."""

    async def steps(page: Page, visit: Visit) -> None:
        await visit.sign_in(page)
        await asyncio.to_thread(visit.join_the_staff)
        await page.goto(path.format(client_id=visit.home.removeprefix("/m/")))

    return steps


async def payment(page: Page, visit: Visit) -> None:
    await visit.sign_in(page)
    request_id = visit.sale()
    await page.goto(f"{visit.home}/payments?id={request_id}")
    await page.get_by_text("Delivery attempt 1").wait_for()


async def mistaken_sign_up(page: Page, _visit: Visit) -> None:
    await page.goto("/sign-up")
    await page.get_by_label("Merchant").fill("Café Ünder")
    await page.get_by_label("Your name").fill("Anna Ünder")
    await page.get_by_label("E-mail address").fill("anna@example")
    await page.get_by_label("Password").fill("password1234")
    await page.eval_on_selector("main form", "form => { form.noValidate = true; }")
    await page.get_by_role("button", name="Create merchant").click()


async def invited(page: Page, visit: Visit) -> None:
    await visit.sign_in(page)
    await page.goto(f"{visit.home}/people/invite")
    await page.get_by_label("E-mail address").fill(f"zoe.{visit.look}@shop.example")
    await page.get_by_label("Developer").check()
    await page.get_by_role("button", name="Make the invitation").click()


async def person(page: Page, visit: Visit) -> None:
    await visit.sign_in(page)
    await page.goto(f"{visit.home}/people")
    await page.get_by_role("link", name="Change Demo owner").click()
    await page.locator("summary").click()


async def scan(page: Page, visit: Visit) -> None:
    await visit.sign_in(page)
    await page.goto("/account/second-factor")
    await page.get_by_label("Present password").fill(visit.password)
    await page.get_by_role("button", name="Continue").click()


async def set_endpoint(page: Page, visit: Visit, url: str) -> None:
    await visit.sign_in(page)
    await page.goto(f"{visit.home}/webhooks")
    change = page.locator("summary", has_text="Change or remove")
    if await change.count():
        await change.click()
    await page.get_by_role("textbox", name="Address of your endpoint").fill(url)
    await page.get_by_role("button", name=re.compile("^(Set|Change) the endpoint")).click()


async def webhook_test(page: Page, visit: Visit) -> None:
    await set_endpoint(page, visit, "http://127.0.0.1:9/hooks/payaccept")
    await page.get_by_role("button", name="Send a test event").click()
    await page.get_by_text("No answer").wait_for()


async def drilled(page: Page, visit: Visit) -> None:
    """A drill of an endpoint that believes everything; there is one for all looks."""
    await set_endpoint(page, visit, visit.endpoint)
    await page.goto(f"{visit.home}/webhooks/drill")
    starter = page.get_by_role("button", name="Start the drill")
    if await starter.count():
        await starter.click()
    await page.get_by_text("What your endpoint did").wait_for()


async def bill(page: Page, visit: Visit) -> None:
    await page.goto(visit.bill())


async def paid_bill(page: Page, visit: Visit) -> None:
    await page.goto(visit.bill())
    await page.get_by_role("button", name="Approve").click()
    await page.get_by_role("link", name="Stay here").click()


async def declined_bill(page: Page, visit: Visit) -> None:
    await page.goto(visit.bill())
    await page.get_by_label("Or decline, because").select_option("INSUFFICIENT_BALANCE")
    await page.get_by_role("button", name="Decline").click()
    await page.get_by_role("link", name="Stay here").click()


# Named as the files are; a page that is added has its line here. Those of the signed-in come last.
PICTURES: dict[str, Steps] = {
    "front": at("/"),
    "sign-in": at("/sign-in"),
    "sign-up": at("/sign-up"),
    "sign-up-mistakes": mistaken_sign_up,
    "not-found": at("/nothing"),
    "customer": bill,
    "customer-paid": paid_bill,
    "customer-declined": declined_bill,
    "wallet": at("/wallet"),
    "docs": at("/docs"),
    "docs-signing": at("/docs/signing"),
    "docs-operation": at("/docs/api/createQROrder"),
    "home": own("{home}"),
    "payments": own("{home}/payments"),
    "payments-mistakes": own("{home}/payments?amount=12,345.678&currency=EUR&from=yesterday"),
    "payment": payment,
    "webhook": webhook_test,
    "webhooks": own("{home}/webhooks"),
    "replay": own("{home}/webhooks/replay"),
    "reports": own("{home}/reports"),
    "keys": own("{home}/keys"),
    "key-new": own("{home}/keys/new"),
    "key": own("{home}/keys/1"),
    "drill-new": own("{home}/webhooks/drill"),
    "drill": drilled,
    "requests": own("{home}/requests"),
    "requests-all": own("{home}/requests?show=all"),
    "doctor": own("{home}/requests/doctor"),
    "invite": own("{home}/people/invite"),
    "invited": invited,
    "people": own("{home}/people"),
    "person": person,
    "audit": own("{home}/audit"),
    "account": own("/account"),
    "password": own("/account/password"),
    "second-factor": scan,
    "operator": operators("/operator"),
    "operator-merchants": operators("/operator/merchants"),
    "operator-merchant": operators("/operator/merchants/{client_id}"),
    "operator-settings": operators("/operator/merchants/{client_id}/settings"),
    "operator-merchant-key": operators("/operator/merchants/{client_id}/keys/1"),
    "operator-payments": operators("/operator/payments"),
    "operator-deliveries": operators("/operator/deliveries"),
    "operator-keys": operators("/operator/keys"),
    "operator-key": operators("/operator/keys/1"),
    "operator-audit": operators("/operator/audit"),
}


async def take(browser: Browser, told: dict[str, Any], directory: Path, wanted: list[str]) -> None:
    for look, (phone, dark) in enumerate(LOOKS):
        visit = Visit(told, look)
        kind = f"{'phone' if phone else 'wide'}-{'dark' if dark else 'light'}"
        async with opened_page(browser, told["portalUrl"], phone=phone, dark=dark) as page:
            for name, steps in PICTURES.items():
                if wanted and not any(part in name for part in wanted):
                    continue
                await steps(page, visit)
                await page.screenshot(path=directory / f"{name}-{kind}.png", full_page=True)
                for element in await overflow(page):
                    print(f"{name}-{kind}: wider than the screen: {element}", file=sys.stderr)
        print(kind)


class Careless(BaseHTTPRequestHandler):
    """An endpoint that acknowledges whatever comes."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


async def main(directory: Path, wanted: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing else goes on
    with (
        tempfile.TemporaryDirectory(prefix="payaccept-screenshots-") as made,
        Sandbox(Path(made) / "data") as sandbox,
        ThreadingHTTPServer(("127.0.0.1", 0), Careless) as endpoint,
    ):
        Thread(target=endpoint.serve_forever, daemon=True).start()
        credentials = sandbox.data_dir / "demo-merchant.json"
        told = json.loads(credentials.read_bytes()) | {"credentials": credentials}
        told["endpoint"] = f"http://127.0.0.1:{endpoint.server_port}/hooks"
        async with running_browser() as browser:
            await take(browser, told, directory, wanted)


if __name__ == "__main__":
    given = sys.argv[1:] or ["build/screenshots"]
    asyncio.run(main(Path(given[0]), given[1:]))
