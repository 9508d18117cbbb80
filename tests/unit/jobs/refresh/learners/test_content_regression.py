"""Products without events: what they are like leads to the users who will take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pytest
import scipy.sparse as sp

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.features import (
    ALWAYS,
    build_feature_matrix,
    features_from_product,
    pair_features_from_product,
    weak_features_from_product,
)
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import CONTENT, load_snapshot_models
from actors.models.loading.validation import validate_snapshot
from actors.models.user_histories import TimeDecay, UserHistories
from actors.recommender.messages import UserQuery
from actors.recommender.ranking.score import explain_rows
from actors.recommender.ranking.user_profile import (
    build_user_profile,
    find_interaction_rows,
    parse_recent_events,
)
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.serving import dispatch
from cluster.errors import Fault
from cluster.query.language.parser import parse as parse_filter
from cluster.records.interaction import RecentEvent
from jobs.refresh.build.fit import TrainedEngine, build_content_weights, train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.learners.content_regression import (
    ContentRecipe,
    ItemFeatures,
    _feature_deviations,
    select_frequent_features,
    train_content_regression,
)
from jobs.refresh.recipe import parse_recipe
from tests.fakes.corner_shop import NOW_MS

KINDS = 4
PRODUCTS = 60
RECIPE: dict[str, Any] = {
    "parts": {"ease": {"learner": "ease", "regularisation": 10.0}, "trend": {"learner": "popularity"}},
    "blend": {"weights": {"ease": 1.0, "trend": 0.1}, "weights_new": {"trend": 1.0}},
    "content": {"regularisation": [1.0, 10.0]},
}


def product(number: int) -> dict[str, Any]:
    """Make a product whose kind stands in one tag among others that say nothing."""
    rng = np.random.default_rng(number)
    noise = [f"noise-{value}" for value in rng.choice(12, 6, replace=False)]
    return {
        "product_id": f"p{number:03d}",
        "title": f"Thing {number}",
        "tags": [f"kind-{number % KINDS}", *noise],
    }


def walks(users: int = 240) -> Interactions:
    """Let users take products of one kind, nearly always."""
    rng = np.random.default_rng(4)
    rows = []
    for user in range(users):
        for step in range(10):
            number = int(rng.integers(PRODUCTS))
            if rng.random() < 0.9:
                number = number // KINDS * KINDS + user % KINDS
            rows.append((f"u:r{user:03d}", f"p{number:03d}", 1_000.0 + step))
    return interactions_from_frame(pl.DataFrame(rows, ["reader", "item", "at"], orient="row"))


def records(count: int = PRODUCTS) -> list[bytes]:
    return [orjson.dumps(product(number)) for number in range(count)]


@pytest.fixture(scope="module")
def engine() -> TrainedEngine:
    return train_engine(parse_recipe(RECIPE), walks())


def extras_of(engine: TrainedEngine) -> Any:
    learners = {name: part.learner for name, part in engine.recipe.parts.items()}
    assert engine.recipe.content is not None
    return build_content_weights(engine.recipe.content, records(), walks(), learners, engine.blend)


def serving(folder: Path, engine: TrainedEngine, extras: Any) -> Recommender:
    """Let a snapshot serve, with products it never saw beside those it knows."""
    manifest = write_model_snapshot(engine, folder / "one", written_at_ms=1, extras=extras)
    learned = validate_snapshot(Snapshot.open(folder / "one"), str(manifest.facts["version"]))
    shop = Recommender(HashingEmbedder())
    shop.overlay.put_products(
        [{**product(number), "price": float(number >= PRODUCTS)} for number in range(PRODUCTS + 40)], None
    )
    shop.set_serving_model("default", ServingModel(learned, shop.overlay.catalog.product_ids), NOW_MS)
    return shop


def share_of_preferred_kind(shop: Recommender) -> float:
    """Ask users of every kind for new products; tell which share is of their kind."""
    query = UserQuery(
        "user_to_products", "a", "default", user_id="r", rows=5, filter=parse_filter("price:[1 TO *]")
    )
    hits = []
    for kind in range(KINDS):
        recent = [
            RecentEvent("checkout", (f"p{number:03d}",), NOW_MS - 1_000 * number).pack()
            for number in range(kind, PRODUCTS, 3 * KINDS)
        ]
        result = dispatch.answer(shop, query, recent, (), NOW_MS)
        hits += [int(row["product_id"][1:]) % KINDS == kind for row in result.products]
    return float(np.mean(hits))


def test_new_products_of_the_kind_a_reader_takes_come_first(tmp_path: Path, engine: TrainedEngine) -> None:
    assert share_of_preferred_kind(serving(tmp_path, engine, extras_of(engine))) >= 0.9


def test_scores_of_new_products_are_explained_and_sum_up(tmp_path: Path, engine: TrainedEngine) -> None:
    shop = serving(tmp_path, engine, extras_of(engine))
    recent = [RecentEvent("checkout", ("p000",), NOW_MS).pack()]
    state, priors = shop.default_engine_state, shop.default_engine_state.get_item_priors(NOW_MS)
    profile = build_user_profile(
        find_interaction_rows(parse_recent_events(recent), shop.overlay.catalog), shop.overlay.index
    )
    same_kind, other = (PRODUCTS + extra for extra in (4, 5))
    explained = explain_rows([same_kind, other], profile, state, priors)
    assert explained[0]["new:content"] > 0 > explained[1]["new:content"]


def test_what_products_are_like_is_learned_alike_from_the_same_data(engine: TrainedEngine) -> None:
    first, second = extras_of(engine)[CONTENT], extras_of(engine)[CONTENT]
    assert first.facts == second.facts
    for name, array in first.arrays.items():
        assert array.tobytes() == second.arrays[name].tobytes()


def test_one_reader_is_scored_as_many_are(tmp_path: Path, engine: TrainedEngine) -> None:
    write_model_snapshot(engine, tmp_path / "one", written_at_ms=1, extras=extras_of(engine))
    content = load_snapshot_models(Snapshot.open(tmp_path / "one")).content
    assert content is not None
    products = build_feature_matrix(
        [features_from_product(product(number)) for number in range(80)], content.features
    )
    histories = UserHistories.of_lists([[0, 4, 8]], len(engine.items))
    from actors.models.user_history import UserHistory

    past = UserHistory.of([8, 4, 0], [2.0, 1.0, 0.0], [1.0] * 3, 3.0)
    single, many = content.score_past(past, products), content.score(histories, products)[0]
    assert np.corrcoef(single, many)[0, 1] == pytest.approx(1.0, abs=1e-5)
    empty = UserHistory.of([], [], [], 0.0)
    assert not content.score_past(empty, products).any()


def test_damaged_content_does_not_serve(tmp_path: Path, engine: TrainedEngine) -> None:
    parts = extras_of(engine)[CONTENT]
    broken = {**parts.arrays, "columns": parts.arrays["columns"] + 10_000}
    extras = {CONTENT: type(parts)(broken, parts.facts)}
    manifest = write_model_snapshot(engine, tmp_path / "one", written_at_ms=1, extras=extras)
    with pytest.raises(Fault, match="content: it names numbers outside"):
        validate_snapshot(Snapshot.open(tmp_path / "one"), str(manifest.facts["version"]))


def test_products_without_features_teach_nothing(engine: TrainedEngine) -> None:
    learners = {name: part.learner for name, part in engine.recipe.parts.items()}
    assert not build_content_weights(
        ContentRecipe(), [b'{"product_id":"p000"}'], walks(), learners, engine.blend
    )


def test_features_are_words_and_values_each_once() -> None:
    features = features_from_product(
        {
            "title": "Red red shoe",
            "brand": "Ember",
            "tags": ["x", "x"],
            "categories": [["a", "b"]],
            "custom_attributes": {"sole": ["rubber"], "depth": {"no": "value"}, "weight": 1.5},
        }
    )
    assert len(features) == len(set(features)) == 8
    assert features[0] == ALWAYS
    assert features_from_product({"brand": "EMBER"})[1] in features


def test_near_years_near_prices_and_pairs_of_values_are_features() -> None:
    def shared(first: dict[str, Any], second: dict[str, Any]) -> int:
        return len(set(features_from_product(first)) & set(features_from_product(second))) - 1

    assert (
        shared({"title": "(1994)"}, {"title": "(1996)"})
        > shared({"title": "(1994)"}, {"title": "(2004)"})
        > 0
    )
    assert shared({"published_at": "1994-02-01"}, {"title": "(1994)"}) == 6
    assert shared({"price": 10}, {"sale_price": 11.0, "price": 300}) == 2
    assert shared({"price": 10}, {"price": 100}) == 0
    assert shared({"tags": ["a", "b", "c"]}, {"tags": ["c", "x", "A"]}) == 3
    assert shared({"categories": [["a"], ["b", "c"]]}, {"categories": [["b", "c"], ["a"]]}) == 4
    odd = {"price": float("nan"), "sale_price": "no", "published_at": "soon", "title": "9999999999 ٢٠١٩"}
    assert features_from_product({**odd, "categories": [], "tags": None})[0] == ALWAYS
    assert len(features_from_product({"tags": [str(number) for number in range(1_000)]})) == 1 + 1_000 + 28


def test_a_pair_needs_twenty_products_and_other_features_two() -> None:
    products = [[1, 2, 3]] * 2 + [[2, 4]] * 18 + [[5]]
    assert select_frequent_features(products, 10).tolist() == [1, 2, 3, 4]
    assert select_frequent_features(products, 10, {2, 3, 4}).tolist() == [1, 2]
    assert select_frequent_features(products, 1, {2}).tolist() == [2]


def test_a_row_keeps_the_features_that_change_scores_most() -> None:
    # a weight of a feature that one product in 100 has says less than a smaller one that half of them have
    rng = np.random.default_rng(3)
    count = 400
    frequent = np.flatnonzero(rng.random(count) < 0.5)
    rows = np.concatenate([np.arange(count), frequent, np.arange(0, count, 100)])
    columns = np.repeat([0, 1, 2], [count, len(frequent), 4])
    matrix = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(count, 3))
    described = ItemFeatures.of(matrix, np.array([10, 20, 30]), ())
    weights = sp.csr_matrix(np.asarray(matrix[:, 1].toarray() + 2 * matrix[:, 2].toarray(), np.float32).T)
    weights = sp.csr_matrix(np.repeat(weights.toarray(), count, axis=0))
    interactions = interactions_from_frame(
        pl.DataFrame({"reader": ["u"] * count, "item": [f"p{row:03d}" for row in range(count)]}),
        FrameColumns(at=None),
    )
    recipe = ContentRecipe(keep=1, regularisation=(0.1,), similarity=(0.0,), fading=(TimeDecay(),))
    trained = train_content_regression(recipe, described, weights, interactions, np.random.default_rng(1))
    assert trained is not None
    assert np.unique(trained.weights.indices).tolist() == [1]
    assert trained.weights.data == pytest.approx(1.0, abs=0.05)


def test_a_feature_of_every_product_makes_no_weight_infinite() -> None:
    for count in range(3_000, 3_017):
        deviations = _feature_deviations(sp.csr_matrix(np.ones((count, 1), np.float32)))
        assert np.isfinite(deviations).all(), count
        assert deviations.min() > 0, count


def test_words_and_pairs_weigh_less_than_attributes() -> None:
    product = {"title": "blue", "tags": ["a", "b"], "brand": "x"}
    features = np.sort(np.array(features_from_product(product)))
    matrix = build_feature_matrix([features_from_product(product)], features)
    scales = ItemFeatures.of(matrix, features, weak_features_from_product(product)).scales
    weak = np.isin(features, weak_features_from_product(product))
    assert np.count_nonzero(weak) == 2
    assert scales[~weak].min() == 1 > scales[weak].max() > 0


def test_a_recipe_of_an_earlier_release_is_still_read() -> None:
    stored = {"regularisation": 7.0, "power": 2.0, "likeness": 1.0, "fading": {"half_life_items": 3.0}}
    recipe = ContentRecipe.model_validate(stored)
    assert (recipe.regularisation, recipe.fading[0].half_life_items) == ((7.0,), 3.0)
    assert ContentRecipe.model_validate(recipe.model_dump()) == recipe


def test_a_rare_shared_feature_ranks_a_product_that_no_training_could_relate() -> None:
    # each user takes the two products of product brand; a brand of three products has product that nobody took
    brands, users = 40, 400
    interactions = interactions_from_frame(
        pl.DataFrame(
            [
                (f"u:r{user:03d}", f"b{user % brands:02d}-{turn}", 1_000.0 + turn)
                for user in range(users)
                for turn in range(2)
            ],
            ["reader", "item", "at"],
            orient="row",
        )
    )
    products = {
        f"b{brand:02d}-{turn}": {
            "product_id": f"b{brand:02d}-{turn}",
            "brand": f"brand {brand}",
            "type": "toy",
        }
        for brand in range(brands)
        for turn in range(3)
    }
    names = interactions.items.names.to_pylist()
    lists = [features_from_product(products[name]) for name in names]
    features = select_frequent_features(lists, 100)
    described = ItemFeatures.of(build_feature_matrix(lists, features), features, ())
    # item weights by chance: they relate no product of a brand to another product
    weights = sp.csr_matrix(np.random.default_rng(5).random((len(names), len(names))).astype(np.float32))
    unseen = build_feature_matrix(
        [features_from_product(products[f"b{brand:02d}-2"]) for brand in range(brands)], features
    )
    histories = UserHistories.of_lists(
        [[names.index(f"b{brand:02d}-0")] for brand in range(brands)], len(names)
    )

    def count_hits(similarity: float) -> int:
        recipe = ContentRecipe(similarity=(similarity,))
        trained = train_content_regression(recipe, described, weights, interactions, np.random.default_rng(1))
        assert trained is not None
        return int((trained.score(histories, unseen).argmax(axis=1) == np.arange(brands)).sum())

    assert count_hits(2.0) >= 35
    assert count_hits(0.0) <= 10


def test_a_decade_is_paired_with_tags_and_categories() -> None:
    film = {"title": "2001: A Space Odyssey (1968)", "tags": ["space"], "categories": [["film", "drama"]]}
    near = {"title": "Solaris", "published_at": "1972-03-20", "tags": ["space"]}
    far = {"title": "Gravity (2013)", "tags": ["space"]}
    shared = set(pair_features_from_product(film)) & set(pair_features_from_product(near))
    assert len(shared) == 1, "the years from 1965 to 1974"
    assert not set(pair_features_from_product(near)) & set(pair_features_from_product(far))
    assert len(pair_features_from_product(film)) == 8, "two years, two spans, a tag and a category"
    assert pair_features_from_product({"title": "2001", "tags": []}) == []
