"""Item-to-item models against what one works out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from actors.models.user_histories import DAY_S, TimeDecay, UserHistories
from cluster.errors import Invalid
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.learners.interaction_matrix import build_user_item_matrix, select_newest_per_user
from jobs.refresh.learners.neighbours.baskets import BasketsLearner, BasketsRecipe
from jobs.refresh.learners.neighbours.content_knn import ContentKnnLearner, ContentKnnRecipe
from jobs.refresh.learners.neighbours.ease import EaseLearner, EaseRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnLearner, ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe, SequentialRulesLearner
from jobs.refresh.learners.neighbours.sparse_weights import prune_rows, select_strongest
from jobs.refresh.learners.protocol import Learner


def sequences(*items: str, **fields: list[float] | list[str]) -> Interactions:
    """Make one user a text, one event a letter and day."""
    rows = [
        (f"r{user}", item, DAY_S * at) for user, taken in enumerate(items) for at, item in enumerate(taken)
    ]
    frame = pl.DataFrame(rows, ["reader", "item", "at"], orient="row").with_columns(
        *[pl.Series(name, values) for name, values in fields.items()]
    )
    return interactions_from_frame(frame, FrameColumns(**{name: name for name in fields}))


def matrix_of(learner: Learner, data: Interactions) -> np.ndarray:
    """Ask for every single item as a history: the weights of a model."""
    model = learner.train(data, np.random.default_rng(0))
    return model.score(UserHistories.of_lists([[item] for item in range(data.n_items)], data.n_items))


def random_data(users: int = 30, items: int = 15) -> Interactions:
    rng = np.random.default_rng(4)
    rows = [
        (f"r{user}", f"i{item:02d}", float(at))
        for user in range(users)
        for at, item in enumerate(rng.choice(items, 5, replace=False))
    ]
    return interactions_from_frame(pl.DataFrame(rows, ["reader", "item", "at"], orient="row"))


def test_ease_is_the_closed_form() -> None:
    data = random_data()
    dense = build_user_item_matrix(data).toarray().astype(np.float64)
    inverse = np.linalg.inv(dense.T @ dense + 2.0 * np.eye(data.n_items))
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0)
    weights = matrix_of(EaseLearner(EaseRecipe(regularisation=2.0)), data)
    np.testing.assert_allclose(weights, expected, rtol=1e-3, atol=1e-5)


def test_ease_keeps_the_weights_of_largest_size_of_either_sign() -> None:
    data = random_data()
    whole = matrix_of(EaseLearner(EaseRecipe(regularisation=2.0)), data)
    kept = matrix_of(EaseLearner(EaseRecipe(regularisation=2.0, keep=3)), data)
    for row, few in zip(whole, kept, strict=True):
        largest = np.argsort(-np.abs(row))[:3]
        assert sorted(np.flatnonzero(few)) == sorted(largest)
        np.testing.assert_array_equal(few[largest], row[largest])


def test_ease_of_the_most_frequent_items_leaves_the_others_out() -> None:
    data = sequences("ab", "ab", "abc", "d")
    weights = matrix_of(EaseLearner(EaseRecipe(regularisation=1.0, items=2)), data)
    assert weights[0, 1] > 0
    assert not weights[2:].any()
    assert not weights[:, 2:].any()


def test_unsolvable_ease_names_the_parameter_to_change() -> None:
    data = replace(random_data(), weight=np.full(150, 1e30, np.float32))
    with pytest.raises(Invalid, match="regularisation 1e-30"):
        EaseLearner(EaseRecipe(regularisation=1e-30)).train(data, np.random.default_rng(0))


def test_rules_count_what_follows_the_nearer_the_more() -> None:
    weights = matrix_of(
        SequentialRulesLearner(RulesRecipe(window=2, damping=0, back=0, distance_power=1)),
        sequences("abc", "ab"),
    )
    np.testing.assert_allclose(weights, [[0, 2, 0.5], [0, 0, 1], [0, 0, 0]])


def test_rules_damp_frequent_followers_and_count_the_way_back() -> None:
    recipe = RulesRecipe(window=1, damping=0.5, back=0.25)
    np.testing.assert_allclose(
        matrix_of(SequentialRulesLearner(recipe), sequences("ab", "ab", "b")),
        [[0, 2 / 3**0.5], [0.25 * 2 / 2**0.5, 0]],
        rtol=1e-6,
    )


def test_rules_fade_with_the_age_of_the_pair() -> None:
    weights = matrix_of(
        SequentialRulesLearner(RulesRecipe(window=1, damping=0, back=0, half_life_days=1)), sequences("abc")
    )
    np.testing.assert_allclose(weights, [[0, 0.5, 0], [0, 0, 1], [0, 0, 0]])


def test_rules_end_where_a_reader_pauses() -> None:
    recipe = RulesRecipe(window=1, damping=0, back=0, gap_minutes=60)
    assert not matrix_of(SequentialRulesLearner(recipe), sequences("abc")).any()


def test_repeating_an_item_is_one_step() -> None:
    recipe = RulesRecipe(window=1, damping=0, back=0)
    assert matrix_of(SequentialRulesLearner(recipe), sequences("aaab")).tolist() == [[0, 1], [0, 0]]


def test_rules_in_blocks_equal_rules_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_data()
    whole = matrix_of(SequentialRulesLearner(RulesRecipe()), data)
    monkeypatch.setattr("jobs.refresh.learners.neighbours.sequential_rules._BLOCK_PAIRS", 500)
    np.testing.assert_array_equal(matrix_of(SequentialRulesLearner(RulesRecipe()), data), whole)


def test_item_knn_is_the_shrunken_cosine_in_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_data()
    dense = build_user_item_matrix(data).toarray().astype(np.float64)
    products = dense.T @ dense
    lengths = np.sqrt(np.diag(products))
    expected = products / (np.outer(lengths, lengths) + 3.0)
    np.fill_diagonal(expected, 0)
    learner = ItemKnnLearner(ItemKnnRecipe(shrinkage=3.0))
    np.testing.assert_allclose(matrix_of(learner, data), expected, rtol=1e-5)
    monkeypatch.setattr("jobs.refresh.learners.interaction_matrix._BLOCK_PAIRS", 60)
    np.testing.assert_allclose(matrix_of(learner, data), expected, rtol=1e-5)


def test_content_neighbours_are_the_most_alike() -> None:
    content = np.array([[1, 0], [0.8, 0.6], [0, 1]], np.float32)
    data = sequences("abc").with_content(content)
    weights = matrix_of(ContentKnnLearner(ContentKnnRecipe(power=2, neighbours=1)), data)
    np.testing.assert_allclose(weights, [[0, 0.64, 0], [0.64, 0, 0], [0, 0.36, 0]], rtol=1e-5)


def test_baskets_divide_by_the_frequency_of_the_other_item() -> None:
    data = sequences("ab", "ab", "bc", basket=["p", "p", "q", "q", "r", "r"])
    weights = matrix_of(BasketsLearner(BasketsRecipe(damping=0.5)), data)
    np.testing.assert_allclose(
        weights, [[0, 2 / 3**0.5, 0], [2 / 2**0.5, 0, 1], [0, 1 / 3**0.5, 0]], rtol=1e-6
    )


def test_wholesale_baskets_are_left_out() -> None:
    data = sequences("abc", "ab", basket=["p", "p", "p", "q", "q"])
    weights = matrix_of(BasketsLearner(BasketsRecipe(damping=0, longest=2)), data)
    assert weights.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_only_purchases_make_baskets_when_there_are_any() -> None:
    basket, kind = ["p", "p", "q", "q"], ["click", "click", "checkout", "checkout"]
    data = sequences("abcd", basket=basket, kind=kind)
    weights = matrix_of(BasketsLearner(BasketsRecipe(damping=0)), data)
    assert weights.nonzero()[0].tolist() == [2, 3]


def test_the_strongest_event_counts_and_dislikes_subtract() -> None:
    data = sequences("aabb", weight=[0.3, 1.0, 0.5, -1.0])
    assert build_user_item_matrix(data).toarray().tolist() == [[1.0, 0.0]]


def test_a_robot_is_learned_from_by_its_newest_events_only() -> None:
    data = sequences("abcabcabc", "ab")
    few = select_newest_per_user(data, 4)
    assert [data.items.name(code) for code in few.item] == list("cabc" + "ab")


def test_pruning_takes_the_smaller_column_of_equals() -> None:
    rows = np.array([[3, 1, 1, 1], [0, 2, 0, 0]], np.float64)
    import scipy.sparse as sp

    assert prune_rows(sp.csr_matrix(rows), 2).toarray().tolist() == [[3, 1, 0, 0], [0, 2, 0, 0]]


def test_the_strongest_of_a_block_stand_in_their_columns() -> None:
    block = np.array([[1, -3, 2]], np.float32)
    assert select_strongest(block, 2, np.array([1, 4, 5]), 6).toarray().tolist() == [[0, 0, 0, 0, -3, 2]]


def test_fading_can_be_changed_without_training() -> None:
    data = random_data()
    model = SequentialRulesLearner(RulesRecipe()).train(data, np.random.default_rng(0))
    fading = TimeDecay(half_life_items=None)
    again = SequentialRulesLearner(RulesRecipe(fading=fading)).train(data, np.random.default_rng(0))
    histories = UserHistories.of_lists([[1, 2, 3]], data.n_items)
    np.testing.assert_array_equal(replace(model, fading=fading).score(histories), again.score(histories))
