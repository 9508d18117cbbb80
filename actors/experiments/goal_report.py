"""The goals of an experiment, for all of its people and for parts of them: one goal decides, the others are corrected.

    primary     decided by its always-valid interval, as the conversions of a report
    secondary   decided by p-values after the correction of Benjamini and Hochberg over all secondary comparisons
    segments    the primary goal in parts of the people, with a correction over all parts

Intervals are those of each figure alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Final, Literal

import numpy as np

from actors.experiments.goal_values import ExperimentPeople, GoalValues, PeopleFigures
from actors.experiments.statistics import EffectEstimate, ValueSums, adjust_p_values, compare_values
from actors.vectors.types import Mask
from cluster.records.experiment import Experiment, ExperimentGoal

ALPHA: Final = 0.05
MOST_PARTS: Final = 10
"Parts of a segment that are shown, those with the most people."

Verdict = Literal["control", "open", "better", "worse"]


@dataclass(frozen=True, slots=True)
class GoalComparison:
    """One goal of one variant, against the control."""

    variant_id: str
    people: int
    mean: float
    lift: EffectEstimate | None = None
    "None for the control."
    adjusted_p_value: float | None = None
    "None where the interval decides."
    verdict: Verdict = "control"

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {**asdict(self), "lift": effect_to_dict(self.lift)}


@dataclass(frozen=True, slots=True)
class GoalReport:
    """One goal of all variants, the control first."""

    goal: ExperimentGoal
    is_primary: bool
    variants: tuple[GoalComparison, ...]
    segment: str = ""
    "Empty: all people."
    part: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the goal as JSON."""
        where = {"segment": self.segment, "part": self.part} if self.segment else {}
        return {
            "name": self.goal.name,
            "primary": self.is_primary,
            **where,
            "variants": [variant.to_dict() for variant in self.variants],
        }


def build_goal_reports(
    experiment: Experiment, people: ExperimentPeople, figures: PeopleFigures
) -> tuple[GoalReport, ...]:
    """Compare all goals over all people, the primary one first."""
    everybody = np.ones(len(people.variants), bool)
    # Bonferroni over the variants: each is compared with the control by its own interval.
    alpha = ALPHA / max(len(experiment.variants) - 1, 1)
    ordered = sorted(figures.goals, key=lambda values: values.goal.name != experiment.primary)
    primary = _compare(experiment, people, ordered[0], everybody, alpha)
    # Intervals at 5 % each; their verdicts come from the corrected p-values below.
    others = [_compare(experiment, people, values, everybody, ALPHA) for values in ordered[1:]]
    return (replace(primary, is_primary=True), *_correct(others))


def build_segment_reports(
    experiment: Experiment,
    people: ExperimentPeople,
    figures: PeopleFigures,
    labels: Mapping[str, Sequence[str]],
) -> tuple[GoalReport, ...]:
    """Compare the primary goal in each part of the people.

    `labels` has, for each segment, the part in which each person is.
    """
    primary = next(values for values in figures.goals if values.goal.name == experiment.primary)
    reports = []
    for segment, parts in labels.items():
        of_people = np.asarray(parts, object)
        # Only the ten largest parts are tested.
        for part, _ in Counter(parts).most_common(MOST_PARTS):
            report = _compare(experiment, people, primary, of_people == part, ALPHA)
            reports.append(replace(report, segment=segment, part=part))
    return tuple(_correct(reports))


def sums_of_variants(
    experiment: Experiment, people: ExperimentPeople, values: GoalValues, chosen: Mask
) -> list[ValueSums]:
    """Return the sums of a goal over the chosen people of each variant.

    Shapes:
        chosen: one truth value for each person
    """
    return [values.sums(chosen & (people.variants == at)) for at in range(len(experiment.variants))]


def _compare(
    experiment: Experiment, people: ExperimentPeople, values: GoalValues, chosen: Mask, alpha: float
) -> GoalReport:
    sums = sums_of_variants(experiment, people, values, chosen)
    compared: list[GoalComparison] = []
    for variant, side in zip(experiment.variants, sums, strict=True):
        comparison = GoalComparison(variant.variant_id, side.users, side.mean)
        if compared:
            lift = compare_values(sums[0], side, alpha=alpha)
            verdict = _judge(values.goal, lift, lift.decided)
            comparison = replace(comparison, lift=lift, verdict=verdict)
        compared.append(comparison)
    return GoalReport(values.goal, False, tuple(compared))


def _correct(reports: Sequence[GoalReport]) -> list[GoalReport]:
    """Return reports whose verdicts take their number into account."""
    lifts = [variant.lift for report in reports for variant in report.variants if variant.lift is not None]
    # Over all comparisons at once, in the order in which they are taken out below.
    adjusted = iter(adjust_p_values([lift.p_value for lift in lifts]))

    def correct(goal: ExperimentGoal, variant: GoalComparison) -> GoalComparison:
        if variant.lift is None:
            return variant
        p_value = next(adjusted)
        return replace(
            variant, adjusted_p_value=p_value, verdict=_judge(goal, variant.lift, p_value <= ALPHA)
        )

    return [
        replace(report, variants=tuple(correct(report.goal, variant) for variant in report.variants))
        for report in reports
    ]


def _judge(goal: ExperimentGoal, lift: EffectEstimate, is_decided: bool) -> Verdict:
    if not is_decided:
        return "open"
    # The sign of the lift and the goal's direction agree: better.
    return "better" if (lift.value > 0) == (goal.better == "more") else "worse"


def effect_to_dict(effect: EffectEstimate | None) -> dict[str, Any] | None:
    """Return an effect as JSON; an infinite interval has null ends."""
    if effect is None:
        return None
    ends = {"low": effect.low, "high": effect.high}
    return {**asdict(effect), **{name: end if isfinite(end) else None for name, end in ends.items()}}
