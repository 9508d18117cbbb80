"""The users that an open experiment still needs, at the present difference and pace."""

from __future__ import annotations

from actors.experiments.report import ExperimentReport, ServingCounts, VariantReport
from actors.experiments.sample_size import estimate_missing_sample, estimate_sample_size
from actors.experiments.statistics import SplitCheck, VariantSample, compare_samples
from cluster.records.experiment import Experiment, Variant


def report(people: int, *converted: int, days: int = 1) -> ExperimentReport:
    """Make the report of variants with equally many users."""
    variants = tuple(
        Variant(variant_id=f"v{at}", name=f"v{at}", slug=f"v{at}") for at in range(len(converted))
    )
    experiment = Experiment(
        app_id="shop", experiment_id="e", slug="e", name="e", variants=variants, entry_salt="entry-salt",
        variant_salt="variant-salt",
    )  # fmt: skip
    control = VariantSample(people, converted[0], converted[0])
    lines = tuple(
        VariantReport(
            variant, 1 / len(variants), people, count, count, 0, ServingCounts(),
            lift=compare_samples(control, VariantSample(people, count, count)) if at else None,
        )
        for at, (variant, count) in enumerate(zip(variants, converted, strict=True))
    )  # fmt: skip
    split = SplitCheck(p_value=1.0, mismatch=False, slice="", slice_p_value=1.0)
    return ExperimentReport(experiment, lines, split, {f"2026-01-{day + 1:02}": {} for day in range(days)})


def test_an_open_experiment_names_the_users_and_days_it_needs() -> None:
    size = estimate_missing_sample(report(1_000, 100, 110, days=2))
    expected = estimate_sample_size(0.1, 0.1)
    assert size is not None
    assert expected.total is not None
    assert (size.per_variant, size.total) == (expected.per_variant, expected.total)
    # 1,000 users came in each of two days
    assert size.days == -(-(expected.total - 2_000) // 1_000)


def test_of_several_variants_the_largest_difference_counts() -> None:
    size = estimate_missing_sample(report(1_000, 100, 101, 90))
    assert size is not None
    assert size.per_variant == estimate_sample_size(0.1, -0.1, variants=3).per_variant


def test_nothing_is_missing_without_a_difference_or_after_a_decision() -> None:
    assert estimate_missing_sample(report(1_000, 100, 100)) is None
    assert estimate_missing_sample(report(1_000, 0, 10)) is None
    assert estimate_missing_sample(report(100_000, 10_000, 20_000)) is None
