"""The short lists on which blend weights are chosen: whatever may come first under any weights, with its scores.

Scoring the whole catalog for every trial of weights would take hours; the best of every part, put together, hold
the first places of any blend of them, so a few hundred candidates a user give the same figure in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from actors.models.model import Model
from actors.models.standardized import StandardizedScores
from actors.vectors.types import Floats, Rows
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.metrics import rank_discounts

_BLOCK_BYTES = 64 << 20
_BLOCK_READERS = 1_000
_NEVER = -1e6
"Stands for the score of no candidate at all; finite, so that any weight keeps it low."


@dataclass(frozen=True, slots=True)
class TuningCandidates:
    """Scaled scores of every part for the candidates of every user, side by side.

    Shapes:
        scores: float32 [p, q, c], far below everything where a user has fewer candidates;
        relevant: bool [q, c], is the candidate a target?; best: float64 [q], gain of a perfect list
    """

    scores: npt.NDArray[np.float32]
    relevant: npt.NDArray[np.bool_]
    best: Floats
    k: int

    def __len__(self) -> int:
        return len(self.best)

    def blend_scores(self, weights: Floats) -> npt.NDArray[np.float32]:
        """Blend the candidates.

        Shapes:
            weights: float64 [p]
            returns: float32 [q, c]
        """
        blended = np.zeros(self.relevant.shape, np.float32)
        for part in np.flatnonzero(weights):
            blended += self.scores[part] * np.float32(weights[part])
        return blended

    def compute_ndcg(self, total: npt.NDArray[np.float32]) -> Floats:
        """Give NDCG@k of every user when candidates are ranked by `total`; a tie never flatters.

        Shapes:
            total: float32 [q, c]
            returns: float64 [q]
        Cost:
            6 ms for 1,000 users with 400 candidates
        """
        width = total.shape[1]
        if not width:
            return np.zeros(len(self))
        border = np.partition(total, max(width - self.k, 0), axis=1)[:, max(width - self.k, 0), None]
        owner, place = np.nonzero(self.relevant & (total >= border))
        ranks = (total[owner] >= total[owner, place][:, None]).sum(axis=1) - 1
        worth = np.append(rank_discounts(self.k), 0.0)[np.minimum(ranks, self.k)]
        figures: Floats = np.bincount(owner, worth, len(self)) / self.best
        return figures

    @classmethod
    def concatenate(cls, several: Sequence[TuningCandidates]) -> TuningCandidates:
        """Put the users of several trials below each other."""
        width = max(candidates.relevant.shape[1] for candidates in several)
        count = sum(len(candidates) for candidates in several)
        scores = np.full((len(several[0].scores), count, width), _NEVER, np.float32)
        relevant = np.zeros((count, width), np.bool_)
        first = 0
        for candidates in several:
            rows = slice(first, first + len(candidates))
            scores[:, rows, : candidates.relevant.shape[1]] = candidates.scores
            relevant[rows, : candidates.relevant.shape[1]] = candidates.relevant
            first += len(candidates)
        best = np.concatenate([candidates.best for candidates in several])
        return cls(scores, relevant, best, several[0].k)


def collect_candidates(
    models: Sequence[Model], trial: EvaluationSplit, *, k: int = 10, depth: int = 60
) -> TuningCandidates:
    """Collect the best `depth` items of every part for every user of a trial.

    Cost:
        one scoring of the catalog per part and user, in blocks of 64 MB per part
    """
    block = max(1, min(_BLOCK_READERS, _BLOCK_BYTES // (4 * max(trial.histories.n_items, 1))))
    found = [
        _collect_block(models, trial.pick(np.arange(first, min(first + block, len(trial)))), depth)
        for first in range(0, len(trial), block)
    ]
    width = max((relevant.shape[1] for _, relevant in found), default=0)
    scores = np.full((len(models), len(trial), width), _NEVER, np.float32)
    relevant = np.zeros((len(trial), width), np.bool_)
    for at, (part, mark) in enumerate(found):
        rows = slice(at * block, at * block + len(mark))
        scores[:, rows, : mark.shape[1]] = part
        relevant[rows, : mark.shape[1]] = mark
    best = np.cumsum(rank_discounts(k))[np.minimum(trial.targets.lengths, k) - 1]
    return TuningCandidates(scores, relevant, best, k)


def _collect_block(
    models: Sequence[Model], trial: EvaluationSplit, depth: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Collect one block: scores of the parts and which candidates are targets."""
    histories, width = trial.histories, trial.histories.n_items
    every = [StandardizedScores.of(model, histories) for model in models]
    found = list(_select_best(every, trial, depth))
    sizes = np.array([len(items) for items in found], np.int64)
    rows = np.repeat(np.arange(len(histories)), sizes)
    items = np.concatenate(found) if found else np.zeros(0, np.int64)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    most = int(sizes.max(initial=0))
    relevant = np.zeros((len(histories), most), np.bool_)
    wanted = trial.targets.owners() * width + trial.targets.items
    relevant[rows, places] = np.isin(rows * width + items, wanted)
    picked = np.full((len(models), len(histories), most), _NEVER, np.float32)
    for part, scaled in enumerate(every):
        picked[part, rows, places] = scaled.get_scores(rows, items)
    return picked, relevant


def _select_best(every: Sequence[StandardizedScores], trial: EvaluationSplit, depth: int) -> Iterator[Rows]:
    """Put the best of all parts together, for one user after the other.

    Shapes:
        yields: int64 [c], ascending
    """
    hidden = trial.hidden_items()
    seen = np.zeros(trial.histories.n_items, np.bool_)
    for row, (first, last) in enumerate(pairwise(hidden.starts.tolist())):
        items = hidden.items[first:last]
        seen[items] = True
        yield np.unique(np.concatenate([scaled.select_best(row, depth, seen) for scaled in every]))
        seen[items] = False
