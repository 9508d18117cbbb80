"""Decide a trial of two snapshots from what its people did: better, certainly worse, broken, or not known yet.

The unit is a person: the figures of a person do not depend on those of others, and a draw gave the person one of the
snapshots. So days, seasons and campaigns meet both groups alike, which a comparison of the time before a promotion
with the time after it can't claim. All intervals hold at every look together. Of 1,000 trials of equal snapshots, at
most ten end with a decision: the error rates below add up to 1 %.

    clicks      mean over people of (lists with a click / lists)
    revenue     mean over people of the revenue that their lists led to
    latency     mean over people of the time of an answer, in milliseconds
    empty       mean over people of (lists without a product / lists)
    coverage    mean over people of (shown products outside the 100 most shown before the trial / shown products)
    errors      answers that failed; the other snapshot answered instead

Each page of a list counts as a list for clicks and errors; latency, empty and coverage count first pages alone.

Source:
    `actors.experiments.statistics`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Final, Literal

from actors.experiments.statistics import EffectEstimate, VariantSample, check_split_ratio, compare_samples

Measure = Literal["clicks", "revenue", "latency", "empty", "coverage"]
Outcome = Literal["continues", "better", "worse", "broken", "uneven"]
"`uneven`: the people are not split as drawn, so nothing is decided."

GOALS: Final[tuple[Measure, ...]] = ("clicks", "revenue")
GUARDRAILS: Final[tuple[Measure, ...]] = ("latency", "empty", "coverage")
GOAL_ERROR: Final = 0.004
GUARDRAIL_ERROR: Final = 0.0005
"Error rates of one measure, both directions together."
SPLIT_ERROR: Final = 0.0005
LEAST_PEOPLE: Final = 200
"People of each group before anything but errors is decided: with fewer, means of rates are not normal enough."
LEAST_BUYERS: Final = 100
"People of each group with revenue before revenue decides: amounts of few people have too heavy tails."
LEAST_FAILURES: Final = 5
MOST_FAILED: Final = 0.01
"Share of failed answers above which a snapshot is broken."
LATENCY_MARGIN_MS: Final = 20.0
MARGINS: Final = {"latency": 0.25, "coverage": 0.5}
"Change relative to the other group that a guardrail tolerates."
EMPTY_MARGIN: Final = 0.01


@dataclass(frozen=True, slots=True)
class GroupSample:
    """What the people did who got one of the snapshots."""

    version: str
    people: int = 0
    lists: int = 0
    "Lists and their later pages."
    failures: int = 0
    "Failed answers."
    buyers: int = 0
    "People with revenue."
    measures: Mapping[Measure, VariantSample] | None = None
    "Sums over the people."

    def sample(self, measure: Measure) -> VariantSample:
        """Return the sums of a measure."""
        return (self.measures or {}).get(measure, VariantSample(self.people, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """What a trial shows now."""

    outcome: Outcome
    sentence: str
    candidate: GroupSample
    control: GroupSample
    effects: Mapping[Measure, EffectEstimate]
    "Difference of the candidate to the control, per person."

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON, as it stands in the audit log."""
        return {
            "outcome": self.outcome,
            "sentence": self.sentence,
            "candidate": _group_to_dict(self.candidate),
            "control": _group_to_dict(self.control),
            "differences": {name: _effect_to_dict(effect) for name, effect in self.effects.items()},
        }


def decide_trial(candidate: GroupSample, control: GroupSample, candidate_share: float) -> TrialVerdict:
    """Return what a trial shows.

    Units:
        candidate_share: share of people that gets the candidate
    """
    effects: dict[Measure, EffectEstimate] = {}
    for measure in (*GOALS, *GUARDRAILS):
        alpha = GOAL_ERROR if measure in GOALS else GUARDRAIL_ERROR
        effects[measure] = _compare(candidate, control, measure, alpha)

    def conclude(outcome: Outcome, sentence: str) -> TrialVerdict:
        return TrialVerdict(outcome, sentence, candidate, control, effects)

    # First: errors need no statistics of people, and cost most.
    if _fails(candidate, control):
        return conclude("broken", f"{candidate.failures:,} answers of {candidate.version} failed")
    counts = (candidate.people, control.people)
    split = check_split_ratio(counts, (candidate_share, 1 - candidate_share), alpha=SPLIT_ERROR)
    if split.mismatch:
        shares = f"{candidate_share:.0%} to {1 - candidate_share:.0%}"
        return conclude("uneven", f"{counts[0]:,} and {counts[1]:,} people are not split {shares}")
    # After the split: uneven groups stay uneven, however many people come.
    if min(counts) < LEAST_PEOPLE:
        return conclude("continues", f"fewer than {LEAST_PEOPLE} people in a group")
    for measure in GUARDRAILS:
        if _breaks(measure, effects[measure], control.sample(measure).mean):
            return conclude("broken", _describe(measure, candidate, control, effects[measure]))
    decided = [measure for measure in GOALS if effects[measure].decided]
    worse = [measure for measure in decided if effects[measure].value < 0]
    if worse:
        return conclude("worse", _describe(worse[0], candidate, control, effects[worse[0]]))
    if decided:
        return conclude("better", _describe(decided[0], candidate, control, effects[decided[0]]))
    return conclude("continues", "no difference is certain yet")


def _compare(candidate: GroupSample, control: GroupSample, measure: Measure, alpha: float) -> EffectEstimate:
    treated = candidate.sample(measure)
    untreated = control.sample(measure)
    if measure == "revenue" and min(candidate.buyers, control.buyers) < LEAST_BUYERS:
        # so that a snapshot whose people buy nothing at all is found, their share decides until amounts can
        treated = VariantSample.from_conversions(candidate.people, candidate.buyers)
        untreated = VariantSample.from_conversions(control.people, control.buyers)
    # A small group that has seen few events underestimates its variance, and would be certain too early.
    variance = max(treated.variance, untreated.variance)
    return compare_samples(_widen(untreated, variance), _widen(treated, variance), alpha=alpha)


def _widen(sample: VariantSample, variance: float) -> VariantSample:
    """Return a sample with the same mean and a given variance."""
    # sum x^2 = s^2 (n - 1) + n mean^2
    squares = variance * max(sample.users - 1, 0) + sample.users * sample.mean**2
    return replace(sample, squares=squares)


def _fails(candidate: GroupSample, control: GroupSample) -> bool:
    """Return whether answers of the candidate fail, and fail more often than those of the control."""
    rate, usual = (group.failures / max(1, group.failures + group.lists) for group in (candidate, control))
    # Against the control as well: while Redis is away, both fail.
    return candidate.failures >= LEAST_FAILURES and rate > max(MOST_FAILED, 5 * usual)


def _breaks(measure: Measure, effect: EffectEstimate, usual: float) -> bool:
    if measure == "latency":
        return effect.low > max(LATENCY_MARGIN_MS, MARGINS["latency"] * usual)
    if measure == "empty":
        return effect.low > EMPTY_MARGIN
    return usual > 0 and effect.high < -MARGINS["coverage"] * usual


def _describe(measure: Measure, candidate: GroupSample, control: GroupSample, effect: EffectEstimate) -> str:
    form = ".2f" if measure in ("revenue", "latency") else ".2%"
    now = candidate.sample(measure).mean
    before = control.sample(measure).mean
    return (
        f"{measure} per person {now:{form}} with {candidate.version}, {before:{form}} with {control.version}; "
        f"difference {effect.low:+{form}} to {effect.high:+{form}}, "
        f"{candidate.people:,} and {control.people:,} people"
    )


def _group_to_dict(group: GroupSample) -> dict[str, Any]:
    figures = {
        f"{measure}_per_person": round(sample.mean, 6) for measure, sample in (group.measures or {}).items()
    }
    facts = asdict(replace(group, measures=None))
    del facts["measures"]
    return {**facts, **figures}


def _effect_to_dict(effect: EffectEstimate) -> dict[str, Any]:
    bounds = (effect.value, effect.low, effect.high)
    value, low, high = (round(bound, 6) if isfinite(bound) else None for bound in bounds)
    return {"value": value, "low": low, "high": high, "certain": effect.decided}
