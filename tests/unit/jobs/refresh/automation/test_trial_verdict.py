from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from actors.experiments.statistics import VariantSample
from jobs.refresh.automation.trial_verdict import GroupSample, Measure, TrialVerdict, decide_trial

HOLDBACK = 0.05
LOOKS = 14


@dataclass(frozen=True)
class People:
    """People of a simulated trial: when they came, what they did by then, and which snapshot they got."""

    in_holdback: Any
    "Whether a person keeps the earlier snapshot."
    looks: Any
    "The look by which each list was shown."
    who: Any
    clicked: Any
    revenue: Any
    took_ms: Any

    def groups_by_look(self) -> Iterator[tuple[GroupSample, GroupSample]]:
        """Yield what each look sees: the group of the promoted snapshot, and the holdback."""
        count = len(self.in_holdback)
        lists, clicks, revenue, took = np.zeros((4, count))
        for look in range(1, LOOKS + 1):
            is_new = self.looks == look
            who = self.who[is_new]
            lists += np.bincount(who, minlength=count)
            clicks += np.bincount(who, self.clicked[is_new], count)
            revenue += np.bincount(who, self.revenue[is_new], count)
            took += np.bincount(who, self.took_ms[is_new], count)
            yield tuple(  # type: ignore[misc]
                sample_people(name, is_inside & (lists > 0), lists, clicks, revenue, took)
                for name, is_inside in (("new", ~self.in_holdback), ("old", self.in_holdback))
            )


def sample_people(name: str, inside: Any, lists: Any, clicks: Any, revenue: Any, took: Any) -> GroupSample:
    counts = lists[inside]
    values: dict[Measure, Any] = {
        "clicks": clicks[inside] / counts, "revenue": revenue[inside], "latency": took[inside] / counts,
        "empty": np.zeros(len(counts)), "coverage": np.full(len(counts), 0.4),
    }  # fmt: skip
    measures = {
        measure: VariantSample(len(counts), float(value.sum()), float((value**2).sum()))
        for measure, value in values.items()
    }
    return GroupSample(name, len(counts), int(counts.sum()), 0, int((revenue[inside] > 0).sum()), measures)


def simulate(seed: int, *, people: int = 8_000, lift: float = 1.0, share: float = HOLDBACK) -> People:
    """Simulate people whose likings, numbers of lists and amounts differ much, over days that differ too."""
    random = np.random.default_rng(seed)
    in_holdback = random.random(people) < share
    liking = random.beta(0.6, 6.9, people)
    arrival = random.random(people) * LOOKS
    lists = random.geometric(0.25, people)
    who = np.repeat(np.arange(people), lists)
    looks = np.ceil(arrival[who] + random.exponential(1.0, len(who))).astype(int)
    day = np.clip(random.normal(1.0, 0.2, 400), 0.3, 2.0)[np.minimum(looks // 2, 399)]
    chance = np.clip(liking[who] * day * np.where(in_holdback[who], 1.0, lift), 0.0, 1.0)
    clicked = random.random(len(who)) < chance
    bought = clicked & (random.random(len(who)) < 0.1)
    amounts = np.where(bought, random.lognormal(3.0, 1.0, len(who)), 0.0)
    return People(in_holdback, looks, who, clicked, amounts, random.lognormal(2.0, 0.7, len(who)))


def look_until_decided(people: People, share: float = HOLDBACK) -> TrialVerdict:
    """Look at a trial twice a day for a week, and stop at the first decision."""
    for groups in people.groups_by_look():
        verdict = decide_trial(*groups, 1 - share)
        if verdict.outcome != "continues":
            return verdict
    return verdict


def test_of_1000_promotions_of_an_equal_snapshot_at_most_ten_are_taken_back() -> None:
    outcomes = [look_until_decided(simulate(seed)).outcome for seed in range(1_000)]
    decided = [outcome for outcome in outcomes if outcome != "continues"]
    assert len(decided) <= 10
    assert sum(outcome in ("worse", "broken") for outcome in outcomes) <= 10


def test_of_better_snapshots_none_is_taken_back_and_bad_ones_are() -> None:
    better = [look_until_decided(simulate(seed, lift=1.3)).outcome for seed in range(100)]
    assert set(better) <= {"better", "continues"}
    worse = [look_until_decided(simulate(seed, people=16_000, lift=0.4)).outcome for seed in range(40)]
    assert worse.count("worse") >= 38


def test_a_snapshot_that_nobody_clicks_is_worse_although_it_has_no_variance() -> None:
    verdict = look_until_decided(simulate(3, people=16_000, lift=0.0))
    assert verdict.outcome == "worse"
    assert verdict.sentence.startswith("clicks per person 0.00% with new, ")


GOOD = GroupSample(
    "new", 9_500, 40_000, 0, 500,
    {
        "clicks": VariantSample(9_500, 760.0, 200.0), "revenue": VariantSample(9_500, 9_000.0, 90_000.0),
        "latency": VariantSample(9_500, 95_000.0, 1_500_000.0), "empty": VariantSample(9_500, 0.0, 0.0),
        "coverage": VariantSample(9_500, 3_800.0, 1_600.0),
    },
)  # fmt: skip


def scale(group: GroupSample, people: int, **figures: float) -> GroupSample:
    """Return a group of other size, with other means of some measures and the same variances."""
    measures = {}
    for measure, sample in (group.measures or {}).items():
        mean = figures.get(measure, sample.mean)
        variance = sample.variance or mean * (1 - mean)
        measures[measure] = VariantSample(people, mean * people, (variance + mean**2) * people)
    part = people / group.people
    return replace(
        group,
        version="old",
        people=people,
        lists=int(group.lists * part),
        buyers=int(group.buyers * part),
        measures=measures,
    )


@pytest.mark.parametrize(("measure", "usual"), [("latency", 10.0), ("empty", 0.0), ("coverage", 0.4)])
def test_a_broken_guardrail_ends_a_trial_and_a_tolerable_change_does_not(measure: Any, usual: float) -> None:
    control = scale(GOOD, 500)
    assert decide_trial(GOOD, control, 0.95).outcome == "continues"
    tolerable = {"latency": 25.0, "empty": 0.005, "coverage": 0.3}[measure]
    broken = {"latency": 90.0, "empty": 0.3, "coverage": 0.05}[measure]
    assert decide_trial(scale(GOOD, 9_500, **{measure: tolerable}), control, 0.95).outcome == "continues"
    verdict = decide_trial(scale(GOOD, 9_500, **{measure: broken}), control, 0.95)
    assert verdict.outcome == "broken"
    assert verdict.sentence.startswith(f"{measure} per person ")
    assert verdict.control.sample(measure).mean == pytest.approx(usual)


def test_failed_answers_break_a_snapshot_before_anybody_clicks() -> None:
    old = GroupSample("old", 3, 4)
    assert decide_trial(GroupSample("new", 60, 90, failures=5), old, 0.95).outcome == "broken"
    assert decide_trial(GroupSample("new", 60, 90, failures=4), old, 0.95).outcome == "continues"
    assert decide_trial(GroupSample("new", 60, 9_000, failures=5), old, 0.95).outcome == "continues"
    # both fail: it is not the snapshot
    assert (
        decide_trial(GroupSample("new", 60, 90, failures=5), replace(old, failures=3), 0.95).outcome
        == "continues"
    )


def test_people_that_are_not_split_as_drawn_decide_nothing() -> None:
    control = scale(GOOD, 2_000, clicks=0.5)
    verdict = decide_trial(GOOD, control, 0.95)
    assert (verdict.outcome, verdict.effects["clicks"].decided) == ("uneven", True)
    assert verdict.sentence == "9,500 and 2,000 people are not split 95% to 5%"


def test_a_verdict_names_people_rates_and_intervals_of_both_snapshots() -> None:
    facts = decide_trial(GOOD, scale(GOOD, 500, clicks=0.3), 0.95).to_dict()
    assert (facts["outcome"], facts["candidate"]["version"], facts["control"]["version"]) == (
        "worse",
        "new",
        "old",
    )
    assert (facts["candidate"]["people"], facts["control"]["clicks_per_person"]) == (9_500, 0.3)
    assert facts["differences"]["clicks"]["high"] < 0
    assert "measures" not in facts["candidate"]
