"""Trees in one line, for tests to read: `(a=1 & !b~"x y")`."""

from __future__ import annotations

from cluster.query.language.tree import (
    All,
    Any,
    Everything,
    Exists,
    Node,
    Not,
    Phrase,
    Range,
    Regex,
    Wildcard,
)


def render_tree(node: Node) -> str:
    """Write a tree down."""
    if isinstance(node, All):
        return "(" + " & ".join(map(render_tree, node.children)) + ")"
    if isinstance(node, Any):
        return "(" + " | ".join(map(render_tree, node.children)) + ")"
    if isinstance(node, Not):
        return "!" + render_tree(node.child)
    if isinstance(node, Everything):
        return "everything"
    if isinstance(node, Exists):
        return f"{node.field} exists"
    if isinstance(node, Range):
        opening, closing = "[" if node.include_low else "{", "]" if node.include_high else "}"
        return f"{node.field} in {opening}{node.low!r}, {node.high!r}{closing}"
    if isinstance(node, Wildcard):
        return f"{node.field} like {node.pattern}"
    if isinstance(node, Regex):
        return f"{node.field} matches {node.pattern}"
    return f"{node.field}={node.value!r}" if isinstance(node, Phrase) else f"{node.field}={node.value}"
