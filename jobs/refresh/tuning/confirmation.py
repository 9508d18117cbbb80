"""Weights confirmed on users they were not chosen by: what misleads goes.

A blend can lose to a part of itself, where what validates is unlike what comes after it. So the blend is set beside
each of its parts alone, and beside itself without each of them, on the newest events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from actors.models.blend import BlendPart
from actors.vectors.types import Floats
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.tuning.candidates import TuningCandidates, collect_candidates

CONFIRMATION_USERS = 2_000
"Users that weights are confirmed by."

_FEWEST_READERS = 30
_CERTAIN = 2.5
"So many standard errors of the paired difference; there are two looks at each part."


@dataclass(frozen=True, slots=True)
class BlendConfirmation:
    """Which parts of a blend stay."""

    kept: tuple[str, ...]
    dropped: dict[str, str] = field(default_factory=dict)
    "Part -> why it goes."


def confirm_blend(
    parts: Sequence[BlendPart], trial: EvaluationSplit, k: int, rng: np.random.Generator
) -> BlendConfirmation:
    """Drop the parts without which the blend is certainly better for the users of a trial with a history.

    Cost:
        one scoring of the catalog per part and user
    """
    weighty = [part for part in parts if part.weight]
    names = tuple(part.name for part in weighty)
    known = trial.pick(np.flatnonzero(trial.histories.lengths > 0))
    if len(weighty) < 2 or len(known) < _FEWEST_READERS:
        return BlendConfirmation(names)
    candidates = collect_candidates(
        [part.model for part in weighty], known.sample(CONFIRMATION_USERS, rng), k=k
    )
    weights = np.array([part.weight for part in weighty])
    dropped: dict[str, str] = {}
    while (better := _find_better_blend(candidates, weights)) is not None:
        fewer, before, after = better
        for at in np.flatnonzero((weights != 0) & (fewer == 0)).tolist():
            dropped[names[at]] = (
                f"on the newest events, which chose nothing, NDCG@{k} is {after:.4f} without it "
                f"and {before:.4f} with it"
            )
        weights = fewer
    return BlendConfirmation(tuple(name for name in names if name not in dropped), dropped)


def _find_better_blend(candidates: TuningCandidates, weights: Floats) -> tuple[Floats, float, float] | None:
    """Find the best blend of fewer parts that is certainly better; with the figures before and after."""
    now = candidates.compute_ndcg(candidates.blend_scores(weights))
    best, best_gain = None, 0.0
    for fewer in _smaller_blends(weights):
        found = candidates.compute_ndcg(candidates.blend_scores(fewer)) - now
        gain, doubt = float(found.mean()), float(found.std(ddof=1)) / len(found) ** 0.5
        if gain > best_gain and gain > _CERTAIN * doubt:
            best, best_gain = fewer, gain
    before = float(now.mean())
    return None if best is None else (best, before, before + best_gain)


def _smaller_blends(weights: Floats) -> Iterator[Floats]:
    """List each part alone, and all parts but one."""
    used = np.flatnonzero(weights).tolist()
    if len(used) < 2:
        return
    for at in used:
        alone = np.zeros_like(weights)
        alone[at] = weights[at]
        yield alone
        if len(used) > 2:
            rest = weights.copy()
            rest[at] = 0.0
            yield rest
