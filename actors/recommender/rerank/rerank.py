"""Re-ranking: dithering, boosts, diversity and paging of a ranking.

The order of steps matters. Dithering changes the ranking. Boosts reorder candidates and never add products. Diversity
comes last and keeps pinned places. Positions count from the start of the whole list, not of the page.

Products move within blocks of a thousand ranks. Boosts raise products of the first block, or of all blocks that boost
positions reach. Blocks begin at the same ranks for every page. If they grew with the page, later pages could have
products that belong to earlier ones, or products twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np

from actors.recommender.messages import Boost, Placements, UserQuery
from actors.recommender.ranking.candidates import BLOCK_SIZE, SEEN_AGAIN, boost_depth
from actors.recommender.ranking.pipeline_inputs import PageWindow
from actors.recommender.ranking.score import normalize_scores
from actors.recommender.rerank.diversity import diversify, gather_equal_values, insert_pinned
from actors.recommender.rerank.exploration import ExploredPlace, dither, explore
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState
from actors.vectors.types import Mask
from cluster.query.field_projection import Projection
from cluster.query.language.field_values import canonical_field, collect_scalars
from cluster.query.language.tree import Everything
from cluster.records.served_list import COLD_START, DITHERED, EXPLORED, RANKED, REPEATED, RULE


@dataclass(frozen=True, slots=True)
class RankedItem:
    """One row of the list."""

    row: int
    boosted: bool = False
    rules: tuple[str, ...] = ()
    "Names of the rules that matched."


@dataclass(frozen=True, slots=True)
class RerankStep:
    """The list after one step, for explanations."""

    name: str
    order: list[int]
    by_rule: dict[int, str]
    "Row -> label of the boost that moved it; empty for other steps."


def rerank(
    ranked: list[int],
    query: UserQuery,
    catalog: Catalog,
    *,
    start: int,
    rows: int,
    seed: int,
    before: int = 0,
    shown: Set[int] = frozenset(),
    last_shown: Sequence[int] = (),
    steps: list[RerankStep] | None = None,
) -> list[RankedItem]:
    """Return the items of one page from a ranking without duplicates.

    `before` is the number of places on earlier pages, `shown` has their rows, and `last_shown` the last of them in
    order. `start` counts from `before`. If `steps` is given, the list after each step is appended to it.
    """
    end = start + rows
    if not (query.boosts or query.boost_circles or query.spacing or query.dithering > 1):
        left = [row for row in ranked if row not in shown] if shown else ranked
        return list(map(RankedItem, left[start:end]))
    values = _FieldValues(catalog)
    mixed = _DitheredRanking(query, values, shown, seed, steps)
    reach = boost_depth(query)
    # Boosts choose among the first `reach` rows, so these are mixed whole, whatever the page.
    head = mixed.dither_blocks(ranked[:reach], 0, 0, reach)
    # Ranks of the second part begin at `reach`, also where shown rows left `head`: the noise depends on
    # ranks.
    order = head + mixed.dither_blocks(ranked[reach:], reach, start - len(head), end - len(head))
    if steps is not None:
        mixed.record_steps()
    rules = _compile_boosts(query, catalog)
    boosted = _apply_boosts(order, len(head), rules, before)
    if steps is not None and rules:
        steps.append(RerankStep("boost", list(boosted.order), boosted.by_rule))
    order = _diversify(boosted, query, values, start, end, last_shown)
    if steps is not None and query.spacing:
        steps.append(RerankStep("diversification", order, {}))
    return [_build_item(row, rules) for row in order[start:end]]


class _FieldValues:
    """Values of a field by row, read once for each request."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._values: dict[tuple[int, str], frozenset[str]] = {}

    def __call__(self, row: int, field: str) -> frozenset[str]:
        values = self._values.get((row, field))
        if values is None:
            leaves = collect_scalars(self._catalog.record(row), canonical_field(field))
            values = self._values[row, field] = frozenset(str(leaf) for leaf in leaves)
        return values


class _DitheredRanking:
    """Dithers blocks of the ranking, gathers equal values, and removes the rows of earlier pages."""

    def __init__(
        self,
        query: UserQuery,
        values: _FieldValues,
        shown: Set[int],
        seed: int,
        steps: list[RerankStep] | None,
    ) -> None:
        self._query = query
        self._values = values
        self._shown = shown
        self._seed = seed
        self._steps = steps
        self._dithered: list[int] = []
        self._gathered: list[int] = []

    def dither_blocks(self, rows: list[int], first: int, start: int, end: int) -> list[int]:
        """Return the rows, with dithering in blocks that reach places start to end; `first` is the first rank."""
        done: list[int] = []
        for at in range(0, len(rows), BLOCK_SIZE):
            block = rows[at : at + BLOCK_SIZE]
            # Only blocks that reach the page are dithered; each is dithered by itself.
            near = len(done) < end and len(done) + BLOCK_SIZE > start
            if near and self._query.dithering > 1:
                block = dither(block, self._query.dithering, self._seed, first + at)
            # After dithering, which depends on ranks: without these rows the order would be another one.
            if self._shown:
                block = [row for row in block if row not in self._shown]
            if self._steps is not None:
                self._dithered += block
            if near and self._query.spacing:
                block = gather_equal_values(block, self._query.spacing, self._values)
            done += block
        if self._steps is not None:
            self._gathered += done
        return done

    def record_steps(self) -> None:
        """Append the lists after dithering and gathering to the steps."""
        assert self._steps is not None
        if self._query.dithering > 1:
            self._steps.append(RerankStep("dithering", self._dithered, {}))
        if any(rule.always_together for rule in self._query.spacing):
            self._steps.append(RerankStep("diversification", self._gathered, {}))


@dataclass(frozen=True, slots=True)
class _BoostedList:
    """A list after boosts, with pinned rows in their places."""

    order: list[int]
    pinned: dict[int, int]
    front: Set[int]
    by_rule: dict[int, str]


def _compile_boosts(query: UserQuery, catalog: Catalog) -> list[tuple[Boost, Mask]]:
    """Return each boost with the mask of its rows. A circle is a boost without a name."""
    rules = [(boost, catalog.filter_mask(boost.filter)) for boost in query.boosts]
    return rules + [
        (Boost(Everything(), circle.positions, label=f"geo.boost[{at}]"), catalog.near_mask(circle))
        for at, circle in enumerate(query.boost_circles)
    ]


def _apply_boosts(
    order: list[int], reach: int, rules: Sequence[tuple[Boost, Mask]], before: int
) -> _BoostedList:
    """Raise, pin and bury the first `reach` rows. A raised row is not buried."""
    if not rules:
        return _BoostedList(order, {}, frozenset(), {})
    head = order[:reach]
    tail = order[reach:]
    by_rule: dict[int, str] = {}
    pinned = _pin_rows(head, rules, before, by_rule)
    taken = set(pinned.values())
    raised = [(boost, mask) for boost, mask in rules if boost.positions is None and not boost.bury]
    # Pinned rows first, then raised, then buried: the earlier step takes a row from the later ones.
    first = [row for row in _filter_any([mask for _, mask in raised], head) if row not in taken]
    taken.update(first)
    buried = [(boost, mask) for boost, mask in rules if boost.bury]
    last = [row for row in _filter_any([mask for _, mask in buried], head) if row not in taken]
    taken.update(last)
    between = [row for row in head if row not in taken]
    _record_rule(by_rule, raised, first)
    _record_rule(by_rule, buried, last)
    return _BoostedList(
        insert_pinned(first + between + last, pinned) + tail, pinned, frozenset(first), by_rule
    )


def _pin_rows(
    order: Sequence[int], rules: Sequence[tuple[Boost, Mask]], before: int, by_rule: dict[int, str]
) -> dict[int, int]:
    """Return the places of pinned rows, best first. If two rules name a place, the earlier rule gets it.

    If a rule has fewer rows than places, other rows fill its later places.
    """
    pinned: dict[int, int] = {}
    for boost, mask in rules:
        if boost.positions is None or boost.bury:
            continue
        matching = (row for row in _filter_any([mask], order) if row not in by_rule)
        for place in sorted(set(boost.positions)):
            if place < before or place - before in pinned or place - before >= len(order):
                continue
            row = next(matching, None)
            if row is None:
                break
            pinned[place - before] = row
            by_rule[row] = boost.label
    return pinned


def _record_rule(by_rule: dict[int, str], rules: Sequence[tuple[Boost, Mask]], rows: Sequence[int]) -> None:
    """Store the label of the first rule that matches each row."""
    # The usual case needs no look at masks.
    if len(rules) == 1:
        by_rule.update(dict.fromkeys(rows, rules[0][0].label))
        return
    for row in rows:
        by_rule[row] = next(boost.label for boost, mask in rules if mask[row])


def _filter_any(masks: Sequence[Mask], rows: Sequence[int]) -> list[int]:
    """Return the rows that any of the masks marks."""
    if not masks or not rows:
        return []
    # Masks are read for the ranked rows alone, not combined over the whole catalog.
    ranked = np.asarray(rows, np.int64)
    kept: list[int] = ranked[np.any([mask[ranked] for mask in masks], axis=0)].tolist()
    return kept


def _diversify(
    boosted: _BoostedList,
    query: UserQuery,
    values: _FieldValues,
    start: int,
    end: int,
    last_shown: Sequence[int],
) -> list[int]:
    """Diversify each block of places that the page needs. A deep page costs no more than the first."""
    order = boosted.order
    if not any(rule.minimum_distance > 0 and not rule.always_together for rule in query.spacing):
        return order
    for at in _block_starts(start, min(end, len(order))):
        block = order[at : at + BLOCK_SIZE]
        order[at : at + BLOCK_SIZE] = diversify(
            block,
            query.spacing,
            values,
            pinned={
                place - at: row for place, row in boosted.pinned.items() if at <= place < at + BLOCK_SIZE
            },
            front=sum(row in boosted.front for row in block),
            places=end - at,
            previous=last_shown if at == 0 else (),
        )
    return order


def _block_starts(start: int, end: int) -> Iterator[int]:
    return iter(range(start // BLOCK_SIZE * BLOCK_SIZE, end, BLOCK_SIZE))


def _build_item(row: int, rules: Sequence[tuple[Boost, Mask]]) -> RankedItem:
    matched = [boost for boost, mask in rules if mask[row] and not boost.bury]
    return RankedItem(row, bool(matched), tuple(dict.fromkeys(boost.name for boost in matched if boost.name)))


def explore_page(
    items: list[RankedItem],
    candidates: Sequence[int],
    query: UserQuery,
    catalog: Catalog,
    page: PageWindow,
    barred_groups: Set[int],
    steps: list[RerankStep] | None = None,
) -> ExploredPlace | None:
    """Fill one place of a page as the draw of the page decides, and return the place; None: no draw changes it.

    Rules keep their places, and products that match a rule are not drawn. Neither are those of `barred_groups`: the
    draw of cold-start items decides about them. A page behind the first ranks is explored only with a `pagination_id`.
    Otherwise it could show what an earlier page showed.
    """
    draw = page.draw
    if draw is None or page.start:
        return None
    # A product of a rule was placed on purpose; drawing it would blur what the rule did.
    masks = [mask for _, mask in _compile_boosts(query, catalog)]
    inside = {item.row for item in items}.union(page.shown_rows, _filter_any(masks, candidates))
    groups = catalog.groups
    outside = (row for row in candidates if row not in inside and int(groups[row]) not in barred_groups)
    fixed = {place for place, item in enumerate(items) if item.boosted}
    explored = explore([item.row for item in items], fixed, list(islice(outside, draw.pool_size)), draw)
    if explored is None or explored.place is None:
        return explored
    items[explored.place] = RankedItem(explored.row)
    if steps is not None:
        order = [*steps[-1].order] if steps else [row for row in candidates if row not in page.shown_rows]
        # Explanations list moves of a permutation, so the replaced product takes the place of the drawn
        # one.
        former = order.index(explored.row)
        order[former] = order[explored.place]
        order[explored.place] = explored.row
        steps.append(RerankStep("exploration", order, {}))
    return explored


def render_products(
    placed: Sequence[RankedItem], scores: Mapping[int, float], query: UserQuery, catalog: Catalog
) -> list[dict[str, Any]]:
    """Write result records: `product_id`, the fields of `fl`, and the underscore fields.

    `scores` contains the personal score of each row. A product that was removed a moment ago is left out.

    Cost:
        1 us a record for `fl: []`, 5 us with fields
    """
    boosting = bool(query.boosts or query.boost_circles)
    offered = catalog.offered
    # Removed after the ranking: the priors are older than the catalog.
    items = [item for item in placed if offered[item.row]]
    rows = [item.row for item in items]
    results: list[dict[str, Any]]
    if query.fields:
        results = Projection.of(query.fields).select(catalog.columns.list_records(rows))
    else:
        results = [{"product_id": catalog.product_ids[row]} for row in rows]
    shown_scores = normalize_scores(map(scores.__getitem__, rows))
    for item, result, shown in zip(items, results, shown_scores, strict=True):
        result["_personalization_score"] = shown
        if boosting:
            result["_boosted"] = item.boosted
            if item.rules:
                result["_boosted_rules"] = list(item.rules)
    return results


_ROW = attrgetter("row")


def describe_placements(
    items: Sequence[RankedItem],
    products: Sequence[Any],
    scores: Mapping[int, float],
    query: UserQuery,
    state: EngineState,
    level: str = "",
    draws: Mapping[int, float | None] | None = None,
    explored: ExploredPlace | None = None,
) -> Placements | None:
    """Return scores, origins and propensities of the items of a list; `scores` has the score of each row.

    Returns None if `products`, the rendered items, lack one that was removed a moment ago.

    `draws` has the probability of each cold-start row at the place that its draw chose. Boosts and diversity move
    products by fixed rules. So a list without draws has propensity 1, and one with draws has none. Exploration then
    takes each place with the same probability, except those of rules.

    Cost:
        2 microseconds for ten products
    """
    count = len(items)
    if count != len(products):
        return None
    origin = RANKED
    propensities: tuple[float | None, ...] = (1.0,) * count
    if query.dithering > 1:
        origin = DITHERED
        propensities = (None,) * count
    elif level == SEEN_AGAIN:
        origin = REPEATED
    elif draws:
        if query.boosts or query.boost_circles or query.spacing or None in draws.values():
            propensities = (None,) * count
        else:
            propensities = tuple(draws.get(item.row, 1.0) for item in items)
    origins: tuple[int, ...] = (origin,) * count
    if draws or query.boosts or query.boost_circles:
        origins = tuple(
            RULE if item.boosted else COLD_START if draws and item.row in draws else origin for item in items
        )
    if explored is not None:
        origins, propensities = _add_explored_place(explored, items, origins, propensities)
    model = state.serving_model
    position = state.overlay.position
    signals_position = state.priors_position
    return Placements(
        tuple(map(scores.__getitem__, map(_ROW, items))),
        origins,
        propensities,
        state.serving_version,
        "" if model is None else model.recipe,
        state=position if position == signals_position else f"{position} {signals_position}",
    )


def _add_explored_place(
    explored: ExploredPlace,
    items: Sequence[RankedItem],
    origins: Sequence[int],
    propensities: Sequence[float | None],
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Return origins and propensities of a list that exploration may have changed.

    Source:
        docs/concepts/scoring.md, equation 28
    """
    stays = 1 - explored.share
    chances = [
        propensity if propensity is None or item.boosted else propensity * stays
        for item, propensity in zip(items, propensities, strict=True)
    ]
    if explored.place is None:
        return tuple(origins), tuple(chances)
    codes = list(origins)
    place = explored.place
    codes[place] = EXPLORED
    if chances[place] is not None:
        # Each product of the pool has the same chance of the place.
        # P = e / R * 1 / N (equation 28); `share` is e / R already
        chances[place] = explored.share / explored.pool
    return tuple(codes), tuple(chances)
