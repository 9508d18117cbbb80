"""The promotion gate: decides from an evaluation report whether a version may replace the serving one.

The report is its only input, so the decision can be repeated at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.refresh.evaluation.report_models import EvaluationReport

SERVING = "serving"
POPULARITY = "popularity"

# The bootstrap interval of few users is too narrow; that of one has no width.
_FEWEST_USERS = 30
"Least number of users of a comparison that decides: as where a blend is confirmed."


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The decision of the gate and its reason."""

    allowed: bool
    sentence: str


def check_gate(report: EvaluationReport) -> GateDecision:
    """Decide whether the evaluated version may serve.

    The gate refuses a version if the whole interval of the paired difference to the serving version is below zero.
    Without a serving version, the gate compares with popularity. It allows a version that few users compared.
    """
    # Only the first comparison decides: with what serves, or with popularity where nothing serves yet.
    for name, against in ((SERVING, "what serves"), (POPULARITY, "plain popularity")):
        comparison = report.beside.get(name)
        if comparison is None:
            continue
        change = comparison.after - comparison.before
        figures = (
            f"{comparison.figure} {comparison.after:.4f} against {comparison.before:.4f} of {against} "
            f"({change:+.4f}, 95 % interval {comparison.low:+.4f} to {comparison.high:+.4f}, "
            f"{comparison.users:,} users)"
        )
        if comparison.users < _FEWEST_USERS:
            return GateDecision(
                True, f"too few users to be certain, {_FEWEST_USERS} are necessary: {figures}"
            )
        if comparison.high < 0:
            return GateDecision(False, f"certainly worse: {figures}")
        return GateDecision(
            True, ("certainly better: " if comparison.low > 0 else "not certainly worse: ") + figures
        )
    return GateDecision(True, "there is nothing to compare it with")


def check_reranker(facts: Mapping[str, Any]) -> GateDecision:
    """Decide whether a re-ranker may add to the scores.

    Its clicks on held-out days must be certainly better placed than without it, and the interactions after them not
    certainly worse predicted. Interactions of few users decide nothing, clicks of few people leave the re-ranker out.
    """
    later = facts["later_days"]
    interactions = facts.get("interactions")
    change = later["after"] - later["before"]
    figures = (
        f"clicks of held-out days {later['after']:.4f} against {later['before']:.4f} without it "
        f"({change:+.4f}, 95 % interval {later['low']:+.4f} to {later['high']:+.4f}, "
        f"{later['lists']:,} lists of {later['people']:,} people)"
    )
    # Certain gain, unlike above: without a re-ranker the blend serves as before.
    if later["people"] < _FEWEST_USERS:
        return GateDecision(False, f"too few people to be certain, {_FEWEST_USERS} are necessary: {figures}")
    if later["low"] <= 0:
        return GateDecision(False, f"not certainly better: {figures}")
    if interactions is not None and interactions["high"] < 0 and interactions["readers"] >= _FEWEST_USERS:
        return GateDecision(
            False,
            f"certainly worse for later interactions: {interactions['figure']} {interactions['after']:.4f} against "
            f"{interactions['before']:.4f}, although better for {figures}",
        )
    return GateDecision(True, f"certainly better: {figures}")
