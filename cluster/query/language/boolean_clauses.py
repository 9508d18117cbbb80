"""Clauses that stand in one group, joined to a tree: what AND, OR, NOT, + and - mean."""

from __future__ import annotations

from typing import NamedTuple

from cluster.query.language.lexer import TokenKind
from cluster.query.language.tree import All, Any, Node, Not


class Subtree(NamedTuple):
    """A part of the tree and its height."""

    node: Node
    height: int


class ClauseMember:
    """One member of a sequence: clauses joined by AND, the sign of a single one, and how OR touches it."""

    __slots__ = ("after_or", "before_or", "parts", "sign")

    def __init__(self, after_or: bool) -> None:
        self.parts: list[Subtree] = []
        self.sign: TokenKind | None = None
        self.after_or = after_or
        self.before_or = False

    def add(self, sign: TokenKind | None, part: Subtree) -> None:
        """Append a clause. A sign is kept apart while the clause stands alone, else it negates or does nothing."""
        if self.parts and self.sign is not None:
            self.parts[0], self.sign = _apply_sign(self.sign, self.parts[0]), None
        if self.parts:
            part = _apply_sign(sign, part)
        else:
            self.sign = sign
        self.parts.append(part)


class ClauseGroup:
    """An open group: its field, its members so far and what the next clause will be joined by."""

    __slots__ = ("every", "field", "items", "join", "position", "sign")

    def __init__(self, position: int, field: str | None, every: bool = False) -> None:
        self.position = position
        self.field = field
        self.every = every
        self.items: list[ClauseMember] = []
        self.join: TokenKind | None = None
        self.sign: TokenKind | None = None

    def add(self, part: Subtree) -> None:
        """Take in the next clause."""
        if self.join is TokenKind.AND:
            item = self.items[-1]
        else:
            item = ClauseMember(self.join is TokenKind.OR)
            self.items.append(item)
        item.add(self.sign, part)
        self.join = self.sign = None


def _apply_sign(sign: TokenKind | None, part: Subtree) -> Subtree:
    if sign is None or sign is TokenKind.PLUS:
        return part
    if isinstance(part.node, Not):
        return Subtree(part.node.child, part.height - 1)
    return Subtree(Not(part.node), part.height + 1)


def combine_members(items: list[ClauseMember], every: bool = False) -> Subtree:
    """Join the members of a sequence; with `every` all of them must hold where nothing else is said.

    With a + or - anywhere among them, or a NOT that no OR touches, the sequence is read as Solr reads it: what
    has + must hold, what has - or NOT must not, and the rest matters only where nothing has +. Otherwise it is a
    plain OR, and NOT is a plain negation.
    """
    if len(items) == 1:
        return _apply_sign(items[0].sign, _join(All, items[0].parts))
    solr = any(
        item.sign in (TokenKind.PLUS, TokenKind.MINUS)
        or (item.sign is TokenKind.NOT and not item.after_or and not item.before_or)
        for item in items
    )
    parts = [(item.sign, _join(All, item.parts)) for item in items]
    if every and not solr and not any(item.before_or for item in items):
        return _join(All, [part for _, part in parts])
    if not solr:
        return _join(Any, [_apply_sign(sign, part) for sign, part in parts])
    wanted = [part for sign, part in parts if sign is TokenKind.PLUS]
    others = [part for sign, part in parts if sign is None]
    barred = [_apply_sign(sign, part) for sign, part in parts if sign in (TokenKind.MINUS, TokenKind.NOT)]
    if not wanted and others:
        wanted = [_join(All if every else Any, others)]
    return _join(All, wanted + barred)


def _join(kind: type[All] | type[Any], parts: list[Subtree]) -> Subtree:
    if len(parts) == 1:
        return parts[0]
    children: list[Node] = []
    height = 0
    for part in parts:
        if isinstance(part.node, kind):
            children.extend(part.node.children)
            height = max(height, part.height - 1)
        else:
            children.append(part.node)
            height = max(height, part.height)
    return Subtree(kind(tuple(children)), height + 1)
