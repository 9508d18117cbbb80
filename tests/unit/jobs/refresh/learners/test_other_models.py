"""Counts, sessions, factors and what is said of the unknown, against what one works out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import polars as pl
import pytest

from actors.models.cohorts import CohortModel
from actors.models.factors import solve_factors
from actors.models.user_histories import DAY_S, TimeDecay, UserHistories
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Fault, Invalid
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame, sessionize_events
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.learners.als import AlsLearner, AlsRecipe
from jobs.refresh.learners.cohorts import CohortRecipe, build_cohorts, train_cohorts
from jobs.refresh.learners.interaction_matrix import build_user_item_matrix
from jobs.refresh.learners.popularity import compute_decayed_counts
from jobs.refresh.learners.session_knn import SessionKnnLearner, SessionKnnRecipe


def events(*rows: tuple[str, str, float], weight: list[float] | None = None) -> Interactions:
    """Make events; times are in days."""
    frame = pl.DataFrame(rows, ["reader", "item", "at"], orient="row").with_columns(pl.col("at") * DAY_S)
    if weight is None:
        return interactions_from_frame(frame)
    return interactions_from_frame(
        frame.with_columns(weight=pl.Series(weight)), FrameColumns(weight="weight")
    )


def test_counts_halve_with_age() -> None:
    data = events(("a", "x", 0.0), ("b", "x", 2.0), ("c", "y", 1.0))
    assert compute_decayed_counts(data, 1.0, data.now_s).tolist() == [1.25, 0.5]
    assert compute_decayed_counts(data, None, data.now_s).tolist() == [2.0, 1.0]


def test_a_reader_has_one_say_per_item_and_day_the_strongest() -> None:
    data = events(
        ("a", "x", 0.1), ("a", "x", 0.2), ("a", "x", 0.3), ("a", "x", 1.1), weight=[0.3, 1.0, 0.3, 0.3]
    )
    np.testing.assert_allclose(compute_decayed_counts(data, None, data.now_s), [1.3], rtol=1e-6)


def test_a_single_reader_can_not_make_a_trend() -> None:
    robot = [("robot", "x", 1 + at / 10_000) for at in range(500)]
    data = events(*robot, ("a", "y", 1.0), ("b", "y", 1.0))
    assert compute_decayed_counts(data, 7.0, data.now_s).argmax() == 1


def test_sessions_end_with_the_reader_and_with_a_pause() -> None:
    data = events(("a", "x", 0.0), ("a", "y", 0.01), ("a", "z", 3.0), ("b", "x", 3.0))
    assert sessionize_events(data, 60).tolist() == [0, 0, 1, 2]
    assert sessionize_events(data, None).tolist() == [0, 0, 0, 1]


def test_session_neighbours_recommend_what_they_hold() -> None:
    data = events(("a", "x", 1), ("a", "y", 2), ("b", "x", 3), ("b", "z", 4), ("c", "w", 5), ("c", "v", 6))
    model = SessionKnnLearner(SessionKnnRecipe(idf=0.0)).train(data, np.random.default_rng(0))
    row = dict(zip("vwxyz", model.score(UserHistories.of_lists([[2]], 5))[0].tolist(), strict=True))
    assert row["y"] == row["z"] == row["x"] / 2 > 0
    assert row["v"] == row["w"] == 0


def test_newer_sessions_win_when_there_are_too_many() -> None:
    rows = [(f"s{at}", "x", float(at)) for at in range(9)] + [
        (f"s{at}", f"y{at}", at + 0.5) for at in range(9)
    ]
    data = events(*rows)
    model = SessionKnnLearner(SessionKnnRecipe(candidates=3)).train(data, np.random.default_rng(0))
    scores = model.score(UserHistories.of_lists([[0]], 10))[0]
    assert np.flatnonzero(scores[1:]).tolist() == [6, 7, 8]


def test_the_later_item_of_a_session_weighs_more() -> None:
    data = events(("a", "x", 1), ("a", "p", 2), ("b", "y", 3), ("b", "q", 4))
    model = SessionKnnLearner(SessionKnnRecipe()).train(data, np.random.default_rng(0))
    p, q, x, y = range(4)
    scores = model.score(UserHistories.of_lists([[x, y], [y, x]], 4))
    assert scores[0, q] > scores[0, p] > 0
    assert scores[1, p] > scores[1, q] > 0


def test_conjugate_gradients_reach_the_exact_solution() -> None:
    rng = np.random.default_rng(0)
    dense = (rng.random((6, 9)) < 0.4).astype(np.float32)
    others = rng.normal(size=(9, 4)).astype(np.float32)
    recipe = AlsRecipe(factors=4, regularisation=0.5, confidence=7.0, steps=40)
    import scipy.sparse as sp

    vectors = solve_factors(sp.csr_matrix(dense), others, np.zeros((6, 4), np.float32), recipe)
    for row, vector in zip(dense, vectors, strict=True):
        confidence = np.diag(1 + 7.0 * row)
        left = others.T @ confidence @ others + 0.5 * np.eye(4)
        exact = np.linalg.solve(left, others.T @ confidence @ row) if row.any() else np.zeros(4)
        np.testing.assert_allclose(vector, exact, rtol=1e-3, atol=1e-4)


def test_als_lowers_its_loss_with_every_round() -> None:
    rng = np.random.default_rng(3)
    rows = [(f"r{user}", f"i{item}", float(item)) for user in range(30) for item in rng.choice(12, 4, False)]
    data = events(*rows)
    matrix = build_user_item_matrix(data).toarray()

    def loss(rounds: int) -> float:
        recipe = AlsRecipe(
            factors=3,
            rounds=rounds,
            regularisation=0.1,
            confidence=5.0,
            fading=TimeDecay(half_life_items=None),
        )
        model = AlsLearner(recipe).train(data, np.random.default_rng(1))
        vectors = model.compute_user_vectors(UserHistories.of(data, np.arange(30)))
        errors = (1 + 5.0 * matrix) * (matrix - vectors @ model.items.T) ** 2
        return float(errors.sum() + 0.1 * ((vectors**2).sum() + (model.items**2).sum()))

    losses = [loss(rounds) for rounds in (1, 3, 8)]
    assert losses == sorted(losses, reverse=True)


def test_a_smaller_cohort_is_closer_to_overall_popularity() -> None:
    rows = [(f"m{at:03d}", "x", 1.0) for at in range(90)] + [("w0", "y", 1.0)]
    data = events(*rows)
    profiles = np.array([[0]] * 90 + [[1]], np.int32)
    everybody = np.array([90, 1]) / 91
    for prior, expected in ((0.0, [0.0, 1.0]), (9.0, (np.array([0, 1]) + 9 * everybody) / 10)):
        cohorts = train_cohorts(CohortRecipe(prior=prior, half_life_days=None), data, profiles)
        scores = cohorts.score(np.array([[1], [-1]], np.int32))
        np.testing.assert_allclose(scores, [expected, everybody], rtol=1e-6)


def test_several_profile_fields_are_averaged() -> None:
    data = events(("a", "x", 1.0), ("b", "y", 1.0))
    profiles = np.array([[0, -1], [1, 0]], np.int32)
    cohorts = train_cohorts(CohortRecipe(prior=0, half_life_days=None), data, profiles)
    scores = cohorts.score(np.array([[0, 0], [0, -1], [-1, 0]], np.int32))
    np.testing.assert_allclose(scores, [[0.5, 0.5], [1, 0], [0, 1]])
    again = CohortModel.load(cohorts.save())
    np.testing.assert_array_equal(again.score(profiles), cohorts.score(profiles))


def test_profiles_must_be_of_the_same_readers() -> None:
    with pytest.raises(Invalid, match="3 profiles for 1 readers"):
        train_cohorts(CohortRecipe(), events(("a", "x", 1.0)), np.zeros((3, 1), np.int32))


def test_a_missing_array_is_named() -> None:
    with pytest.raises(Fault, match="no array 'weights'; it has items"):
        ModelState({"items": np.zeros(1)}).array("weights")


def year_of_kinds(kinds: int = 3, count: int = 450) -> tuple[Interactions, list[bytes]]:
    """Spread users over a year; what they take stands in an attribute of theirs, and nothing in their country."""
    rng = np.random.default_rng(2)
    rows, users = [], []
    for user in range(count):
        kind = user % kinds
        begins = DAY_S * 365 * user / count
        # everybody takes mostly the same, a kind also what only it takes
        items = [f"all{item}" for item in rng.choice(12, 4)] + [
            f"k{kind}-{item}" for item in rng.choice(6, 4)
        ]
        rows += [(f"u:r{user:03d}", item, begins + at) for at, item in enumerate(items)]
        plan, country = f"plan-{kind}", str(rng.choice(["AT", "CH", "DE"]))
        about = {"plan": plan, "letters": f"unique-{user}"}
        users.append(
            orjson.dumps({"user_id": f"r{user:03d}", "country": country, "custom_attributes": about})
        )
    return events(*rows), users


def test_validation_finds_the_attribute_the_half_life_and_the_prior_of_cohorts() -> None:
    data, users = year_of_kinds()
    profiles = Profiles.from_users(users, data.readers)
    assert profiles.fields == ("country", "custom_attributes.plan")
    data = replace(data, profiles=profiles)
    cohorts = build_cohorts(CohortRecipe(), data, np.random.default_rng(1))
    assert cohorts is not None
    assert "custom_attributes.plan" in cohorts.fields
    names = data.items.names.to_pylist()
    for kind in range(3):
        scores = cohorts.score(cohorts.codes({"custom_attributes.plan": f"plan-{kind}"}))[0]
        best = [names[item] for item in np.argsort(-scores)[:6]]
        assert sum(name.startswith(f"k{kind}-") for name in best) >= 5, best


def _learns_age(data: Interactions, users: list[bytes], ages: list[int]) -> bool:
    records = [{**orjson.loads(user), "age": age} for user, age in zip(users, ages, strict=True)]
    for record in records:
        del record["custom_attributes"]
    profiles = Profiles.from_users([orjson.dumps(record) for record in records], data.readers)
    assert profiles.fields == ("country", "age")
    cohorts = build_cohorts(CohortRecipe(), replace(data, profiles=profiles), np.random.default_rng(1))
    assert cohorts is not None
    return "age" in cohorts.fields


def test_age_bands_are_learned_if_new_users_gain() -> None:
    data, users = year_of_kinds()
    assert _learns_age(data, users, [(16, 30, 70)[user % 3] for user in range(len(users))])
    seeds = range(10)
    random = [np.random.default_rng(seed).integers(16, 80, len(users)).tolist() for seed in seeds]
    assert sum(_learns_age(data, users, ages) for ages in random) <= 2


def test_cohort_parameters_of_a_recipe_are_not_chosen() -> None:
    data, users = year_of_kinds()
    data = replace(data, profiles=Profiles.from_users(users, data.readers, ["country"]))
    recipe = CohortRecipe(fields=("country",), prior=50.0, half_life_days=None)
    cohorts = build_cohorts(recipe, data, np.random.default_rng(1))
    assert cohorts is not None
    assert cohorts.fields == ("country",)
    assert data.profiles is not None
    plain = train_cohorts(recipe, data, data.profiles.codes)
    np.testing.assert_array_equal(cohorts.shares, plain.shares)
