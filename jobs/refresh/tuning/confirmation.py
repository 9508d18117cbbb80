"""Confirmation of blend weights on other users than those of the choice.

A blend can be worse than one of its components if validation and test data differ. On the newest events, the blend is
therefore compared with each component alone, and with the blend without each component.
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
"Maximum number of users for the confirmation."

_FEWEST_READERS = 30
_CERTAIN = 2.5
"Minimum difference in standard errors; each component is tested twice."


@dataclass(frozen=True, slots=True)
class BlendConfirmation:
    """Components that stay in a blend."""

    kept: tuple[str, ...]
    dropped: dict[str, str] = field(default_factory=dict)
    "Removed component -> reason."


def confirm_blend(
    parts: Sequence[BlendPart], trial: EvaluationSplit, k: int, rng: np.random.Generator
) -> BlendConfirmation:
    """Return the blend without the components that significantly lower its NDCG for users with a history.

    Cost:
        one scoring of the catalog per component and user
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
    """Return the best significantly better blend with fewer components, with the NDCG before and after."""
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
    """Yield the weights of each component alone, and of all components but one."""
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
