"""What a sweep may say of its best row: proven by paired intervals, or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.runs.measurements.sweep import (
    SweepReport,
    SweepVariant,
    build_variants,
    compare_rows,
    evaluate_variant,
    markdown_from_rows,
    result_rows,
)
from tests.unit.jobs.refresh.test_training import circles


def _variant(name: str) -> SweepVariant:
    return SweepVariant((("window", name),), Recipe.model_construct())


def _report(values: Any, targets: str = "same") -> SweepReport:
    mean = float(np.mean(values))
    figures = {"ndcg@10": {"mean": mean, "low": mean - 0.02, "high": mean + 0.02}}
    facts = {
        "figures": {"ndcg@10": mean},
        "segments": [{"name": "all", "users": len(values), "figures": figures}],
        "users": len(values),
        "per_user": {"figure": "ndcg@10", "targets": targets, "values": list(values)},
    }
    return SweepReport.model_validate(facts)


def test_overlapping_intervals_do_not_hide_a_difference_of_pairs() -> None:
    rng = np.random.default_rng(1)
    ndcg = rng.random(2_000)
    table = result_rows([(_variant("2"), _report(ndcg - 0.01)), (_variant("3"), _report(ndcg))])
    assert table[0]["window"] == "3"
    tested = {"difference", "difference_low", "difference_high", "p_corrected"}
    untested = result_rows(
        [(_variant("2"), _report(ndcg - 0.01)), (_variant("3"), _report(ndcg))], has_tests=False
    )
    assert untested == [{name: row[name] for name in row.keys() - tested} for row in table]
    assert table[1]["difference_low"] == 0.01, "every user loses the same"
    assert compare_rows(table)["is_proven"]


def test_a_small_difference_of_noise_is_not_proven() -> None:
    rng = np.random.default_rng(2)
    rows = [
        (_variant(name), _report(rng.random(500) * 0.5 + 0.5 + gain))
        for name, gain in (("2", 0.002), ("5", 0), ("9", -0.4))
    ]
    table = result_rows(rows)
    summary = compare_rows(table)
    assert (summary["is_proven"], summary["equal"]) == (False, 2)
    assert summary["sentence"].startswith("no difference proven: 1 of the other 2 variants may be as good")
    text = markdown_from_rows(table, "shop", "Protocol by time. Test from 2020-01-01 to 2020-02-01.")
    assert "No difference proven: 1 of the other 2" in text
    assert text.splitlines()[2] == "Protocol by time. Test from 2020-01-01 to 2020-02-01."


def test_rows_of_other_users_prove_nothing() -> None:
    table = result_rows([(_variant("2"), _report([0.9] * 50)), (_variant("5"), _report([0.1] * 50, "other"))])
    assert "difference" not in table[1]
    assert "evaluated on other users" in compare_rows(table)["sentence"]
    before = [_report([0.5] * 9).model_copy(update={"per_user": None}) for _ in range(2)]
    old = result_rows([(_variant(str(at)), report) for at, report in enumerate(before)])
    assert not compare_rows(old)["is_proven"]
    assert compare_rows([{"error": "x"}])["sentence"] == "there is nothing to compare"


def test_variants_of_a_real_sweep_are_compared_in_pairs() -> None:
    recipe = parse_recipe(
        {
            "parts": {
                "rules": {"learner": "rules", "window": 2},
                "popularity": {"learner": "popularity", "half_life_days": None},
            },
            "blend": {"weights": {"rules": 1.0, "popularity": 0.01}, "weights_new": {"popularity": 1.0}},
        }
    )
    data = circles()
    variants = build_variants(recipe, ["blend.weights.rules=0,1"])
    results = [(variant, evaluate_variant(variant, data)) for variant in variants]
    first, other = (report.per_user for _, report in results)
    assert first is not None
    assert other is not None
    assert first.targets == other.targets
    table = result_rows(results)
    assert table[0]["blend.weights.rules"] == 1
    averages = [row["ndcg@10"] for row in table]
    assert (
        table[1]["difference"] == round(averages[0] - averages[1], 5)
        or abs(table[1]["difference"] - averages[0] + averages[1]) < 2e-5
    )
    assert compare_rows(table)["is_proven"]
