"""Coordinate search of one component's parameters on validation; a change needs a significant gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.models.factors import FactorModel
from actors.models.model import Model
from actors.models.neighbours import NeighbourModel
from actors.models.repeat import RepeatModel
from actors.models.user_histories import TimeDecay
from actors.vectors.types import Floats
from jobs.refresh.data.split import EvaluationSplit
from jobs.refresh.evaluation.metrics import significant_gain
from jobs.refresh.learners.neighbours.ease import EaseRecipe
from jobs.refresh.learners.protocol import PartRecipe, expand_value
from jobs.refresh.learners.registry import build_learner
from jobs.refresh.learners.transformer import TransformerRecipe
from jobs.refresh.recipe import ValidationRecipe
from jobs.refresh.tuning.candidate_items import collect_candidates

_FADING = (FactorModel, NeighbourModel, RepeatModel)
"Models that score with another time decay without a new training."
# Decays that go on to the choice of weights, each as a variant: they cost scores, no training.
_TIME_DECAYS_KEPT = 3
_TRANSFORMER_EVENTS = 150_000
"Largest data in which a transformer is tuned: each value costs a whole training."


@dataclass(frozen=True, slots=True)
class TunedPart:
    """A component with settled parameters, the remaining candidate time decays, and the tested values."""

    part: PartRecipe
    fadings: tuple[TimeDecay, ...]
    tried: tuple[tuple[str, float], ...] = ()
    "Parameter and value as text, and the NDCG of the component alone."


def tune_part(
    part: PartRecipe,
    trials: Sequence[EvaluationSplit],
    rng: np.random.Generator,
    *,
    is_large: bool = False,
    coarse_clock: bool = False,
) -> TunedPart:
    """Choose parameters among the values of `tune`; with `is_large` data (`is_too_large`), the first ones stay.

    Time decays need no training. The search uses the first one; those that are not significantly worse remain
    candidates until the choice of weights. With a coarse clock (`is_coarse_clock`), all decays use the order of the
    log if that is significantly better.
    """
    requested = {field: values for field, values in part.tune.items() if field != "fading"}
    fadings = tuple(TimeDecay.model_validate(value) for value in part.tune.get("fading", ()))
    untuned = part.model_copy(update={"tune": {}})
    trials = [trial for trial in trials if len(trial)]
    if not trials or is_large or (not requested and len(fadings) <= 1):
        return TunedPart(untuned, fadings)
    search = _ParameterSearch(trials, rng)
    if fadings:
        untuned = set_parameter(untuned, "fading", fadings[0])
    models = search.train(untuned)
    figures = search.figures(untuned, models)
    for field, values in requested.items():
        for value in values:
            changed = set_parameter(untuned, field, value)
            # Its figures are known already.
            if changed == untuned:
                continue
            tried = search.train(changed)
            changed_figures = search.figures(changed, tried)
            # One parameter after the other: a grid would train the product of all numbers of values.
            if significant_gain(changed_figures - figures, figures) > 0:
                untuned = changed
                figures = changed_figures
                models = tried
    if fadings and coarse_clock:
        faded, models, figures, fadings = search.compare_event_order(models, figures, fadings)
        untuned = set_parameter(untuned, "fading", faded)
    kept = search.rank_time_decays(untuned, models, figures, fadings)
    return TunedPart(untuned, kept, tuple(search.tried))


def is_too_large(part: PartRecipe, items: int, events: int, validation: ValidationRecipe) -> bool:
    """Return true if data have too many items or events to tune a component."""
    if isinstance(part, TransformerRecipe):
        # Not on fewer events instead: these would choose more dropout and decay than suit all events.
        return events > min(_TRANSFORMER_EVENTS, validation.tune_events)
    return isinstance(part, EaseRecipe) and items > validation.tune_items


def set_parameter(part: PartRecipe, field: str, value: Any) -> PartRecipe:
    """Return a validated component with a candidate value of `tune`."""
    return type(part).model_validate({**part.model_dump(), **expand_value(field, value)})


def expand_time_decays(
    part: PartRecipe, model: Model, fadings: Sequence[TimeDecay]
) -> list[tuple[PartRecipe, Model]]:
    """Return a trained component once per candidate time decay, or unchanged without candidates."""
    if not fadings or not isinstance(model, _FADING):
        return [(part, model)]
    return [
        (part.model_copy(update={"fading": fading}), _set_time_decay(model, fading)) for fading in fadings
    ]


class _ParameterSearch:
    """Trains and scores candidate parameters, and records the results."""

    def __init__(self, trials: Sequence[EvaluationSplit], rng: np.random.Generator) -> None:
        self._trials = trials
        # All values train with one seed, so that a gain is that of the parameter and not of chance.
        self._seed = int(rng.integers(2**31))
        self.tried: list[tuple[str, float]] = []

    def train(self, part: PartRecipe) -> list[Model]:
        """Return the models of a component, one per split."""
        learner = build_learner(part)
        return [learner.train(trial.train, np.random.default_rng(self._seed)) for trial in self._trials]

    def figures(self, part: PartRecipe, models: Sequence[Model]) -> Floats:
        """Return the NDCG of each user of all splits."""
        figures = self._figures(models)
        self.tried.append((part.model_dump_json(exclude={"tune"}), float(figures.mean())))
        return figures

    def _figures(self, models: Sequence[Model]) -> Floats:
        ndcgs = []
        for model, trial in zip(models, self._trials, strict=True):
            candidates = collect_candidates([model], trial)
            ndcgs.append(candidates.compute_ndcg(candidates.scores[0]))
        return np.concatenate(ndcgs)

    def compare_event_order(
        self, models: list[Model], figures: Floats, fadings: tuple[TimeDecay, ...]
    ) -> tuple[TimeDecay, list[Model], Floats, tuple[TimeDecay, ...]]:
        """Use the log order for events of equal time, if that is significantly better.

        Return the first time decay, the models and figures with it, and all time decays.
        """
        ordered = fadings[0].model_copy(update={"ordered": True})
        again = [_set_time_decay(model, ordered) for model in models]
        ordered_figures = self._figures(again)
        if significant_gain(ordered_figures - figures, figures) <= 0:
            return fadings[0], models, figures, fadings
        every = [fading.model_copy(update={"ordered": True}) for fading in fadings]
        return ordered, again, ordered_figures, tuple(dict.fromkeys(every))

    def rank_time_decays(
        self, part: PartRecipe, models: Sequence[Model], figures: Floats, fadings: Sequence[TimeDecay]
    ) -> tuple[TimeDecay, ...]:
        """Return the best few time decays; the first one stays first unless another is significantly better."""
        if not fadings:
            return ()
        gains = [0.0]
        for fading in fadings[1:]:
            faded = set_parameter(part, "fading", fading)
            again = [_set_time_decay(model, fading) for model in models]
            difference = self.figures(faded, again) - figures
            # A gain that is not significant counts as just below 0, so the first decay keeps its place.
            gains.append(significant_gain(difference, figures) or min(float(difference.mean()), 0.0) - 1e-9)
        order = np.argsort(-np.array(gains), kind="stable")[:_TIME_DECAYS_KEPT]
        return tuple(fadings[at] for at in order)


def _set_time_decay(model: Model, fading: TimeDecay) -> Model:
    return replace(model, fading=fading) if isinstance(model, _FADING) else model
