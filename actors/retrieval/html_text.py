"""The visible text of HTML: as a bounded tree, as plain text, or as a stream of texts and tags. All are linear in time.

parse_bounded_tree  a tree, as browsers build it: for paragraphs that are shown with their place in the page
text_from_html      the words of that tree, for embedders
scan_html           texts and tags in their order, without a tree: for long articles

An HTML parser looks through the open elements for many tags, and through all attributes of a tag for each new
one, so it is quadratic in both. Only the parser knows the open elements: an end tag may close none, or more
than one. So `parse_bounded_tree` parses a few thousand tags at a time and measures the tree. The page is cut
at the point where the tree becomes too deep.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from selectolax.lexbor import LexborHTMLParser

from cluster.word_lists import words_from_text

DEEPEST: Final = 256
"Depth of nested elements that is read."
MOST_NODES: Final = 100_000
"Elements and texts that are read; a parser may build many from one tag."
MOST_TAGS: Final = 60_000
MOST_ATTRIBUTES: Final = 500
"Attributes of one element."

HIDDEN_TAGS: Final = frozenset(
    words_from_text("script style template noscript iframe svg head nav form button select")
)
"Elements whose content is not text of the page."
INLINE_TAGS: Final = frozenset(
    words_from_text(
        "a abbr b bdi bdo cite code em font i ins kbd label mark q s small span strong sub sup time u var wbr"
    )
)
"Elements that do not end a line of text."

_TAGS_AT_ONCE: Final = 4_000
"Tags that are parsed more at a time: nested in each other they cost 0.1 s."
_LENGTH_AT_ONCE: Final = 40_000
"Characters that are parsed more at a time: as attributes of one tag they cost 0.2 s."
_ENDING: Final = "'\">"
"Ends a tag that a part of a page leaves open, so that its attributes are measured."
# Tags of the smallest part that is tried before a page is cut.
_FEWEST_AT_ONCE: Final = 16
_TAG = re.compile("<")
_SCANNED_TAG = re.compile(r"<(?:!--|(/?)([A-Za-z][A-Za-z0-9]{0,15})[^<>]*>|[!?/][^<>]*>)")
_TEMPLATE = re.compile(r"<(/?)template(?=[\s/>])", re.IGNORECASE)


def parse_bounded_tree(html: str) -> Any:
    """Parse a page as browsers do and return its root, a document with head and body.

    Of a page that is deeper or larger than the limits above, only the beginning is read.

    Cost:
        2 ms for a page of 4,000 elements and texts
    """
    html = _without_templates(html.replace("\x00", " "))
    ends = _ends(html)
    root = None
    read = 0
    step = _TAGS_AT_ONCE
    while read < len(ends) and step >= _FEWEST_AT_ONCE:
        begin = ends[read - 1] if read else 0
        until = min(read + step, max(read + 1, bisect_right(ends, begin + _LENGTH_AT_ONCE)))
        is_last = until == len(ends)
        tree = LexborHTMLParser(html[: ends[until - 1]] + ("" if is_last else _ENDING)).root
        if _is_bounded(tree):
            root = tree
            read = until
        else:
            # Smaller parts find the place where the tree becomes too deep or too large.
            step = (until - read) // 4
    if root is None or read < len(ends):
        root = LexborHTMLParser(html[: ends[read - 1]] if read else "").root
    return root


def text_from_html(html: str, longest: int) -> str:
    """Return the beginning of the text of a page, without tags, scripts and styles, one blank between words."""
    root = parse_bounded_tree(html)
    for node in root.css("script, style, template, x-template, noscript"):
        node.decompose()
    body = root.css_first("body")
    words: str = body.text(separator=" ") if body is not None else ""
    return " ".join(words[: longest * 2].split())[:longest]


class HtmlToken(NamedTuple):
    """A text, or a tag outside of hidden elements."""

    text: str
    "As written, entities included; empty for a tag."
    tag: str = ""
    "Name in lower case; empty for a text and for declarations."
    is_end: bool = False


def scan_html(html: str) -> Iterator[HtmlToken]:
    """Yield the texts and tags of a page in order; comments and hidden elements are left out.

    Cost:
        0.1 ms for an article of 500 words
    """
    at = 0
    lowered = html.lower() if "<" in html else html
    endless: set[str] = set()
    while (match := _SCANNED_TAG.search(html, at)) is not None:
        if match.start() > at:
            yield HtmlToken(html[at : match.start()])
        at = match.end()
        tag = (match.group(2) or "").lower()
        if match.group(0) == "<!--":
            end = html.find("-->", at)
            at = end + 3 if end >= 0 else len(html)
        elif tag in HIDDEN_TAGS and not match.group(1) and not match.group(0).endswith("/>"):
            # an element without an end tag hides only itself: an open form must not hide the rest of the page
            end = lowered.find("</" + tag, at) if tag not in endless else -1
            if end < 0:
                endless.add(tag)
                end = len(html) if tag in ("script", "style") else at
            at = end
        else:
            yield HtmlToken("", tag, bool(match.group(1)))
    if at < len(html):
        yield HtmlToken(html[at:])


def _ends(html: str) -> list[int]:
    """List where a page may be cut: before each tag, and within very long texts and tags."""
    ends = [0]
    for match in _TAG.finditer(html):
        ends.extend(range(ends[-1] + _LENGTH_AT_ONCE, match.start(), _LENGTH_AT_ONCE))
        ends.append(match.start())
        if len(ends) > MOST_TAGS:
            return ends[1:]
    ends.extend(range(ends[-1] + _LENGTH_AT_ONCE, len(html), _LENGTH_AT_ONCE))
    return [*ends[1:], len(html)]


def _is_bounded(root: Any) -> bool:
    """Return whether a tree is neither too deep nor too large.

    Cost:
        0.4 microseconds a node
    """
    node = root
    depth = 0
    count = 0
    while node is not None:
        count += 1
        if len(node.attributes) > MOST_ATTRIBUTES:
            return False
        child = node.child
        if child is not None:
            node = child
            depth = depth + 1
            # beside the elements there are the root, the body and a text
            if depth > DEEPEST + 2 or count > MOST_NODES:
                return False
            continue
        while depth and node.next is None:
            node = node.parent
            depth = depth - 1
        node = node.next if depth else None
    return count <= MOST_NODES


def _without_templates(html: str) -> str:
    """Remove the content of templates, which is invisible and not part of the tree that is measured."""
    kept: list[str] = []
    at = begun = depth = 0
    for match in _TEMPLATE.finditer(html):
        if match.group(1):
            depth = max(depth - 1, 0)
            if not depth and begun:
                kept.append("<template></template")
                at = match.end()
                begun = 0
            continue
        if not depth:
            kept.append(html[at : match.start()])
            at = begun = match.end()
        depth += 1
    if begun:
        # one that never ends: an element of another name, which can be measured
        kept.append("<x-template" + _TEMPLATE.sub(r"<\1x-template", html[at:]))
        return "".join(kept)
    return "".join((*kept, html[at:])) if kept else html
