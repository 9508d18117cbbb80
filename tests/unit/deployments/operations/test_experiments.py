"""Use cases of experiments over the corner shop, and the sample size that they suggest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from actors.experiments.sample_size import estimate_sample_size
from actors.experiments.statistics import VariantSample, compare_samples
from cluster.errors import Forbidden, Invalid, NotFound
from tests.fakes.admin_shop import AdminShop, open_admin_shop

DRAFT = {
    "name": "Paywall",
    "slug": "paywall",
    "reports_exposure": True,
    "variants": [{"name": "three"}, {"name": "five"}],
}


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[AdminShop]:
    async with open_admin_shop(tmp_path) as opened:
        yield opened


async def test_an_experiment_is_made_run_reported_and_concluded(shop: AdminShop) -> None:
    await shop.perform("experiments.create", experiments=[DRAFT])
    assert (await shop.perform("experiments.get", experiment="paywall")).status == "Draft"
    assert (await shop.perform("experiments.start", experiment="paywall")).status == "Active"
    edited = await shop.perform("experiments.edit", experiment="paywall", weights={"five": 3})
    assert [variant.weight for variant in edited.experiment.variants] == [1, 3]
    report = await shop.perform("experiments.report", role="viewer", experiment="paywall")
    assert [line.people for line in report.lines] == [0, 0]
    assert not report.split.mismatch
    assert (await shop.perform("experiments.pause", experiment="paywall")).status == "Scheduled"
    assert (await shop.perform("experiments.start", experiment="paywall")).status == "Active"
    assert (await shop.perform("experiments.complete", experiment="paywall")).status == "Completed"
    assert (await shop.perform("experiments.archive", experiment="paywall")).status == "Archived"
    changes = [row for row in shop.audit.rows if row.operation == "experiments.complete"]
    assert (changes[0].before["status"], changes[0].after["status"]) == ("Active", "Completed")


async def test_refusals_of_experiments(shop: AdminShop) -> None:
    with pytest.raises(Forbidden):
        await shop.perform("experiments.create", role="analyst", experiments=[DRAFT])
    with pytest.raises(NotFound, match="no experiment 'x'"):
        await shop.perform("experiments.get", experiment="x")
    await shop.perform("experiments.create", experiments=[DRAFT])
    with pytest.raises(Invalid, match="at least one thing"):
        await shop.perform("experiments.edit", experiment="paywall")
    with pytest.raises(Invalid, match="only what is Active can be paused"):
        await shop.perform("experiments.pause", experiment="paywall")
    with pytest.raises(Invalid, match="relative_lift is 0"):
        await shop.perform("experiments.plan", rate=0.1, relative_lift=0)
    with pytest.raises(Invalid, match="would be 1 or more"):
        await shop.perform("experiments.plan", rate=0.6, relative_lift=1)


@pytest.mark.parametrize(("rate", "lift"), [(1e-7, 1e-7), (1e-300, 1e-9), (5e-324, 1.0), (0.1, 1e-15)])
def test_differences_that_nobody_finds_have_a_size_that_can_be_written(rate: float, lift: float) -> None:
    size = estimate_sample_size(rate, lift, people_per_day=1e-300)
    assert (size.per_variant, size.total, size.days) == (None, None, None)
    assert 0 < size.fixed_per_variant <= 10**15
    assert estimate_sample_size(0.2, 0.15, people_per_day=5e-324).days == 10**9


def test_the_sample_size_finds_the_difference_with_the_power_it_promises() -> None:
    rate, lift = 0.2, 0.15
    people = estimate_sample_size(rate, lift, power=0.8).per_variant
    assert people is not None
    rng = np.random.default_rng(0)
    control, treated = (rng.binomial(people, probability, 2000) for probability in (rate, rate * (1 + lift)))
    decided = sum(
        compare_samples(
            VariantSample.from_conversions(people, int(before)),
            VariantSample.from_conversions(people, int(after)),
        ).low
        > 0
        for before, after in zip(control, treated, strict=True)
    )
    assert 0.77 < decided / 2000 < 0.83


def test_the_sample_size_grows_with_variants_and_power() -> None:
    plain = estimate_sample_size(0.04, 0.1)
    assert plain.fixed_per_variant == 39_473
    assert plain.per_variant is not None
    assert plain.total == 2 * plain.per_variant > 2 * plain.fixed_per_variant
    more = estimate_sample_size(0.04, 0.1, variants=4, people_per_day=1000)
    assert more.per_variant is not None
    assert more.per_variant > plain.per_variant
    assert more.days == -(-4 * more.per_variant // 1000)
    assert estimate_sample_size(0.001, 0.0001).per_variant is None
