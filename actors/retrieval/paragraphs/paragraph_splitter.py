"""HTML to paragraphs: the visible text of each block, with the heading before it.

The work is linear in the page, however deep it nests; see `actors.retrieval.html_text`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from actors.retrieval.html_text import HIDDEN_TAGS, INLINE_TAGS, parse_bounded_tree

LONGEST_PAGE: Final = 400_000
"Characters of a page that are read."
MOST_PARAGRAPHS: Final = 500
LONGEST_SELECTOR: Final = 2_048
"Characters of the CSS selector of a paragraph; deeper ones are left out."
_SHORTEST = 3
"Fewest words of a paragraph."
_LONGEST = 4_000
"Characters of a paragraph that are read."

HIDDEN: Final = HIDDEN_TAGS | {"x-template", "object", "embed", "math", "textarea", "canvas"}
HEADINGS: Final = frozenset(["h1", "h2", "h3", "h4", "h5", "h6"])
_INLINE: Final = INLINE_TAGS | {
    "br",
    "data",
    "del",
    "dfn",
    "img",
    "rp",
    "rt",
    "ruby",
    "samp",
    "strike",
    "tt",
}
_STEP_LENGTH: Final = len(" > :nth-child(123456)")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of a page."""

    number: int
    "Position of its block in `list_blocks`."
    text: str
    heading: str


@dataclass(slots=True)
class ParagraphBlock:
    """A block of a page that directly contains text."""

    node: Any
    "The element."
    text: str
    heading: str
    "The heading before it; empty before the first."


def parse_document(html: str) -> Any:
    """Parse the beginning of a page and return its root, a document with head and body."""
    return parse_bounded_tree(html[:LONGEST_PAGE])


def split_paragraphs(html: str) -> list[Paragraph]:
    """Split a page into paragraphs.

    Cost:
        1 ms for a page of 2,000 words
    """
    paragraphs: list[Paragraph] = []
    lengths: dict[int, int] = {}
    for number, block in enumerate(list_blocks(parse_document(html))):
        if _selector_length(block.node, lengths) > LONGEST_SELECTOR:
            continue
        if block.node.tag not in HEADINGS and len(block.text.split()) >= _SHORTEST:
            paragraphs.append(Paragraph(number, block.text[:_LONGEST], block.heading))
            if len(paragraphs) >= MOST_PARAGRAPHS:
                break
    return paragraphs


def _selector_length(node: Any, lengths: dict[int, int]) -> int:
    """Return an upper bound of the characters of an element's selector; `lengths` remembers those of ancestors."""
    path: list[Any] = []
    # Each access to a node makes a new object; `mem_id` is what stays.
    while node is not None and node.mem_id not in lengths:
        path.append(node)
        node = node.parent
    length = lengths[node.mem_id] if node is not None else 0
    for element in reversed(path):
        length += len(element.tag) + _STEP_LENGTH
        lengths[element.mem_id] = length
    return length


def list_blocks(root: Any) -> list[ParagraphBlock]:
    """List the blocks of a page that directly contain text, in order."""
    if root is None:
        return []
    blocks: dict[int, tuple[Any, list[str]]] = {}
    homes: dict[int, Any] = {}
    for node in root.traverse(include_text=True):
        if node.tag == "-text":
            home = _home(node.parent, homes)
            if home is not None:
                blocks.setdefault(home.mem_id, (home, []))[1].append(node.text_content or "")
        elif node.tag == "br":
            home = _home(node.parent, homes)
            # A break separates words, but opens no block.
            if home is not None and home.mem_id in blocks:
                blocks[home.mem_id][1].append(" ")
    return list(_under_headings(blocks))


def _under_headings(blocks: dict[int, tuple[Any, list[str]]]) -> Iterator[ParagraphBlock]:
    heading = ""
    for node, pieces in blocks.values():
        text = " ".join("".join(pieces).split())
        if not text:
            continue
        yield ParagraphBlock(node, text, heading)
        if node.tag in HEADINGS:
            heading = text


def _home(node: Any, homes: dict[int, Any]) -> Any:
    """Find the block that contains a node; None if it is hidden. `homes` remembers."""
    path: list[int] = []
    home = None
    while node is not None:
        if node.mem_id in homes:
            home = homes[node.mem_id]
            break
        path.append(node.mem_id)
        parent = node.parent
        if node.tag in HIDDEN or "hidden" in node.attributes:
            home = None
            break
        if node.tag not in _INLINE:
            # a block inside something hidden is hidden too
            above = _VISIBLE if parent is None else _find_visible(parent, homes)
            home = None if above is None else node
            break
        node = parent
    for mem_id in path:
        homes[mem_id] = home
    return home


_VISIBLE: Final = object()


def _find_visible(node: Any, homes: dict[int, Any]) -> Any:
    """Return None if an ancestor is hidden, something else if not."""
    path: list[Any] = []
    seen: Any = _VISIBLE
    while node is not None:
        if node.mem_id in homes:
            seen = homes[node.mem_id]
            break
        path.append(node)
        if node.tag in HIDDEN or "hidden" in node.attributes:
            seen = None
            break
        node = node.parent
    # from the top down, so that every step is taken once
    below_hidden = seen is None
    for element in reversed(path):
        below_hidden = below_hidden or element.tag in HIDDEN
        if below_hidden:
            homes[element.mem_id] = None
        elif element.tag not in _INLINE:
            homes[element.mem_id] = element
    return seen
