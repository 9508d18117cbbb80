"""Clauses that stand in one group, joined to a tree: what AND, OR, NOT, + and - mean."""

from __future__ import annotations

from typing import NamedTuple

from cluster.query.language.lexer import Kind
from cluster.query.language.tree import All, Any, Node, Not


class Built(NamedTuple):
    """A part of the tree and its height."""

    node: Node
    height: int


class Member:
    """One member of a sequence: clauses joined by AND, the sign of a single one, and how OR touches it."""

    __slots__ = ("after_or", "before_or", "parts", "sign")

    def __init__(self, after_or: bool) -> None:
        self.parts: list[Built] = []
        self.sign: Kind | None = None
        self.after_or = after_or
        self.before_or = False

    def add(self, sign: Kind | None, part: Built) -> None:
        """Append a clause. A sign is kept apart while the clause stands alone, else it negates or does nothing."""
        if self.parts and self.sign is not None:
            self.parts[0], self.sign = _signed(self.sign, self.parts[0]), None
        if self.parts:
            part = _signed(sign, part)
        else:
            self.sign = sign
        self.parts.append(part)


class Group:
    """An open group: its field, its members so far and what the next clause will be joined by."""

    __slots__ = ("every", "field", "items", "join", "position", "sign")

    def __init__(self, position: int, field: str | None, every: bool = False) -> None:
        self.position = position
        self.field = field
        self.every = every
        self.items: list[Member] = []
        self.join: Kind | None = None
        self.sign: Kind | None = None

    def add(self, part: Built) -> None:
        """Take in the next clause."""
        if self.join is Kind.AND:
            item = self.items[-1]
        else:
            item = Member(self.join is Kind.OR)
            self.items.append(item)
        item.add(self.sign, part)
        self.join = self.sign = None


def _signed(sign: Kind | None, part: Built) -> Built:
    if sign is None or sign is Kind.PLUS:
        return part
    if isinstance(part.node, Not):
        return Built(part.node.child, part.height - 1)
    return Built(Not(part.node), part.height + 1)


def combined(items: list[Member], every: bool = False) -> Built:
    """Join the members of a sequence; with `every` all of them must hold where nothing else is said.

    With a + or - anywhere among them, or a NOT that no OR touches, the sequence is read as Solr reads it: what
    has + must hold, what has - or NOT must not, and the rest matters only where nothing has +. Otherwise it is a
    plain OR, and NOT is a plain negation.
    """
    if len(items) == 1:
        return _signed(items[0].sign, _joined(All, items[0].parts))
    solr = any(
        item.sign in (Kind.PLUS, Kind.MINUS)
        or (item.sign is Kind.NOT and not item.after_or and not item.before_or)
        for item in items
    )
    parts = [(item.sign, _joined(All, item.parts)) for item in items]
    if every and not solr and not any(item.before_or for item in items):
        return _joined(All, [part for _, part in parts])
    if not solr:
        return _joined(Any, [_signed(sign, part) for sign, part in parts])
    wanted = [part for sign, part in parts if sign is Kind.PLUS]
    others = [part for sign, part in parts if sign is None]
    barred = [_signed(sign, part) for sign, part in parts if sign in (Kind.MINUS, Kind.NOT)]
    if not wanted and others:
        wanted = [_joined(All if every else Any, others)]
    return _joined(All, wanted + barred)


def _joined(kind: type[All] | type[Any], parts: list[Built]) -> Built:
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
    return Built(kind(tuple(children)), height + 1)
