from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from actors.language.hashing_embedder import HashingEmbedder, embedding_text
from actors.recommender.state.overlay import Overlay
from cluster.store.data.change_log import ChangeLogEntry
from tests.fakes.corner_shop import (
    DAY_MS,
    INTERACTIONS,
    NOW_MS,
    PRODUCTS,
    interaction_change,
    product_change,
    view,
)


@pytest.fixture
def overlay() -> Overlay:
    made = Overlay(HashingEmbedder())
    made.apply(product_change(PRODUCTS, "1-0"))
    return made


def _erase(*user_keys: str, offset: str = f"{NOW_MS}-9") -> ChangeLogEntry:
    return ChangeLogEntry("interaction", offset, "erase", orjson.dumps(user_keys))


def _counts(overlay: Overlay) -> dict[str, float]:
    votes = overlay.counts.get_counts_at(7.0, len(overlay.catalog), NOW_MS)
    return {overlay.catalog.product_ids[row]: votes[row] for row in np.flatnonzero(votes > 1e-9)}


def _pairs(overlay: Overlay, product_id: str, *, baskets: bool = False) -> set[str]:
    neighbours = overlay.baskets if baskets else overlay.cooccurrence
    rows, shares = neighbours.get_neighbours(np.array([overlay.catalog.row_of(product_id)]))
    return {
        overlay.catalog.product_ids[row]
        for row, share in zip(rows[0], shares[0], strict=True)
        if share > 1e-6
    }


def test_supplied_vectors_are_used_and_missing_ones_are_embedded(overlay: Overlay) -> None:
    embedding_overlay = Overlay(HashingEmbedder())
    embedding_overlay.apply(product_change(PRODUCTS, "1-0", vectors=False))
    rows = np.arange(len(PRODUCTS))
    np.testing.assert_allclose(embedding_overlay.index.take(rows), overlay.index.take(rows), atol=1e-3)


def test_vectors_of_another_embedder_are_not_mixed_in() -> None:
    product = {"product_id": "a", "title": "Steel trowel"}
    alien = np.ones((1, 128), "<f2").tobytes()
    overlay = Overlay(HashingEmbedder())
    overlay.apply(ChangeLogEntry("product", "1-0", "put", orjson.dumps([product]), alien, "words-9"))
    expected = HashingEmbedder().embed([embedding_text(product)])
    np.testing.assert_allclose(overlay.index.take(np.array([0])), expected, atol=1e-6)


def test_the_last_of_two_records_with_one_id_counts() -> None:
    overlay = Overlay(HashingEmbedder())
    overlay.apply(
        product_change([{"product_id": "a", "title": "Kettle"}, {"product_id": "a", "title": "Rake"}], "1-0")
    )
    rake = HashingEmbedder().embed([embedding_text({"title": "Rake"})])
    np.testing.assert_allclose(overlay.index.take(np.array([0])), rake, atol=1e-3)
    assert overlay.catalog.record(0)["title"] == "Rake"


def test_a_change_applied_twice_counts_once(overlay: Overlay) -> None:
    change = interaction_change([view("gina", "draw-hoe")], f"{NOW_MS}-1")
    overlay.apply(change)
    once = _counts(overlay)
    overlay.apply(change)
    overlay.apply(interaction_change([view("pia", "teapot")], f"{NOW_MS - 1}-0"))
    assert _counts(overlay) == once == {"draw-hoe": pytest.approx(0.3)}
    assert overlay.offsets["interaction"] == f"{NOW_MS}-1"


def test_one_call_or_many_come_to_the_same() -> None:
    whole, parts, together = (Overlay(HashingEmbedder()) for _ in range(3))
    for overlay in (whole, parts, together):
        overlay.apply(product_change(PRODUCTS, "1-0"))
    whole.apply(interaction_change(INTERACTIONS, f"{NOW_MS}-0"))
    calls = [interaction_change([item], f"{NOW_MS}-{number}") for number, item in enumerate(INTERACTIONS)]
    for call in calls:
        parts.apply(call)
    together.apply(*calls)
    for overlay in (parts, together):
        assert _counts(overlay) == pytest.approx(_counts(whole))
        for product in PRODUCTS:
            for baskets in (False, True):
                pairs = [_pairs(state, product["product_id"], baskets=baskets) for state in (whole, overlay)]
                assert pairs[0] == pairs[1]


def test_what_came_before_a_broken_change_is_not_lost(overlay: Overlay) -> None:
    good = interaction_change([view("gina", "draw-hoe")], f"{NOW_MS}-1")
    with pytest.raises(ValueError, match="invalid literal"):
        overlay.apply(good, ChangeLogEntry("interaction", f"{NOW_MS}-2", "put", b"not JSON"))
    assert _counts(overlay) == {"draw-hoe": pytest.approx(0.3)}
    overlay.apply(interaction_change([view("pia", "draw-hoe")], f"{NOW_MS}-3"))
    assert _counts(overlay) == {"draw-hoe": pytest.approx(0.6)}


def test_an_erasure_between_two_calls_comes_between_them(overlay: Overlay) -> None:
    first = interaction_change([view("gina", "draw-hoe")], f"{NOW_MS}-1")
    second = interaction_change([view("gina", "teapot")], f"{NOW_MS}-3")
    overlay.apply(first, _erase("u:gina", offset=f"{NOW_MS}-2"), second)
    assert _counts(overlay) == {"teapot": pytest.approx(0.3)}


def test_what_was_bought_together_is_kept_apart_from_what_was_seen_together(overlay: Overlay) -> None:
    overlay.apply(interaction_change(INTERACTIONS, f"{NOW_MS}-0"))
    assert _pairs(overlay, "bread-knife", baskets=True) == {"cutting-board"}
    assert _pairs(overlay, "bread-knife") == {"cutting-board", "carving-knife"}
    assert _pairs(overlay, "tulip-bulbs", baskets=True) == set()


def test_erasing_a_reader_takes_back_what_they_put_in(overlay: Overlay) -> None:
    others = [item for item in INTERACTIONS if item.get("user_id") != "pia"]
    overlay.apply(interaction_change(others, f"{NOW_MS}-0"))
    without = _counts(overlay), {p["product_id"]: _pairs(overlay, p["product_id"]) for p in PRODUCTS}
    mine = [item for item in INTERACTIONS if item.get("user_id") == "pia"]
    overlay.apply(interaction_change(mine, f"{NOW_MS}-1"))
    assert _counts(overlay) != pytest.approx(without[0])
    overlay.apply(_erase("u:pia", "a:nobody"))
    assert _counts(overlay) == pytest.approx(without[0])
    assert {p["product_id"]: _pairs(overlay, p["product_id"]) for p in PRODUCTS} == without[1]


def test_an_erased_reader_may_start_anew(overlay: Overlay) -> None:
    overlay.apply(interaction_change([view("gina", "draw-hoe")], f"{NOW_MS}-1"))
    overlay.apply(_erase("u:gina"))
    assert _counts(overlay) == {}
    overlay.apply(interaction_change([view("gina", "draw-hoe")], f"{NOW_MS + 1}-1"))
    assert _counts(overlay) == {"draw-hoe": pytest.approx(0.3)}


def test_one_reader_alone_makes_no_trend(overlay: Overlay) -> None:
    overlay.apply(interaction_change([view("gina", "draw-hoe")] * 500, f"{NOW_MS}-1"))
    assert _counts(overlay) == {"draw-hoe": pytest.approx(0.3)}


def test_children_count_a_little_for_their_parent(overlay: Overlay) -> None:
    overlay.apply(product_change([{"product_id": "chapter", "parent_id": "draw-hoe"}], "2-0"))
    overlay.apply(interaction_change([view("gina", "chapter", kind="checkout")], f"{NOW_MS}-1"))
    assert _counts(overlay) == pytest.approx({"chapter": 1, "draw-hoe": 0.2})


def test_what_was_clicked_before_its_upload_counts_after_it(overlay: Overlay) -> None:
    overlay.apply(interaction_change([view("gina", "late")], f"{NOW_MS}-1"))
    overlay.apply(product_change([{"product_id": "late", "title": "Late rake"}], "2-0"))
    assert _counts(overlay) == {"late": pytest.approx(0.3)}
    assert overlay.catalog.offered[overlay.catalog.row_of("late")]


def test_a_removed_product_has_no_vector_any_more(overlay: Overlay) -> None:
    row = overlay.catalog.row_of("teapot")
    overlay.apply(ChangeLogEntry("product", "2-0", "remove", orjson.dumps(["teapot", "never-there"])))
    assert not overlay.index.take(np.array([row])).any()
    assert not overlay.catalog.present[row]


@pytest.mark.parametrize(
    "payload", [b"[]", orjson.dumps([view("gina", "")]), orjson.dumps([{"type": "search"}])]
)
def test_changes_without_anything_to_learn_pass(overlay: Overlay, payload: bytes) -> None:
    overlay.apply(ChangeLogEntry("interaction", f"{NOW_MS}-1", "put", payload))
    overlay.apply(ChangeLogEntry("user", f"{NOW_MS}-1", "put", b'[{"user_id": "gina"}]'))
    assert _counts(overlay) == {}


def test_a_large_change_comes_in_many_steps(overlay: Overlay) -> None:
    products: list[dict[str, Any]] = [{"product_id": f"p{n}"} for n in range(200)]
    steps = overlay.apply_in_steps([product_change(products, "2-0")])
    next(steps)
    assert 12 < overlay.catalog.products < 50
    assert sum(1 for _ in steps) > 10
    assert overlay.catalog.products == 212


def test_yesterdays_vote_is_not_counted_again_tomorrow(overlay: Overlay) -> None:
    for day in range(3):
        item = {**view("gina", "draw-hoe", ago_ms=(2 - day) * DAY_MS)}
        overlay.apply(interaction_change([item, item], f"{NOW_MS}-{day + 1}"))
    assert overlay.counts.get_counts_at(30.0, 12, NOW_MS)[
        overlay.catalog.row_of("draw-hoe")
    ] == pytest.approx(0.88, abs=0.01)
