"""The rows that a list may hold, and the best of them.

Every product is scored, so any filter has recall 1 (docs/concepts/scoring.md, equation 23).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.pipeline_inputs import UserSignals
from actors.recommender.ranking.ranking import Ranking
from actors.recommender.ranking.user_profile import MOST_HIDDEN, list_recent_rows, select_history
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.compact_histories import list_older_rows
from actors.recommender.state.cooccurrence import SESSION_GAP_MS
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.events import EXPOSURE
from actors.recommender.state.interaction_rows import ALWAYS, EVER_MS, ConsumptionTimes, RecentEventTuple
from actors.recommender.state.serving_model import ServingModel
from actors.vectors.types import Mask, Rows
from cluster.records.validation.recent_events import GROUP

BLOCK_SIZE = 1000
"Number of neighbours in a ranking that may change places: the number of rows of the longest page."

_GROUP_BLOCK_SIZE = 200
SEEN_AGAIN = "seen_again"
"Fallback level of a list of products that the user consumed before."
# More than any catalog has: `explain_missing` ranks every row.
_ALL = 1 << 40
_FEW = 1_000


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """The rows that were removed from a ranking, by reason; explanations read them."""

    consumed: Sequence[int] = ()
    "Rows that the user dealt with."
    anchors: Sequence[int] = ()
    anchor_variants: Sequence[int] = ()
    "The anchors and, with `dedupe`, their variants."


NOTHING_REMOVED = RemovedRows()


def filter_rows(query: UserQuery, catalog: Catalog) -> Mask | None:
    """Mark the rows that pass type, filter, distance and stored rules; None without a condition.

    Stock and the `exclude` of the query are not considered.

    Shapes:
        returns: bool [n], not to be changed
    """
    masks: list[Mask] = []
    if query.type is not None:
        masks.append(catalog.type_mask(query.type))
    if query.filter is not None:
        masks.append(catalog.filter_mask(query.filter))
    for circle in query.circles:
        masks.append(catalog.near_mask(circle))
    # Stored rules that remove count as filters, so totals and explanations agree with the list (decision
    # 10).
    for rule in query.removed:
        masks.append(~catalog.filter_mask(rule.filter))
    if not masks:
        return None
    mask = masks[0]
    for other in masks[1:]:
        # Not `&=`: queries share the masks of the catalog.
        mask = mask & other
    return mask


def allow_rows(query: UserQuery, catalog: Catalog, priors: ItemPriors) -> Mask | None:
    """Mark the rows that a list may hold; None when the prior of the query leaves out all others already.

    Shapes:
        returns: bool [n], not to be changed

    Source:
        docs/concepts/scoring.md, equation 23
    """
    allowed = filter_rows(query, catalog)
    if priors.versions[0] == catalog.version:
        return allowed
    # a product may have been removed or sold out since the priors were computed
    return catalog.offered if allowed is None else catalog.offered & allowed


def list_consumed_rows(query: UserQuery, user: UserSignals, state: EngineState, now_ms: int) -> list[int]:
    """List the rows that the user dealt with and should not see again, with variants when `dedupe` is set.

    Without a snapshot these are the most recent rows. With a snapshot, if users take the same product again,
    only the rows of the running session count, else all known rows. If other events lead to purchases, the
    rows of the running session and the purchases count. For the types of interaction with a pause
    (`repeat_after_ms`), the rows of the pause count instead.
    """
    model = state.serving_model
    # Without a snapshot nothing tells whether users repeat, so only the newest 50 are hidden (decision 8).
    most = MOST_HIDDEN if model is None else None
    within = _consumption_times(query, model, now_ms)
    rows = list_recent_rows(user.history, most, within=within)
    if user.older is not None:
        # Older rows come last, so the bound drops the oldest.
        rows = list(dict.fromkeys([*rows, *list_older_rows(user.older, within)]))[:most]
    return state.catalog.expand_variants(rows) if query.dedupe else rows


def _consumption_times(query: UserQuery, model: ServingModel | None, now_ms: int) -> ConsumptionTimes:
    pauses = query.repeat_after_ms
    if model is None or not model.allows_repeats:
        default_ms = EVER_MS
        since_ms = dict[str, int]()
    else:
        # Users of such an engine take products again, so only the running session is hidden (decision 8).
        default_ms = now_ms - SESSION_GAP_MS
        since_ms = dict.fromkeys(model.consumed_kinds, EVER_MS)
    if not pauses:
        return ConsumptionTimes(default_ms, since_ms) if default_ms > EVER_MS else ALWAYS
    paused = {kind: now_ms - pause_ms for kind, pause_ms in pauses}
    # `*` stands for all types without a pause of their own.
    others_ms = paused.pop("*", None)
    if others_ms is not None:
        return ConsumptionTimes(others_ms, paused)
    return ConsumptionTimes(default_ms, {**since_ms, **paused})


def apply_list_weights(
    query: UserQuery, user: UserSignals, state: EngineState, consumed: Sequence[int]
) -> UserSignals:
    """Return the user with the weights of the list: those for new products if it can hold none of the history.

    `consumed` are the rows that the list leaves out, beside those that the query excludes.

    Source:
        docs/concepts/scoring.md, equation 8
    """
    model = state.serving_model
    if model is None or not model.has_unseen_weights or not user.history_profile.has_signal:
        return user
    # Two sets are compared, no list is scored twice (decision 26).
    hidden = {*consumed, *state.catalog.rows_of(query.exclude)}
    returns_none = not model.allows_repeats and not query.repeat_after_ms
    unseen_only = returns_none or hidden.issuperset(user.history_profile.rows.tolist())
    return replace(user, unseen_only=unseen_only)


def apply_unseen_weights(user: UserSignals, model: ServingModel | None) -> UserSignals:
    """Return the user with the weights for new products, if the snapshot has such."""
    if model is None or not model.has_unseen_weights or not user.history_profile.has_signal:
        return user
    return replace(user, unseen_only=True)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The best rows of a ranking."""

    rows: list[int]
    "Best first."
    ranking: Ranking
    "The ranking without the consumed rows, unless the list repeats them."
    level: str = ""
    "`seen_again` if the list repeats consumed rows, else empty."


def select_candidates(
    ranking: Ranking,
    query: UserQuery,
    catalog: Catalog,
    depth: int,
    consumed: Sequence[int] = (),
    *,
    may_repeat: bool = False,
) -> Candidates:
    """Select the best rows of a ranking, one for each group, as many as re-ranking needs to fill `depth` places.

    The `consumed` rows are left out. If no other row is left and `may_repeat` is set, they are the candidates. Rows of
    earlier pages are among the candidates: dithering needs the whole list to repeat its order.

    Source:
        docs/concepts/scoring.md, equation 23
    """
    if consumed:
        remaining = ranking.without(consumed)
        rows = select_distinct(remaining.select_best, query, catalog, depth)
        if rows or not may_repeat:
            return Candidates(rows, remaining)
    # Only rows that were allowed before return, so filters still hold.
    rows = select_distinct(ranking.select_best, query, catalog, depth)
    return Candidates(rows, ranking, SEEN_AGAIN if consumed else "")


def select_trend_leaders(
    query: UserQuery, catalog: Catalog, priors: ItemPriors, consumed: Sequence[int], depth: int
) -> list[int]:
    """Select from the leaders of the trend, which are known beforehand; nothing if they do not fill `depth` places.

    A query with filters gets nothing.
    """
    if query.type is not None or query.filter is not None or query.circles or query.removed:
        return []
    places = required_depth(query, depth)
    hidden = {*consumed, *catalog.rows_of(query.exclude)}
    # The leaders are known for every query, so the common request sorts nothing.
    rows = list(islice((row for row in priors.leaders if row not in hidden), expected_depth(places)))
    if priors.versions[0] != catalog.version:
        # a leader may have been removed or sold out since the priors were computed
        offered = catalog.offered
        rows = [row for row in rows if offered[row]]
    rows = deduplicate_groups(rows, catalog) if query.dedupe else rows
    # Too few leaders prove nothing about the rest of the trend: the caller ranks all rows instead.
    return rows if len(rows) >= places else []


def select_history_rows(
    query: UserQuery,
    recent_events: Sequence[RecentEventTuple],
    catalog: Catalog,
    count: int,
    ranking: Ranking,
) -> list[int]:
    """List the offered rows of the user's history, newest first, by the query's `history_type`.

    An interaction with a group alone counts for the variant on offer with the best score. Products behind the first
    `count` rows of the catalog have no score yet, so they are left out.
    """
    events = select_history(recent_events, query.history_type)
    names = dict.fromkeys(name for kind, ids, _, _ in events if kind not in EXPOSURE for name in ids)
    # A group has no row of its own: one variant stands for it, chosen once for all events.
    groups = [name for name in names if name.startswith(GROUP)]
    variants = _select_variants(groups, catalog, count, ranking)
    rows = (variants[name] if name in variants else catalog.row_of(name) for name in names)
    return [row for row in dict.fromkeys(rows) if _is_offered(row, catalog, count)]


def _select_variants(names: Sequence[str], catalog: Catalog, count: int, ranking: Ranking) -> dict[str, int]:
    """Choose a variant for every group; -1 where none is on offer."""
    variants = {
        name: [
            row for row in catalog.rows_of_group(name.removeprefix(GROUP)) if _is_offered(row, catalog, count)
        ]
        for name in names
    }
    every = [row for rows in variants.values() for row in rows]
    if not every:
        return dict.fromkeys(names, -1)
    by_row = dict(zip(every, ranking.get_scores(every).tolist(), strict=True))
    return {name: max(rows, key=by_row.__getitem__, default=-1) for name, rows in variants.items()}


def _is_offered(row: int, catalog: Catalog, count: int) -> bool:
    return 0 <= row < count and bool(catalog.offered[row])


def select_distinct(
    select_best: Callable[[int], Rows], query: UserQuery, catalog: Catalog, places: int
) -> list[int]:
    """Return rows from the top of a ranking until they have enough distinct products, or until it ends.

    `select_best` returns the first rows of the ranking.

    Shapes:
        select_best: returns int64 [m]
    """
    required = required_depth(query, places)
    depth = expected_depth(required)
    while True:
        rows = select_best(depth).tolist()
        pool = deduplicate_groups(rows, catalog) if query.dedupe else rows
        if len(pool) >= required or len(rows) < depth:
            return pool
        # Too many of the rows were variants of one another. A large factor keeps the rounds few.
        depth *= 4


def required_depth(query: UserQuery, places: int) -> int:
    """Compute how many of the best rows the first `places` places need: whole blocks where products may move."""
    if query.explain_missing:
        return _ALL
    if query.boosts or query.boost_circles or query.spacing or query.dithering > 1:
        # Rounded up to whole blocks, so the same rows may move whatever page is asked for (decision 9).
        return max(boost_depth(query), places if query.group_rows else -(-places // BLOCK_SIZE) * BLOCK_SIZE)
    return places


def expected_depth(required: int) -> int:
    """Estimate how many ranked rows hold so many different products."""
    # Twice as many, because some are variants of one product; a wrong guess only costs another round.
    return required + min(required, BLOCK_SIZE) + 14


def deduplicate_groups(rows: Sequence[int], catalog: Catalog) -> list[int]:
    """Keep the first variant of every product; rows must be ranked, so that is the likeliest one."""
    if catalog.has_single_variants(rows):
        return list(rows)
    ranked = np.asarray(rows, np.int64)
    groups = catalog.groups[ranked]
    if len(ranked) <= _FEW:
        # a set is quicker than sorting as long as they are few
        firsts: dict[int, int] = {}
        for row, group in zip(rows, groups.tolist(), strict=True):
            firsts.setdefault(group, row)
        return list(firsts.values())
    # `return_index` gives the first of each group; sorting the indexes restores the order of the ranking.
    _, first = np.unique(groups, return_index=True)
    every: list[int] = ranked[np.sort(first)].tolist()
    return every


def boost_depth(query: UserQuery) -> int:
    """Compute from how many of the best rows boosts choose: whole blocks, up to the last position of a rule.

    The products of a category or a value have no later pages, and so few are shown that a smaller block is enough.
    """
    positions = [boost.positions for boost in query.boosts] + [
        circle.positions for circle in query.boost_circles
    ]
    last = max((place for places in positions for place in places or ()), default=0)
    if query.group_rows:
        return max(last + 1, min(BLOCK_SIZE, max(_GROUP_BLOCK_SIZE, 20 * query.group_rows)))
    return (last // BLOCK_SIZE + 1) * BLOCK_SIZE
