"""What docs/security.md promises of the portal, where no test of a page shows it already."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from argon2 import PasswordHasher

from deployment import fetch_all, settings_for
from payaccept.adapters.passwords import Argon2Passwords
from payaccept.domain import totp
from payaccept.domain.merchant import Environment
from payaccept.domain.user import Role
from payaccept.line_log import FLUSH_S, LineLog
from payaccept.portal.access import staff
from payaccept.portal.app import create_app, routes
from payaccept.portal.errors import NotAllowed
from payaccept.wiring import migrate
from portals import PASSWORD
from visitor import Visitor

SRC = Path(__file__).parents[2] / "src" / "payaccept"
PLANTED = "'\"><i data-planted>&lt;"


# Signing in


async def test_a_session_that_somebody_planted_is_not_taken_over(portal):
    owner = await portal.owner()
    visitor = portal.visitor()
    planted = "a" * 43
    visitor.client.cookies.set("session", planted, domain="portal.test", path="/")
    await visitor.sign_in(owner.email, PASSWORD)
    assert planted not in visitor.cookies.values()
    attacker = portal.visitor()
    attacker.client.cookies.set("session", planted, domain="portal.test", path="/")
    assert (await attacker.get("/account")).path == "/sign-in"


async def test_an_account_that_is_not_there_costs_the_same_work(portal):
    class Counting(PasswordHasher):
        count = 0

        def verify(self, *texts):
            self.count += 1
            return super().verify(*texts)

    owner = await portal.owner()
    sign_in, hasher = portal.services.sign_in, Counting(time_cost=1, memory_cost=8, parallelism=1)
    before, sign_in._passwords = sign_in._passwords, Argon2Passwords(hasher)
    try:
        for number, email in enumerate((owner.email, "nobody@example.com"), start=1):
            assert (await portal.visitor().sign_in(email, "guess guess guess")).status == 422
            assert hasher.count == number
    finally:
        await sign_in._passwords.close()
        sign_in._passwords = before


async def test_passwords_are_hashed_with_argon2id_at_its_second_profile_and_a_salt_each():
    passwords = Argon2Passwords()
    first, second = await passwords.hash(PASSWORD), await passwords.hash(PASSWORD)
    await passwords.close()
    for made in (first, second):
        assert made.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
        assert PASSWORD not in made
    assert first != second


async def test_a_long_password_is_compared_to_its_last_character(portal):
    owner = await portal.owner()
    password = "long lamps " * 11 + "hum 123"
    assert len(password) == 128
    visitor = await owner.browser()
    await visitor.fill("/account/password", "/account/password", current=PASSWORD, password=password)
    assert (await portal.visitor().sign_in(owner.email, password)).path == owner.home
    for other in (password + "x", password[:-1], password[:72], password.replace(" ", "", 1)):
        assert (await portal.visitor().sign_in(owner.email, other)).status == 422


async def test_password_managers_are_told_what_each_field_is_for(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    for path, wanted in (("/sign-in", ["current-password"]), ("/sign-up", ["new-password"])):
        seen = await portal.visitor().get(path)
        assert re.findall(r'type="password" autocomplete="([a-z-]+)"', seen.html) == wanted
        assert "onpaste" not in seen.html
    seen = await visitor.get("/account/password")
    assert re.findall(r'type="password" autocomplete="([a-z-]+)"', seen.html) == [
        "current-password",
        "new-password",
    ]
    script = (SRC / "portal/static/portal.js").read_text(encoding="utf-8")
    assert '"paste"' not in script


async def test_a_browser_keeps_nothing_of_a_session_but_its_cookie():
    script = (SRC / "portal/static/portal.js").read_text(encoding="utf-8")
    for name in ("localStorage", "sessionStorage", "indexedDB", "document.cookie", "eval(", "innerHTML"):
        assert name not in script


async def test_what_a_browser_held_of_the_pages_is_cleared_at_the_end(portal):
    visitor = await (await portal.owner()).browser()
    page = await visitor.get("/account")
    seen = await visitor.send(page, "/sign-out", follow=False)
    assert seen.response.headers["clear-site-data"] == '"cache"'


async def test_in_production_staff_needs_the_second_step(open_portal, empty_database, master_key_file):
    url = empty_database()
    await migrate(settings_for(url, master_key_file, environment=Environment.PRODUCTION))
    portal = await open_portal(
        web_base_url="http://portal.test", database_url=url, environment=Environment.PRODUCTION
    )
    employee = await portal.employee()
    token = (await employee.browser()).cookies["session"]
    viewer = await portal.services.sign_in.find_viewer(token, portal.clock(), in_use=True)
    with pytest.raises(NotAllowed, match="second step"):
        staff()._judge(viewer, None, portal.services)
    page = await (await employee.browser()).get("/account")
    assert "/account/second-factor" in page.links


# Requests


def addresses(owner) -> list[str]:
    """An address of every route that takes GET; what it names besides the merchant is not there."""
    paths = {path for handler in routes() if "GET" in handler.http_methods for path in handler.paths}
    filled = (path.replace("{client_id:str}", owner.client_id) for path in sorted(paths))
    return ["/".join("none" if part.startswith("{") else part for part in path.split("/")) for path in filled]


async def test_every_route_answers_with_careful_headers_and_nothing_about_the_server(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    for path in addresses(owner):
        seen = await visitor.get(path, follow=False, origin="https://evil.example")
        headers = seen.response.headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        kept = headers["cache-control"]
        assert kept == "no-store" or kept.startswith("private") or path.startswith(("/static/", "/docs")), (
            path
        )
        assert not any(name.startswith("access-control-") for name in headers), path
        assert not {"server", "x-powered-by"} & headers.keys(), path
        kind = headers.get("content-type", "")
        assert not kind.startswith("text/") or "charset=utf-8" in kind, path
        assert seen.response.content == b"" or kind, path


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "SPLICE"])
async def test_no_route_takes_another_method(portal, method):
    owner = await portal.owner()
    visitor = await owner.browser()
    for path in addresses(owner):
        answer = await visitor.client.request(method, path)
        assert answer.status_code in {404, 405}, (method, path)


async def test_a_method_is_what_the_request_line_says(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    token = (await visitor.get("/account")).forms[0].fields["csrf"]
    for name in ("x-http-method-override", "x-http-method", "x-method-override"):
        seen = await visitor.get("/sign-out", follow=False, **{name: "POST"})
        assert seen.status == 405
    seen = await visitor.get(f"/account/name?_method=POST&csrf={token}&name=Changed", follow=False)
    assert seen.status == 405
    assert (await visitor.get("/account")).path == "/account"


async def test_fields_that_a_form_has_not_change_nothing(portal, settings):
    owner = await portal.owner()
    visitor = await owner.browser()
    page = await visitor.get("/account")
    more = {"staff": "true", "email": "x@y.example", "user_id": "usr_1", "role": "owner", "has_totp": "1"}
    sent = page.form("/account/name").fields | more | {"name": "New name"}
    assert (await visitor.post("/account/name", sent)).status == 200
    account = await portal.services.users.get_account(owner.user_id)
    assert (account.user.name, account.user.email, account.user.staff) == ("New name", owner.email, False)
    colleague = await portal.colleague(owner, Role.VIEWER)
    theirs = await colleague.browser()
    page = await theirs.get("/account")
    await theirs.post("/account/name", page.form("/account/name").fields | more)
    query = f"SELECT role FROM memberships WHERE user_id = '{colleague.user_id}'"  # noqa: S608
    assert fetch_all(settings.database_url, query) == [("viewer",)]


async def test_a_field_that_comes_twice_or_from_elsewhere_does_not_slip_by_the_rules(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    token = (await visitor.get("/account")).forms[0].fields["csrf"]
    visitor.client.cookies.set("name", "From a cookie", domain="portal.test", path="/")
    twice = f"csrf={token}&name=&name={'x' * 81}"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    for path, body in (("/account/name", twice), ("/account/name?name=From+the+query", f"csrf={token}")):
        answer = await visitor.client.post(path, content=body.encode(), headers=headers)
        assert answer.status_code == 422
    account = await portal.services.users.get_account(owner.user_id)
    assert account.user.name == owner.name


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "portal.test@evil.example", "evil.example:x", "[", ""]
)
async def test_the_host_header_gets_into_no_page_and_no_link(portal, host):
    owner = await portal.owner()
    visitor = await owner.browser()
    for path in ("/", "/sign-in", owner.home, f"{owner.home}/people", "/docs/api/createQROrder", "/nothing"):
        seen = await visitor.get(path, follow=False, host=host, **{"x-forwarded-host": "evil.example"})
        assert "evil.example" not in seen.html
        assert "evil.example" not in seen.response.headers.get("location", "")
    page = await visitor.get(f"{owner.home}/people/invite")
    form = page.form(f"{owner.home}/people/invite")
    answer = await visitor.client.post(
        form.action,
        data=form.fields | {"email": f"h{len(host)}@example.com", "role": "viewer"},
        headers={"host": host, "x-forwarded-host": "evil.example"},
    )
    assert "http://portal.test/invitation/" in answer.text
    assert "evil.example" not in answer.text


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "Your role here is viewer"), (404, "There is no such page"), (405, "open the page again")],
)
async def test_an_error_is_a_page_with_a_way_on_and_an_id_and_nothing_of_the_inside(portal, status, words):
    owner = await portal.owner()
    visitor = await (await portal.colleague(owner, Role.VIEWER)).browser()
    path = {403: f"{owner.home}/keys/new", 404: f"{owner.home}/nothing", 405: "/sign-out"}[status]
    seen = await visitor.get(path)
    assert seen.status == status
    assert words in seen.text
    assert seen.response.headers["request-id"] in seen.text
    assert "/" in seen.links
    for inside in ("Traceback", "litestar", "psycopg", "/src/", "Exception"):
        assert inside not in seen.html


# Texts of others


async def test_names_addresses_and_browsers_are_shown_as_text_wherever_they_stand(portal):
    owner = await portal.owner(f"Shop {PLANTED}")
    visitor = await owner.browser()
    visitor.client.headers["user-agent"] = f"Mozilla/5.0 {PLANTED}"
    await visitor.fill("/account", "/account/name", name=f"Anna {PLANTED}")
    invite = f"{owner.home}/people/invite"
    await visitor.fill(invite, invite, email="o'hara+x&y@example.com", role="viewer")
    await visitor.fill("/account", "/sign-out")
    await visitor.sign_in(owner.email, PASSWORD)
    paths = ("/account", owner.home, f"{owner.home}/people", f"{owner.home}/audit", invite, "/merchants/new")
    seen = [await visitor.get(path) for path in paths]
    seen.append(await visitor.get(f"/docs/{PLANTED}?x={PLANTED}"))
    seen.append(await portal.visitor().get(f"/sign-in?next=/{PLANTED}"))
    seen.append(await portal.visitor().sign_in(PLANTED, "x"))
    for page in seen:
        assert "<i data-planted" not in page.html, page.path
    assert sum("data-planted" in page.text for page in seen) >= 4


def lines_of(written: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]


@pytest_asyncio.fixture(loop_scope="session")
async def logged(portal, tmp_path) -> AsyncIterator[tuple[Visitor, Path]]:
    """A browser at a portal that logs to a file; the file is whole once the fixture's log is closed."""
    written = tmp_path / "log"
    with written.open("wb") as file:
        log = LineLog("page", file.fileno())
        log.start()
        visitor = Visitor(create_app(portal.services, portal.process, log))
        yield visitor, written
        await visitor.client.aclose()
        await log.close()


async def test_a_log_line_holds_what_was_sent_and_is_still_one_line(logged):
    visitor, written = logged
    await visitor.get('/x%0A{"event":"forged"}%0D%0A%1B[31m%E2%80%A8')
    await asyncio.sleep(2 * FLUSH_S)
    [line] = lines_of(written)
    assert line["event"] == "page"
    assert 'x\n{"event":"forged"}\r\n' in str(line["path"])


async def test_no_password_code_token_or_cookie_is_in_the_log_and_who_asked_is(portal, logged, caplog):
    owner = await portal.owner()
    visitor, written = logged
    await visitor.sign_in(owner.email, "wrong wrong wrong")
    await visitor.sign_in(owner.email, PASSWORD)
    page = await visitor.fill("/account/second-factor", "/account/second-factor", current=PASSWORD)
    [secret] = re.findall(r'data-copy="((?:[A-Z2-7]{4} ?){8})"', page.html)
    secret = secret.replace(" ", "")
    code = totp.code_at(secret, portal.clock())
    done = await visitor.send(page, "/account/second-factor/on", code=code)
    codes = re.findall(r"<li>([A-Z2-9]{5}-[A-Z2-9]{5})</li>", done.html)
    assert len(codes) == 10
    await visitor.get(f"{owner.home}x")
    await asyncio.sleep(2 * FLUSH_S)
    told = written.read_text(encoding="utf-8") + caplog.text
    csrf = page.forms[0].fields["csrf"]
    for text in (PASSWORD, "wrong wrong", secret, csrf, *codes, *visitor.cookies.values()):
        assert text not in told
    [refused] = [line for line in lines_of(written) if line["path"] == f"{owner.home}x"]
    assert (refused["status"], refused["user"]) == (404, owner.user_id)


def test_nothing_runs_code_or_opens_objects_that_came_from_outside():
    banned = re.compile(
        r"(?<![.\w])(eval|exec)\(|\b(import|from) (pickle|marshal|shelve|xml)\b|os\.system|shell=True"
    )
    for file in SRC.rglob("*.py"):
        assert not banned.search(file.read_text(encoding="utf-8")), file


def test_templates_mark_nothing_as_safe_but_their_own_words():
    for file in (SRC / "portal/templates").rglob("*.html"):
        for marked in re.findall(r"\{\{[^}]*\|\s*safe[^}]*\}\}", file.read_text(encoding="utf-8")):
            assert re.match(r"""\{\{ *'[^'{}]*'\|safe( if .*)?\}\}""", marked), (file.name, marked)
