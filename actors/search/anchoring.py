"""Anchoring: products that are placed beside others in a list."""

from __future__ import annotations

from collections.abc import Sequence

from actors.recommender.rerank.rerank import RankedItem
from actors.recommender.state.catalog import Catalog
from actors.retrieval.messages import Anchoring
from actors.vectors.types import Mask, Rows


def active_anchorings(anchorings: Sequence[Anchoring], now_ms: int) -> list[Anchoring]:
    """Keep the entries that are active; an entry ends at the start of `end_time`."""
    return [
        entry
        for entry in anchorings
        if (entry.from_ms is None or entry.from_ms <= now_ms)
        and (entry.until_ms is None or now_ms < entry.until_ms)
    ]


def select_anchored_rows(
    anchorings: Sequence[Anchoring], catalog: Catalog, found: Rows, allowed: Mask
) -> list[int]:
    """List the allowed rows that join the list because an anchor was found, in the order of the entries.

    Shapes:
        found: int64 [k]; allowed: bool [n]
    """
    if not anchorings:
        return []
    listed = set(found.tolist())
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
        variants = _variants([row], catalog, dedupe)
        moved = next((item for item in placed if item.row in variants), None)
        if moved is None:
            continue
        rest = [item for item in placed if item.row not in variants]
        anchors = _variants(catalog.rows_of(entry.anchor_ids), catalog, dedupe) - variants
        at = next((place for place, item in enumerate(rest) if item.row in anchors), None)
        if at is not None:
            place = at + entry.position if entry.position > 0 else at + entry.position + 1
            rest.insert(max(place, 0), moved)
            placed = rest
    return placed


def _variants(rows: Sequence[int], catalog: Catalog, dedupe: bool) -> set[int]:
    return set(catalog.add_variants(rows) if dedupe else rows)
