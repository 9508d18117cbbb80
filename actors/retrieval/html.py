"""HTML to a tree whose depth and size are bounded, in time linear in the page.

A parser of HTML looks through the open elements for many a tag, and through the attributes of a tag for each, so
both make it quadratic. What a page leaves open only the parser itself knows: end tags may close nothing, or more
than one element. So a page is parsed a few thousand tags further at a time, and its tree is measured. The page ends
where it became too deep.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser

DEEPEST: Final = 256
"Elements in each other that are read."
MOST_NODES: Final = 100_000
"Elements and texts that are read; a parser may make many of one tag."
MOST_TAGS: Final = 60_000
MOST_ATTRIBUTES: Final = 500
"Attributes of one element."

_TAGS_AT_ONCE: Final = 4_000
"Tags by which the part of a page grows that is parsed: nested in each other they cost 0.1 s."
_LENGTH_AT_ONCE: Final = 40_000
"Characters by which it grows: as attributes of one tag they cost 0.2 s."
_ENDING: Final = "'\">"
"Ends a tag that a part of a page leaves open, so that its attributes are measured."
_FEWEST_AT_ONCE: Final = 16
_TAG = re.compile("<")
_TEMPLATE = re.compile(r"<(/?)template(?=[\s/>])", re.IGNORECASE)


def parse_page(html: str) -> Any:
    """Parse a page as a browser would and return its root, a document with head and body.

    Of a page that is deeper or larger than any that was written for people, the beginning is read.

    Cost:
        2 ms for a page of 4,000 elements and texts
    """
    html = _without_templates(html.replace("\x00", " "))
    ends = _ends(html)
    root, read, step = None, 0, _TAGS_AT_ONCE
    while read < len(ends) and step >= _FEWEST_AT_ONCE:
        begin = ends[read - 1] if read else 0
        until = min(read + step, max(read + 1, bisect_right(ends, begin + _LENGTH_AT_ONCE)))
        is_last = until == len(ends)
        tree = LexborHTMLParser(html[: ends[until - 1]] + ("" if is_last else _ENDING)).root
        if _is_bounded(tree):
            root, read = tree, until
        else:
            step = (until - read) // 4
    if root is None or read < len(ends):
        root = LexborHTMLParser(html[: ends[read - 1]] if read else "").root
    return root


def _ends(html: str) -> list[int]:
    """List where parts of a page may end: before each tag, and in texts and tags that are very long."""
    ends = [0]
    for match in _TAG.finditer(html):
        ends.extend(range(ends[-1] + _LENGTH_AT_ONCE, match.start(), _LENGTH_AT_ONCE))
        ends.append(match.start())
        if len(ends) > MOST_TAGS:
            return ends[1:]
    ends.extend(range(ends[-1] + _LENGTH_AT_ONCE, len(html), _LENGTH_AT_ONCE))
    return [*ends[1:], len(html)]


def _is_bounded(root: Any) -> bool:
    """Say whether a tree is neither too deep nor too large.

    Cost:
        0.4 microseconds a node
    """
    node, depth, count = root, 0, 0
    while node is not None:
        count += 1
        if len(node.attributes) > MOST_ATTRIBUTES:
            return False
        child = node.child
        if child is not None:
            node, depth = child, depth + 1
            # beside the elements there are the root, the body and a text
            if depth > DEEPEST + 2 or count > MOST_NODES:
                return False
            continue
        while depth and node.next is None:
            node, depth = node.parent, depth - 1
        node = node.next if depth else None
    return count <= MOST_NODES


def _without_templates(html: str) -> str:
    """Take out what stands in templates: nobody sees it, and it stands outside of the tree that is measured."""
    kept: list[str] = []
    at = begun = depth = 0
    for match in _TEMPLATE.finditer(html):
        if match.group(1):
            depth = max(depth - 1, 0)
            if not depth and begun:
                kept.append("<template></template")
                at, begun = match.end(), 0
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
