"""Splits over a million readers: hashing is as fair as dice, and knowing one experiment tells nothing of another."""

from __future__ import annotations

from typing import Any

import pytest

from actors.experiments.assignment import hash_position, is_eligible, select_variant
from tests.suites.test_experiments import an_experiment

pytestmark = pytest.mark.drill
USERS = 1_000_000
SURE = 1e-4
"A p-value below this in one of the two dozen tests here would be no accident."


def chi_square(counts: list[int], shares: list[float]) -> float:
    """The p-value of counts under intended shares."""
    from scipy.stats import chisquare

    whole = sum(shares)
    expected = [sum(counts) * share / whole for share in shares]
    return float(chisquare(counts, expected).pvalue)


def split(weights: list[float], **fields: Any) -> Any:
    variants = [
        {"variant_id": f"v{n}", "name": f"v{n}", "slug": f"v{n}", "weight": weight}
        for n, weight in enumerate(weights)
    ]
    return an_experiment(variants=variants, **fields)


@pytest.mark.parametrize("form", ["u:{}", "u:{:08x}-7f3a-4c1d-9d51-2f0c6a1b9c33", "a:reader-{}@example.org"])
@pytest.mark.parametrize(
    "weights",
    [[1, 1], [9, 1], [0.98, 0.01, 0.01], [1, 2, 3, 4], [1.0] * 20],
    ids=lambda weights: f"{len(weights)}-ways",
)
def test_variants_get_their_shares(weights: list[float], form: str) -> None:
    experiment = split(weights)
    counts = dict.fromkeys((variant.variant_id for variant in experiment.variants), 0)
    for n in range(USERS):
        counts[select_variant(experiment, form.format(n)).variant_id] += 1
    p_value = chi_square(list(counts.values()), weights)
    print(f"\n{weights} over {form}: chi-square p = {p_value:.3f}")
    assert p_value > SURE


def test_layers_traffic_and_variants_are_independent() -> None:
    from scipy.stats import chi2_contingency

    left = split([1, 1], layer="home", slice=(0.0, 0.5), traffic=0.4)
    other = split([1, 1, 1], slug="other", experiment_id="other")
    table = [[0] * 3 for _ in range(2)]
    inside = 0
    for n in range(USERS):
        user_key = f"u:{n}"
        if is_eligible(left, user_key):
            inside += 1
            row = int(select_variant(left, user_key).variant_id[1:])
            table[row][int(select_variant(other, user_key).variant_id[1:])] += 1
    share = chi_square([inside, USERS - inside], [0.2, 0.8])
    fair = chi_square([sum(row) for row in table], [1, 1])
    joint = float(chi2_contingency(table).pvalue)
    print(
        f"\ntraffic p = {share:.3f}, variants inside p = {fair:.3f}, independence of another one p = {joint:.3f}"
    )
    assert min(share, fair, joint) > SURE


def test_places_are_even_down_to_a_thousandth() -> None:
    counts = [0] * 1_000
    for n in range(USERS):
        counts[int(hash_position("a salt", f"u:{n}") * 1_000)] += 1
    p_value = chi_square(counts, [1.0] * 1_000)
    print(f"\n1,000 bins: chi-square p = {p_value:.3f}")
    assert p_value > SURE
