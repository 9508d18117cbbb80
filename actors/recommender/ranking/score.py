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
from actors.recommender.ranking.pipeline_inputs import UserSignals
from actors.recommender.ranking.user_profile import UserProfile
from actors.recommender.state.cooccurrence import CooccurrenceTable
from actors.recommender.state.engine_state import CohortScores, EngineState, ItemPriors
from actors.recommender.state.global_signals import PriorScores
from actors.recommender.state.interaction_rows import WeightedInteractions
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

# Bounds the rows of neighbours that one request reads.
_MOST_TOGETHER = 40
# A score of 4 becomes 0.75, one of -4 becomes 0.25.
_SOFTNESS = 4.0
_DAMPING = 0.25
# Below this weight, similarity is left out: its scan costs most and would hardly move a product.
_HARDLY = 0.02
_MOSTLY = 0.5
"From this share on, similarity is computed for all products, not only for established ones."
# Enough for a page and for what filters and diversity take from it.
_ENOUGH = 50
# Rounding leaves tiny shares of new votes where the snapshot has them all.
_OLD = 1e-3
_SIMILARITY_SHARE = 0.2
"Weight of similarity where products have interactions."


@dataclass(frozen=True, slots=True)
class UserScores:
    """The score of every row for one user, in its two terms."""

    prior: PriorScores
    personal: PersonalScores


def compute_user_scores(
    user: UserSignals, state: EngineState, priors: ItemPriors, kept: list[ScoreComponent] | None = None
) -> UserScores:
    """Compute the prior and the personal score of a user for all rows.

    `kept` gets the components of the personal score.

    Cost:
        100,000 products, 40 events: 0.15 ms with a snapshot, 2 ms without

    Source:
        docs/concepts/scoring.md, equations 4, 5 and 17 (prior), 8 to 13 (personal)
    """
    prior = select_prior(user.history_profile, user.cohort, priors, unseen=user.unseen_only)
    return UserScores(prior, personal_scores(user.profile, state, priors, kept, unseen=user.unseen_only))


def select_prior(
    history_profile: UserProfile, cohort: CohortScores | None, priors: ItemPriors, *, unseen: bool = False
) -> PriorScores:
    """Return the prior of users with a history, of users in a cohort, or of all other users.

    `unseen` means a list without products of the history.
    """
    if history_profile.has_signal:
        return priors.prior_unseen if unseen else priors.prior
    return priors.prior_new if cohort is None else cohort.prior


def personal_scores(
    profile: UserProfile,
    state: EngineState,
    priors: ItemPriors,
    kept: list[ScoreComponent] | None = None,
    *,
    unseen: bool = False,
) -> PersonalScores:
    """Compute the personal score of all rows, which is added to the prior.

    `kept` gets the components.

    Source:
        docs/concepts/scoring.md, equation 13


    Cost:
        100,000 products, 40 events: 0.15 ms with a snapshot, 2 ms without
    """
    if not profile.has_signal:
        return PersonalScores(get_slot_map(state, priors))
    parts = score_user(profile, state, priors, unseen=unseen)
    if kept is not None:
        kept += parts
    return combine_components(parts, state, priors)


def combine_components(
    parts: Sequence[ScoreComponent], state: EngineState, priors: ItemPriors
) -> PersonalScores:
    """Sum components, and let cold-start items inherit unless a component scores them."""
    personal = sum_components(parts, get_slot_map(state, priors))
    new = priors.cold_start
    # Scores from features replace inheritance: with both, a new product would count its likeness twice.
    if len(new.rows) and personal.values is not None and not _has_cold_start_scores(parts):
        personal.values[new.slots] += new.inherit_by_slot(personal.values)
    return personal


def get_slot_map(state: EngineState, priors: ItemPriors) -> SlotMap:
    """Return the map of rows to the slots of personal scores."""
    return SlotMap(len(priors)) if state.serving_model is None else state.serving_model.slot_map


def explain_rows(
    rows: Sequence[int],
    profile: UserProfile,
    state: EngineState,
    priors: ItemPriors,
    *,
    cohort: CohortScores | None = None,
    is_new: bool = False,
    unseen: bool = False,
) -> list[dict[str, float]]:
    """Split the scores of some rows: name of a component -> its addend. Addends of 0 are left out.

    `is_new` means a user without history, even if session variables add to the profile. `unseen` means a list without
    products of the history.

    Names: `live:trend`, `live:popular`, `live:newest`, `live:together`, `live:content`, `learned:<part of the
    recipe>`, `live:cohort`, `learned:cohort`, `new:content`. The values of a row sum to its score, as a `Ranking`
    gives it.
    """
    chosen = np.asarray(rows, np.int64)
    has_history = profile.has_signal and not is_new
    named = [
        (name, values[chosen]) for name, values in state.prior_components(priors, has_history, unseen=unseen)
    ]
    if cohort is not None:
        cohort_gain = cohort.prior.scores[chosen] - priors.prior_new.scores[chosen]
        named.append((cohort.name, np.where(priors.offered[chosen], cohort_gain, 0)))
    if profile.has_signal:
        slot_map = get_slot_map(state, priors)
        parts = score_user(profile, state, priors, unseen=unseen)
        named += [(part.name, sum_components([part], slot_map).get_scores(chosen)) for part in parts]
        if not _has_cold_start_scores(parts):
            named.append((COLD_START, _inherit_scores(chosen, parts, slot_map, priors)))
    explained: list[dict[str, float]] = [{} for _ in rows]
    for name, values in named:
        for contributions, value in zip(explained, values.tolist(), strict=True):
            if value:
                contributions[name] = contributions.get(name, 0.0) + value
    return explained


def list_sources(explained: Mapping[str, float], least: float = 0.05) -> list[str]:
    """Name the components that brought a product into the list, the strongest first.

    A component counts if it has at least a share of the positive addends.
    """
    total = sum(value for value in explained.values() if value > 0)
    speaking = [(value, name) for name, value in explained.items() if value > 0 and value >= least * total]
    return [name for _, name in sorted(speaking, key=lambda entry: (-entry[0], entry[1]))]


def score_user(
    profile: UserProfile, state: EngineState, priors: ItemPriors, *, unseen: bool = False
) -> list[ScoreComponent]:
    """List the components of the personal score of a user.

    Source:
        docs/concepts/scoring.md, equations 8 to 12
    """
    model = state.serving_model
    overlay = state.overlay
    blend = state.weights
    parts: list[ScoreComponent] = []
    unknown = 1.0
    if model is not None:
        past = model.build_history(profile.interactions, priors.global_signals.at_ms)
        parts += model.contributions(past, unseen=unseen)
        if len(priors.cold_start.rows):
            parts += _score_cold_start(model, past, priors, unseen=unseen)
        # rho of equation 11: what the snapshot knows is scored by its models, which rank better than
        # similarity.
        unknown = _uncovered_share(profile, model.get_items(len(priors)))
    # The vector comes last in the condition: it is computed on first use.
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
    """List the components of products that go with given ones; `steps` is the session before them.

    Source:
        docs/concepts/scoring.md, equation 25
    """
    model = state.serving_model
    overlay = state.overlay
    blend = state.weights
    parts: list[ScoreComponent] = []
    unknown = 1.0
    if model is not None:
        past = model.build_history(steps or like.interactions, priors.global_signals.at_ms)
        # Only parts with a sparse method: a model without one can't score pairs of products.
        parts += model.similar_contributions(past)
        if len(priors.cold_start.rows):
            parts += _score_cold_start(model, past, priors, unseen=True)
        unknown = _uncovered_share(like, model.get_items(len(priors)))
    if like.vector is not None:
        # At least a fifth, also where the snapshot knows all anchors (equation 25).
        weight = blend.content * max(unknown, _SIMILARITY_SHARE)
        # A scan of all vectors only where the snapshot knows too little, or names too few products for a page.
        quick = unknown < _MOSTLY and _has_enough_scores(parts)
        parts.append(_score_similarity(like.vector, state, priors, weight, quick))
    parts.append(
        _score_cooccurrence("live:together", like, overlay.cooccurrence, state, priors, blend.together)
    )
    return parts


def score_related_items(
    anchors: Sequence[int], state: EngineState, priors: ItemPriors
) -> list[ScoreComponent]:
    """List the component of the `related_ids` of given products; nothing when they name no product."""
    catalog = state.catalog
    count = len(priors)
    named = {
        row for anchor in anchors[:_MOST_TOGETHER] for row in catalog.related_rows(anchor) if row < count
    }
    if not named or not state.weights.related:
        return []
    rows = np.array(sorted(named), np.int64)
    values = np.ones(len(rows), np.float32)
    # a_related s(y) y with y = 1 for each named product (equation 25)
    values *= np.float32(state.weights.related * compute_sparse_scale(rows, values, count))
    return [SparseScores("live:related", get_slot_map(state, priors).slots_from_rows(rows), values)]


def score_bought_together(like: UserProfile, state: EngineState, priors: ItemPriors) -> list[ScoreComponent]:
    """List the components of products bought with given ones; nothing when no basket had them.

    Source:
        docs/concepts/scoring.md, equation 25
    """
    model = state.serving_model
    overlay = state.overlay
    parts: list[ScoreComponent] = []
    if model is not None:
        baskets = model.basket_contributions(
            model.build_history(like.interactions, priors.global_signals.at_ms)
        )
        parts += [baskets] if baskets is not None else []
    if overlay.baskets.has_neighbours(like.rows):
        parts.append(
            _score_cooccurrence("live:baskets", like, overlay.baskets, state, priors, 1.0, damped=True)
        )
    # Only beside real baskets: similarity alone is no evidence that products are bought together.
    if parts and like.vector is not None:
        weight = state.weights.content * _SIMILARITY_SHARE
        quick = model is not None and _has_enough_scores(parts)
        parts.append(_score_similarity(like.vector, state, priors, weight, quick))
    return parts


def normalize_scores(scores: Iterable[float]) -> list[float]:
    """Map scores to 0..1 for `_personalization_score`; the order stays.

    Source:
        docs/concepts/scoring.md, equation 14
    """
    # Strictly increasing and bounded without a look at other scores, so pages need no common scale.
    return [round(0.5 + 0.5 * score / (_SOFTNESS + abs(score)), 6) for score in scores]


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
    """Score the products that co-occur with the liked rows, up to 40 neighbourhoods.

    Beside a snapshot a pair counts as far as one of its products has new votes. The snapshot learned the rest.

    Source:
        docs/concepts/scoring.md, equation 10; damping by frequency ** 0.25 keeps best sellers from filling baskets
    """
    model = state.serving_model
    count = len(priors)
    liked = profile.rows[:_MOST_TOGETHER]
    # The usual case beside a young snapshot: no pair has votes that it lacks.
    if model is not None and not _has_news(model, pairs, liked):
        return SparseScores(name, liked[:0], np.zeros(0, np.float32))
    neighbours, shares = pairs.get_neighbours(liked)
    # `get_neighbours` returns copies, so the table keeps its shares.
    # y(p) = sum over i of r(i) A(i, p); shapes [i, width] times [i, 1] (equation 10)
    shares *= profile.weights[:_MOST_TOGETHER, None]
    valid = (shares > 0) & (neighbours < count)
    rows = neighbours[valid]
    values = shares[valid].astype(np.float32)
    if damped:
        # The addend bounds the quotient for products that nobody bought this month.
        # y(p) / (c_30 / max c_30 + 0.01)^0.25 (equation 25)
        values /= (priors.relative_popularity[rows] + 0.01).astype(np.float32) ** np.float32(_DAMPING)
    scale = np.float32(weight * compute_sparse_scale(rows, values, count))
    if model is None:
        return SparseScores(name, rows, values * scale)
    fresh = model.fresh
    # Rows behind the end of `fresh` were added since: all their votes are new.
    liked_fresh = np.where(liked < len(fresh), fresh[np.minimum(liked, len(fresh) - 1)], np.float32(1))
    # New votes of one side are enough: the snapshot can have learned no more than the older ones.
    news = np.maximum(np.broadcast_to(liked_fresh[:, None], valid.shape)[valid], fresh[rows])
    is_new = news > _OLD
    return SparseScores(name, model.slot_map.slots_from_rows(rows[is_new]), (values * news * scale)[is_new])


def _has_news(model: ServingModel, pairs: CooccurrenceTable, liked: Rows) -> bool:
    """Return quickly whether some rows or their neighbours may have votes that are newer than the
    snapshot.
    """
    fresh = model.fresh
    return bool(
        fresh.take(liked, mode="clip").max(initial=0) > _OLD
        or fresh.take(pairs.get_neighbour_rows(liked), mode="clip").max(initial=0) > _OLD
    )


def _score_similarity(
    vector: Vector, state: EngineState, priors: ItemPriors, weight: float, quick: bool
) -> ScoreComponent:
    """Score the similarity of products to a vector; `quick` scores established products only (equation 11)."""
    mean, spread = priors.estimate_spread(vector)
    items = priors.cold_start
    if quick and len(items.established_rows):
        like = items.established_vectors @ vector
        slots = get_slot_map(state, priors).slots_from_rows(items.established_rows)
        # Mean and spread are those of all products, so sparse and full scores have the same scale.
        return SparseScores("live:content", slots, (like - np.float32(mean)) * np.float32(weight / spread))
    return VectorScores("live:content", state.index, vector, weight / spread, mean)


def _inherit_scores(
    rows: Rows, parts: Sequence[ScoreComponent], slot_map: SlotMap, priors: ItemPriors
) -> Scores:
    """Compute what some rows inherit of all components; 0 for rows that are no cold-start items."""
    inherited = np.zeros(len(rows), np.float32)
    values = sum_components(parts, slot_map).values
    new = priors.cold_start
    if values is not None and len(new.rows):
        by_row = dict(zip(new.rows.tolist(), new.inherit_by_slot(values).tolist(), strict=True))
        inherited[:] = [by_row.get(row, 0.0) for row in rows.tolist()]
    return inherited


def _score_cold_start(
    model: ServingModel, past: UserHistory, priors: ItemPriors, *, unseen: bool
) -> Iterator[SparseScores]:
    """Score cold-start items by their features; nothing when the snapshot has no features (equation 12)."""
    new = priors.cold_start
    values = model.cold_start_contributions(past, new.features, unseen=unseen)
    if values is not None:
        yield SparseScores(COLD_START, new.slots, values * new.shares)


def _has_cold_start_scores(parts: Iterable[ScoreComponent]) -> bool:
    return any(part.name == COLD_START for part in parts)


def _has_enough_scores(parts: Sequence[ScoreComponent]) -> bool:
    """Return whether the components so far score enough products to fill a page."""
    return sum(part.count for part in parts if not isinstance(part, VectorScores)) >= _ENOUGH


def _uncovered_share(profile: UserProfile, items: Codes) -> float:
    """Compute the share of a profile that the snapshot can't score: unknown products, session variables."""
    if not len(profile.rows):
        return 1.0
    # Clipped only to index safely: rows behind the snapshot's arrays count as unknown in the next line.
    rows = np.minimum(profile.rows, len(items) - 1)
    unknown = (items[rows] < 0) | (profile.rows >= len(items))
    # Session variables stand last in a profile, and no snapshot was trained with them.
    unknown[len(rows) - profile.context_count :] = True
    return float(profile.weights[unknown].sum() / profile.weights.sum())
