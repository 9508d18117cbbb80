"""Counts of the values of a field, for `_aggregate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.errors import FilterSyntax, NotFound, messages
from cluster.query.columnar.compile import matches
from cluster.query.language.automaton import Automaton
from cluster.query.language.field_values import canonical, collect_scalars, has_value
from cluster.query.language.patterns import regex
from cluster.query.language.scalars import Scalar
from cluster.query.language.tree import Node


@dataclass(frozen=True, slots=True)
class FieldAggregate:
    """Values of a field with their record counts, the most frequent first."""

    total: int
    "Number of records that pass the filter and have the field."
    values: list[tuple[Scalar, int]]


def aggregate(
    records: Iterable[Mapping[str, Any]],
    field: str,
    size: int = 10,
    include: str | None = None,
    exclude: str | None = None,
    fq: Node | None = None,
) -> FieldAggregate:
    """Count the values of a field over the records that pass a filter.

    A record counts once for each different value; in a category path each level is a value. `include` and
    `exclude` are regular expressions (`patterns`) over the whole value as text, booleans as `true` and `false`. They
    select among the values and do not change the total. Values with equal counts are ordered by text.

    Errors:
        NotFound: no record has the field, with or without the filter
        FilterSyntax: a bad `include` or `exclude`; fact `parameter` names it
    """
    wanted, barred = _pattern("include", include), _pattern("exclude", exclude)
    name = canonical(field)
    known, total = False, 0
    counts: Counter[tuple[bool, Scalar]] = Counter()
    for record in records:
        if not has_value(record, name):
            continue
        known = True
        if fq is None or matches(fq, record):
            total += 1
            counts.update({(isinstance(leaf, bool), leaf) for leaf in collect_scalars(record, name)})
    if not known:
        raise NotFound(messages.FIELD_NOT_FOUND)
    texts = {key: _text(key[1]) for key in counts}
    chosen = [key for key, text in texts.items() if _is_chosen(text, wanted, barred)]
    chosen.sort(key=lambda key: (-counts[key], texts[key]))
    return FieldAggregate(total, [(key[1], counts[key]) for key in chosen[: max(size, 0)]])


def _pattern(parameter: str, text: str | None) -> Automaton | None:
    if text is None:
        return None
    try:
        return regex(text)
    except FilterSyntax as error:
        raise FilterSyntax(error.message, **error.facts, parameter=parameter) from None


def _is_chosen(text: str, wanted: Automaton | None, barred: Automaton | None) -> bool:
    return (wanted is None or wanted.accepts(text)) and (barred is None or not barred.accepts(text))


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
