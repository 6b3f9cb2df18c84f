"""A proxy that connections to the outside go through."""

import base64
import re
from typing import Final, Self
from urllib.parse import quote, unquote

from msgspec import Struct

from payaccept.domain.urls import UrlRefused, host_of

_URL: Final = re.compile(r"http://(?:([^@:/?#]+):([^@/?#]*)@)?([^@/?#]+?):([1-9][0-9]{0,4})/?")
_MAX_PORT: Final = 65_535


class EgressProxy(Struct, frozen=True, kw_only=True):
    """An HTTP proxy that tunnels (CONNECT). Nothing but `to_url` and `authorization` tells the password."""

    host: str
    port: int
    user: str | None = None
    password: str = ""

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Read `http://[user:password@]host:port`. Raises: ValueError, which does not repeat the URL."""
        parts = _URL.fullmatch(url)
        if parts is None or int(parts[4]) > _MAX_PORT:
            raise ValueError("must be http://host:port or http://user:password@host:port")
        user, password, host, port = parts.groups()
        try:
            host = host_of(f"http://{host}/")
        except UrlRefused as refused:
            raise ValueError(str(refused)) from None
        if user is None:
            return cls(host=host, port=int(port))
        return cls(host=host, port=int(port), user=unquote(user), password=unquote(password))

    def to_url(self) -> str:
        """Write what `from_url` reads."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        login = "" if self.user is None else f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@"
        return f"http://{login}{host}:{self.port}"

    @property
    def authorization(self) -> str | None:
        """The value of the Proxy-Authorization header."""
        if self.user is None:
            return None
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    def __repr__(self) -> str:
        return f"EgressProxy({self.host!r}, {self.port})"
