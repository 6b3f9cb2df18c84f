"""`/docs`: every document with its links, and the reference of the API."""

import html
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import pytest
import pytest_asyncio

from payaccept.portal.library import Library, library, project_root
from payaccept.portal.markdown import render
from payaccept.portal.reference import PLACEHOLDER
from payaccept.wire.codes import ResultCode
from visitor import Seen, Visitor

ROOT = Path(__file__).parents[2]
DESCRIBED = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
OPERATIONS = {
    path.rpartition("/")[2]: item["post"] for path, item in DESCRIBED["paths"].items() if "post" in item
}
DOCUMENTS = sorted(library().documents)
PAGES = [*DOCUMENTS, "/docs/api", "/docs/api/webhook", *(f"/docs/api/{name}" for name in OPERATIONS)]


@pytest.fixture
def reader(portal) -> Visitor:
    return portal.visitor()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def developer(portal):
    return await portal.owner()


@pytest.fixture(scope="module")
def followed() -> dict[str, Seen]:
    """The pages that links have led to."""
    return {}


# Documents


def test_every_document_of_the_project_has_a_page():
    written = {
        *ROOT.glob("docs/**/*.md"),
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
    }
    assert {ROOT / document.source for document in library().documents.values()} == written
    assert len(DOCUMENTS) == len(written)


def test_no_link_of_a_document_leads_nowhere():
    assert library().broken == []


def test_the_contents_name_every_document_once():
    listed = [entry.address for entry in library().order]
    assert len(set(listed)) == len(listed)
    apart = {address for address in DOCUMENTS if address.startswith("/docs/decisions/")} | {"/docs"}
    assert {*listed, *apart} == {*DOCUMENTS, "/docs/api"}


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_whole_and_every_link_on_it_leads_somewhere(reader, followed, path):
    page = await reader.get(path)
    assert page.status == 200
    assert len(re.findall("<h1>", page.html)) == 1
    assert page.title.endswith(" · payaccept")
    assert "<!--" not in page.html
    assert "&lt;!--" not in page.html
    assert len(set(page.ids)) == len(page.ids)
    current = re.findall(r'<a [^>]*href="([^"]+)" aria-current="page"', page.html)
    assert set(current) == {path}
    for link in {html.unescape(link) for link in page.links}:
        where, anchor = urldefrag(urljoin(f"http://portal.test{path}", link))
        if not where.startswith("http://portal.test/"):
            assert link.startswith(("https://", "http://"))
            continue
        target = followed.get(where) or await reader.get(where.removeprefix("http://portal.test"))
        followed[where] = target
        assert target.status == 200, link
        if anchor and target.path.startswith("/docs") and "html" in target.response.headers["content-type"]:
            assert anchor in target.ids, link


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_loads_nothing_from_elsewhere_and_has_no_inline_code(reader, path):
    page = await reader.get(path)
    loaded = re.findall(r'(?:\bsrc|<link[^>]*? href)="([^"]+)"', page.html)
    assert loaded
    assert all(address.startswith("/static/") for address in loaded)
    assert not re.search(r"<script(?! src)|<style|<[^>]+ style=|<[^>]+ on\w+=|<iframe|<object", page.html)


async def test_the_index_shows_what_each_document_is_about(reader):
    page = await reader.get("/docs")
    for shelf in library().shelves:
        assert shelf.label in page.text
        for entry in shelf.entries:
            assert entry.label in page.text
    assert "payaccept accepts payments for merchants" in page.text


async def test_links_between_documents_lead_to_their_pages(reader):
    page = await reader.get("/docs/getting-started")
    assert "/docs/configuration#where-it-runs" in page.links
    assert "/docs/api" in page.links
    assert "/docs/files/LICENSE" in page.links
    assert not [link for link in page.links if link.endswith(".md") or ".md#" in link]


async def test_code_has_its_language_and_outputs_are_told_from_what_one_types(reader):
    page = await reader.get("/docs/getting-started")
    assert '<code class="language-sh">' in page.html
    assert '<div class="code output"><p class="caption">Output</p>' in page.html
    assert '<p class="caption">Terminal 2</p>' in page.html
    assert '<p class="caption">first_payment.py</p>' in page.html


async def test_one_can_turn_the_pages(reader):
    order = [entry.address for entry in library().order if entry.address in DOCUMENTS]
    page = await reader.get(order[0])
    [following] = re.findall(r'href="([^"]+)" rel="next"', page.html)
    assert following == library().order[1].address
    back = await reader.get(following)
    assert re.findall(r'href="([^"]+)" rel="prev"', back.html) == [order[0]]


# Files


async def test_files_that_documents_link_to_are_served_as_they_are(reader):
    for name in ("LICENSE", "tests/vectors/vectors.json", "tests/vectors/vectors-only-public-key.pem"):
        page = await reader.get(f"/docs/files/{name}")
        assert page.response.content == (ROOT / name).read_bytes()
        assert page.response.headers["x-content-type-options"] == "nosniff"
        assert page.response.headers["content-type"].startswith(("text/plain", "application/json"))


@pytest.mark.parametrize(
    "path",
    [
        "/docs/nothing",
        "/docs/api/nothing",
        "/docs/api/healthz",
        "/docs/README.md",
        "/docs/files/pyproject.toml",
        "/docs/files/docs/signing.md",
        "/docs/files/../../etc/passwd",
        "/docs/files/%2e%2e/%2e%2e/etc/passwd",
        "/docs/..%2f..%2fetc/passwd",
        "/docs/signing/more",
        "/docs/files/",
        "/docs//etc/passwd",
    ],
)
async def test_nothing_else_is_served(reader, path):
    assert (await reader.get(path)).status == 404


# The reference


def members_of(schema: dict) -> set[str]:
    """The names of a schema's members, and of theirs."""
    if "$ref" in schema:
        found = DESCRIBED
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    names = set()
    for name, inner in schema.get("properties", {}).items():
        names |= {name} | members_of(inner)
    return names


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_is_described_with_its_members_answers_and_examples(reader, name):
    described = OPERATIONS[name]
    page = await reader.get(f"/docs/api/{name}")
    text = html.unescape(re.sub(r"<[^>]+>", "", page.html))
    assert f"POST http://127.0.0.1:8080/v1/payments/{name}" in page.text
    body = described["requestBody"]["content"]["application/json"]
    answer = described["responses"]["200"]["content"]["application/json"]
    for member in members_of(body["schema"]) | members_of(answer["schema"]):
        assert f"<code>{member}</code>" in page.html
    for example in [*body["examples"].values(), *answer["examples"].values()]:
        assert json.dumps(example["value"], indent=2, ensure_ascii=False) in text
    for status in described["responses"]:
        assert f"answer-{status}" in page.ids
    for header in ("Client-Id", "Request-Time", "Signature"):
        assert f"<code>{header}</code>" in page.html


async def test_bounds_are_told_in_words(reader):
    page = await reader.get("/docs/api/createQROrder")
    for told in (
        "1 to 64 characters; visible ASCII characters, no blanks; for example",
        "1 to 999,999,999,999",
        "three capital letters",
        "at most 256 characters",
        "one of FAIL, MANUAL, SUCCESS, UNKNOWN; default SUCCESS",
        "ORDER_CODE",
    ):
        assert told in page.html
    inquiry = await reader.get("/docs/api/inquiryPayment")
    assert "At least one of <code>paymentId</code> and <code>paymentRequestId</code>." in inquiry.html


async def test_every_result_code_has_its_row_and_answers_link_to_it(reader):
    page = await reader.get("/docs/api")
    assert {*ResultCode} <= set(page.ids)
    retail = await reader.get("/docs/api/retailPay")
    assert '<a href="/docs/api#INSUFFICIENT_BALANCE">' in retail.html


async def test_the_webhook_is_described_with_its_headers_body_and_how_to_answer(reader):
    page = await reader.get("/docs/api/webhook")
    for member in members_of(DESCRIBED["components"]["schemas"]["Notification"]):
        assert f"<code>{member}</code>" in page.html
    for header in ("Event-Id", "Delivery-Attempt", "Retry-After"):
        assert f"<code>{header}</code>" in page.html
    assert "What you answer" in page.text


async def test_the_examples_name_the_readers_own_client_id(developer):
    browser = await developer.browser()
    for path in ("/docs/api/createQROrder", "/docs/api/webhook", "/docs/api"):
        page = await browser.get(path)
        assert developer.client_id in page.html
        assert PLACEHOLDER not in page.html
    curl = await browser.get("/docs/api/retailPay")
    assert f"-H 'Client-Id: {developer.client_id}'" in html.unescape(curl.html)


async def test_without_a_session_the_examples_name_nobody(reader):
    page = await reader.get("/docs/api/createQROrder")
    assert f"-H 'Client-Id: {PLACEHOLDER}'" in html.unescape(page.html)
    assert "/sign-in?next=/docs/api/createQROrder" in page.links


# Caches


async def test_strangers_pages_may_be_kept_and_are_not_sent_twice(reader):
    page = await reader.get("/docs/signing")
    headers = page.response.headers
    assert headers["cache-control"] == "public, max-age=300"
    assert headers["vary"] == "Cookie"
    again = await reader.get("/docs/signing", **{"If-None-Match": headers["etag"]})
    assert again.status == 304
    assert again.response.content == b""
    assert (await reader.get("/docs/webhooks", **{"If-None-Match": headers["etag"]})).status == 200


async def test_a_members_pages_are_kept_by_their_browser_alone(developer):
    browser = await developer.browser()
    headers = (await browser.get("/docs/api")).response.headers
    assert headers["cache-control"] == "private, no-cache"
    assert (await browser.get("/docs/api", **{"If-None-Match": headers["etag"]})).status == 304


# The wheel


def test_the_wheel_holds_what_the_pages_show(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    packed = Library(zipfile.Path(wheel, "payaccept/documents/"))
    assert packed.documents == library().documents
    assert packed.broken == []
    assert (
        zipfile.Path(wheel, "payaccept/documents/openapi.json").read_bytes()
        == (ROOT / "openapi.json").read_bytes()
    )


def test_in_a_checkout_the_originals_are_shown():
    assert (project_root() / "README.md").read_bytes() == (ROOT / "README.md").read_bytes()


# Markdown


def test_html_in_a_document_is_text_and_a_comment_is_nothing():
    made = render(
        "# T\n\n<script>alert(1)</script>\n\n<!-- c -->\n\na <b onclick=x>b</b> <!-- d -->\n",
        lambda link: link,
    )
    assert "<script" not in made.html
    assert "<b" not in made.html
    assert "&lt;script&gt;" in made.html
    assert "c -->" not in made.html
    assert "d -->" not in made.html


def test_headings_have_the_anchors_that_code_forges_give_them():
    made = render("# T\n\n## Run it\n\n### `code` & more, *now*\n\n## Run it\n", lambda link: link)
    assert [heading.anchor for heading in made.headings] == ["run-it", "code--more-now", "run-it-1"]
    assert made.title == "T"
    assert "<h1" not in made.html


def test_a_link_that_leads_nowhere_is_text():
    made = render(
        "# T\n\n[there](nowhere.md) and [here](#t)\n", lambda link: link if link.startswith("#") else None
    )
    assert "<a>there</a>" in made.html
    assert '<a href="#t">here</a>' in made.html


def test_a_table_without_a_head_has_none():
    made = render("| | |\n|---|---|\n| a | b |\n", lambda link: link)
    assert "<thead" not in made.html
    assert "<td>a</td>" in made.html
