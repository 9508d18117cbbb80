"""The order of search hits: by relevance and personal score, or by the keys of the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from actors.recommender.state.catalog import Catalog
from actors.retrieval.messages import DISTANCE, SCORES, OrderKey
from actors.vectors.types import Floats, Rows, Scores
from cluster.query.columnar.formula import is_plain_field, parse_formula

_MOST = 3.0
_HARDLY = 1e-6
_NEWER = 1e-13


def blend_scores(rows: Rows, relevance: Scores, personal: Floats, weight: float) -> Floats:
    """Add the personal score to the relevance; at weight 0 it orders equals only.

    Among equals the newer row comes first, so the order is the same for all pages.

    Shapes:
        rows: int64 [k]; relevance: float32 [k]; personal: float64 [k]; returns: float64 [k]
    Units:
        weight: standard deviations of the relevance
    """
    if not len(relevance):
        return np.zeros(0)
    blended = relevance.astype(np.float64)
    spread = float(blended.std()) or 1.0
    around = personal - personal.mean()
    scaled = np.clip(around / max(float(around.std()), 1.0), -_MOST, _MOST)
    blend: Floats = blended + spread * ((weight + _HARDLY) * scaled + _NEWER * rows)
    return blend


def sort_rows(
    keys: Sequence[OrderKey],
    rows: Rows,
    catalog: Catalog,
    scores: Callable[[str], Floats],
    otherwise: Floats,
) -> Rows:
    """Order rows by keys, equal ones by `otherwise`, the higher first.

    Shapes:
        rows: int64 [k]; otherwise: float64 [k]; returns: int64 [k], positions
    """
    level: Rows = np.zeros(len(rows), np.int64)
    for key in keys:
        values = _values(key, rows, catalog, scores)
        level = _split_ties(level, values if key.ascending else -values, key.threshold)
    order: Rows = np.lexsort((-otherwise, level))
    return order


def _split_ties(level: Rows, values: Floats, threshold: float) -> Rows:
    """Split equal rows by values, the lower first; neighbours within the threshold stay equal."""
    if not len(level):
        return level
    order = np.lexsort((values, level))
    found, before = values[order], level[order]
    with np.errstate(all="ignore"):
        # a gap beyond all bounds is simply large
        gap = np.abs(np.diff(found))
        near = gap <= threshold * np.maximum(np.abs(found[1:]), np.abs(found[:-1]))
    is_new = np.append(False, (np.diff(before) != 0) | ~near)
    refined = np.empty_like(level)
    refined[order] = np.cumsum(is_new)
    return refined


def _values(key: OrderKey, rows: Rows, catalog: Catalog, scores: Callable[[str], Floats]) -> Floats:
    def of(name: str) -> Floats:
        if name == DISTANCE and key.at is not None:
            found: Floats = catalog.columns.distances(*key.at)[rows]
        elif name in SCORES:
            found = scores(name)
        else:
            found = catalog.columns.numbers(name)[rows]
        return found

    if is_plain_field(key.expression):
        values = of(key.expression)
    else:
        formula = parse_formula(key.expression)
        values = formula.values({name: of(name) for name in formula.fields}, len(rows))
    known: Floats = np.where(np.isfinite(values), values, key.default)
    return known
