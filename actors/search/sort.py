"""The order of search hits: by relevance and personal score, by the keys of the query, or beside anchors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from actors.recommender.rerank.rerank import RankedItem
from actors.recommender.state.catalog import Catalog
from actors.retrieval.messages import DISTANCE, SCORES, Anchoring, OrderKey
from actors.vectors.types import Floats, Mask, Rows, Scores
from cluster.query.columnar.formula import is_plain_field, parse_formula

_MOST = 3.0
# Weight with which the personal score decides between equals alone.
_HARDLY = 1e-6
# Weight of a row number among full equals: below all other terms for any catalog.
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
    # All relevances equal, as of a search without words: the personal score then orders alone.
    spread = float(blended.std()) or 1.0
    around = personal - personal.mean()
    # clip(centred score, -3, 3) with deviation at least 1 (equation 27)
    scaled = np.clip(around / max(float(around.std()), 1.0), -_MOST, _MOST)
    # relevance + deviation(relevance) * weight * clip(...) (equation 27)
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
    # The last key is the first to sort by: `level`, then the higher `otherwise`.
    order: Rows = np.lexsort((-otherwise, level))
    return order


def _split_ties(level: Rows, values: Floats, threshold: float) -> Rows:
    """Split equal rows by values, the lower first; neighbours within the threshold stay equal."""
    if not len(level):
        return level
    order = np.lexsort((values, level))
    ordered = values[order]
    before = level[order]
    with np.errstate(all="ignore"):
        # a gap beyond all bounds is simply large
        gap = np.abs(np.diff(ordered))
        # Relative to the larger value (see `OrderKey.threshold`).
        near = gap <= threshold * np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1]))
    is_new = np.append(False, (np.diff(before) != 0) | ~near)
    refined = np.empty_like(level)
    # Levels count up along the sorted rows, and go back to the places that the rows had.
    refined[order] = np.cumsum(is_new)
    return refined


def _values(key: OrderKey, rows: Rows, catalog: Catalog, scores: Callable[[str], Floats]) -> Floats:
    def of(name: str) -> Floats:
        if name == DISTANCE and key.at is not None:
            numbers: Floats = catalog.columns.distances(*key.at)[rows]
        elif name in SCORES:
            numbers = scores(name)
        else:
            numbers = catalog.columns.numbers(name)[rows]
        return numbers

    if is_plain_field(key.expression):
        values = of(key.expression)
    else:
        formula = parse_formula(key.expression)
        values = formula.values({name: of(name) for name in formula.fields}, len(rows))
    # A product without the field, or a formula that divides by zero.
    filled: Floats = np.where(np.isfinite(values), values, key.default)
    return filled


def active_anchorings(anchorings: Sequence[Anchoring], now_ms: int) -> list[Anchoring]:
    """Keep the entries that are active; an entry ends at the start of `end_time`."""
    return [
        entry
        for entry in anchorings
        if (entry.from_ms is None or entry.from_ms <= now_ms)
        and (entry.until_ms is None or now_ms < entry.until_ms)
    ]


def select_anchored_rows(
    anchorings: Sequence[Anchoring], catalog: Catalog, hit_rows: Rows, allowed: Mask
) -> list[int]:
    """List the allowed rows that join the list because an anchor was found, in the order of the entries.

    Shapes:
        hit_rows: int64 [k]; allowed: bool [n]
    """
    if not anchorings:
        return []
    listed = set(hit_rows.tolist())
    rows = []
    for entry in anchorings:
        row = catalog.row_of(entry.product_id)
        if row < 0 or row in listed or not allowed[row]:
            continue
        if not listed.isdisjoint(catalog.rows_of(entry.anchor_ids)):
            rows.append(row)
            listed.add(row)
    return rows


def place_anchored(
    placed: list[RankedItem], anchorings: Sequence[Anchoring], catalog: Catalog, *, dedupe: bool
) -> list[RankedItem]:
    """Move products beside their highest anchors, one entry after the other.

    With `dedupe` each variant counts as its product.
    """
    for entry in anchorings:
        row = catalog.row_of(entry.product_id)
        if row < 0:
            continue
        # With `dedupe`, the list may show another variant of the product than the one that the entry names.
        variants = _variants([row], catalog, dedupe)
        moved = next((item for item in placed if item.row in variants), None)
        if moved is None:
            continue
        rest = [item for item in placed if item.row not in variants]
        anchors = _variants(catalog.rows_of(entry.anchor_ids), catalog, dedupe) - variants
        at = next((place for place, item in enumerate(rest) if item.row in anchors), None)
        if at is not None:
            # 1 is directly behind the anchor and -1 directly before it, which moves the anchor itself.
            place = at + entry.position if entry.position > 0 else at + entry.position + 1
            rest.insert(max(place, 0), moved)
            placed = rest
    return placed


def _variants(rows: Sequence[int], catalog: Catalog, dedupe: bool) -> set[int]:
    return set(catalog.expand_variants(rows) if dedupe else rows)
