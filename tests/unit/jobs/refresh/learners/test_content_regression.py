"""Products without events: what they are like leads to the readers who will take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import polars as pl
import pytest

from actors.language.embedder import HashingEmbedder
from actors.models.features import ALWAYS, feature_matrix, features_of
from actors.models.registry import CONTENT, learned_of
from actors.models.snapshot import Snapshot
from actors.models.user_histories import Histories
from actors.models.validation import trusted
from actors.recommender.messages import ReaderQuery
from actors.recommender.ranking.score import explain_rows
from actors.recommender.ranking.user_profile import taste_of, traces_of, unpack
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import Champion
from cluster.errors import Fault
from cluster.query.language.parser import parse as parse_filter
from cluster.records.recent_event import RecentEvent
from jobs.refresh.build.build import build
from jobs.refresh.build.content_weights import content_of
from jobs.refresh.build.fit import Engine, fit
from jobs.refresh.data.dataset import Interactions, from_frame
from jobs.refresh.learners.content_regression import ContentRecipe
from jobs.refresh.recipe import parse
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


def walks(readers: int = 240) -> Interactions:
    """Let readers take products of one kind, nearly always."""
    rng = np.random.default_rng(4)
    rows = []
    for reader in range(readers):
        for step in range(10):
            number = int(rng.integers(PRODUCTS))
            if rng.random() < 0.9:
                number = number // KINDS * KINDS + reader % KINDS
            rows.append((f"u:r{reader:03d}", f"p{number:03d}", 1_000.0 + step))
    return from_frame(pl.DataFrame(rows, ["reader", "item", "at"], orient="row"))


def records(count: int = PRODUCTS) -> list[bytes]:
    return [orjson.dumps(product(number)) for number in range(count)]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return fit(parse(RECIPE), walks())


def extras_of(engine: Engine) -> Any:
    learners = {name: part.learner for name, part in engine.recipe.parts.items()}
    assert engine.recipe.content is not None
    return content_of(engine.recipe.content, records(), walks(), learners, engine.blend)


def serving(folder: Path, engine: Engine, extras: Any) -> Recommender:
    """Let a snapshot serve, with products it never saw beside those it knows."""
    manifest = build(engine, folder / "one", written_at_ms=1, extras=extras)
    learned = trusted(Snapshot.open(folder / "one"), str(manifest.facts["version"]))
    shop = Recommender(HashingEmbedder())
    shop.overlay.put_products(
        [{**product(number), "price": float(number >= PRODUCTS)} for number in range(PRODUCTS + 40)], None
    )
    shop.adopt("default", Champion(learned, shop.overlay.catalog.product_ids), NOW_MS)
    return shop


def share_of_own_kind(shop: Recommender) -> float:
    """Ask readers of every kind for new products; tell which share is of their kind."""
    query = ReaderQuery(
        "user_to_products", "a", "default", user_id="r", rows=5, filter=parse_filter("price:[1 TO *]")
    )
    hits = []
    for kind in range(KINDS):
        recent = [
            RecentEvent("checkout", (f"p{number:03d}",), NOW_MS - 1_000 * number).pack()
            for number in range(kind, PRODUCTS, 3 * KINDS)
        ]
        found = shop.answer(query, recent, (), NOW_MS)
        hits += [int(row["product_id"][1:]) % KINDS == kind for row in found.products]
    return float(np.mean(hits))


def test_new_products_of_the_kind_a_reader_takes_come_first(tmp_path: Path, engine: Engine) -> None:
    assert share_of_own_kind(serving(tmp_path, engine, extras_of(engine))) >= 0.9


def test_scores_of_new_products_are_explained_and_sum_up(tmp_path: Path, engine: Engine) -> None:
    shop = serving(tmp_path, engine, extras_of(engine))
    recent = [RecentEvent("checkout", ("p000",), NOW_MS).pack()]
    holdings, standing = shop.holdings, shop.holdings.standing(NOW_MS)
    taste = taste_of(traces_of(unpack(recent), shop.overlay.catalog), shop.overlay.index)
    own, other = (PRODUCTS + extra for extra in (4, 5))
    found = explain_rows([own, other], taste, holdings, standing)
    assert found[0]["new:content"] > 0 > found[1]["new:content"]


def test_what_products_are_like_is_learned_alike_from_the_same_data(engine: Engine) -> None:
    first, second = extras_of(engine)[CONTENT], extras_of(engine)[CONTENT]
    assert first.facts == second.facts
    for name, array in first.arrays.items():
        assert array.tobytes() == second.arrays[name].tobytes()


def test_one_reader_is_scored_as_many_are(tmp_path: Path, engine: Engine) -> None:
    build(engine, tmp_path / "one", written_at_ms=1, extras=extras_of(engine))
    content = learned_of(Snapshot.open(tmp_path / "one")).content
    assert content is not None
    products = feature_matrix([features_of(product(number)) for number in range(80)], content.features)
    histories = Histories.of_lists([[0, 4, 8]], len(engine.items))
    from actors.models.user_history import Past

    past = Past.of([8, 4, 0], [2.0, 1.0, 0.0], [1.0] * 3, 3.0)
    one, many = content.score_past(past, products), content.score(histories, products)[0]
    assert np.corrcoef(one, many)[0, 1] == pytest.approx(1.0, abs=1e-5)
    empty = Past.of([], [], [], 0.0)
    assert not content.score_past(empty, products).any()


def test_damaged_content_does_not_serve(tmp_path: Path, engine: Engine) -> None:
    parts = extras_of(engine)[CONTENT]
    broken = {**parts.arrays, "columns": parts.arrays["columns"] + 10_000}
    extras = {CONTENT: type(parts)(broken, parts.facts)}
    manifest = build(engine, tmp_path / "one", written_at_ms=1, extras=extras)
    with pytest.raises(Fault, match="content: it names numbers outside"):
        trusted(Snapshot.open(tmp_path / "one"), str(manifest.facts["version"]))


def test_products_without_features_teach_nothing(engine: Engine) -> None:
    learners = {name: part.learner for name, part in engine.recipe.parts.items()}
    assert not content_of(ContentRecipe(), [b'{"product_id":"p000"}'], walks(), learners, engine.blend)


def test_features_are_words_and_values_each_once() -> None:
    found = features_of(
        {
            "title": "Red red shoe",
            "brand": "Ember",
            "tags": ["x", "x"],
            "categories": [["a", "b"]],
            "custom_attributes": {"sole": ["rubber"], "depth": {"no": "value"}, "weight": 1.5},
        }
    )
    assert len(found) == len(set(found)) == 8
    assert found[0] == ALWAYS
    assert features_of({"brand": "EMBER"})[1] in found


def test_a_recipe_of_an_earlier_release_is_still_read() -> None:
    stored = {"regularisation": 7.0, "power": 2.0, "likeness": 1.0, "fading": {"half_life_items": 3.0}}
    found = ContentRecipe.model_validate(stored)
    assert (found.regularisation, found.fading[0].half_life_items) == ((7.0,), 3.0)
    assert ContentRecipe.model_validate(found.model_dump()) == found
