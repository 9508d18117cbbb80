"""From a ranking to a list: one per group, shuffled a little, boosted, spaced, cut to the page.

The order of steps matters: dithering works on the ranking; boosts reorder what came into question and never bring
in what did not; spacing comes last and leaves pinned places alone. Positions count from the start of the whole
list, not of the page.

What may move is the head of the ranking, always the same number of products: were it to grow with the page asked
for, products would come up on later pages that belong on earlier ones, and others would be shown twice.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from actors.recommender.catalog import Catalog
from actors.recommender.dither import dithered
from actors.recommender.messages import Boost, ReaderQuery
from actors.recommender.spacing import gathered, spaced
from actors.vectors.types import Mask
from cluster.query.tree import Everything
from cluster.query.values import canonical, leaves_of

HEAD = 1000
"So many of the best may be moved: as many as the longest page has rows."


@dataclass(frozen=True, slots=True)
class Placed:
    """One row of the list."""

    row: int
    boosted: bool = False
    rules: tuple[str, ...] = ()
    "Names of the rules that matched."


def known_for(query: ReaderQuery, wanted: int) -> int:
    """Say how many of the best must be known to find the first `wanted`: what may move is known as a whole."""
    if query.boosts or query.boost_circles or query.spacing or query.dithering > 1:
        return max(HEAD, wanted)
    return wanted


def depth_for(known: int) -> int:
    """Say how many ranked rows usually hold so many different products."""
    return known + min(known, HEAD) + 14


def one_per_group(rows: Sequence[int], catalog: Catalog) -> list[int]:
    """Keep the first variant of every product; rows must be ranked, so that is the likeliest one."""
    if not len(rows):
        return []
    ranked = np.asarray(rows, np.int64)
    _, first = np.unique(catalog.groups[ranked], return_index=True)
    kept: list[int] = ranked[np.sort(first)].tolist()
    return kept


def arrange(
    ranked: list[int],
    query: ReaderQuery,
    catalog: Catalog,
    *,
    start: int,
    rows: int,
    seed: int,
    before: int = 0,
    shown: Set[int] = frozenset(),
) -> list[Placed]:
    """Make the page from a ranking without duplicates.

    `before` counts the places that came on earlier pages, `shown` holds their rows; `start` counts from there.
    """
    head, tail = ranked[:HEAD], ranked[HEAD:]
    if query.dithering > 1:
        head = dithered(head, query.dithering, seed)
    if shown:
        head, tail = ([row for row in part if row not in shown] for part in (head, tail))
    if not (query.boosts or query.boost_circles or query.spacing):
        return [Placed(row) for row in (head + tail)[start : start + rows]]
    values = _Values(catalog)
    head = gathered(head, query.spacing, values)
    rules = _rules(query, catalog)
    pinned = _pinned(head, rules, before)
    taken = set(pinned.values())
    to_front = [mask for boost, mask in rules if boost.positions is None]
    first = [row for row in _any_of(to_front, head) if row not in taken]
    chosen = set(first)
    head = first + [row for row in head if row not in chosen]
    head = spaced(head, query.spacing, values, pinned=pinned, front=len(first), wanted=start + rows)
    return [_placed(row, rules) for row in (head + tail)[start : start + rows]]


class _Values:
    """Values of a field by row, read once a request."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._found: dict[tuple[int, str], frozenset[str]] = {}

    def __call__(self, row: int, field: str) -> frozenset[str]:
        values = self._found.get((row, field))
        if values is None:
            leaves = leaves_of(self._catalog.record(row), canonical(field))
            values = self._found[row, field] = frozenset(str(leaf) for leaf in leaves)
        return values


def _rules(query: ReaderQuery, catalog: Catalog) -> list[tuple[Boost, Mask]]:
    """Decide every boost for all rows; circles boost like rules without a name."""
    rules = [(boost, catalog.matching(boost.filter)) for boost in query.boosts]
    return rules + [
        (Boost(filter=Everything(), positions=circle.positions), catalog.near(circle))
        for circle in query.boost_circles
    ]


def _pinned(order: Sequence[int], rules: Sequence[tuple[Boost, Mask]], before: int) -> dict[int, int]:
    """Give places to boosted rows, best first; the earlier rule has a place that two want.

    A rule with fewer boosted rows than places leaves its later places to the next in order.
    """
    pinned: dict[int, int] = {}
    taken: set[int] = set()
    for boost, mask in rules:
        if boost.positions is None:
            continue
        matching = (row for row in _any_of([mask], order) if row not in taken)
        for place in sorted(set(boost.positions)):
            if place < before or place - before in pinned or place - before >= len(order):
                continue
            row = next(matching, None)
            if row is None:
                break
            pinned[place - before] = row
            taken.add(row)
    return pinned


def _any_of(masks: Sequence[Mask], rows: Sequence[int]) -> list[int]:
    """Keep the rows that any of the masks marks."""
    if not masks or not rows:
        return []
    ranked = np.asarray(rows, np.int64)
    kept: list[int] = ranked[np.any([mask[ranked] for mask in masks], axis=0)].tolist()
    return kept


def _placed(row: int, rules: Sequence[tuple[Boost, Mask]]) -> Placed:
    matched = [boost for boost, mask in rules if mask[row]]
    return Placed(row, bool(matched), tuple(dict.fromkeys(boost.name for boost in matched if boost.name)))
