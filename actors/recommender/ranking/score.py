"""The score of every product for a user: one number for each row, the same on every endpoint.

    score = prior       the same for all users of a kind: trend, popularity, learned popularity, cohort
          + learned     the models of the engine's snapshot, from the user's history
          + live        co-occurrence since the snapshot, and similarity to the profile where neither knows a product
          + new         cold-start items: scores from features, or inherited from similar products

Every component is scaled to spread 1 before it is weighted, which is enough for blending. `score_user` lists the
components and `personal_scores` sums them. docs/concepts/scoring.md defines them, equations 1 to 17.
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
    SlotMap,
    SparseScores,
    VectorScores,
    sum_components,
)
from actors.recommender.state.serving_model import ServingModel
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


def personal_scores(profile: UserProfile, state: EngineState, priors: ItemPriors) -> PersonalScores:
    """Add up what is said to a reader: what a score adds to its start.

    Cost:
        100,000 products, 40 events: 0.15 ms with a snapshot, 2 ms without
    """
    if not profile.has_signal:
        return PersonalScores(get_slot_map(state, priors))
    return combine_components(score_user(profile, state, priors), state, priors)


def combine_components(
    parts: Sequence[ScoreComponent], state: EngineState, priors: ItemPriors
) -> PersonalScores:
    """Add parts up, and let new products inherit unless a part speaks of them; the parts are not to be used again."""
    own = sum_components(parts, get_slot_map(state, priors))
    new = priors.cold_start
    if len(new) and own.values is not None and not _has_cold_start_scores(parts):
        own.values[new.slots] += new.inherit_by_slot(own.values)
    return own


def get_slot_map(state: EngineState, priors: ItemPriors) -> SlotMap:
    """Say where products stand in what is said."""
    return SlotMap(len(priors)) if state.serving_model is None else state.serving_model.slot_map


def explain_rows(
    rows: Sequence[int],
    profile: UserProfile,
    state: EngineState,
    priors: ItemPriors,
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
    known = profile.has_signal and not is_new
    named = [(name, values[chosen]) for name, values in state.prior_components(priors, known)]
    if cohort is not None:
        told = cohort.prior.scores[chosen] - priors.prior_new.scores[chosen]
        named.append((cohort.name, np.where(priors.offered[chosen], told, 0)))
    if profile.has_signal:
        slot_map = get_slot_map(state, priors)
        parts = score_user(profile, state, priors)
        named += [(part.name, sum_components([part], slot_map).get_scores(chosen)) for part in parts]
        if not _has_cold_start_scores(parts):
            named.append(
                (COLD_START, _inherit_scores(chosen, score_user(profile, state, priors), slot_map, priors))
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


def score_user(profile: UserProfile, state: EngineState, priors: ItemPriors) -> list[ScoreComponent]:
    """List what every part says to a reader, whoever is popular."""
    model, overlay, blend = state.serving_model, state.overlay, state.weights
    parts: list[ScoreComponent] = []
    unknown = 1.0
    if model is not None:
        past = model.build_history(profile.interactions, priors.global_signals.at_ms)
        parts += model.contributions(past)
        parts += _score_cold_start(model, past, priors)
        unknown = _uncovered_share(profile, model.get_items(len(priors)))
    if blend.content * unknown > _HARDLY and profile.vector is not None:
        weight = blend.content * unknown
        parts.append(_score_similarity(profile.vector, state, priors, weight, unknown < _MOSTLY))
    if len(profile.rows) and blend.together:
        parts.append(
            _score_cooccurrence("live:together", profile, overlay.cooccurrence, state, priors, blend.together)
        )
    return parts


def score_similar_items(
    like: UserProfile, state: EngineState, priors: ItemPriors, steps: WeightedInteractions | None = None
) -> list[ScoreComponent]:
    """List what every part says of products that go with given ones; `steps` is the session they came up in."""
    model, overlay, blend = state.serving_model, state.overlay, state.weights
    parts: list[ScoreComponent] = []
    unknown = 1.0
    if model is not None:
        past = model.build_history(steps or like.interactions, priors.global_signals.at_ms)
        parts += model.similar_contributions(past)
        parts += _score_cold_start(model, past, priors)
        unknown = _uncovered_share(like, model.get_items(len(priors)))
    if like.vector is not None:
        weight, quick = (
            blend.content * max(unknown, _SIMILARITY_SHARE),
            unknown < _MOSTLY and _has_enough_scores(parts),
        )
        parts.append(_score_similarity(like.vector, state, priors, weight, quick))
    parts.append(
        _score_cooccurrence("live:together", like, overlay.cooccurrence, state, priors, blend.together)
    )
    return parts


def score_related_items(
    anchors: Sequence[int], state: EngineState, priors: ItemPriors
) -> list[ScoreComponent]:
    """List what the `related_ids` of given products say; nothing when they name no product."""
    catalog, count = state.catalog, len(priors)
    named = {
        row for anchor in anchors[:_MOST_TOGETHER] for row in catalog.related_rows(anchor) if row < count
    }
    if not named or not state.weights.related:
        return []
    rows = np.array(sorted(named), np.int64)
    values = np.ones(len(rows), np.float32)
    values *= np.float32(state.weights.related * compute_sparse_scale(rows, values, count))
    return [SparseScores("live:related", get_slot_map(state, priors).slots(rows), values)]


def score_bought_together(like: UserProfile, state: EngineState, priors: ItemPriors) -> list[ScoreComponent]:
    """List what every part says of products that are bought with given ones; nothing when no basket held them."""
    model, overlay = state.serving_model, state.overlay
    parts: list[ScoreComponent] = []
    if model is not None:
        told = model.basket_contributions(model.build_history(like.interactions, priors.global_signals.at_ms))
        parts += [told] if told is not None else []
    if overlay.baskets.has_neighbours(like.rows):
        parts.append(
            _score_cooccurrence("live:baskets", like, overlay.baskets, state, priors, 1.0, damped=True)
        )
    if parts and like.vector is not None:
        weight, quick = (
            state.weights.content * _SIMILARITY_SHARE,
            model is not None and _has_enough_scores(parts),
        )
        parts.append(_score_similarity(like.vector, state, priors, weight, quick))
    return parts


def normalize_score(score: float) -> float:
    """Bring a score between 0 and 1 for `_personalization_score`, keeping far apart ones in order too."""
    return round(0.5 + 0.5 * score / (_SOFTNESS + abs(score)), 6)


def _score_cooccurrence(
    name: str,
    profile: UserProfile,
    pairs: CooccurrenceTable,
    state: EngineState,
    priors: ItemPriors,
    weight: float,
    *,
    damped: bool = False,
) -> SparseScores:
    """Say what goes with the liked rows: up to 40 neighbourhoods.

    Beside a snapshot a pair counts as far as one of its products is news: the rest was learned already.

    Source:
        ranking notes, section 3: damping by frequency ** 0.25 keeps baskets from being all best sellers
    """
    model, count = state.serving_model, len(priors)
    liked = profile.rows[:_MOST_TOGETHER]
    if model is not None and not _has_news(model, pairs, liked):
        return SparseScores(name, liked[:0], np.zeros(0, np.float32))
    found, shares = pairs.get_neighbours(liked)
    shares *= profile.weights[:_MOST_TOGETHER, None]
    said = (shares > 0) & (found < count)
    rows, values = found[said], shares[said].astype(np.float32)
    if damped:
        values /= (priors.relative_popularity[rows] + 0.01).astype(np.float32) ** np.float32(_DAMPING)
    scale = np.float32(weight * compute_sparse_scale(rows, values, count))
    if model is None:
        return SparseScores(name, rows, values * scale)
    fresh = model.fresh
    own = np.where(liked < len(fresh), fresh[np.minimum(liked, len(fresh) - 1)], np.float32(1))
    news = np.maximum(np.broadcast_to(own[:, None], said.shape)[said], fresh[rows])
    told = news > _OLD
    return SparseScores(name, model.slot_map.slots(rows[told]), (values * news * scale)[told])


def _has_news(model: ServingModel, pairs: CooccurrenceTable, liked: Rows) -> bool:
    """Tell quickly whether anything about some rows or what goes with them is news to a snapshot; perhaps is yes."""
    fresh = model.fresh
    return bool(
        fresh.take(liked, mode="clip").max(initial=0) > _OLD
        or fresh.take(pairs.get_neighbour_rows(liked), mode="clip").max(initial=0) > _OLD
    )


def _score_similarity(
    vector: Vector, state: EngineState, priors: ItemPriors, weight: float, quick: bool
) -> ScoreComponent:
    """Say how like a vector products are; the quick way says it only of those that many deal with."""
    mean, spread = priors.estimate_spread(vector)
    known = priors.cold_start
    if quick and len(known.established_rows):
        like = known.established_vectors @ vector
        slots = get_slot_map(state, priors).slots(known.established_rows)
        return SparseScores("live:content", slots, (like - np.float32(mean)) * np.float32(weight / spread))
    return VectorScores("live:content", state.index, vector, weight / spread, mean)


def _inherit_scores(
    rows: Rows, parts: Sequence[ScoreComponent], slot_map: SlotMap, priors: ItemPriors
) -> Scores:
    """Say what some rows inherit of all parts; 0 for those that are not new."""
    found, values, new = (
        np.zeros(len(rows), np.float32),
        sum_components(parts, slot_map).values,
        priors.cold_start,
    )
    if values is not None and len(new):
        by_row = dict(zip(new.rows.tolist(), new.inherit_by_slot(values).tolist(), strict=True))
        found[:] = [by_row.get(row, 0.0) for row in rows.tolist()]
    return found


def _score_cold_start(model: ServingModel, past: UserHistory, priors: ItemPriors) -> Iterator[SparseScores]:
    """Say what the snapshot's features tell of new products; nothing when it has none."""
    new = priors.cold_start
    if len(new):
        values = model.cold_start_contributions(past, new.features)
        if values is not None:
            yield SparseScores(COLD_START, new.slots, values * new.shares)


def _has_cold_start_scores(parts: Iterable[ScoreComponent]) -> bool:
    return any(part.name == COLD_START for part in parts)


def _has_enough_scores(parts: Sequence[ScoreComponent]) -> bool:
    """Do the parts so far speak of enough products to fill a page?"""
    return sum(part.count for part in parts if not isinstance(part, VectorScores)) >= _ENOUGH


def _uncovered_share(profile: UserProfile, items: Codes) -> float:
    """Tell how much of a taste the snapshot can't speak of: products it does not know, and what the session says."""
    if not len(profile.rows):
        return 1.0
    rows = np.minimum(profile.rows, len(items) - 1)
    unknown = (items[rows] < 0) | (profile.rows >= len(items))
    unknown[len(rows) - profile.context_count :] = True
    return float(profile.weights[unknown].sum() / profile.weights.sum())
