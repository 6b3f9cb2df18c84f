"""Markdown as the project writes it, to HTML: anchors on headings, captions on code, links led where they go."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from msgspec import Struct

FollowLink = Callable[[str], str | None]
_Renderer = Any  # of markdown-it-py, which leaves it untyped

_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")
_COMMENT: Final = re.compile(r"\s*<!--(.*?)-->\s*", re.DOTALL)
# What the comment before a code block says of it, where that helps a reader.
_CAPTIONS: Final = (
    (re.compile(r"file (\S+)"), r"\1"),
    (re.compile(r"terminal (\d)"), r"Terminal \1"),
    (re.compile(r"output of terminal (\d)"), r"Output of terminal \1"),
    (re.compile(r"output"), "Output"),
)


class Heading(Struct, frozen=True):
    """A heading that can be linked to. `level` is 2 or 3."""

    level: int
    anchor: str
    text: str


class Rendered(Struct, frozen=True):
    """A document's title, which is its first heading, and what stands below."""

    title: str
    html: Markup
    headings: tuple[Heading, ...]
    anchors: frozenset[str]
    lead: str
    """The text of the first paragraph."""


def render(text: str, follow: FollowLink) -> Rendered:
    """Render a document. `follow` says where a link leads from here; None when it leads nowhere."""
    made = _parser()
    tokens = made.parse(text)
    headings = _name_headings(tokens)
    title = headings[0].text if headings and headings[0].level == 1 else ""
    _caption_code(tokens)
    _drop_empty_heads(tokens)
    _lead_links(tokens, follow)
    shown = tokens if not title else tokens[3:]
    return Rendered(
        title=title,
        html=Markup(made.renderer.render(shown, made.options, {})),  # noqa: S704 - rendered from our own documents
        headings=tuple(heading for heading in headings if heading.level in {2, 3}),
        anchors=frozenset(heading.anchor for heading in headings),
        lead=_first_paragraph(tokens),
    )


def render_inline(text: str) -> Markup:
    """Render a line or a few paragraphs of Markdown, as descriptions in OpenAPI are."""
    made = _parser()
    tokens = made.parse(text)
    _lead_links(tokens, lambda target: target)
    return Markup(made.renderer.render(tokens, made.options, {}))  # noqa: S704 - our own texts


def _parser() -> MarkdownIt:
    # HTML is let in to be recognised: comments are dropped, anything else is shown as text.
    made = MarkdownIt("commonmark", {"html": True}).enable("table")
    for name, rule in _RULES.items():
        made.add_render_rule(name, rule)
    return made


def _name_headings(tokens: Sequence[Token]) -> list[Heading]:
    """Give every heading the anchor that code forges give it, so that links written for them work here, too."""
    used: dict[str, int] = {}
    headings = []
    for opening, inline in pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = "".join(child.content for child in inline.children or ())
        anchor = _NOT_IN_ANCHORS.sub("", text.lower()).replace(" ", "-")
        count = used.get(anchor, 0)
        used[anchor] = count + 1
        anchor = f"{anchor}-{count}" if count else anchor
        opening.attrs["id"] = anchor
        headings.append(Heading(int(opening.tag[1]), anchor, text))
    return headings


def _caption_code(tokens: Sequence[Token]) -> None:
    for comment, code in pairwise(tokens):
        said = _COMMENT.fullmatch(comment.content) if comment.type == "html_block" else None
        if said is None or code.type != "fence":
            continue
        for pattern, caption in _CAPTIONS:
            match = pattern.fullmatch(said[1].strip())
            if match is not None:
                code.meta["caption"] = match.expand(caption)
                break


def _drop_empty_heads(tokens: list[Token]) -> None:
    """Leave out the head of a table that has none, which Markdown cannot."""
    at = 0
    while at < len(tokens):
        if tokens[at].type == "thead_open":
            end = next(place for place in range(at, len(tokens)) if tokens[place].type == "thead_close")
            if not any(token.content for token in tokens[at:end]):
                del tokens[at : end + 1]
                continue
        at += 1


def _lead_links(tokens: Sequence[Token], follow: FollowLink) -> None:
    for token in tokens:
        for child in token.children or ():
            if child.type != "link_open":
                continue
            target = str(child.attrs["href"])
            led = follow(target)
            if led is None:
                child.attrs.pop("href")
            else:
                child.attrs["href"] = led
                if "://" in led:
                    child.attrs["rel"] = "noreferrer"


def _first_paragraph(tokens: Sequence[Token]) -> str:
    for opening, inline in pairwise(tokens):
        if opening.type == "paragraph_open":
            text = "".join(child.content or " " for child in inline.children or ())
            return " ".join(text.split())
    return ""


def _heading_close(_self: _Renderer, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    anchor = tokens[at - 2].attrs["id"]
    named = escape(tokens[at - 1].content)
    link = f'<a class="anchor" href="#{anchor}" aria-label="Link to: {named}">#</a>'
    return f"{link}</{tokens[at].tag}>\n"


def _fence(_self: _Renderer, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    token = tokens[at]
    language = token.info.strip()
    block = code_block(token.content, language, str(token.meta.get("caption", "")))
    if language == "mermaid":  # drawn by code forges only
        block = Markup("<details><summary>The diagram as text</summary>{}</details>\n").format(block)
    return str(block)


def code_block(text: str, language: str = "", caption: str = "") -> Markup:
    """Return a block of code, to be copied with a button where there is JavaScript."""
    shown = Markup('<p class="caption">{}</p>').format(caption) if caption else ""
    return Markup('<div class="code{}">{}<pre tabindex="0"><code{}>{}</code></pre></div>\n').format(
        " output" if caption.startswith("Output") else "",
        shown,
        Markup(' class="language-{}"').format(language) if language else "",
        text,
    )


def _html(_self: _Renderer, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
    return str(escape(_COMMENT.sub("", tokens[at].content)))


_RULES: Final[dict[str, Callable[..., str]]] = {
    "heading_close": _heading_close,
    "fence": _fence,
    "html_block": _html,
    "html_inline": _html,
    "image": lambda *_: "",  # pictures of the portal, for who reads elsewhere
    "table_open": lambda *_: '<div class="scroll" tabindex="0"><table>\n',
    "table_close": lambda *_: "</table></div>\n",
}
