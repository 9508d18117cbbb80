"""Products that stand where others stand, whatever brought them into the list.

Source: reference 6.7
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.recommender.rerank.rerank import RankedItem
from actors.recommender.state.catalog import Catalog
from actors.retrieval.messages import Anchoring
from actors.vectors.types import Mask, Rows


def active_anchorings(anchorings: Sequence[Anchoring], now_ms: int) -> list[Anchoring]:
    """Keep the entries whose time it is; they end the moment `end_time` begins."""
    return [
        entry
        for entry in anchorings
        if (entry.from_ms is None or entry.from_ms <= now_ms)
        and (entry.until_ms is None or now_ms < entry.until_ms)
    ]


def select_anchored_rows(
    anchorings: Sequence[Anchoring], catalog: Catalog, found: Rows, allowed: Mask
) -> list[int]:
    """List the allowed rows that come in because one of their anchors was found, in the order of the entries."""
    if not anchorings:
        return []
    there = set(found.tolist())
    rows = []
    for entry in anchorings:
        row = catalog.row_of(entry.product_id)
        if row < 0 or row in there or not allowed[row]:
            continue
        if not there.isdisjoint(catalog.rows_of(entry.anchor_ids)):
            rows.append(row)
            there.add(row)
    return rows


def place_anchored(
    placed: list[RankedItem], anchorings: Sequence[Anchoring], catalog: Catalog, *, dedupe: bool
) -> list[RankedItem]:
    """Put products beside their highest anchors; entries are obeyed one after the other.

    With `dedupe` any variant stands for its product.
    """
    for entry in anchorings:
        row = catalog.row_of(entry.product_id)
        if row < 0:
            continue
        own = _variants([row], catalog, dedupe)
        moved = next((item for item in placed if item.row in own), None)
        if moved is None:
            continue
        rest = [item for item in placed if item.row not in own]
        anchors = _variants(catalog.rows_of(entry.anchor_ids), catalog, dedupe) - own
        at = next((place for place, item in enumerate(rest) if item.row in anchors), None)
        if at is not None:
            place = at + entry.position if entry.position > 0 else at + entry.position + 1
            rest.insert(max(place, 0), moved)
            placed = rest
    return placed


def _variants(rows: Sequence[int], catalog: Catalog, dedupe: bool) -> set[int]:
    return set(catalog.add_variants(rows) if dedupe else rows)
