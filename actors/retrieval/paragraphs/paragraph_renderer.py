"""One paragraph of a page: its CSS selector, its HTML and the block around it.

The HTML has only tags and attributes of short lists, so no script of a page can run in a user's browser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from actors.retrieval.paragraphs.paragraph_splitter import HEADINGS, HIDDEN, list_blocks, parse_document
from cluster.word_lists import words_from_text

_TAGS: Final = frozenset(
    words_from_text(
        "a abbr b blockquote br caption cite code dd del dfn div dl dt em figcaption figure h1 h2 h3 h4 h5 "
        "h6 hr i ins kbd li main mark ol p pre q s samp section article small span strong sub sup table "
        "tbody td tfoot th thead time tr u ul var"
    )
)
_VOID: Final = frozenset({"br", "hr"})
_ATTRIBUTES: Final = frozenset({"href", "title", "lang", "dir", "colspan", "rowspan", "datetime", "start"})
# Named schemes only: `javascript:` in a page of a product would run in the browser of a user.
_LINK = re.compile(r"(?:https?://|mailto:|[/?#]|[^:]*$)", re.IGNORECASE)
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_DEEPEST = 64
_MOST_CHILDREN = 400


@dataclass(frozen=True, slots=True)
class SurroundingBlock:
    """The block that contains a paragraph."""

    html: str
    css_selector: str
    relevant: tuple[int, int]
    "First child of the block, and the one after the last, that stand under the heading of the paragraph."
    answer_css_selector: str
    "Selector of the paragraph in that HTML."
    title: str


@dataclass(frozen=True, slots=True)
class RenderedParagraph:
    """A paragraph with its selector in the page."""

    css_selector: str
    html: str = ""
    around: SurroundingBlock | None = None


def render_paragraph(
    page: str, number: int, *, html: bool = False, around: bool = False
) -> RenderedParagraph | None:
    """Render the block of a page with a number; None if the page has no such block."""
    blocks = list_blocks(parse_document(page))
    if not 0 <= number < len(blocks):
        return None
    node = blocks[number].node
    return RenderedParagraph(
        build_selector(node),
        html=render_html(node) if html else "",
        around=_around(node, blocks[number].heading) if around else None,
    )


def build_selector(node: Any) -> str:
    """Build the CSS selector of an element from the root of the document."""
    steps: list[str] = []
    while node.parent is not None and node.parent.tag not in ("-undef", "-document"):
        steps.append(_step(node))
        node = node.parent
    return " > ".join([":root", *reversed(steps)])


def render_html(node: Any) -> str:
    """Render an element as HTML without scripts."""
    pieces: list[str] = []
    _write(node, pieces, 0)
    return "".join(pieces)


def _around(node: Any, title: str) -> SurroundingBlock:
    """Render the parent of a paragraph, and find its children under the same heading."""
    parent = node.parent if node.parent is not None and node.parent.tag != "html" else node
    children = list(_elements(parent)) if parent is not node else []
    seen = [child for child in children if child.tag not in HIDDEN][:_MOST_CHILDREN]
    ids = [child.mem_id for child in seen]
    if parent is node or node.mem_id not in ids:
        return SurroundingBlock(render_html(node), build_selector(node), (0, 1), ":scope", title)
    at = ids.index(node.mem_id)
    begin = next((place for place in range(at, -1, -1) if seen[place].tag in HEADINGS), 0)
    end = next((place for place in range(at + 1, len(seen)) if seen[place].tag in HEADINGS), len(seen))
    tag = parent.tag if parent.tag in _TAGS else "div"
    # a child without allowed tags keeps its position, so that the selector stays right
    whole = "".join(render_html(child) or "<span></span>" for child in seen)
    inner = f":scope > :nth-child({at + 1})"
    return SurroundingBlock(f"<{tag}>{whole}</{tag}>", build_selector(parent), (begin, end), inner, title)


def _step(node: Any) -> str:
    place = 1
    before = node.prev
    while before is not None:
        place += not before.tag.startswith("-")
        before = before.prev
    name = node.tag if _NAME.fullmatch(node.tag) else "*"
    return f"{name}:nth-child({place})"


def _write(node: Any, pieces: list[str], depth: int) -> None:
    if node.tag == "-text":
        pieces.append(escape(node.text_content or "", quote=False))
        return
    if node.tag.startswith("-") or node.tag in HIDDEN or depth > _DEEPEST:
        return
    shown = node.tag in _TAGS
    if shown:
        pieces.append(f"<{node.tag}{''.join(_attributes(node))}>")
    child = node.child
    while child is not None:
        _write(child, pieces, depth + 1)
        child = child.next
    if shown and node.tag not in _VOID:
        pieces.append(f"</{node.tag}>")


def _attributes(node: Any) -> Iterator[str]:
    for name, value in node.attributes.items():
        if name not in _ATTRIBUTES or value is None:
            continue
        # Browsers ignore control characters inside a scheme, as in `java\tscript:`.
        plain = "".join(char for char in value if char.isprintable()).strip()
        if name != "href" or _LINK.match(plain):
            yield f' {name}="{escape(plain)}"'


def _elements(node: Any) -> Iterator[Any]:
    child = node.child
    while child is not None:
        if not child.tag.startswith("-"):
            yield child
        child = child.next
