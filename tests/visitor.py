"""Somebody with a browser, without the browser: pages are opened, forms filled in and sent as they stand."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html.parser import HTMLParser
from typing import Self

import httpx
from litestar.types import ASGIApp

BASE = "http://portal.test"


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: datetime

    def __call__(self) -> datetime:
        """Read it."""
        return self.now

    def move(self, **by: float) -> None:
        """Move it on."""
        self.now += timedelta(**by)


@dataclass
class HtmlForm:
    """A form of a page: where it goes, and its fields as they were filled in by the page."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    multipart: bool = False


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[HtmlForm] = []
        self.text: list[str] = []
        self.title = ""
        self.links: list[str] = []
        self.ids: list[str] = []
        self._form: HtmlForm | None = None
        self._area: str | None = None
        self._select: str | None = None
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        a = {name: value or "" for name, value in attrs}
        if "id" in a:
            self.ids.append(a["id"])
        if tag == "a" and "href" in a:
            self.links.append(a["href"])
        if tag == "title":
            self._in_title = True
        if tag == "form":
            self._form = HtmlForm(a.get("action", ""), a.get("method", "get"))
            self._form.multipart = a.get("enctype") == "multipart/form-data"
            self.forms.append(self._form)
        if self._form is None or "name" not in a:
            if tag == "option" and self._form is not None and self._select and "selected" in a:
                self._form.fields[self._select] = a.get("value", "")
            return
        name = a["name"]
        kind = a.get("type", "text")
        if tag == "input" and kind == "file":
            self._form.files.add(name)
        elif tag == "input" and kind in {"radio", "checkbox"}:
            if "checked" in a:
                self._form.fields[name] = a.get("value", "on")
        elif tag == "input":
            self._form.fields[name] = a.get("value", "")
        elif tag == "textarea":
            self._area = name
            self._form.fields[name] = ""
        elif tag == "select":
            self._select = name
            self._form.fields.setdefault(name, "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None
        elif tag == "title":
            self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        if self._area is not None and self._form is not None:
            self._form.fields[self._area] += data.removeprefix("\n")
        elif data.strip():
            self.text.append(data.strip())


@dataclass
class Seen:
    """A page as it was seen."""

    response: httpx.Response

    def __post_init__(self) -> None:
        reader = _Reader()
        if "html" in self.response.headers.get("content-type", ""):
            reader.feed(self.response.text)
        self.forms = reader.forms
        self.text = " ".join(reader.text)
        self.title = reader.title
        self.links = reader.links
        self.ids = reader.ids

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.response.status_code

    @property
    def html(self) -> str:
        """The page's source."""
        return self.response.text

    @property
    def path(self) -> str:
        """Where one ended up."""
        return self.response.url.path

    def form(self, action: str) -> HtmlForm:
        """The form that goes to an address; an action that ends with `*` is matched by its beginning."""
        for form in self.forms:
            where = form.action.partition("?")[0]
            if where == action or (action.endswith("*") and where.startswith(action[:-1])):
                return form
        raise AssertionError(f"no form goes to {action}: {[form.action for form in self.forms]}")


class Visitor:
    """One browser: its cookies, its address, and what it says about the pages that send its forms."""

    def __init__(self, app: ASGIApp, *, address: str = "192.0.2.7", base: str = BASE) -> None:
        self.base = base
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, client=(address, 4711), raise_app_exceptions=False),
            base_url=base,
            headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies it holds."""
        return {cookie.name: cookie.value or "" for cookie in self.client.cookies.jar}

    async def get(self, path: str, *, follow: bool = True, **headers: str) -> Seen:
        """Open a page."""
        return Seen(await self.client.get(path, follow_redirects=follow, headers=headers))

    async def post(
        self,
        path: str,
        fields: dict[str, str],
        *,
        follow: bool = True,
        origin: str | None = BASE,
        **headers: str,
    ) -> Seen:
        """Send fields as they are, without a look at a form."""
        if origin is not None:
            headers["Origin"] = origin
        return Seen(await self.client.post(path, data=fields, follow_redirects=follow, headers=headers))

    async def send(self, seen: Seen, action: str, *, follow: bool = True, **fields: str) -> Seen:
        """Fill a form of a page in, and send it."""
        form = seen.form(action)
        unknown = fields.keys() - form.fields.keys() - _choices(seen)
        assert not unknown, f"{action} has no {unknown}"
        return await self.post(form.action, form.fields | fields, follow=follow, origin=self.base)

    async def fill(self, path: str, action: str, **fields: str) -> Seen:
        """Open a page, fill a form of it in, and send it."""
        return await self.send(await self.get(path), action, **fields)

    async def sign_in(self, email: str, password: str) -> Seen:
        """Sign in by the form."""
        return await self.fill("/sign-in", "/sign-in", email=email, password=password)


def _choices(seen: Seen) -> set[str]:
    """The names of choices of which none is made yet."""
    return set(re.findall(r'type="(?:radio|checkbox)" name="([^"]+)"', seen.html))
