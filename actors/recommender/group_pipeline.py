"""Recommendations of categories and attribute values: groups in the order of the user's interests, with products.

user signals ──▶ filtered groups ──▶ scores ──▶ order of groups ──▶ products of each group ──▶ result records
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from actors.recommender.explain import ExplanationInputs, explain_groups, explain_products
from actors.recommender.messages import Placements, RecommendationResult, RecommendedGroup, UserQuery
from actors.recommender.ranking.candidates import (
    RemovedRows,
    apply_list_weights,
    filter_rows,
    list_consumed_rows,
    select_distinct,
)
from actors.recommender.ranking.pipeline_inputs import PageWindow, UserSignals, name_fallback_level
from actors.recommender.ranking.ranking import rank
from actors.recommender.ranking.score import compute_user_scores
from actors.recommender.rerank.exploration import dithering_seed
from actors.recommender.rerank.group_scores import count_available, score_groups, sum_popularity
from actors.recommender.rerank.rerank import RerankStep, describe_placements, render_products, rerank
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.filtered_groups import FilteredGroups
from actors.recommender.state.groups import Groups, select_best_rows
from actors.vectors.types import Mask, Scores

V = TypeVar("V", bound=Hashable)

# Above any score, so consumed products come last in a group; unlike -inf, it keeps them in it.
_SEEN_MALUS = np.float32(1e6)


def user_to_categories(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Answer `user_to_categories`: children of a path, the top level without one, any sub-category with `*`."""
    root = query.root_category or ()
    groups = state.catalog.categories
    if root == ("*",):
        codes = [code for code, path in enumerate(groups.values) if len(path) > 1]
    else:
        depth = len(root) + 1
        codes = [code for code, path in enumerate(groups.values) if len(path) == depth and path[:-1] == root]
    enough = max(1, query.group_rows) if query.filter is not None else 1
    choice = GroupChoice(groups, codes, enough=enough)
    return _rank_groups(query, user, page, choice, state, priors, now_ms)


def user_to_attributes(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Answer `user_to_attributes`: values of a field, boosted ones first, excluded ones never."""
    groups = state.catalog.group_by_attribute(query.field_name)
    excluded = set(query.exclude_values)
    codes = [code for code, value in enumerate(groups.values) if value not in excluded]
    boosted = [groups.code_of(value) for value in query.boost_values if value not in excluded]
    choice = GroupChoice(groups, codes, leading=[code for code in boosted if code is not None])
    return _rank_groups(query, user, page, choice, state, priors, now_ms)


@dataclass(frozen=True, slots=True)
class GroupChoice(Generic[V]):
    """The groups that may be shown."""

    groups: Groups[V]
    codes: list[int]
    leading: Sequence[int] = ()
    "Codes of the groups that come first, in order."
    enough: int = 1
    "Products that a group needs."


def _rank_groups(
    query: UserQuery,
    user: UserSignals,
    page: PageWindow,
    choice: GroupChoice[V],
    state: EngineState,
    priors: ItemPriors,
    now_ms: int,
) -> RecommendationResult:
    """Rank groups by the interests of the user, and the products of each by the score.

    Source:
        docs/concepts/scoring.md, equation 26
    """
    catalog = state.catalog
    groups = choice.groups
    recent = list_consumed_rows(query, user, state, now_ms)
    user = apply_list_weights(query, user, state, recent)
    filtered = _get_filtered_groups(query, groups, state, priors)
    user_scores = compute_user_scores(user, state, priors)
    scores = rank(user_scores.prior, user_scores.personal).scores
    # `np.where` copies: the maluses below must not reach the scores that are shown.
    ranking = np.where(filtered.available, scores, np.float32(-np.inf))
    # Rows that the catalog got since the priors were computed have no score yet.
    excluded = [row for row in catalog.rows_of(query.exclude) if row < len(ranking)]
    ranking[excluded] = -np.inf
    candidates = np.array(choice.codes, np.int64)
    candidates = candidates[count_available(groups, filtered, excluded)[candidates] >= choice.enough]
    merit = score_groups(
        groups, candidates, ranking, user.profile, sum_popularity(groups, user, state, priors)
    )
    # Stable: replicas list equal groups in the same order.
    order = candidates[np.argsort(-merit, kind="stable")].tolist()
    present = set(order)
    leading = [code for code in dict.fromkeys(choice.leading) if code in present]
    chosen = leading + [code for code in order if code not in leading]
    # consumed products fill a group only after everything else in it
    consumed = {row for row in recent if row < len(ranking)}
    ranking[list(consumed)] -= _SEEN_MALUS
    # totals count variants; a group is only full when it has enough different products
    least = choice.enough if query.group_rows and query.dedupe else 0
    # Lazy: rows are selected only for the groups that the page shows.
    ranked = ((code, _select_group_rows(query, catalog, filtered, code, ranking)) for code in chosen)
    shown = list(islice((item for item in ranked if len(item[1]) >= least), query.rows))
    explained = None
    if query.explain:
        # Groups have no pages: `start` moves nothing, and products of earlier pages stay.
        whole = replace(page, shown_count=0, start=0, shown_rows=frozenset())
        explained = ExplanationInputs(query, user, whole, RemovedRows(recent), state, priors)
    rendered = []
    for code, rows in shown:
        products, placements = _render_group(query, rows, scores, state, now_ms, explained)
        value = groups.values[code]
        name = value if isinstance(value, tuple) else str(value)
        rendered.append(RecommendedGroup(name, int(filtered.totals[code]), products, placements))
    result = RecommendationResult(groups=rendered, served_by=name_fallback_level(user, priors))
    return result if explained is None else explain_groups(explained, result, [rows for _, rows in shown])


def _get_filtered_groups(
    query: UserQuery, groups: Groups[V], state: EngineState, priors: ItemPriors
) -> FilteredGroups:
    """Find the rows of every group that pass type and filters, which are those that totals count."""
    catalog = state.catalog
    count = len(priors)

    def allowed() -> Mask:
        mask = filter_rows(query, catalog)
        present: Mask = catalog.present[:count].copy()
        return present if mask is None else present & mask[:count]

    removed = tuple(rule.filter for rule in query.removed)
    conditions = (query.type, query.filter, query.circles, removed)
    # Masks hold for one state: of the catalog, and of the priors that say what is offered.
    versions = (catalog.version, priors.versions[0], count)
    return state.filtered_groups.get(
        groups, conditions, versions, allowed, priors.offered & catalog.offered[:count]
    )


def _select_group_rows(
    query: UserQuery, catalog: Catalog, filtered: FilteredGroups, code: int, ranking: Scores
) -> list[int]:
    """Select the best rows of one group, as many as the query needs."""
    if not query.group_rows and not query.explain_missing:
        return []
    return select_distinct(
        lambda depth: select_best_rows(filtered.list_rows(code), ranking, depth),
        query,
        catalog,
        query.group_rows,
    )


def _render_group(
    query: UserQuery,
    rows: list[int],
    scores: Scores,
    state: EngineState,
    now_ms: int,
    explained: ExplanationInputs | None,
) -> tuple[list[dict[str, Any]], Placements | None]:
    """Re-rank the products of one group and render their records; `explained` adds explanations.

    Shapes:
        scores: float32 [n], of all rows
    """
    steps: list[RerankStep] | None = None if explained is None else []
    seed = dithering_seed(query, now_ms)
    items = rerank(rows, query, state.catalog, start=0, rows=query.group_rows, seed=seed, steps=steps)
    by_row = {item.row: float(scores[item.row]) for item in items}
    products = render_products(items, by_row, query, state.catalog)
    if explained is not None and steps is not None:
        explain_products(explained, products, rows, steps)
    return products, describe_placements(items, products, by_row, query, state)
