"""Parameters of one part from validation: one after the other, each value tried, a change only when it is clear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.models.model import Model
from actors.models.user_histories import Fading
from actors.vectors.types import Floats
from jobs.refresh.data.split import Trial
from jobs.refresh.learners.ease import EaseRecipe
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.registry import learner_of
from jobs.refresh.tuning.blend_weights import worth
from jobs.refresh.tuning.candidates import gather

_FADINGS_KEPT = 3


@dataclass(frozen=True, slots=True)
class Tuned:
    """A part with settled parameters, the fadings that remain in question, and what was tried."""

    part: PartRecipe
    fadings: tuple[Fading, ...]
    tried: tuple[tuple[str, float], ...] = ()
    "Parameter and value as text, NDCG of the part alone."


def tune_part(
    part: PartRecipe,
    trials: Sequence[Trial],
    rng: np.random.Generator,
    ease_items: int,
    *,
    coarse_clock: bool = False,
) -> Tuned:
    """Try the values of `tune`; EASE in a large catalog keeps its own.

    Fadings need no training. The first of them counts while parameters are tried; the ones that are not clearly
    worse stay in question until weights are chosen. With a coarse clock (`is_coarse`), all of them go by the order of
    the log where that is clearly better.
    """
    asked = {field: values for field, values in part.tune.items() if field != "fading"}
    fadings = tuple(Fading.model_validate(value) for value in part.tune.get("fading", ()))
    untuned = part.model_copy(update={"tune": {}})
    trials = [trial for trial in trials if len(trial)]
    large = isinstance(part, EaseRecipe) and any(trial.train.n_items > ease_items for trial in trials)
    if not trials or large or (not asked and len(fadings) <= 1):
        return Tuned(untuned, fadings)
    search = _Search(trials, rng)
    if fadings:
        untuned = with_value(untuned, "fading", fadings[0])
    models = search.trained(untuned)
    figures = search.figures(untuned, models)
    for field, values in asked.items():
        for value in values:
            changed = with_value(untuned, field, value)
            if changed == untuned:
                continue
            tried = search.trained(changed)
            found = search.figures(changed, tried)
            if worth(found - figures, figures) > 0:
                untuned, figures, models = changed, found, tried
    if fadings and coarse_clock:
        faded, models, figures, fadings = search.by_order(models, figures, fadings)
        untuned = with_value(untuned, "fading", faded)
    kept = search.promising(untuned, models, figures, fadings)
    return Tuned(untuned, kept, tuple(search.tried))


def with_value(part: PartRecipe, field: str, value: Any) -> PartRecipe:
    """Give a part with one parameter changed, checked."""
    return type(part).model_validate({**part.model_dump(), field: value})


def fadings_of(part: PartRecipe, model: Model, fadings: Sequence[Fading]) -> list[tuple[PartRecipe, Model]]:
    """List a trained part once for every fading in question; as it is when there is none."""
    if not fadings or not hasattr(model, "fading_as"):
        return [(part, model)]
    return [(part.model_copy(update={"fading": fading}), _with_fading(model, fading)) for fading in fadings]


class _Search:
    """Trains, scores and remembers what was tried."""

    def __init__(self, trials: Sequence[Trial], rng: np.random.Generator) -> None:
        self._trials = trials
        self._seed = int(rng.integers(2**31))
        self.tried: list[tuple[str, float]] = []

    def trained(self, part: PartRecipe) -> list[Model]:
        """Train a part for every trial."""
        learner = learner_of(part)
        return [learner.train(trial.train, np.random.default_rng(self._seed)) for trial in self._trials]

    def figures(self, part: PartRecipe, models: Sequence[Model]) -> Floats:
        """Give the figure of every reader of every trial."""
        figures = self._figures(models)
        self.tried.append((part.model_dump_json(exclude={"tune"}), float(figures.mean())))
        return figures

    def _figures(self, models: Sequence[Model]) -> Floats:
        found = []
        for model, trial in zip(models, self._trials, strict=True):
            candidates = gather([model], trial)
            found.append(candidates.figures(candidates.scores[0]))
        return np.concatenate(found)

    def by_order(
        self, models: list[Model], figures: Floats, fadings: tuple[Fading, ...]
    ) -> tuple[Fading, list[Model], Floats, tuple[Fading, ...]]:
        """Take the order of the log for the order of events of one moment, where that is clearly better.

        Returns the first fading, the models and figures with it, and all fadings.
        """
        ordered = fadings[0].model_copy(update={"ordered": True})
        again = [_with_fading(model, ordered) for model in models]
        found = self._figures(again)
        if worth(found - figures, figures) <= 0:
            return fadings[0], models, figures, fadings
        every = [fading.model_copy(update={"ordered": True}) for fading in fadings]
        return ordered, again, found, tuple(dict.fromkeys(every))

    def promising(
        self, part: PartRecipe, models: Sequence[Model], figures: Floats, fadings: Sequence[Fading]
    ) -> tuple[Fading, ...]:
        """Order fadings: the first one stays in front of those that are not clearly better; keep a few."""
        if not fadings:
            return ()
        gains = [0.0]
        for fading in fadings[1:]:
            faded = with_value(part, "fading", fading)
            again = [_with_fading(model, fading) for model in models]
            difference = self.figures(faded, again) - figures
            gains.append(worth(difference, figures) or min(float(difference.mean()), 0.0) - 1e-9)
        order = np.argsort(-np.array(gains), kind="stable")[:_FADINGS_KEPT]
        return tuple(fadings[at] for at in order)


def _with_fading(model: Model, fading: Fading) -> Model:
    changed: Model = model.fading_as(fading) if hasattr(model, "fading_as") else model
    return changed
