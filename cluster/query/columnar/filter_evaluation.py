"""Evaluation of a tree: over columns as a mask of rows, and on one record as the definition of the language.

`matches_filter` is the definition, slow and obvious. `evaluate_filter` must agree with it for every record and filter;
a property test compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any as Anything
from typing import Protocol

import numpy as np

from cluster.query.columnar.column import FieldColumn, Mask
from cluster.query.language.automaton import Automaton
from cluster.query.language.field_values import (
    canonical_field,
    collect_record_values,
    has_value,
    is_moment,
    is_text,
)
from cluster.query.language.patterns import compile_regex, compile_wildcard
from cluster.query.language.scalars import Bounds, Scalar, equals_text
from cluster.query.language.text_analysis import fold, split_words
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
    Term,
    Wildcard,
)


class FilterableRows(Protocol):
    """Rows that can be filtered."""

    def live_rows(self) -> Mask:
        """Return a fresh mask of all rows that count (removed ones do not).

        Shapes:
            Mask [rows]
        """
        ...

    def column(self, field: str) -> FieldColumn | None:
        """Return a field's column; None when no row has a value under it."""
        ...


def evaluate_filter(node: Node, columns: FilterableRows) -> Mask:
    """Evaluate a filter for all rows at once.

    Shapes:
        Mask [rows], fresh; only rows of `columns.live_rows()` are set

    Errors:
        FilterSyntax: a pattern too complex to run (never for a tree of `parse`)

    Cost:
        linear in rows and clauses; three clauses over 100,000 rows 0.1 to 0.3 ms
    """
    if isinstance(node, Everything):
        return columns.live_rows()
    if isinstance(node, Not):
        mask = columns.live_rows()
        # From the live rows: the negation alone would find removed ones.
        mask &= ~evaluate_filter(node.child, columns)
        return mask
    if isinstance(node, All):
        return _all(node.children, columns)
    if isinstance(node, Any):
        return _any(node.children, columns)
    column = columns.column(canonical_field(node.field))
    return _none(columns) if column is None else _leaf(node, column, columns)


def _none(columns: FilterableRows) -> Mask:
    return np.zeros_like(columns.live_rows())


def _all(children: Collection[Node], columns: FilterableRows) -> Mask:
    mask: Mask | None = None
    for child in children:
        child_mask = evaluate_filter(child, columns)
        mask = child_mask if mask is None else np.logical_and(mask, child_mask, out=mask)
    return columns.live_rows() if mask is None else mask


def _any(children: Collection[Node], columns: FilterableRows) -> Mask:
    """Return the union of the children; values of one field are evaluated in one call."""
    mask = _none(columns)
    values: dict[str, list[str]] = {}
    for child in children:
        if isinstance(child, (Term, Phrase)) and _is_exact(canonical_field(child.field)):
            # A filter of a thousand ids of one field is one look-up per id and one pass over the rows.
            values.setdefault(canonical_field(child.field), []).append(child.value)
        else:
            mask |= evaluate_filter(child, columns)
    for field, texts in values.items():
        column = columns.column(field)
        if column is not None:
            mask |= column.equal(texts)
    return mask


def _is_exact(field: str) -> bool:
    return not is_text(field) and not is_moment(field)


def _leaf(
    node: Term | Phrase | Wildcard | Regex | Exists | Range, column: FieldColumn, columns: FilterableRows
) -> Mask:
    field = canonical_field(node.field)
    if isinstance(node, Exists):
        return column.present()
    if isinstance(node, Range):
        bounds = _bounds(node, field)
        return column.present() if bounds is None else column.between(bounds)
    if isinstance(node, (Wildcard, Regex)):
        return column.like(_pattern(node, field))
    if is_text(field):
        words = dict.fromkeys(split_words(node.value))
        # A text without a word, such as "?", names nothing and finds nothing.
        mask = columns.live_rows() if words else _none(columns)
        for word in words:
            mask &= column.equal((word,))
            if not mask.any():
                break
        return mask
    # A date as a value means its whole day, month or year.
    period = Bounds.period(node.value) if is_moment(field) else None
    return column.between(period) if period else column.equal((node.value,))


def matches_filter(node: Node, record: Mapping[str, Anything]) -> bool:
    """Evaluate a filter for one record."""
    if isinstance(node, Everything):
        return True
    if isinstance(node, Not):
        return not matches_filter(node.child, record)
    if isinstance(node, All):
        return all(matches_filter(child, record) for child in node.children)
    if isinstance(node, Any):
        return any(matches_filter(child, record) for child in node.children)
    field = canonical_field(node.field)
    if isinstance(node, Exists):
        return has_value(record, field)
    if isinstance(node, Range):
        bounds = _bounds(node, field)
        return (
            has_value(record, field)
            if bounds is None
            else any(map(bounds.hold, collect_record_values(record, field)))
        )
    if isinstance(node, (Wildcard, Regex)):
        pattern = _pattern(node, field)
        return any(
            isinstance(value, str) and pattern.accepts(value)
            for value in collect_record_values(record, field)
        )
    return _has_value(node.value, field, collect_record_values(record, field))


def _has_value(text: str, field: str, values: list[Scalar]) -> bool:
    if is_text(field):
        words = set(split_words(text))
        return bool(words) and words.issubset(values)
    period = Bounds.period(text) if is_moment(field) else None
    if period:
        return any(map(period.hold, values))
    return any(equals_text(value, text) for value in values)


def _bounds(node: Range, field: str) -> Bounds | None:
    """Return the parsed ends of a range; None when both are open."""
    low = node.low
    high = node.high
    if low is None and high is None:
        return None
    if is_text(field):
        # Columns of text fields hold folded words, so the ends of a range are folded, too.
        low = low and fold(low)
        high = high and fold(high)
    return Bounds.of(low, high, node.include_low, node.include_high, moments=is_moment(field))


def _pattern(node: Wildcard | Regex, field: str) -> Automaton:
    if isinstance(node, Regex):
        return compile_regex(node.pattern)
    return compile_wildcard(node.pattern, fold=fold if is_text(field) else None)
