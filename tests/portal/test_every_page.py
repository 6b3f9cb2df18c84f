"""Every page there is, with data on it, by the eyes of axe: light and wide, dark and on a phone."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from browser import LOOKS, axe_problems, opened_page, overflow, running_browser
from payaccept.sdk import Amount, Client, PaymentDeclined
from payaccept.wire.messages import DescribedOrder
from portal.test_access import MATRIX
from processes import Sandbox, wait_until

ROUTES = sorted(path for method, path in MATRIX if method == "GET")
# What a browser shows no page for, or only on the way to one.
NO_PAGES = {"/static/{name:str}", "/pay/{payment_id:str}/status", "/wallet/codes/{sealed:str}"}
# What needs an endpoint of its own to be there, and is looked at by the tests that have one.
ELSEWHERE = {"/m/{client_id:str}/webhooks/drill/{drill_id:str}"}
DOCUMENTS = ("/docs/webhooks", "/docs/api", "/docs/api/retailPay")
NOWHERE = "http://127.0.0.1:9/hooks"
PLANTED = "'\"><i/data-planted>&lt;{{7*7}}"
"""What becomes an element wherever it is not written as text."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox whose merchant has been used for a while."""
    options = ("--retry-schedule", "1,3600")
    with Sandbox(tmp_path_factory.mktemp("pages") / "data", *options) as started:
        yield started


@pytest.fixture(scope="module")
def told(sandbox: Sandbox) -> dict[str, str]:
    return json.loads((sandbox.data_dir / "demo-merchant.json").read_bytes())


@pytest.fixture(scope="module")
def names(sandbox: Sandbox, told: dict[str, str]) -> dict[str, str]:
    """Something for each name that a route has in its path, where no page links to it."""
    payment_id = use(sandbox, told)
    links = {
        "invitation": sandbox.cli("operator", "create", "--email", "new@pay.example")["url"],
        "new-password": password_link(sandbox, told),
    }
    event = wait_until(lambda: sandbox.cli("event", "list", told["clientId"])["events"], "an event is there")[
        0
    ]
    return {
        "client_id": told["clientId"],
        "payment_id": payment_id,
        "event_id": event["eventId"],
        "replay_id": replayed(sandbox, told["clientId"]),
        "key_version": "1",
        **{f"{name} token": url.rpartition("/")[2] for name, url in links.items()},
    }


def use(sandbox: Sandbox, told: dict[str, str]) -> str:
    """Take payments of each kind, and a request that is refused; returns a payment that waits."""
    usual: dict[str, Any] = {"product_code": "p", "amount": Amount("EUR", 4250), "notify_url": NOWHERE}
    order = DescribedOrder(order_description=f"Two pairs of running shoes, size 42, and laces {PLANTED}")
    with Client.from_file(sandbox.data_dir / "demo-merchant.json") as client:
        for number in range(3):
            client.retail_pay(payment_request_id=f"paid-{number}", auth_code=f"28{number:016}", **usual)
        declined = {"sandbox": {"outcome": "FAIL", "resultCode": "INSUFFICIENT_BALANCE"}}
        with pytest.raises(PaymentDeclined):
            client.retail_pay(
                payment_request_id="declined", auth_code="28" * 9, extend_info=declined, **usual
            )
        waiting = client.link_pay_create(
            payment_request_id=f"{PLANTED}{'-waiting' * 3}",
            order=order,
            extend_info={"sandbox": {"outcome": "MANUAL"}},
            **usual,
        )
    headers = {"Client-Id": told["clientId"], "Request-Time": "2026-01-31T12:00:00Z", "Signature": PLANTED}
    headers["User-Agent"] = PLANTED
    body = {"paymentRequestId": PLANTED}
    refused = httpx.post(f"{told['baseUrl']}/v1/payments/retailPay", json=body, headers=headers)
    assert refused.status_code == 401
    return urlsplit(str(waiting.redirect_url)).path.rpartition("/")[2]


def replayed(sandbox: Sandbox, client_id: str) -> str:
    """A replay that was stopped half-way, as a page and a worker leave it."""
    [[replay_id]] = sandbox.sql(
        "INSERT INTO replays (replay_id, client_id, state, beginning, until, statuses, rate_per_s, total, looked_at,"
        " resent, nowhere, started_by, created_at, updated_at, ended_at)"
        " VALUES ('rpl_1', %s, 'STOPPED', now() - interval '1 day', now(), '{DEAD}', 50, 9, 5, 4, 1, %s, now(), now(),"
        " now()) RETURNING replay_id",
        client_id,
        PLANTED,
    )
    return str(replay_id)


def password_link(sandbox: Sandbox, told: dict[str, str]) -> str:
    made = sandbox.cli("operator", "password-link", "--email", told["portalUser"])
    return str(made["url"])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


def pattern_of(route: str) -> re.Pattern[str]:
    parts = (
        (".+" if part.endswith(":path}") else "[^/]+") if part.startswith("{") else re.escape(part)
        for part in route.split("/")
    )
    return re.compile("/".join(parts))


def route_of(path: str) -> str | None:
    """The route that answers an address: of several, the one with the fewest names in it."""
    found = [route for route in ROUTES if pattern_of(route).fullmatch(path)]
    return min(found, key=lambda route: route.count("{"), default=None)


def filled(route: str, names: dict[str, str]) -> str | None:
    """An address of a route, when what its path names is known."""
    first = route.split("/")[1]

    def value(match: re.Match[str]) -> str:
        return names.get(f"{first} {match[1]}") or names.get(match[1]) or "{"

    path = re.sub(r"\{(\w+):\w+\}", value, route)
    return None if "{" in path else path


async def sign_in(page: Page, told: dict[str, str]) -> None:
    await page.goto("/sign-in")
    await page.get_by_label("E-mail address").fill(told["portalUser"])
    await page.get_by_label("Password").fill(told["portalPassword"])
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(re.compile("/(m|operator)(/|$)"))


async def become_staff(page: Page, sandbox: Sandbox, told: dict[str, str]) -> None:
    """One person in every role sees every page; and has a name that nobody should be called."""
    made = sandbox.cli("operator", "create", "--email", told["portalUser"])
    if "url" in made:
        await page.goto(made["url"])
        await page.get_by_role("button", name="Join").click()
    await page.goto("/account")
    await page.get_by_label("Name", exact=True).fill(f"Anna {PLANTED}")
    await page.get_by_role("button", name="Save name").click()


async def problems_of(page: Page) -> list[str]:
    found = [*await axe_problems(page), *await overflow(page)]
    found += await page.evaluate(
        """() => [...document.querySelectorAll("[data-planted]")].map((e) => "planted: " + e.parentElement.outerHTML)"""
    )
    found += await page.evaluate(
        """() => [...document.querySelectorAll(".table, .table :is(thead, tbody, tr, td, th)")]
            .filter((part) => !part.hasAttribute("role")).map((part) => "no role: " + part.outerHTML.slice(0, 80))"""
    )
    return found


class Walk:
    """One look at a page of every route, which finds its way by links."""

    def __init__(self, page: Page, names: dict[str, str]) -> None:
        self.page = page
        self.seen: dict[str, str] = {}
        self.found: dict[str, list[str]] = {}
        self._to_do = [path for route in ROUTES if (path := filled(route, names)) is not None]

    async def look(self, path: str, *, route: str) -> None:
        """Look at one page, and note where it links to."""
        self.seen[route] = path
        answer = await self.page.request.get(path)
        # Some pages ask for what their address leaves out.
        assert answer.ok or answer.status == 422, (path, answer.status)
        if not answer.headers.get("content-type", "").startswith("text/html"):
            return
        if urlsplit(answer.url).path != path:  # it leads to a page that has a look of its own
            self._to_do.append(urlsplit(answer.url).path)
            return
        await self.page.goto(path)
        problems = await problems_of(self.page)
        if problems:
            self.found[path] = problems
        links = await self.page.eval_on_selector_all("a[href]", "links => links.map(one => one.pathname)")
        self._to_do += sorted(set(links))

    async def everywhere(self) -> None:
        """Look at one page of each route."""
        while self._to_do:
            path = self._to_do.pop(0)
            route = route_of(path)
            if route is not None and route not in NO_PAGES and route not in self.seen:
                await self.look(path, route=route)


@pytest.mark.parametrize(("phone", "dark"), LOOKS)
async def test_every_page_can_be_read_by_everybody_and_fits_every_screen(
    chromium, sandbox, told, names, phone, dark
):
    async with opened_page(chromium, told["portalUrl"], phone=phone, dark=dark) as page:
        walk = Walk(page, names)
        for path in ("/", "/sign-in", "/sign-up", "/forgotten-password", f"/pay/{names['payment_id']}"):
            await walk.look(path, route=path)
        walk.seen.clear()  # to the signed-in they are others
        await sign_in(page, told)
        await become_staff(page, sandbox, told)
        await walk.everywhere()
        for path in DOCUMENTS:
            await walk.look(path, route="/docs/{path:path}")
    assert walk.found == {}, json.dumps(walk.found, indent=1)
    assert set(ROUTES) - walk.seen.keys() - NO_PAGES - ELSEWHERE == set(), (
        "no address of these is known or linked to"
    )
