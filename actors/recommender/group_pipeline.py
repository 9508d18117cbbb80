"""Categories and attribute values for a reader, each with its products: the same scores, seen by group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from actors.recommender.explain import explain_products, explained_groups
from actors.recommender.messages import Group, RecommendationResult
from actors.recommender.ranking.candidates import admitted, deep_enough, left_out_of
from actors.recommender.ranking.query_context import Request
from actors.recommender.rerank.rerank import Step, arrange
from actors.recommender.result_fields import project
from actors.recommender.state.filtered_groups import Section, merit_of
from actors.recommender.state.groups import Groups, best_among
from actors.vectors.top import best_rows
from actors.vectors.types import Floats, Mask, Rows, Scores

V = TypeVar("V", bound=Hashable)

_LEADING_ROWS = 500
_PRIOR = 0.5
"What everybody takes, beside what the reader took."
_BEST_SHARE = 0.3
"What a group's products among the best count beside what was taken from it."
_SEEN_MALUS = np.float32(1e6)


def categories(request: Request) -> RecommendationResult:
    """Answer `user_to_categories`: children of a path, the top level without one, any sub-category with `*`."""
    root = request.query.root_category or ()
    groups = request.catalog.categories
    if root == ("*",):
        codes = [code for code, path in enumerate(groups.values) if len(path) > 1]
    else:
        depth = len(root) + 1
        codes = [code for code, path in enumerate(groups.values) if len(path) == depth and path[:-1] == root]
    enough = max(1, request.query.group_rows) if request.query.filter is not None else 1
    return _answer(request, groups, codes, first=[], enough=enough)


def attributes(request: Request) -> RecommendationResult:
    """Answer `user_to_attributes`: values of a field, wanted ones first, unwanted ones never."""
    query = request.query
    groups = request.catalog.attribute(query.field_name)
    unwanted = set(query.exclude_values)
    codes = [code for code, value in enumerate(groups.values) if value not in unwanted]
    wanted = [groups.code_of(value) for value in query.boost_values if value not in unwanted]
    return _answer(request, groups, codes, first=[code for code in wanted if code is not None])


def _answer(
    request: Request, groups: Groups[V], codes: list[int], first: Sequence[int], enough: int = 1
) -> RecommendationResult:
    query = request.query
    section = _section(request, groups)
    scores = request.ranking().scores
    ranking = np.where(section.open, scores, np.float32(-np.inf))
    excluded = [row for row in request.catalog.rows_of(query.exclude) if row < len(ranking)]
    ranking[excluded] = -np.inf
    candidates = np.array(codes, np.int64)
    candidates = candidates[_open_totals(groups, section, excluded)[candidates] >= enough]
    merit = _merit(groups, candidates, ranking, request)
    order = candidates[np.argsort(-merit, kind="stable")].tolist()
    present = set(order)
    leading = [code for code in dict.fromkeys(first) if code in present]
    chosen = leading + [code for code in order if code not in leading]
    # seen products fill a group only after everything else in it
    seen = [row for row in left_out_of(request) if row < len(ranking)]
    ranking[list(set(seen))] -= _SEEN_MALUS
    # totals count variants; a group is only full when enough different products came up
    least = enough if query.group_rows and query.dedupe else 0
    ranked = ((code, _pool(request, section, code, ranking)) for code in chosen)
    page = list(islice((item for item in ranked if len(item[1]) >= least), query.rows))
    found = [_group(request, groups, code, section, pool, scores) for code, pool in page]
    rung = request.rung
    result = RecommendationResult(groups=found, served_by=rung)
    return explained_groups(request, result, [pool for _, pool in page]) if query.explain else result


def _section(request: Request, groups: Groups[V]) -> Section:
    """Find the rows with a product that passes type and filters, which are what totals count."""
    query, catalog, standing = request.query, request.catalog, request.standing
    count = len(standing)

    def allowed() -> Mask:
        mask = admitted(query, catalog)
        present: Mask = catalog.present[:count].copy()
        return present if mask is None else present & mask[:count]

    removed = tuple(rule.filter for rule in query.removed)
    asked = (query.type, query.filter, query.circles, removed)
    state = (catalog.version, standing.versions[0], count)
    return request.holdings.sections.get(
        groups, asked, state, allowed, standing.offered & catalog.offered[:count]
    )


def _open_totals(groups: Groups[V], section: Section, excluded: Sequence[int]) -> Rows:
    """Count the products of every group that may be returned."""
    if not excluded:
        return section.open_totals
    rows = np.unique(np.array(excluded, np.int64))
    return section.open_totals - merit_of(groups, rows, section.open[rows]).astype(np.int64)


def _merit(groups: Groups[V], candidates: Rows, ranking: Scores, request: Request) -> Floats:
    """Judge groups by what the reader took from them lately and what everybody takes, and a little by their products
    among the best.

    Source:
        ranking notes, section 9: recency counts with a prior are the best or equal to the best on both of its sets;
        `kiosk bench quality` on ml-latest-small: NDCG@3 .811 with these shares, .791 with equal ones
    """
    taste = request.taste
    interest = merit_of(groups, taste.rows, taste.weights)
    crowd = _sum_popularity(request, groups)
    leading = best_rows(ranking, _LEADING_ROWS)
    best = ranking[leading]
    worth = merit_of(groups, leading, best - best.min(initial=np.inf) + 0.01)
    counts = _share_of(interest)[candidates] + _PRIOR * _share_of(crowd)[candidates]
    return _scaled(counts) + _BEST_SHARE * _scaled(worth[candidates])


def _sum_popularity(request: Request, groups: Groups[V]) -> Floats:
    """Add up what everybody takes, or the user's cohort, for every group."""
    if request.cohort is not None:
        return groups.sums(request.cohort.popular)
    return request.holdings.crowd(groups, request.standing)


def _pool(request: Request, section: Section, code: int, ranking: Scores) -> list[int]:
    """Rank the products of one group, as many as are needed."""
    query = request.query
    if not query.group_rows and not query.explain_missing:
        return []
    return deep_enough(
        lambda depth: best_among(section.rows_of(code), ranking, depth),
        query,
        request.catalog,
        query.group_rows,
    )


def _group(
    request: Request, groups: Groups[V], code: int, section: Section, pool: list[int], scores: Scores
) -> Group:
    query, catalog = request.query, request.catalog
    steps: list[Step] | None = [] if query.explain else None
    page = arrange(pool, query, catalog, start=0, rows=query.group_rows, seed=request.seed, steps=steps)
    by_row = {placed.row: float(scores[placed.row]) for placed in page}
    value = groups.values[code]
    shown = value if isinstance(value, tuple) else str(value)
    total = int(section.totals[code])
    products = project(page, by_row, query, catalog)
    if steps is not None:
        explain_products(request, products, pool, steps)
    return Group(value=shown, total=total, products=products)


def _share_of(values: Floats) -> Floats:
    total = float(values.sum())
    shares: Floats = values / total if total > 0 else np.zeros(len(values))
    return shares


def _scaled(values: Floats) -> Floats:
    spread = float(values.std()) if len(values) else 0.0
    scaled: Floats = (values - values.mean()) / spread if spread > 0 else np.zeros(len(values))
    return scaled
