"""Evaluation of scorers: full ranking of the whole catalog, metrics by user and segment, confidence intervals.

`evaluate` computes the metrics of each user; `jobs.refresh.evaluation.reports` reports their means and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from actors.models.model import Batch
from actors.models.user_histories import UserHistories
from actors.vectors.types import Floats, Mask, Rows
from cluster.errors import Invalid
from jobs.refresh.data.split import EvaluationSplit, Targets
from jobs.refresh.evaluation import metrics
from jobs.refresh.evaluation.calibration import ScoredPlaces

LIGHT_USER_BELOW = 10
"Users with fewer events are light, the others heavy."

POPULAR_SHARE = 0.5
"Popular targets are the items with the most training events that together have this share of all."

# Scores of one block of users; it bounds the memory for any catalog.
_BLOCK_BYTES = 64 << 20
# Samples of the bootstrap: 25 of them lie beyond each bound of an interval.
_RESAMPLES = 1_000


class Scorer(Protocol):
    """An object that scores items for histories: a model, a blend, an engine, or another library."""

    def score(self, histories: UserHistories) -> Batch:
        """Return the score of each item for each history.

        Shapes:
            returns: float32 [q, n], larger is better
        """
        ...


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Metrics of each evaluated user.

    Shapes:
        figures: name -> float64 [q]; events: int64 [q], length of the history; shown: bool [n], true if the item is in
        the first k places of any list
    """

    trial: str
    k: int
    figures: Mapping[str, Floats]
    events: Rows
    shown: Mask
    trained_items: int
    "Number of items in the training data."
    gini: float = 0.0
    """How unequally the first k places are spread over the trained items: 0 for all alike, near 1 for few of them
    (Castells, Hurley and Vargas, Novelty and Diversity in Recommender Systems, 2015)."""
    by_target: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    """Metrics of the users with targets of a kind, as if these were their only targets: `popular targets`,
    `other targets` and `new targets`, which have no training event. Kinds without targets are absent."""
    places: ScoredPlaces | None = None
    "Scores of the ranked places."
    people: Rows | None = None
    "int64 [q], the person of each user, where a person is evaluated several times."
    target_users: Mapping[str, Rows] = field(default_factory=dict)
    "Positions of the users of each kind of `by_target`: int64 [m]."

    def segment_people(self, name: str) -> Rows | None:
        """Return the person of each user of a segment; None if every user is another person.

        Shapes:
            returns: int64 [users of the segment]
        """
        if self.people is None:
            return None
        if name in self.target_users:
            return self.people[self.target_users[name]]
        return self.people[segment_masks(self.events)[name]]

    @property
    def coverage(self) -> float:
        """Return the share of the trained items that occur in the first k places of any list."""
        return float(np.count_nonzero(self.shown)) / max(self.trained_items, 1)


def evaluate(scorer: Scorer, trial: EvaluationSplit, *, k: int = 10, deep: int = 20) -> EvaluationResult:
    """Rank the whole catalog for each user of a split and return the metrics.

    Errors:
        Invalid: the split has no users, or scores have a wrong shape or are not finite
    Cost:
        some hundred MB of memory for any catalog; 20,000 users x 12,000 items: 15 s on one core
    """
    if not len(trial):
        raise Invalid(f"nobody can be asked in the trial {trial.name!r}; there is too little data")
    count = trial.histories.n_items
    popularity = np.bincount(trial.train.item, minlength=count).astype(np.float64)
    kinds = _target_kinds(popularity)
    # 4 bytes for each score of each item: float32 [block, n].
    block = max(1, min(1_000, _BLOCK_BYTES // (4 * max(count, 1))))
    shown = np.zeros(count, np.int64)
    blocks: list[dict[str, dict[str, Floats]]] = []
    places: list[ScoredPlaces] = []
    for first in range(0, len(trial), block):
        part = trial.pick(np.arange(first, min(first + block, len(trial))))
        scores = score_allowed_items(scorer, part)
        lists = metrics.rank_top_items(scores, deep)
        # -1 fills lists of users with fewer items that may be recommended.
        shown += np.bincount(lists[:, :k][lists[:, :k] >= 0], minlength=count)
        hits = metrics.mark_hits(lists, part.targets, count)
        figures = _user_metrics(hits, part.targets.lengths, k, deep)
        figures[f"novelty@{k}"] = metrics.novelty(lists, popularity, k)
        by_kind = {
            kind: _metrics_of_targets(hits, lists, part.targets, members, k, deep)
            for kind, members in kinds.items()
        }
        blocks.append({"": figures, **by_kind})
        # Shape [q, deep]; -1 reads item 0, and `lists >= 0` takes it out of the places.
        listed = np.take_along_axis(scores, np.maximum(lists, 0), axis=1)
        places.append(ScoredPlaces(listed, hits, lists >= 0))
    joined = {
        group: {name: np.concatenate([part[group][name] for part in blocks]) for name in blocks[0][group]}
        for group in blocks[0]
    }
    everybody = joined.pop("")
    is_trained = popularity > 0
    return EvaluationResult(
        trial.name,
        k,
        everybody,
        trial.histories.lengths,
        shown > 0,
        int(np.count_nonzero(is_trained)),
        metrics.gini(shown[is_trained]),
        {kind: figures for kind, figures in joined.items() if len(figures[f"ndcg@{k}"])},
        ScoredPlaces.concatenate(places, trial.people),
        trial.people,
        {kind: np.flatnonzero(_count_targets(trial.targets, members)) for kind, members in kinds.items()},
    )


def _target_kinds(popularity: Floats) -> dict[str, Mask]:
    """Group items by their training events.

    Shapes:
        popularity: float64 [n]; returns: name -> bool [n]
    """
    # Stable, so that equally popular items fall on the same side of the border in every evaluation.
    order = np.argsort(-popularity, kind="stable")
    before = np.cumsum(popularity[order]) - popularity[order]
    popular = np.zeros(len(popularity), np.bool_)
    # The share before the item, so that the item that crosses the border is popular.
    popular[order] = before < POPULAR_SHARE * popularity.sum()
    is_trained = popularity > 0
    return {
        "popular targets": popular & is_trained,
        "other targets": ~popular & is_trained,
        "new targets": ~is_trained,
    }


def score_allowed_items(scorer: Scorer, trial: EvaluationSplit) -> Batch:
    """Score all items for every user of a split; items that may not be recommended have the score -inf.

    Shapes:
        returns: float32 [q, n]
    Errors:
        Invalid: the scores have a wrong shape, or hold NaN
    """
    histories = trial.histories
    scores = scorer.score(histories)
    if scores.shape != (len(histories), histories.n_items):
        expected = (len(histories), histories.n_items)
        raise Invalid(f"scores have the shape {scores.shape}, {expected} was expected")
    if not np.isfinite(scores).all():
        raise Invalid(
            "scores hold what is no number; `python -m jobs.refresh conform` says which learner gives it"
        )
    hidden = trial.excluded_items()
    # As the engine does: what lists leave out can be neither a hit nor a miss.
    scores[hidden.owners(), hidden.items] = -np.inf
    return scores


def segment_figures(examined: EvaluationResult) -> dict[str, Mapping[str, Floats]]:
    """Return the metrics of the users of each segment: by the length of their history, then by their targets.

    Shapes:
        returns: segment -> metric -> float64 [users of the segment]
    """
    by_history = {
        name: {figure: values[members] for figure, values in examined.figures.items()}
        for name, members in segment_masks(examined.events).items()
    }
    return {**by_history, **examined.by_target}


def segment_masks(events: Rows) -> dict[str, Mask]:
    """Group users by the length of their history: all users, then the non-empty groups new, light and heavy.

    Shapes:
        events: int64 [q], length of the history
        returns: name -> bool [q]
    """
    groups = {
        "all": np.ones(len(events), np.bool_),
        "new": events == 0,
        "light": (events > 0) & (events < LIGHT_USER_BELOW),
        "heavy": events >= LIGHT_USER_BELOW,
    }
    return {name: members for name, members in groups.items() if name == "all" or members.any()}


def bootstrap_interval(
    values: Floats, rng: np.random.Generator, people: Rows | None = None
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean; all values of a person are drawn together.

    Shapes:
        values: float64 [q]; people: int64 [q], None if each value is of another person
    """
    sizes = None
    if people is not None:
        # Values of one person depend on each other; drawn singly, the interval would be too narrow.
        (values,), sizes = sum_by_person(values[None], people)
    count = len(values)
    resampled = np.empty(_RESAMPLES)
    step = max(1, 2_000_000 // max(count, 1))
    for first in range(0, _RESAMPLES, step):
        last = min(first + step, _RESAMPLES)
        # Shape [samples, users]; drawn in parts, because all at once would take gigabytes.
        drawn = rng.integers(0, count, (last - first, count))
        resampled[first:last] = (
            values[drawn].mean(axis=1)
            if sizes is None
            else values[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
        )
    low, high = np.quantile(resampled, (0.025, 0.975))
    return float(low), float(high)


def sum_by_person(values: Floats, people: Rows) -> tuple[Floats, Rows]:
    """Return the sums of each person's values, and how many values each person has.

    Shapes:
        values: float64 [m, q]; people: int64 [q]; returns: float64 [m, p], int64 [p]
    """
    _, person, sizes = np.unique(people, return_inverse=True, return_counts=True)
    sums: Floats = np.stack([np.bincount(person, row, len(sizes)) for row in values])
    return sums, sizes


def _user_metrics(hits: metrics.HitMask, lengths: Rows, k: int, deep: int) -> dict[str, Floats]:
    return {
        f"ndcg@{k}": metrics.ndcg(hits, lengths, k),
        f"recall@{k}": metrics.recall(hits, lengths, k),
        f"recall@{deep}": metrics.recall(hits, lengths, deep),
        f"hit_rate@{k}": metrics.hit_rate(hits, k),
        f"hit_rate@{deep}": metrics.hit_rate(hits, deep),
        f"mrr@{k}": metrics.reciprocal_rank(hits, k),
        f"mrr@{deep}": metrics.reciprocal_rank(hits, deep),
    }


def _metrics_of_targets(
    hits: metrics.HitMask, lists: metrics.RankedLists, targets: Targets, members: Mask, k: int, deep: int
) -> dict[str, Floats]:
    """Return the metrics of the users with targets among some items, as if these were their only targets."""
    lengths = _count_targets(targets, members)
    users = lengths > 0
    return _user_metrics((hits & members[lists])[users], lengths[users], k, deep)


def _count_targets(targets: Targets, members: Mask) -> Rows:
    """Return the number of targets of each user among some items.

    Shapes:
        members: bool [n]; returns: int64 [q]
    """
    return np.bincount(targets.owners()[members[targets.items]], minlength=len(targets))
