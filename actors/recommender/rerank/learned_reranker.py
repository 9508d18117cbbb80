"""The learned order of the best candidates: their scores, and what a re-ranker of the snapshot adds to them.

Lists and searches have a re-ranker each, because words rank searches and their scores have another scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from actors.models.reranker import Reranker
from actors.recommender.ranking.pipeline_inputs import UserSignals
from actors.recommender.ranking.ranking import Ranking
from actors.recommender.state.engine_state import ItemPriors
from actors.recommender.state.score_components import (
    DenseScores,
    ScoreComponent,
    SlotMap,
    SparseScores,
)
from actors.recommender.state.serving_model import ServingModel
from actors.vectors.row_selection import best_rows
from actors.vectors.types import Floats, Rows, Scores

RERANKER = "learned:reranker"
"Name of the addend in explanations."


@dataclass(frozen=True, slots=True)
class RerankedCandidates:
    """Candidates, best first, and what the re-ranker added to their scores."""

    candidates: list[int]
    gains: Mapping[int, float]
    "Row -> what the re-ranker added to its score."

    def raise_scores(self, rows: Sequence[int], scores: Scores) -> Scores:
        """Return the scores of rows with the gains.

        Shapes:
            scores: float32 [m]; returns: float32 [m]
        """
        gained: Scores = scores + np.array([self.gains.get(row, 0.0) for row in rows], np.float32)
        return gained


def rerank_candidates(
    model: ServingModel | None,
    priors: ItemPriors,
    user: UserSignals,
    candidates: list[int],
    ranking: Ranking,
    components: Sequence[ScoreComponent],
) -> RerankedCandidates:
    """Order the best candidates by score plus gain; the others keep their places behind them.

    `components` are those of the personal score of the user.

    Cost:
        200 candidates, 60 trees, 8 parts: 0.4 ms

    Source:
        docs/concepts/scoring.md, section Learned re-ranker
    """
    reranker = None if model is None else model.learned.reranker
    if model is None or reranker is None or not candidates:
        return RerankedCandidates(candidates, {})
    head = candidates[: reranker.candidates]
    rows = np.array(head, np.int64)
    scores = ranking.get_scores(rows)
    gains = _compute_gains(reranker, model, priors, user, rows, scores, components)
    # score' = score + F(x) - min F (equation 32); stable, so equal scores keep the order of the ranking
    order = np.argsort(-(scores + gains), kind="stable").tolist()
    ordered = [head[place] for place in order]
    return RerankedCandidates(ordered + candidates[len(head) :], dict(zip(head, gains.tolist(), strict=True)))


def add_gains_to_hits(
    model: ServingModel,
    reranker: Reranker,
    priors: ItemPriors,
    user: UserSignals,
    rows: Rows,
    scores: Floats,
    components: Sequence[ScoreComponent],
) -> Floats:
    """Return the scores of hits with the gains of the best ones.

    Hits that are newer than the priors, or out of stock, gain nothing.

    Shapes:
        rows: int64 [k]; scores: float64 [k]; returns: float64 [k]
    Cost:
        20,000 hits, 200 candidates, 100 trees, 4 parts: 0.2 ms where caches are warm, 0.4 ms within a request

    Source:
        docs/concepts/scoring.md, section Learned re-ranker
    """
    best = best_rows(scores, reranker.candidates)
    # Rows added since the priors have no scores of parts.
    best = best[rows[best] < len(priors)]
    best = best[priors.offered[rows[best]]]
    raised = scores.copy()
    if len(best):
        raised[best] += _compute_gains(reranker, model, priors, user, rows[best], scores[best], components)
    return raised


def _compute_gains(
    reranker: Reranker,
    model: ServingModel,
    priors: ItemPriors,
    user: UserSignals,
    rows: Rows,
    scores: Scores | Floats,
    components: Sequence[ScoreComponent],
) -> Scores:
    """Return what the trees add to the scores of rows, none of them newer than the priors.

    Shapes:
        rows: int64 [m]; scores: float [m]; returns: float32 [m]
    """
    parts = _read_part_scores(reranker, model, priors, user, rows, components)
    past = model.build_history(user.profile.interactions, priors.global_signals.at_ms)
    items = model.get_items(len(priors))[rows].astype(np.int64)
    return reranker.score(past, items, scores, parts)


def _read_part_scores(
    reranker: Reranker,
    model: ServingModel,
    priors: ItemPriors,
    user: UserSignals,
    rows: Rows,
    components: Sequence[ScoreComponent],
) -> Floats:
    """Return the scores of each part of the blend without its weight; 0 where the part has none.

    Shapes:
        rows: int64 [m]; returns: float64 [m, p]
    """
    # Columns by name: the parts of the blend may have another order than those of the trees.
    columns = {f"learned:{name}": column for column, name in enumerate(reranker.parts)}
    scores = np.zeros((len(rows), len(columns)))
    for prior in priors.components:
        weight = prior.weight_unseen if user.unseen_only else prior.weight
        if prior.name in columns and (weight if user.history_profile.has_signal else prior.weight_new):
            scores[:, columns[prior.name]] = prior.values[rows]
    slot_map = model.slot_map
    slots = slot_map.slots_from_rows(rows)
    places: Rows | None = None
    weights = model.get_part_weights(unseen=user.unseen_only)
    for component in components:
        column = columns.get(component.name)
        if column is None:
            continue
        if isinstance(component, DenseScores):
            # The trees were trained on scores without weights.
            scores[:, column] = component.values[slots] / weights[component.name]
        elif isinstance(component, SparseScores) and component.count:
            places = _place_slots(slot_map, slots) if places is None else places
            at = places[component.slots]
            inside = at >= 0
            sums = np.bincount(at[inside], component.values[inside], len(rows))
            scores[:, column] = sums / weights[component.name]
    return scores


def _place_slots(slot_map: SlotMap, slots: Rows) -> Rows:
    """Return the position of each slot among some slots, -1 for all others."""
    places = np.full(slot_map.count, -1, np.int64)
    places[slots] = np.arange(len(slots))
    return places
