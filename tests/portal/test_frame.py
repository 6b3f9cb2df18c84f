"""What surrounds every page: headers, errors, files, cookies, limits."""

import logging
import re
from ipaddress import ip_network

import pytest
from litestar import get

from deployment import run_sql
from payaccept.portal import access, app
from payaccept.portal.access import everyone
from payaccept.portal.assets import Assets
from payaccept.portal.edge import MAX_BODY_BYTES
from visitor import Visitor

POLICY = {
    "default-src": "'none'",
    "style-src": "'self'",
    "script-src": "'self'",
    "img-src": "'self'",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}


@pytest.mark.parametrize(
    "path", ["/", "/sign-in", "/nothing", "/m/sandbox_1", "/healthz", "/static/none.css"]
)
async def test_every_answer_makes_browsers_careful(portal, path):
    seen = await portal.visitor().get(path, follow=False)
    headers = seen.response.headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert re.fullmatch(r"req_[0-9a-f]{28}", headers["request-id"])
    assert "strict-transport-security" not in headers


async def test_behind_tls_browsers_are_told_to_stay_there_and_cookies_are_bound_to_the_host(open_portal):
    portal = await open_portal(web_base_url="https://portal.test")
    owner = await portal.owner()
    visitor = portal.visitor(base="https://portal.test")
    seen = await visitor.get("/sign-in")
    assert seen.response.headers["strict-transport-security"] == "max-age=31536000"
    seen = await visitor.send(
        seen, "/sign-in", email=owner.email, password="seven green lamps hum", follow=False
    )
    cookies = seen.response.headers.get_list("set-cookie")
    assert {cookie.partition("=")[0] for cookie in cookies} == {
        "__Host-session",
        "__Host-device",
        "__Host-form",
    }
    for cookie in cookies:
        assert "HttpOnly" in cookie
        assert "Secure" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie
        assert re.search("SameSite=(lax|strict)", cookie, re.IGNORECASE)


async def test_without_tls_cookies_have_plain_names_and_scripts_cannot_read_them(portal):
    seen = await portal.visitor().get("/sign-in")
    [cookie] = seen.response.headers.get_list("set-cookie")
    assert cookie.startswith("form=")
    assert "HttpOnly" in cookie
    assert "Secure" not in cookie


@pytest.mark.parametrize(
    "path", ["/nothing", "/m", "/static/portal.css", "/account/nothing", "/%00", "/..%2f"]
)
async def test_what_is_not_there_is_told_on_a_page_with_the_request_id(portal, path):
    seen = await portal.visitor().get(path, follow=False)
    assert seen.status == 404
    assert "Nothing here" in seen.text
    assert seen.response.headers["request-id"] in seen.text


async def test_texts_that_no_database_takes_are_refused_and_no_bug(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    token = (await visitor.get("/account")).forms[0].fields["csrf"]
    assert (await visitor.get("/account?x=%00")).status == 404
    assert (await visitor.post("/account/name", {"csrf": token, "name": "a\x00b"})).status == 400
    assert (await visitor.post("/account/sessions/%00/end", {"csrf": token})).status == 404
    for body in (b"csrf=" + token.encode() + b"&name=%ff%fe", b"\xff\xfe", b"=&=&&", b"csrf"):
        headers = {"content-type": "application/x-www-form-urlencoded"}
        answer = await visitor.client.post("/account/name", content=body, headers=headers)
        assert answer.status_code in {303, 403, 422}
    for kind in (
        "application/json",
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=x",
        "?",
    ):
        answer = await visitor.client.post("/account/name", content=b"{}", headers={"content-type": kind})
        assert answer.status_code in {400, 403}


async def test_a_wrong_method_is_told_on_a_page(portal):
    seen = await portal.visitor().post("/healthz", {})
    assert seen.status == 405
    assert "open the page again" in seen.text


async def test_a_bug_is_told_on_a_page_that_shows_nothing_of_the_inside(portal, monkeypatch, caplog):
    @get("/broken", guards=[everyone()])
    async def broken() -> str:
        raise RuntimeError("secret inside")

    module = type("Broken", (), {"routes": (broken,)})
    monkeypatch.setattr(app, "PAGES", (*app.PAGES, module))
    visitor = Visitor(portal.process.app())
    with caplog.at_level(logging.ERROR):
        seen = await visitor.get("/broken")
    await visitor.client.aclose()
    assert seen.status == 500
    assert "Something broke on our side" in seen.text
    assert "secret" not in seen.html
    assert "Traceback" not in seen.html
    request_id = seen.response.headers["request-id"]
    assert request_id in seen.text
    [record] = [one for one in caplog.records if one.message == "page failed"]
    assert record.requestId == request_id


async def test_a_database_that_is_away_is_told_on_a_page_and_nothing_is_lost(open_portal, fresh_database):
    url = fresh_database()
    portal = await open_portal(web_base_url="http://portal.test", database_url=url)
    owner = await portal.owner()
    visitor = await owner.browser()
    assert (await visitor.get(owner.home)).status == 200
    name = url.partition("?")[0].rpartition("/")[2]
    admin = portal.settings.database_url.replace(f"/{name}", "/postgres")
    run_sql(
        admin,
        f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",  # noqa: S608
    )
    seen = await visitor.get(owner.home)
    assert seen.status == 503
    assert seen.response.headers["retry-after"] == "2"
    assert "Nothing is lost" in seen.text
    assert (await visitor.get("/readyz")).status == 503
    assert (await visitor.get("/healthz")).status == 200
    run_sql(admin, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    for _ in range(50):
        if (seen := await visitor.get(owner.home)).status == 200:
            break
    assert (await visitor.get("/static/none")).status == 404


async def test_a_body_larger_than_any_form_is_refused_unread(portal):
    visitor = portal.visitor()
    seen = await visitor.post("/sign-in", {"email": "x" * (MAX_BODY_BYTES + 1)})
    assert seen.status == 413
    assert "larger than this page takes" in seen.text


async def test_files_have_names_of_their_content_and_may_be_kept_for_good(portal):
    visitor = portal.visitor()
    page = await visitor.get("/")
    paths = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.html)
    assert len(paths) == 3
    for path in paths:
        assert re.fullmatch(r"/static/[a-z]+\.[0-9a-f]{12}\.(css|js|svg)", path)
        seen = await visitor.get(path)
        assert seen.status == 200
        assert seen.response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "set-cookie" not in seen.response.headers


def test_files_name_no_address_elsewhere():
    for name, asset in Assets()._served.items():
        text = asset.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE), name
        assert "@import" not in text


async def test_no_page_has_code_or_style_in_it_and_none_is_over_60_kib(portal):
    owner = await portal.owner("<script>alert(1)</script> & Söhne")
    visitor = await owner.browser()
    for path in (
        "/",
        owner.home,
        f"{owner.home}/people",
        f"{owner.home}/people/invite",
        f"{owner.home}/audit",
    )[1:]:
        seen = await visitor.get(path)
        assert seen.status == 200
        assert "<script>alert" not in seen.html
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; Söhne" in seen.html
        assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", seen.html)
        assert not re.search(r"<script(?![^>]*\ssrc=)", seen.html)
        assert len(seen.response.content) < 60 * 1024


async def test_every_page_has_a_title_a_language_landmarks_and_a_way_past_the_navigation(portal):
    owner = await portal.owner()
    visitor = await owner.browser()
    for path in ("/account", owner.home, f"{owner.home}/people", f"{owner.home}/audit", "/nothing"):
        seen = await visitor.get(path)
        assert '<html lang="en">' in seen.html
        assert seen.title.endswith("payaccept")
        assert seen.html.count("<h1>") == 1
        assert '<a class="skip" href="#main">' in seen.html
        assert "main" in seen.ids
        assert len(seen.ids) == len(set(seen.ids))
        for name in re.findall(
            r'<(?:input|textarea)(?![^>]*type="(?:hidden|radio)")(?![^>]*hidden)[^>]*id="([^"]+)"', seen.html
        ):
            assert f'<label for="{name}">' in seen.html


def test_a_route_without_a_guard_keeps_the_portal_from_starting():
    @get("/open")
    async def unguarded() -> str:
        return ""

    @get("/twice", guards=[everyone(), everyone()])
    async def twice() -> str:
        return ""

    for handler in (unguarded, twice):
        with pytest.raises(TypeError, match="exactly one access guard"):
            access.require_access([handler])


async def test_the_address_behind_a_trusted_proxy_is_the_client_s(open_portal):
    portal = await open_portal(web_base_url="http://portal.test", trusted_proxies=(ip_network("10.0.0.0/8"),))
    owner = await portal.owner()
    visitor = portal.visitor("10.0.0.1")
    page = await visitor.get("/sign-in")
    fields = page.form("/sign-in").fields | {"email": owner.email, "password": "seven green lamps hum"}
    await visitor.post("/sign-in", fields, **{"x-forwarded-for": "203.0.113.1, 198.51.100.77"})
    assert "198.51.100.77" in (await visitor.get("/account")).text


async def test_pages_ask_search_engines_to_stay_away(portal):
    assert "Disallow: /" in (await portal.visitor().get("/robots.txt")).html
