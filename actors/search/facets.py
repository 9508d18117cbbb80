"""The facets of a search: counts of values among the hits, and the choices of the user.

Hits pass the choices in all facets. The counts of a facet ignore the choice in that facet, so a count is the `total`
that another choice in it would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from actors.recommender.state.catalog import Catalog
from actors.recommender.state.groups import Groups
from actors.retrieval.messages import Facet, FacetFilter
from actors.vectors.types import Mask, Rows
from cluster.query.columnar.column import RowValuePairs
from cluster.query.columnar.value_counts import ValueCounts, count_rows
from cluster.query.language.automaton import Automaton, StepBudget
from cluster.query.language.field_values import is_text
from cluster.query.language.patterns import compile_regex

MOST_JUDGED: Final = 2_000_000
"""Characters of titles, descriptions and the like that all patterns of one search read; each has an equal share, and
texts beyond it are not listed. Values of other fields are read once for all rows and cost a fiftieth."""


class FacetSelection:
    """The choices in the facets of one search."""

    def __init__(self, filters: Sequence[FacetFilter], catalog: Catalog) -> None:
        self._masks = {chosen.field: catalog.filter_mask(chosen.filter) for chosen in filters}

    def filter_rows(self, rows: Rows, but: str | None = None) -> Mask:
        """Mark the rows that pass every choice, except that of one field.

        Shapes:
            rows: int64 [k]; returns: bool [k]
        """
        kept = np.ones(len(rows), np.bool_)
        for field, mask in self._masks.items():
            if field != but:
                kept &= mask[rows]
        return kept

    def __contains__(self, field: str) -> bool:
        """Return whether a facet has a selected value."""
        return field in self._masks


def count_facets(
    facets: Sequence[Facet], rows: Rows, chosen: FacetSelection, catalog: Catalog, *, dedupe: bool
) -> dict[str, list[tuple[Any, int]]]:
    """Count the values of facets among the hits, each without its own choice.

    With `dedupe` the variants of a product count once.

    Shapes:
        rows: int64 [k], rows before any choice
    """
    if not facets:
        return {}
    units = catalog.groups.astype(np.int64) if dedupe and catalog.has_variants else None
    count = len(catalog)
    # One budget for the patterns of all facets: a request with many facets gets no more time.
    effort = StepBudget()
    # All missing columns in one pass: facet by facet, each would read every record again.
    catalog.columns.build_columns([facet.field for facet in facets if facet.keys is None])
    # Shared by all facets without a choice of their own, which are nearly all.
    chosen_mask = _mask(rows[chosen.filter_rows(rows)], count)
    counted: dict[str, list[tuple[Any, int]]] = {}
    share = MOST_JUDGED // max(sum(_patterns(facet) for facet in facets if is_text(facet.field)), 1)
    counts_by_field: dict[tuple[str, str | None, bool], ValueCounts] = {}
    for facet in facets:
        chosen_name = next((name for name in (facet.label, facet.field) if name in chosen), None)
        mask = (
            chosen_mask if chosen_name is None else _mask(rows[chosen.filter_rows(rows, chosen_name)], count)
        )
        if facet.keys is None:
            cut = is_text(facet.field) and _patterns(facet) > 0
            # Two facets of one field differ in their patterns only and share the counting.
            value_counts = counts_by_field.get((facet.field, chosen_name, cut))
            if value_counts is None:
                pairs = _pairs(facet.field, mask, catalog, share if cut else None)
                value_counts = counts_by_field[facet.field, chosen_name, cut] = ValueCounts(pairs, units)
            patterns = _pattern(facet.include, effort), _pattern(facet.exclude, effort)
            counted[facet.label] = value_counts.most_frequent(facet.size, *patterns)
        else:
            counted[facet.label] = [
                (key, count_rows(mask & catalog.filter_mask(node), units)) for key, node in facet.keys
            ]
    return counted


class _Texts:
    """The texts of a field by code; patterns read the first of them, within a limit of characters."""

    def __init__(self, groups: Groups[str], letters: int | None) -> None:
        self._groups = groups
        self.judged = len(groups)
        if letters is not None:
            ends = np.cumsum([len(text) for text in groups.values], dtype=np.int64)
            # The texts whose cumulated length stays within the limit.
            self.judged = int(np.searchsorted(ends, letters, side="right"))

    def text(self, code: int) -> str:
        return self._groups.values[code]

    def like(self, pattern: Automaton) -> Mask:
        """Mark the codes whose whole text matches a pattern.

        Shapes:
            returns: bool [m]
        """
        return np.array([pattern.accepts(text) for text in self._groups.values[: self.judged]], np.bool_)


def _pairs(field: str, mask: Mask, catalog: Catalog, letters: int | None) -> RowValuePairs:
    """List the values of marked rows; columns have only the words of a text field, so its whole texts are read."""
    if not is_text(field):
        return catalog.columns.pairs(field, mask)
    groups = catalog.group_by_attribute(field)
    rows = np.flatnonzero(mask)
    nothing = RowValuePairs.none()
    texts = _Texts(groups, letters)
    places, codes = groups.codes_of_rows(rows)
    kept = codes < texts.judged
    return RowValuePairs(
        (rows[places[kept]], codes[kept]), nothing.numbers, nothing.true, nothing.false, texts
    )


def _patterns(facet: Facet) -> int:
    return (facet.include is not None) + (facet.exclude is not None)


def _pattern(text: str | None, effort: StepBudget) -> Automaton | None:
    return None if text is None else compile_regex(text, effort)


def _mask(rows: Rows, count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return mask
