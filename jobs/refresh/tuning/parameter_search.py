"""Parameters of one part from validation: one after the other, each value tried, a change only when it is clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.models.model import Model
from actors.models.user_histories import TimeDecay
from actors.vectors.types import Floats
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.metrics import significant_gain
from jobs.refresh.learners.ease import EaseRecipe
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.registry import build_learner
from jobs.refresh.tuning.candidates import collect_candidates

_TIME_DECAYS_KEPT = 3


@dataclass(frozen=True, slots=True)
class TunedPart:
    """A part with settled parameters, the fadings that remain in question, and what was tried."""

    part: PartRecipe
    fadings: tuple[TimeDecay, ...]
    tried: tuple[tuple[str, float], ...] = ()
    "Parameter and value as text, NDCG of the part alone."


def tune_part(
    part: PartRecipe,
    trials: Sequence[EvaluationSplit],
    rng: np.random.Generator,
    ease_items: int,
    *,
    coarse_clock: bool = False,
) -> TunedPart:
    """Try the values of `tune`; EASE in a large catalog keeps its own.

    Fadings need no training. The first of them counts while parameters are tried; the ones that are not clearly
    worse stay in question until weights are chosen. With a coarse clock (`is_coarse_clock`), all of them go by
    the order of
    the log where that is clearly better.
    """
    asked = {field: values for field, values in part.tune.items() if field != "fading"}
    fadings = tuple(TimeDecay.model_validate(value) for value in part.tune.get("fading", ()))
    untuned = part.model_copy(update={"tune": {}})
    trials = [trial for trial in trials if len(trial)]
    large = isinstance(part, EaseRecipe) and any(trial.train.n_items > ease_items for trial in trials)
    if not trials or large or (not asked and len(fadings) <= 1):
        return TunedPart(untuned, fadings)
    search = _ParameterSearch(trials, rng)
    if fadings:
        untuned = set_parameter(untuned, "fading", fadings[0])
    models = search.train(untuned)
    figures = search.figures(untuned, models)
    for field, values in asked.items():
        for value in values:
            changed = set_parameter(untuned, field, value)
            if changed == untuned:
                continue
            tried = search.train(changed)
            found = search.figures(changed, tried)
            if significant_gain(found - figures, figures) > 0:
                untuned, figures, models = changed, found, tried
    if fadings and coarse_clock:
        faded, models, figures, fadings = search.compare_event_order(models, figures, fadings)
        untuned = set_parameter(untuned, "fading", faded)
    kept = search.rank_time_decays(untuned, models, figures, fadings)
    return TunedPart(untuned, kept, tuple(search.tried))


def set_parameter(part: PartRecipe, field: str, value: Any) -> PartRecipe:
    """Give a part with one parameter changed, checked."""
    return type(part).model_validate({**part.model_dump(), field: value})


def expand_time_decays(
    part: PartRecipe, model: Model, fadings: Sequence[TimeDecay]
) -> list[tuple[PartRecipe, Model]]:
    """List a trained part once for every fading in question; as it is when there is none."""
    if not fadings or not hasattr(model, "fading_as"):
        return [(part, model)]
    return [
        (part.model_copy(update={"fading": fading}), _set_time_decay(model, fading)) for fading in fadings
    ]


class _ParameterSearch:
    """Trains, scores and remembers what was tried."""

    def __init__(self, trials: Sequence[EvaluationSplit], rng: np.random.Generator) -> None:
        self._trials = trials
        self._seed = int(rng.integers(2**31))
        self.tried: list[tuple[str, float]] = []

    def train(self, part: PartRecipe) -> list[Model]:
        """Train a part for every trial."""
        learner = build_learner(part)
        return [learner.train(trial.train, np.random.default_rng(self._seed)) for trial in self._trials]

    def figures(self, part: PartRecipe, models: Sequence[Model]) -> Floats:
        """Give the figure of every user of every trial."""
        figures = self._figures(models)
        self.tried.append((part.model_dump_json(exclude={"tune"}), float(figures.mean())))
        return figures

    def _figures(self, models: Sequence[Model]) -> Floats:
        found = []
        for model, trial in zip(models, self._trials, strict=True):
            candidates = collect_candidates([model], trial)
            found.append(candidates.compute_ndcg(candidates.scores[0]))
        return np.concatenate(found)

    def compare_event_order(
        self, models: list[Model], figures: Floats, fadings: tuple[TimeDecay, ...]
    ) -> tuple[TimeDecay, list[Model], Floats, tuple[TimeDecay, ...]]:
        """Take the order of the log for the order of events of one moment, where that is clearly better.

        Returns the first fading, the models and figures with it, and all fadings.
        """
        ordered = fadings[0].model_copy(update={"ordered": True})
        again = [_set_time_decay(model, ordered) for model in models]
        found = self._figures(again)
        if significant_gain(found - figures, figures) <= 0:
            return fadings[0], models, figures, fadings
        every = [fading.model_copy(update={"ordered": True}) for fading in fadings]
        return ordered, again, found, tuple(dict.fromkeys(every))

    def rank_time_decays(
        self, part: PartRecipe, models: Sequence[Model], figures: Floats, fadings: Sequence[TimeDecay]
    ) -> tuple[TimeDecay, ...]:
        """Order fadings: the first one stays in front of those that are not clearly better; keep a few."""
        if not fadings:
            return ()
        gains = [0.0]
        for fading in fadings[1:]:
            faded = set_parameter(part, "fading", fading)
            again = [_set_time_decay(model, fading) for model in models]
            difference = self.figures(faded, again) - figures
            gains.append(significant_gain(difference, figures) or min(float(difference.mean()), 0.0) - 1e-9)
        order = np.argsort(-np.array(gains), kind="stable")[:_TIME_DECAYS_KEPT]
        return tuple(fadings[at] for at in order)


def _set_time_decay(model: Model, fading: TimeDecay) -> Model:
    changed: Model = model.fading_as(fading) if hasattr(model, "fading_as") else model
    return changed
