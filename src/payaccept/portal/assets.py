"""Static files under names that change with their content, so that browsers may keep them for good."""

import hashlib
from importlib import resources
from typing import Final

from msgspec import Struct

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(Struct, frozen=True):
    """One file as it is served."""

    content_type: str
    body: bytes


class Assets:
    """All files of `static/`, read once."""

    def __init__(self) -> None:
        self._paths: dict[str, str] = {}
        self._served: dict[str, Asset] = {}
        for file in (resources.files(__package__) / "static").iterdir():
            stem, _, extension = file.name.rpartition(".")
            if extension not in _TYPES:
                continue
            body = file.read_bytes()
            name = f"{stem}.{hashlib.sha256(body).hexdigest()[:12]}.{extension}"
            self._paths[file.name] = f"/static/{name}"
            self._served[name] = Asset(_TYPES[extension], body)

    def path(self, name: str) -> str:
        """Return where a file of `static/` is served."""
        return self._paths[name]

    def find(self, served_name: str) -> Asset | None:
        """Return the file served under a name."""
        return self._served.get(served_name)
