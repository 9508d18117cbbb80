"""The report of an experiment whose unit is the question of an agent: visits of its links for each question.

The log of archive calls has the variants of each question, and the question of each read. A link that was followed
several times, or of an article that both the question and its read linked, counts once for the question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from actors.archive.article_visits import match_visits
from actors.experiments.goal_report import ALPHA, effect_to_dict
from actors.experiments.statistics import EffectEstimate, VariantSample, compare_samples
from cluster.records.archive.archive_client import CHECK_CLIENT, QUESTION_TOOLS
from cluster.records.experiment import Experiment, Variant


@dataclass(frozen=True, slots=True)
class QuestionVariantReport:
    """What came of one variant."""

    variant: Variant
    sample: VariantSample
    "Questions, their visits, and the sum of squares of the visits of each."
    effect: EffectEstimate | None = None
    "Difference to the first variant; None for the first one."

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "slug": self.variant.slug,
            "name": self.variant.name,
            "configuration": self.variant.configuration,
            "questions": self.sample.users,
            "visits": round(self.sample.total),
            "visits_per_question": round(self.sample.mean, 6),
            "effect": effect_to_dict(self.effect),
        }


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """What came of all variants."""

    experiment: Experiment
    variants: list[QuestionVariantReport]

    @property
    def better(self) -> str:
        """Return the slug of the variant that is certainly better than all that it was compared with; else empty."""
        first, *others = self.variants
        certain = [line for line in others if line.effect is not None and line.effect.decided]
        best = max(certain, key=lambda line: line.sample.mean, default=None)
        if best is not None and best.sample.mean > first.sample.mean:
            return best.variant.slug
        return first.variant.slug if others and len(certain) == len(others) else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "experiment_id": self.experiment.experiment_id,
            "slug": self.experiment.slug,
            "variants": [line.to_dict() for line in self.variants],
            "alpha": ALPHA,
            "better": self.better or None,
        }


def build_question_report(experiment: Experiment, rows: pl.DataFrame) -> QuestionReport:
    """Count questions and visits by variant, since the weights last changed.

    Shapes:
        rows: `cluster.artifacts.logs.call_log.COLUMNS`
    """
    calls = rows.filter(
        (pl.col("event") == "call")
        & (pl.col("outcome") == "answered")
        & (pl.col("question_id") != "")
        & (pl.col("client_name") != CHECK_CLIENT)
    )
    asks = calls.filter(pl.col("tool").is_in(QUESTION_TOOLS) & (pl.col("at") >= experiment.weights_at))
    treated = asks.select("question_id", "experiments").explode("experiments").unnest("experiments")
    treated = treated.filter(pl.col("experiment") == experiment.experiment_id).unique("question_id")
    visited = match_visits(rows, calls.select("call_id", "question_id", "articles"))
    counts = visited.unique(["question_id", "article"]).group_by("question_id").agg(visits=pl.len())
    questions = treated.join(counts, on="question_id", how="left").with_columns(pl.col("visits").fill_null(0))
    lines: list[QuestionVariantReport] = []
    # Bonferroni's correction: the control is compared with each of the other variants.
    alpha = ALPHA / max(len(experiment.variants) - 1, 1)
    for variant in experiment.variants:
        visits = questions.filter(pl.col("variant") == variant.variant_id)["visits"].cast(pl.Float64)
        sample = VariantSample(len(visits), float(visits.sum()), float((visits**2).sum()))
        effect = compare_samples(lines[0].sample, sample, alpha=alpha) if lines else None
        lines.append(QuestionVariantReport(variant, sample, effect))
    return QuestionReport(experiment, lines)
