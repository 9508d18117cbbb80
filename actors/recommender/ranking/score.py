"""How good each product is for a reader: one number per row, the same on every endpoint.

    score = base        what the crowd does: the same for everybody, made with the standing
          + learned     what the engine's snapshot says of the reader's history
          + live        what goes with the reader's products since, and likeness to their vector where neither knows
          + new         what a product without events is worth by its features, or inherits from products like it

Every part is scaled to spread 1 before it is weighted (z-scores), which is enough for blending. `score_user` lists
the parts, `personal_scores` adds them up; everything else looks at that sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from actors.models.user_history import UserHistory, compute_sparse_scale
from actors.recommender.ranking.user_profile import UserProfile
from actors.recommender.ranking.user_signals import UserSignals
from actors.recommender.state.cooccurrence import CooccurrenceTable
from actors.recommender.state.engine_state import CohortScores, EngineState, ItemPriors
from actors.recommender.state.interaction_rows import WeightedInteractions
from actors.recommender.state.prior_scores import PriorScores
from actors.recommender.state.score_components import (
    PersonalScores,
    ScoreComponent,
    SparseScores,
    VectorScores,
    sum_components,
)
from actors.recommender.state.serving_model import ServingModel
from actors.recommender.state.slot_map import SlotMap
from actors.vectors.types import Codes, Rows, Scores, Vector

COLD_START = "new:content"

_MOST_TOGETHER = 40
_SOFTNESS = 4.0
_DAMPING = 0.25
_HARDLY = 0.02
_MOSTLY = 0.5
"From here likeness is worked out for all products, not only for those that many deal with."
_ENOUGH = 50
_OLD = 1e-3
_SIMILARITY_SHARE = 0.2
"Share of likeness where products are known by what people did with them."


@dataclass(frozen=True, slots=True)
class UserScores:
    """The score of every row for one user, in its two terms."""

    prior: PriorScores
    personal: PersonalScores


def compute_user_scores(user: UserSignals, state: EngineState, priors: ItemPriors) -> UserScores:
    """Compute the prior and the personal score of a user for all rows.

    Cost:
        100,000 products, 40 events: 0.15 ms with a snapshot, 2 ms without

    Source:
        docs/concepts/scoring.md, equations 4, 5 and 17 (prior), 8 to 13 (personal)
    """
    prior = select_prior(user.history_profile, user.cohort, priors)
    return UserScores(prior, personal_scores(user.profile, state, priors))


def select_prior(
    history_profile: UserProfile, cohort: CohortScores | None, priors: ItemPriors
) -> PriorScores:
    """Return the prior of users with a history, of users in a cohort, or of all other users."""
    if history_profile.has_signal:
        return priors.prior
    return priors.prior_new if cohort is None else cohort.prior


def personal_scores(taste: UserProfile, holdings: EngineState, standing: ItemPriors) -> PersonalScores:
    """Add up what is said to a reader: what a score adds to its start.

    Cost:
        100,000 products, 40 events: 0.15 ms with a snapshot, 2 ms without
    """
    if not taste.has_signal:
        return PersonalScores(get_slot_map(holdings, standing))
    return combine_components(score_user(taste, holdings, standing), holdings, standing)


def combine_components(
    parts: Sequence[ScoreComponent], holdings: EngineState, standing: ItemPriors
) -> PersonalScores:
    """Add parts up, and let new products inherit unless a part speaks of them; the parts are not to be used again."""
    own = sum_components(parts, get_slot_map(holdings, standing))
    new = standing.cold_start
    if len(new) and own.values is not None and not _has_cold_start_scores(parts):
        own.values[new.slots] += new.inherit_by_slot(own.values)
    return own


def get_slot_map(holdings: EngineState, standing: ItemPriors) -> SlotMap:
    """Say where products stand in what is said."""
    return SlotMap(len(standing)) if holdings.serving_model is None else holdings.serving_model.slot_map


def explain_rows(
    rows: Sequence[int],
    taste: UserProfile,
    holdings: EngineState,
    standing: ItemPriors,
    *,
    cohort: CohortScores | None = None,
    is_new: bool = False,
) -> list[dict[str, float]]:
    """Take the scores of some rows apart: name of a part -> what it adds. Parts that add nothing are left out.

    `is_new` says that the user has no history, whatever the session adds to the taste.

    Names: `live:trend`, `live:popular`, `live:newest`, `live:together`, `live:content`, `learned:<part of the
    recipe>`, `live:cohort`, `learned:cohort`, `new:content`. The values of a row sum to its score, as a `Ranking`
    gives it.
    """
    chosen = np.asarray(rows, np.int64)
    known = taste.has_signal and not is_new
    named = [(name, values[chosen]) for name, values in holdings.prior_components(standing, known)]
    if cohort is not None:
        told = cohort.prior.scores[chosen] - standing.prior_new.scores[chosen]
        named.append((cohort.name, np.where(standing.offered[chosen], told, 0)))
    if taste.has_signal:
        layout = get_slot_map(holdings, standing)
        parts = score_user(taste, holdings, standing)
        named += [(part.name, sum_components([part], layout).get_scores(chosen)) for part in parts]
        if not _has_cold_start_scores(parts):
            named.append(
                (COLD_START, _inherit_scores(chosen, score_user(taste, holdings, standing), layout, standing))
            )
    found: list[dict[str, float]] = [{} for _ in rows]
    for name, values in named:
        for told_of, value in zip(found, values.tolist(), strict=True):
            if value:
                told_of[name] = told_of.get(name, 0.0) + value
    return found


def list_sources(explained: Mapping[str, float], least: float = 0.05) -> list[str]:
    """Name the parts that brought a product into the list, the strongest first.

    A part counts when it speaks for the product with at least a share of all that does.
    """
    total = sum(value for value in explained.values() if value > 0)
    speaking = [(value, name) for name, value in explained.items() if value > 0 and value >= least * total]
    return [name for _, name in sorted(speaking, key=lambda told: (-told[0], told[1]))]


def score_user(taste: UserProfile, holdings: EngineState, standing: ItemPriors) -> list[ScoreComponent]:
    """List what every part says to a reader, whoever is popular."""
    champion, overlay, blend = holdings.serving_model, holdings.overlay, holdings.weights
    parts: list[ScoreComponent] = []
    unknown = 1.0
    if champion is not None:
        past = champion.build_history(taste.interactions, standing.global_signals.at_ms)
        parts += champion.contributions(past)
        parts += _score_cold_start(champion, past, standing)
        unknown = _uncovered_share(taste, champion.get_items(len(standing)))
    if blend.content * unknown > _HARDLY and taste.vector is not None:
        weight = blend.content * unknown
        parts.append(_score_similarity(taste.vector, holdings, standing, weight, unknown < _MOSTLY))
    if len(taste.rows) and blend.together:
        parts.append(
            _score_cooccurrence(
                "live:together", taste, overlay.cooccurrence, holdings, standing, blend.together
            )
        )
    return parts


def score_similar_items(
    like: UserProfile, holdings: EngineState, standing: ItemPriors, steps: WeightedInteractions | None = None
) -> list[ScoreComponent]:
    """List what every part says of products that go with given ones; `steps` is the session they came up in."""
    champion, overlay, blend = holdings.serving_model, holdings.overlay, holdings.weights
    parts: list[ScoreComponent] = []
    unknown = 1.0
    if champion is not None:
        past = champion.build_history(steps or like.interactions, standing.global_signals.at_ms)
        parts += champion.similar_contributions(past)
        parts += _score_cold_start(champion, past, standing)
        unknown = _uncovered_share(like, champion.get_items(len(standing)))
    if like.vector is not None:
        weight, quick = (
            blend.content * max(unknown, _SIMILARITY_SHARE),
            unknown < _MOSTLY and _has_enough_scores(parts),
        )
        parts.append(_score_similarity(like.vector, holdings, standing, weight, quick))
    parts.append(
        _score_cooccurrence("live:together", like, overlay.cooccurrence, holdings, standing, blend.together)
    )
    return parts


def score_related_items(
    anchors: Sequence[int], holdings: EngineState, standing: ItemPriors
) -> list[ScoreComponent]:
    """List what the `related_ids` of given products say; nothing when they name no product."""
    catalog, count = holdings.catalog, len(standing)
    named = {
        row for anchor in anchors[:_MOST_TOGETHER] for row in catalog.related_rows(anchor) if row < count
    }
    if not named or not holdings.weights.related:
        return []
    rows = np.array(sorted(named), np.int64)
    values = np.ones(len(rows), np.float32)
    values *= np.float32(holdings.weights.related * compute_sparse_scale(rows, values, count))
    return [SparseScores("live:related", get_slot_map(holdings, standing).slots(rows), values)]


def score_bought_together(
    like: UserProfile, holdings: EngineState, standing: ItemPriors
) -> list[ScoreComponent]:
    """List what every part says of products that are bought with given ones; nothing when no basket held them."""
    champion, overlay = holdings.serving_model, holdings.overlay
    parts: list[ScoreComponent] = []
    if champion is not None:
        told = champion.basket_contributions(
            champion.build_history(like.interactions, standing.global_signals.at_ms)
        )
        parts += [told] if told is not None else []
    if overlay.baskets.has_neighbours(like.rows):
        parts.append(
            _score_cooccurrence("live:baskets", like, overlay.baskets, holdings, standing, 1.0, damped=True)
        )
    if parts and like.vector is not None:
        weight, quick = (
            holdings.weights.content * _SIMILARITY_SHARE,
            champion is not None and _has_enough_scores(parts),
        )
        parts.append(_score_similarity(like.vector, holdings, standing, weight, quick))
    return parts


def normalize_score(score: float) -> float:
    """Bring a score between 0 and 1 for `_personalization_score`, keeping far apart ones in order too."""
    return round(0.5 + 0.5 * score / (_SOFTNESS + abs(score)), 6)


def _score_cooccurrence(
    name: str,
    taste: UserProfile,
    pairs: CooccurrenceTable,
    holdings: EngineState,
    standing: ItemPriors,
    weight: float,
    *,
    damped: bool = False,
) -> SparseScores:
    """Say what goes with the liked rows: up to 40 neighbourhoods.

    Beside a snapshot a pair counts as far as one of its products is news: the rest was learned already.

    Source:
        ranking notes, section 3: damping by frequency ** 0.25 keeps baskets from being all best sellers
    """
    champion, count = holdings.serving_model, len(standing)
    liked = taste.rows[:_MOST_TOGETHER]
    if champion is not None and not _has_news(champion, pairs, liked):
        return SparseScores(name, liked[:0], np.zeros(0, np.float32))
    found, shares = pairs.get_neighbours(liked)
    shares *= taste.weights[:_MOST_TOGETHER, None]
    said = (shares > 0) & (found < count)
    rows, values = found[said], shares[said].astype(np.float32)
    if damped:
        values /= (standing.relative_popularity[rows] + 0.01).astype(np.float32) ** np.float32(_DAMPING)
    scale = np.float32(weight * compute_sparse_scale(rows, values, count))
    if champion is None:
        return SparseScores(name, rows, values * scale)
    fresh = champion.fresh
    own = np.where(liked < len(fresh), fresh[np.minimum(liked, len(fresh) - 1)], np.float32(1))
    news = np.maximum(np.broadcast_to(own[:, None], said.shape)[said], fresh[rows])
    told = news > _OLD
    return SparseScores(name, champion.slot_map.slots(rows[told]), (values * news * scale)[told])


def _has_news(champion: ServingModel, pairs: CooccurrenceTable, liked: Rows) -> bool:
    """Tell quickly whether anything about some rows or what goes with them is news to a snapshot; perhaps is yes."""
    fresh = champion.fresh
    return bool(
        fresh.take(liked, mode="clip").max(initial=0) > _OLD
        or fresh.take(pairs.get_neighbour_rows(liked), mode="clip").max(initial=0) > _OLD
    )


def _score_similarity(
    vector: Vector, holdings: EngineState, standing: ItemPriors, weight: float, quick: bool
) -> ScoreComponent:
    """Say how like a vector products are; the quick way says it only of those that many deal with."""
    mean, spread = standing.estimate_spread(vector)
    known = standing.cold_start
    if quick and len(known.established_rows):
        like = known.established_vectors @ vector
        slots = get_slot_map(holdings, standing).slots(known.established_rows)
        return SparseScores("live:content", slots, (like - np.float32(mean)) * np.float32(weight / spread))
    return VectorScores("live:content", holdings.index, vector, weight / spread, mean)


def _inherit_scores(
    rows: Rows, parts: Sequence[ScoreComponent], layout: SlotMap, standing: ItemPriors
) -> Scores:
    """Say what some rows inherit of all parts; 0 for those that are not new."""
    found, values, new = (
        np.zeros(len(rows), np.float32),
        sum_components(parts, layout).values,
        standing.cold_start,
    )
    if values is not None and len(new):
        by_row = dict(zip(new.rows.tolist(), new.inherit_by_slot(values).tolist(), strict=True))
        found[:] = [by_row.get(row, 0.0) for row in rows.tolist()]
    return found


def _score_cold_start(
    champion: ServingModel, past: UserHistory, standing: ItemPriors
) -> Iterator[SparseScores]:
    """Say what the snapshot's features tell of new products; nothing when it has none."""
    new = standing.cold_start
    if len(new):
        values = champion.cold_start_contributions(past, new.features)
        if values is not None:
            yield SparseScores(COLD_START, new.slots, values * new.shares)


def _has_cold_start_scores(parts: Iterable[ScoreComponent]) -> bool:
    return any(part.name == COLD_START for part in parts)


def _has_enough_scores(parts: Sequence[ScoreComponent]) -> bool:
    """Do the parts so far speak of enough products to fill a page?"""
    return sum(part.count for part in parts if not isinstance(part, VectorScores)) >= _ENOUGH


def _uncovered_share(taste: UserProfile, items: Codes) -> float:
    """Tell how much of a taste the snapshot can't speak of: products it does not know, and what the session says."""
    if not len(taste.rows):
        return 1.0
    rows = np.minimum(taste.rows, len(items) - 1)
    unknown = (items[rows] < 0) | (taste.rows >= len(items))
    unknown[len(rows) - taste.context_count :] = True
    return float(taste.weights[unknown].sum() / taste.weights.sum())
