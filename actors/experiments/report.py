"""The report of an experiment: conversions of each variant's users, the split, and the quality of service.

people        users who met a variant first, during the experiment; users with a forced variant are excluded
conversions   interactions of the goal's types after that, under any id of the same person
intervals     always valid, so a daily look costs nothing; shared over the variants compared with the control
guardrails    requests that the experiment treated itself: failed ones, and those over 200 ms
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from actors.experiments.goal_report import ALPHA, GoalReport, effect_to_dict
from actors.experiments.statistics import (
    EffectEstimate,
    SplitCheck,
    VariantSample,
    check_split_ratio,
    compare_samples,
)
from cluster.clock import from_ms
from cluster.records.experiment import LATENCY_MS, Experiment, Exposure, Variant

SLOW_MS: Final = 200
DAY_MS: Final = 86_400_000
_MOST_SLICES: Final = 200


@dataclass(frozen=True, slots=True)
class ServingCounts:
    """Counts of a variant's treated requests."""

    requests: int = 0
    failed: int = 0
    slow: int = 0
    p50_ms: int | None = None
    "Upper bounds of the quantile's histogram class; none: above all of them, or no requests."
    p95_ms: int | None = None

    @property
    def answered(self) -> int:
        return self.requests - self.failed


@dataclass(frozen=True, slots=True)
class VariantReport:
    """One variant."""

    variant: Variant
    share: float
    "Intended share of the users."
    people: int
    converted: int
    conversions: int
    forced: int
    served: ServingCounts
    lift: EffectEstimate | None = None
    "Comparison of converted users with the control; none for the control."
    failures: EffectEstimate | None = None
    slowness: EffectEstimate | None = None

    @property
    def rate(self) -> float:
        """Return the share of users who converted."""
        return self.converted / self.people if self.people else 0.0

    @property
    def broken(self) -> list[str]:
        """Return the guardrails that the variant breaks: it is surely worse than the control."""
        rails = {"errors": self.failures, "latency": self.slowness}
        return [
            name
            for name, effect in rails.items()
            if effect is not None and effect.decided and effect.value > 0
        ]


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """The report of all variants."""

    experiment: Experiment
    lines: tuple[VariantReport, ...]
    split: SplitCheck
    days: dict[str, dict[str, int]] = field(default_factory=dict)
    "Day (UTC) -> variant id -> users with an exposure on that day."
    settling: int = 0
    "Accepted conversions that are not compacted yet and not counted."
    goals: tuple[GoalReport, ...] = ()
    "All goals, the primary one first; empty for an experiment that only counts conversions."
    segments: tuple[GoalReport, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON; an infinite interval has null ends."""
        return {
            "experiment_id": self.experiment.experiment_id,
            "slug": self.experiment.slug,
            "goal": list(self.experiment.goal),
            "variants": [_variant_to_dict(line) for line in self.lines],
            "split": asdict(self.split),
            "days": self.days,
            "settling": self.settling,
            **({"paused_by": self.experiment.paused_by} if self.experiment.paused_by else {}),
            **({"goals": [goal.to_dict() for goal in self.goals]} if self.goals else {}),
            **({"segments": [part.to_dict() for part in self.segments]} if self.segments else {}),
        }


def build_report(
    experiment: Experiment,
    exposures: Iterable[tuple[str, Exposure]],
    goal_interactions: Iterable[tuple[str, int]],
    *,
    links: Mapping[str, str],
    served: Mapping[str, int],
    settling: Iterable[tuple[str, int]] = (),
) -> ExperimentReport:
    """Build the report of an experiment.

    `goal_interactions` holds user keys (`u:`, `a:`) and times of interactions of the goal's types. `links` maps
    visitors to users. `served` holds the counters of treated requests. `settling` is like `goal_interactions`, for
    interactions that are not in a segment yet; the report gives their number and does not count them.

    Cost:
        1,000,000 people and as many conversions: some 5 s
    """
    met, person_of = collect_people(exposures, links)
    # before a change of weights another split was intended, and the users of both times differ
    met = {person: exposure for person, exposure in met.items() if exposure.at_ms >= experiment.weights_at}
    converted, conversions = _count_conversions(experiment, met, person_of, goal_interactions)
    variants = experiment.variants
    rows: dict[str, list[str]] = defaultdict(list)
    forced: Counter[str] = Counter()
    for person, exposure in met.items():
        if exposure.forced:
            forced[exposure.variant_id] += 1
        else:
            rows[exposure.variant_id].append(person)
    whole = sum(variant.weight for variant in variants)
    lines: list[VariantReport] = []
    # Bonferroni: each variant is compared with the control by its own interval.
    alpha = ALPHA / max(len(variants) - 1, 1)
    for variant in variants:
        people = rows[variant.variant_id]
        line = VariantReport(
            variant,
            variant.weight / whole,
            len(people),
            sum(person in converted for person in people),
            sum(conversions[person] for person in people),
            forced[variant.variant_id],
            serving_counts_from(served, variant.variant_id),
        )
        lines.append(_compare_with_control(line, lines[0], alpha) if lines else line)
    # Forced variants are tests of developers, not of the traffic.
    fair = [exposure for exposure in met.values() if not exposure.forced]
    _, late = _count_conversions(experiment, met, person_of, settling)
    return ExperimentReport(
        experiment, tuple(lines), _check_split(experiment, met), _count_days(fair), late.total()
    )


def serving_counts_from(counts: Mapping[str, int], variant_id: str) -> ServingCounts:
    """Return a variant's counts from its counters."""
    classes = [counts.get(f"{variant_id}:{bound}", 0) for bound in LATENCY_MS]
    over = counts.get(f"{variant_id}:over", 0)
    failed = counts.get(f"{variant_id}:failed", 0)
    answered = sum(classes) + over
    slow = over + sum(n for bound, n in zip(LATENCY_MS, classes, strict=True) if bound > SLOW_MS)
    p50, p95 = (_latency_quantile(classes, answered, part) for part in (0.5, 0.95))
    return ServingCounts(answered + failed, failed, slow, p50, p95)


def collect_people(
    exposures: Iterable[tuple[str, Exposure]], links: Mapping[str, str]
) -> tuple[dict[str, Exposure], dict[str, str]]:
    """Return persons with their exposure, and the person of every user id."""
    met: dict[str, Exposure] = {}
    person_of: dict[str, str] = {}
    for user_key, exposure in exposures:
        met[exposure.person] = exposure
        person_of[user_key] = exposure.person
    for visitor, user in links.items():
        person = person_of.get("a:" + visitor)
        if person is not None:
            # Events after the sign-in come under the user's id, which had no exposure itself.
            person_of.setdefault("u:" + user, person)
    return met, person_of


def _count_conversions(
    experiment: Experiment,
    met: Mapping[str, Exposure],
    person_of: Mapping[str, str],
    goal_interactions: Iterable[tuple[str, int]],
) -> tuple[set[str], Counter[str]]:
    converted: set[str] = set()
    conversions: Counter[str] = Counter()
    ends_at = experiment.ends_at
    for user_key, at_ms in goal_interactions:
        person = person_of.get(user_key)
        exposure = None if person is None else met.get(person)  # none: a user who met an earlier split only
        # Before the exposure, the variant can't have caused it.
        if exposure is None or at_ms < exposure.at_ms or (ends_at is not None and at_ms >= ends_at):
            continue
        converted.add(exposure.person)
        conversions[exposure.person] += 1
    return converted, conversions


def _compare_with_control(line: VariantReport, control: VariantReport, alpha: float) -> VariantReport:
    def against(ours: tuple[int, int], theirs: tuple[int, int]) -> EffectEstimate:
        return compare_samples(
            VariantSample.from_conversions(*theirs), VariantSample.from_conversions(*ours), alpha=alpha
        )

    ours = line.served
    theirs = control.served
    return replace(
        line,
        lift=against((line.people, line.converted), (control.people, control.converted)),
        # one failed request more for both, so that a control without any is comparable
        failures=against((ours.requests + 1, ours.failed + 1), (theirs.requests + 1, theirs.failed + 1)),
        slowness=against((ours.answered + 1, ours.slow + 1), (theirs.answered + 1, theirs.slow + 1)),
    )


def _check_split(experiment: Experiment, met: Mapping[str, Exposure]) -> SplitCheck:
    place = {variant.variant_id: at for at, variant in enumerate(experiment.variants)}
    shares = [variant.weight for variant in experiment.variants]
    counts = [0] * len(shares)
    slices: dict[str, list[int]] = {}
    for person, exposure in met.items():
        at = place.get(exposure.variant_id)
        if at is None or exposure.forced:
            continue
        counts[at] += 1
        for name in _slice_names(person, exposure):
            slices.setdefault(name, [0] * len(shares))[at] += 1
    # a slice of a few users is no evidence, and every further slice weakens the test of the others
    largest = sorted(slices.items(), key=lambda item: -sum(item[1]))[:_MOST_SLICES]
    return check_split_ratio(counts, shares, dict(largest))


def _slice_names(person: str, exposure: Exposure) -> tuple[str, ...]:
    who = "user" if person.startswith("u:") else "visitor"
    day = _name_day(exposure.at_ms // DAY_MS)
    return (
        f"through={exposure.through}",
        f"device={exposure.device or 'unknown'}",
        f"reader={who}",
        f"day={day}",
    )


def _count_days(exposures: Sequence[Exposure]) -> dict[str, dict[str, int]]:
    days: dict[str, Counter[str]] = defaultdict(Counter)
    for exposure in exposures:
        days[_name_day(exposure.at_ms // DAY_MS)][exposure.variant_id] += 1
    return {day: dict(sorted(counts.items())) for day, counts in sorted(days.items())}


@lru_cache(maxsize=1_000)
def _name_day(day: int) -> str:
    return f"{from_ms(day * DAY_MS):%Y-%m-%d}"


def _latency_quantile(classes: Sequence[int], answered: int, part: float) -> int | None:
    passed = 0
    for bound, count in zip(LATENCY_MS, classes, strict=True):
        passed += count
        if answered and passed >= part * answered:
            return bound
    return None


def _variant_to_dict(line: VariantReport) -> dict[str, Any]:
    return {
        "variant_id": line.variant.variant_id,
        "slug": line.variant.slug,
        "name": line.variant.name,
        "share": line.share,
        "people": line.people,
        "converted": line.converted,
        "conversions": line.conversions,
        "rate": line.rate,
        "forced": line.forced,
        "lift": effect_to_dict(line.lift),
        "served": asdict(line.served),
        "guardrails": {"errors": effect_to_dict(line.failures), "latency": effect_to_dict(line.slowness)},
        "broken": line.broken,
    }
