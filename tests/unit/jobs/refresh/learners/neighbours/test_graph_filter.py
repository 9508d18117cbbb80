"""The graph filter against its formula, and where it takes part."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from actors.models.loading.snapshot_models import load_model
from actors.models.user_histories import UserHistories
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.learners.interaction_matrix import build_user_item_matrix
from jobs.refresh.learners.neighbours.graph_filter import (
    GraphFilterLearner,
    GraphFilterRecipe,
    compute_right_singular_vectors,
)
from jobs.refresh.recipe import load_recipe_file, parse_recipe
from jobs.refresh.runs.estimate import estimate_costs
from jobs.refresh.runs.workload import DataSize
from jobs.refresh.tuning.plan import fit_recipe_to_catalog


def taken(users: int = 60, items: int = 20) -> Interactions:
    rng = np.random.default_rng(5)
    rows = [
        (f"r{user:02d}", f"i{item:02d}")
        for user in range(users)
        for item in rng.choice(items, 6, replace=False)
    ]
    return interactions_from_frame(
        pl.DataFrame(rows, ["reader", "item"], orient="row"), FrameColumns(at=None)
    )


@pytest.fixture(scope="module")
def data() -> Interactions:
    return taken()


def test_scores_are_those_of_the_filter(data: Interactions) -> None:
    recipe = GraphFilterRecipe(factors=4, alpha=0.3, rounds=8, keep=20)
    model = GraphFilterLearner(recipe).train(data, np.random.default_rng(1))
    matrix = build_user_item_matrix(data).toarray().astype(np.float64)
    user_degrees, item_degrees = matrix.sum(axis=1), matrix.sum(axis=0)
    scaled = matrix / np.sqrt(user_degrees)[:, None] / np.sqrt(item_degrees)
    vectors = np.linalg.svd(scaled)[2][:4].T
    low = vectors @ vectors.T * np.sqrt(item_degrees) / np.sqrt(item_degrees)[:, None]
    linear = scaled.T @ scaled
    expected = np.where(linear > 0, np.maximum(linear + 0.3 * low, 1e-9), 0.0)
    np.testing.assert_allclose(model.weights.toarray(), expected, atol=2e-4)


def test_singular_vectors_come_from_random_projection(data: Interactions) -> None:
    matrix = build_user_item_matrix(data)
    vectors = compute_right_singular_vectors(matrix, 3, 8, np.random.default_rng(2))
    exact = np.linalg.svd(matrix.toarray())[2][:3]
    np.testing.assert_allclose(np.abs(exact @ vectors), np.eye(3), atol=1e-3)


def test_equal_data_give_equal_bytes_and_come_back(data: Interactions) -> None:
    learner = GraphFilterLearner(GraphFilterRecipe(factors=8))
    first, second = (learner.train(data, np.random.default_rng(3)).save() for _ in range(2))
    for name, array in first.arrays.items():
        assert array.tobytes() == second.arrays[name].tobytes()
    histories = UserHistories.of_lists([[0, 3], []], data.n_items)
    again = load_model("graph_filter", first)
    np.testing.assert_array_equal(again.score(histories), learner.load(first).score(histories))
    assert not again.score(histories)[1].any()


def test_weaker_evidence_counts_less_than_a_purchase() -> None:
    rows = [(f"r{at}", "a", 1.0) for at in range(8)]
    rows += [(f"r{at}", "b", 1.0) for at in range(4)] + [(f"r{at}", "c", 0.3) for at in range(4, 8)]
    data = interactions_from_frame(
        pl.DataFrame(rows, ["reader", "item", "weight"], orient="row"), FrameColumns(at=None, weight="weight")
    )
    model = GraphFilterLearner(GraphFilterRecipe(factors=2, alpha=0.0)).train(data, np.random.default_rng(1))
    _, bought, carted = model.score(UserHistories.of_lists([[0]], 3))[0]
    assert bought > carted > 0


def test_it_takes_part_above_the_reach_of_ease_only() -> None:
    recipe = load_recipe_file("default")
    assert "graph_filter" not in fit_recipe_to_catalog(recipe, 12_000).parts
    assert "graph_filter" in fit_recipe_to_catalog(recipe, 12_001).parts
    assert fit_recipe_to_catalog(recipe, 12_001).parts["graph_filter"].learner == "graph_filter"  # type: ignore[attr-defined]


def test_its_cost_is_estimated_before_it_starts() -> None:
    recipe = parse_recipe({"parts": {"graph": {"learner": "graph_filter"}}})
    small, large = (
        estimate_costs(recipe, DataSize(10 * items, items, items))[0] for items in (40_000, 200_000)
    )
    assert small.memory < large.memory < 2_500 << 20
    assert small.seconds < large.seconds


def test_nothing_taken_gives_nothing() -> None:
    data = taken().pick(np.zeros(360, np.bool_))
    model = GraphFilterLearner(GraphFilterRecipe()).train(data, np.random.default_rng(1))
    assert model.weights.nnz == 0
