"""A real browser on a real portal process: Chromium, driven by Playwright."""

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from payaccept.config import Settings
from processes import PAYACCEPT, environment, free_port, wait_until

PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 860}
LOOKS = [pytest.param(False, False, id="wide-light"), pytest.param(True, True, id="phone-dark")]
"""Phone and dark: the widths and the schemes, each once."""


def chromium() -> str:
    """Where Chromium is; without one the tests that need it are skipped, but in continuous integration they fail."""
    named = os.environ.get("PAYACCEPT_TESTS_CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        message = (
            "the browser's tests need Chromium: apt install chromium, or name one in PAYACCEPT_TESTS_CHROMIUM"
        )
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@contextmanager
def portal_process(settings: Settings, log: Path) -> Iterator[str]:
    """A running `payaccept portal` on a port of its own; yields where it is."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    told = {name: value for name, value in settings.to_environ().items() if value}
    env = environment(**told | {"PAYACCEPT_WEB_BASE_URL": url})
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*PAYACCEPT, "portal", "--port", str(port)], env=env, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_until(lambda: _answers(f"{url}/readyz"), "the portal is ready", 30)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own address
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Chromium, without a window."""
    path = chromium()
    async with async_playwright() as playwright:
        # As root, which containers run as, its sandbox is not possible.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened_page(
    browser: Browser,
    base_url: str,
    *,
    phone: bool = False,
    dark: bool = False,
    scripts: bool = True,
    expected: str | None = None,
) -> AsyncIterator[Page]:
    """A page of a fresh browser; whatever it complains of, but for what is expected, fails the test."""
    context: BrowserContext = await browser.new_context(
        base_url=base_url,
        viewport=PHONE if phone else WIDE,
        is_mobile=phone,
        has_touch=phone,
        device_scale_factor=2 if phone else 1,
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        locale="en-GB",
        timezone_id="Europe/Berlin",
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = await context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.set_default_timeout(10_000)
    try:
        yield page
    finally:
        await context.close()
    # A form with a mistake is answered by 4xx, which the console mentions.
    usual = ["the server responded with a status of 4", *([expected] if expected else [])]
    assert [one for one in complaints if not any(part in one for part in usual)] == []


async def overflow(page: Page) -> list[str]:
    """What is wider than the screen."""
    return await page.evaluate(
        """() => document.documentElement.scrollWidth <= innerWidth ? [] :
            [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
                .map(e => e.outerHTML.slice(0, 80))"""
    )


async def axe_problems(page: Page) -> list[str]:
    """What axe calls serious or worse: the rule, and the element that breaks it."""
    if not await page.evaluate("() => Boolean(window.axe)"):
        await page.evaluate(AXE_SCRIPT)
    return await page.evaluate(
        """async () => (await axe.run({ resultTypes: ["violations"] })).violations
            .filter((found) => ["serious", "critical"].includes(found.impact))
            .flatMap((found) => found.nodes.map((node) => `${found.id}: ${node.html.slice(0, 120)}`))"""
    )


async def contrast_problems(page: Page) -> list[str]:
    """Texts whose contrast with what is behind them is less than WCAG's 4.5 to 1, or 3 to 1 for large ones."""
    return await page.evaluate(
        """() => {
        const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const rgba = (css) => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = css;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
        };
        const luminance = ([r, g, b]) => {
            const [x, y, z] = [r, g, b].map((c) => {
                const s = c / 255;
                return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
            });
            return 0.2126 * x + 0.7152 * y + 0.0722 * z;
        };
        const behind = (element) => {
            for (let e = element; e; e = e.parentElement) {
                const colour = rgba(getComputedStyle(e).backgroundColor);
                if (colour[3] > 250) return colour;
            }
            return rgba(getComputedStyle(document.documentElement).colorScheme.includes("dark")
                && matchMedia("(prefers-color-scheme: dark)").matches ? "black" : "white");
        };
        const problems = [];
        for (const element of document.querySelectorAll("body *")) {
            const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
            const style = getComputedStyle(element);
            if (!own || style.visibility === "hidden" || !element.getClientRects().length) continue;
            if (element.closest(".visually-hidden, .skip, option")) continue;
            const [l1, l2] = [luminance(rgba(style.color)), luminance(behind(element))].sort((a, b) => b - a);
            const ratio = (l1 + 0.05) / (l2 + 0.05);
            const large = parseFloat(style.fontSize) >= 24;
            if (ratio < (large ? 3 : 4.5)) problems.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 90)}`);
        }
        return problems;
    }"""
    )


async def naming_problems(page: Page) -> list[str]:
    """Controls without a name, images without a text, headings out of order, ids that are there twice."""
    return await page.evaluate(
        """() => {
        const problems = [];
        const visible = (e) => e.getClientRects().length > 0;
        for (const e of document.querySelectorAll("a[href], button, summary")) {
            const name = e.getAttribute("aria-label") || e.textContent.trim();
            if (visible(e) && !name) problems.push("no name: " + e.outerHTML.slice(0, 90));
        }
        for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
            if (visible(e) && !e.labels.length && !e.getAttribute("aria-label")) {
                problems.push("no label: " + e.outerHTML.slice(0, 90));
            }
            for (const id of (e.getAttribute("aria-describedby") || "").split(" ").filter(Boolean)) {
                if (!document.getElementById(id)) problems.push("described by nothing: " + id);
            }
        }
        for (const e of document.querySelectorAll("svg")) {
            const named = e.closest("[role=img][aria-label]") || e.querySelector("title")
                || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby");
            if (e.getAttribute("aria-hidden") !== "true" && !named) {
                problems.push("a picture without a text: " + e.outerHTML.slice(0, 90));
            }
        }
        for (const e of document.querySelectorAll("table")) {
            if (!e.caption) problems.push("a table without a caption");
        }
        for (const e of document.querySelectorAll("nav, section")) {
            if (e.tagName === "NAV" && !e.getAttribute("aria-label")) problems.push("a nav without a label");
        }
        let last = 0;
        for (const e of document.querySelectorAll("h1, h2, h3, h4")) {
            if (!visible(e)) continue;
            const level = Number(e.tagName[1]);
            if (level > last + 1) problems.push("a heading skips a level: " + e.textContent.trim());
            last = level;
        }
        const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
        for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) problems.push("twice: #" + id);
        for (const landmark of ["main", "header"]) {
            if (document.querySelectorAll(landmark + ":not(.card *, section *)").length !== 1) {
                problems.push("not exactly one " + landmark);
            }
        }
        if (document.querySelectorAll("h1").length !== 1) problems.push("not exactly one h1");
        return problems;
    }"""
    )
