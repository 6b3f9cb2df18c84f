"""What pages work with: the operations and a few facts of the deployment, joined in `wiring`."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from payaccept.domain.merchant import Environment
from payaccept.domain.user import Viewer
from payaccept.operations.merchants import Merchants

Clock = Callable[[], datetime]


class Seals(Protocol):
    """Keeps texts that pass through browsers from being read or made by anybody else."""

    def mac(self, purpose: str, text: str) -> str:
        """Return what proves that we wrote the text, for this purpose; 43 characters that fit in a URL."""

    def seal(self, purpose: str, text: str) -> str:
        """Return the text unreadable and unchangeable, in characters that fit in a URL."""

    def unseal(self, purpose: str, sealed: str, life_s: int) -> str | None:
        """Return the text that was sealed for this purpose, at most so long ago; None for anything else."""


class Sessions(Protocol):
    """Who is behind a browser's session."""

    async def find_viewer(self, token: str, now: datetime, *, in_use: bool) -> Viewer | None:
        """Return who is signed in by a session's secret; `in_use` counts as a use of the session."""


class Site(Struct, frozen=True, kw_only=True):
    """Where this deployment is, and what it is."""

    environment: Environment
    web_base_url: str
    api_base_url: str
    version: str

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the portal through TLS."""
        return self.web_base_url.startswith("https://")

    def link(self, path: str) -> str:
        """Return the whole address of a page, for what leaves this site."""
        return self.web_base_url + path


class Services(Struct, frozen=True, kw_only=True):
    """Everything a page may use."""

    site: Site
    clock: Clock
    seals: Seals
    sessions: Sessions
    merchants: Merchants
    ping: Callable[[], Awaitable[None]]
