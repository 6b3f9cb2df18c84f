"""The project's documents as pages: read and rendered once, when the portal starts."""

import posixpath
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from msgspec import Struct

import payaccept
from payaccept.portal.markdown import Rendered, render

ROOT: Final = "/docs"
REFERENCE: Final = f"{ROOT}/api"
_INDEX: Final = "docs/README.md"
_ADDRESSES: Final = {
    _INDEX: ROOT,
    "docs/decisions/README.md": f"{ROOT}/decisions",
    "README.md": f"{ROOT}/getting-started",
    "CONTRIBUTING.md": f"{ROOT}/contributing",
    "CHANGELOG.md": f"{ROOT}/changelog",
    "openapi.json": REFERENCE,
}
_ITEM: Final = re.compile(r"- \[([^]]+)\]\(([^)]+)\)(?:: )?(.*)")
_LABELS: Final = {f"{ROOT}/getting-started": "Getting started", REFERENCE: "API reference"}
_FILES: Final = {
    "": "text/plain",
    "json": "application/json",
    "pem": "text/plain",
    "txt": "text/plain",
    "yaml": "text/plain",
}
"""Files that documents may link to, by extension."""


class Document(Struct, frozen=True, kw_only=True):
    """A page of documentation; `source` is its file below the project's root."""

    source: str
    address: str
    rendered: Rendered


class Entry(Struct, frozen=True):
    """A line of the contents; `about` says what one finds there."""

    label: str
    address: str
    about: str = ""


class Shelf(Struct, frozen=True):
    """A heading of the contents with its lines."""

    label: str
    entries: tuple[Entry, ...]


class LinkedFile(Struct, frozen=True):
    """A file that a document links to."""

    content_type: str
    body: bytes


def project_root() -> Traversable:
    """Return where the documents are: in the package, when it was built into a wheel; else the checkout's root."""
    packaged = resources.files(payaccept) / "documents"
    return packaged if packaged.is_dir() else Path(payaccept.__file__).parents[2]


class Library:
    """All documents below a root, their contents, and the files they link to."""

    def __init__(self, root: Traversable) -> None:
        self._root = root
        self.broken: list[str] = []
        """Links that lead nowhere, as `source: target`: shown as plain text."""
        self._files: dict[str, LinkedFile] = {}
        self._addresses = {source: _address_of(source) for source in _sources(root)} | {
            "openapi.json": REFERENCE
        }
        self.documents: dict[str, Document] = {}
        for source, address in self._addresses.items():
            if source.endswith(".md"):
                self.documents[address] = self._read(source, address)
        self.shelves = self._arrange()
        self.order = tuple(entry for shelf in self.shelves for entry in shelf.entries)

    def find_file(self, path: str) -> LinkedFile | None:
        """Return a file that some document links to."""
        return self._files.get(path)

    def entries_below(self, address: str) -> list[Entry]:
        """Return the documents in the folder of a document, as the decisions."""
        return [
            Entry(document.rendered.title, document.address)
            for document in self.documents.values()
            if document.address.startswith(f"{address}/")
        ]

    def _read(self, source: str, address: str) -> Document:
        def follow(target: str) -> str | None:
            led = self._follow(source, target)
            if led is None:
                self.broken.append(f"{source}: {target}")
            return led

        text = (self._root / source).read_text(encoding="utf-8")
        return Document(source=source, address=address, rendered=render(text, follow))

    def _follow(self, source: str, target: str) -> str | None:
        """Return where a link of a document leads here; None when to nothing that we have."""
        if "://" in target or target.startswith(("#", "mailto:")):
            return target
        path, hash_sign, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        address = self._addresses.get(path) or self._addresses.get(f"{path}/README.md")
        if address is None:
            address = self._link_file(path)
        return None if address is None else address + hash_sign + anchor

    def _link_file(self, path: str) -> str | None:
        extension = posixpath.splitext(path)[1].removeprefix(".")
        file = self._root / path
        if path.startswith("..") or extension not in _FILES or not file.is_file():
            return None
        self._files[path] = LinkedFile(f"{_FILES[extension]}; charset=utf-8", file.read_bytes())
        return f"{ROOT}/files/{path}"

    def _arrange(self) -> tuple[Shelf, ...]:
        """Take the contents from the index: each of its lists of links is a shelf, under the line before it."""
        shelves = []
        placed = {ROOT}
        for label, targets in _lists_of((self._root / _INDEX).read_text(encoding="utf-8")):
            entries = []
            for text, target, about in targets:
                address = self._follow(_INDEX, target)
                if address is not None and address not in placed:
                    placed.add(address)
                    entries.append(Entry(_LABELS.get(address, text), address, about))
            shelves.append(Shelf(label, tuple(entries)))
        start = f"{ROOT}/getting-started"
        if start in self.documents and start not in placed:
            placed.add(start)
            first = Entry(_LABELS[start], start, "run the sandbox and take a first payment")
            shelves[:1] = [Shelf(shelves[0].label, (first, *shelves[0].entries))]
        rest = [
            Entry(document.rendered.title, document.address)
            for document in self.documents.values()
            if document.address not in placed and not document.address.startswith(f"{ROOT}/decisions/")
        ]
        return (*shelves, Shelf("More", tuple(rest))) if rest else tuple(shelves)


def _sources(root: Traversable) -> Iterator[str]:
    """Yield the documents below a root, in the order of their names."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        if (root / name).is_file():
            yield name
    for folder in ("docs", "docs/decisions"):
        for file in sorted((root / folder).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".md"):
                yield f"{folder}/{file.name}"


def _address_of(source: str) -> str:
    return _ADDRESSES.get(source) or f"{ROOT}/{source.removeprefix('docs/').removesuffix('.md')}"


def _lists_of(text: str) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the lists of an index: the line before each; and of each item its link's text, its target, the rest."""
    label = ""
    links: list[tuple[str, str, str]] = []
    for line in [*text.splitlines(), ""]:
        item = _ITEM.fullmatch(line)
        if item is not None:
            links.append((item[1], item[2], item[3]))
        elif line.strip():
            label = line.strip().removesuffix(":")
        elif links:
            yield label, links
            links = []


@cache
def library() -> Library:
    """Return this installation's documents."""
    return Library(project_root())
