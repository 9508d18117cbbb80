"""What is uploaded is found by its words at once, in small steps, and by its meaning when asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from actors.language.embedder import HashingEmbedder
from actors.models.model import Parts
from actors.recommender.state.overlay import Overlay
from actors.retrieval.lexical.text_query import TextAsk
from actors.retrieval.snapshot_format import SavedProducts, save
from cluster.errors import Fault
from cluster.store.ports.stores import Change

NOW_MS = 1_700_000_000_000


def uploaded(*products: dict[str, Any], at: int = 1) -> Change:
    return Change("product", f"{NOW_MS}-{at}", "put", orjson.dumps(list(products)))


def product(product_id: str, title: str, **more: Any) -> dict[str, Any]:
    return {"product_id": product_id, "title": title, "language": "en", **more}


def overlay_of(*products: dict[str, Any]) -> Overlay:
    overlay = Overlay(HashingEmbedder())
    overlay.apply(uploaded(*products))
    return overlay


def found(overlay: Overlay, text: str, **wishes: Any) -> list[str]:
    rows = overlay.texts.find(TextAsk(text, **wishes), None, NOW_MS).rows
    return [overlay.catalog.product_ids[row] for row in rows.tolist()]


def test_an_upload_is_found_and_a_new_title_replaces_the_old_one() -> None:
    overlay = overlay_of(product("a", "Steel trowel"), product("b", "Desk lamp"))
    assert found(overlay, "trowel") == ["a"]
    overlay.apply(uploaded(product("a", "Oak chair"), at=2))
    assert found(overlay, "trowel ", correct=False) == []
    assert found(overlay, "chair") == ["a"]


def test_a_removed_product_is_not_found() -> None:
    overlay = overlay_of(product("a", "Steel trowel"), product("b", "Potting trowel"))
    overlay.apply(Change("product", f"{NOW_MS}-2", "remove", orjson.dumps(["a"])))
    assert found(overlay, "trowel") == ["b"]


def test_an_upload_is_indexed_in_small_steps() -> None:
    overlay = Overlay(HashingEmbedder())
    steps = sum(1 for _ in overlay.steps([uploaded(*(product(f"p{at}", f"Lamp {at}") for at in range(100)))]))
    assert steps >= 30
    assert len(overlay.texts) == 100


def test_what_was_put_past_the_log_is_found_too() -> None:
    overlay = Overlay(HashingEmbedder())
    overlay.put_products([product("a", "Steel trowel")], None)
    assert found(overlay, "trowel") == ["a"]


def test_much_that_changed_is_put_in_order_aside() -> None:
    overlay = overlay_of(*(product(f"p{at}", f"Lamp number{at}") for at in range(1_000)))
    work = overlay.texts.rebuilding()
    assert work is not None
    texts, build = work
    built = build()
    overlay.apply(uploaded(product("p5", "Kettle"), at=2))
    texts.adopt(built)
    assert found(overlay, "number5 ", correct=False) == []
    assert found(overlay, "kettle") == ["p5"]
    assert len(found(overlay, "lamp")) == 999
    overlay.texts.settle()
    assert overlay.texts.rebuilding() is None


def test_meaning_adds_products_that_share_no_word() -> None:
    overlay = overlay_of(
        product("a", "Gardening trowel"), product("b", "Desk lamp"), product("c", "Troweling set")
    )
    assert found(overlay, "gardening trowel") == ["a"]
    near = overlay.texts.find(TextAsk("gardening trowel", meaning=1.0, least_meaning=0.1), None, NOW_MS)
    ids = [overlay.catalog.product_ids[row] for row in near.rows.tolist()]
    assert ids[0] == "a"
    assert "c" in ids
    assert "b" not in ids
    assert near.complete.tolist()[0]
    assert not near.complete[ids.index("c")]
    assert (np.diff(near.scores) <= 0).all()


def test_meaning_keeps_to_the_rows_allowed() -> None:
    overlay = overlay_of(product("a", "Gardening trowel"), product("b", "Gardening glove"))
    allowed = np.array([False, True])
    near = overlay.texts.find(TextAsk("gardening trowel", meaning=1.0, least_meaning=0.0), allowed, NOW_MS)
    assert near.rows.tolist() == [1]


def test_products_with_all_words_are_listed_for_filters() -> None:
    overlay = overlay_of(
        product("a", "Red steel trowel"),
        product("b", "Trowel in red"),
        product("c", "Red trowel"),
        product("d", "Lamp"),
    )
    assert overlay.texts.having("red trowel").tolist() == [0, 1, 2]
    assert overlay.texts.having("red trowel", together=True).tolist() == [2]


# --- out of a snapshot ------------------------------------------------------------------------------------------------

SHOP = [
    product(
        f"p{at}",
        f"{trait} {noun} {at}",
        description=f"A {noun} for the {place}.",
        tags=[trait],
        i18n_fr={"title": f"objet {at}"},
    )
    for at, (trait, noun, place) in enumerate(
        (trait, noun, place)
        for trait in ("Steel", "Oak", "Linen", "Enamel")
        for noun in ("trowel", "kettle", "lamp", "chair", "rake")
        for place in ("garden", "kitchen", "desk")
    )
]
QUESTIONS = [
    "steel trowel",
    "oak",
    "enamel kettle kitchen",
    "objet 7",
    "trowl steel",
    "lam",
    "linen desk lamp",
    "a",
]


def saved(products: list[dict[str, Any]] = SHOP, version: str = "v1") -> SavedProducts:
    found = SavedProducts.load(version, save(products, learn_from=100))
    assert found is not None
    return found


def answers(overlay: Overlay, **wishes: Any) -> dict[str, dict[str, float]]:
    told = {}
    for question in QUESTIONS:
        hits = overlay.texts.find(TextAsk(question, **wishes), None, NOW_MS)
        ids = [overlay.catalog.product_ids[row] for row in hits.rows.tolist()]
        told[question] = dict(zip(ids, hits.scores.round(4).tolist(), strict=True))
    return told


def test_an_index_out_of_a_snapshot_answers_as_one_made_here() -> None:
    here, laid = overlay_of(*SHOP), Overlay(HashingEmbedder())
    laid.texts.hold()
    laid.put_products(list(reversed(SHOP)), None)
    laid.texts.lay(saved())
    assert len(laid.texts) == len(SHOP)
    laid.texts.settle()
    assert laid.texts.version == "v1"
    for wishes in ({}, {"partial": True}, {"language": "fr"}, {"fields": {"description": 0}}):
        assert answers(laid, **wishes) == answers(here, **wishes)
    row = laid.catalog.row_of("p0")
    assert laid.texts.find(TextAsk("steel garden"), None).matched([row]) == [
        ("title", "description", "metadata")
    ]


def test_products_that_changed_since_the_snapshot_are_followed() -> None:
    here, laid = overlay_of(*SHOP), overlay_of(*SHOP)
    laid.texts.lay(saved())
    for at, overlay in enumerate((here, laid)):
        overlay.apply(uploaded(product("p3", "Copper bell"), product("new", "Oak bell"), at=10 + at))
        overlay.apply(Change("product", f"{NOW_MS}-{20 + at}", "remove", orjson.dumps(["p4"])))
        here.texts.settle()
    assert found(laid, "bell") == ["new", "p3"] or found(laid, "bell") == ["p3", "new"]
    assert "p4" not in found(laid, "steel")
    for question in QUESTIONS:
        assert set(found(laid, question)) == set(found(here, question))


def test_a_later_snapshot_takes_over_and_the_old_one_is_let_go() -> None:
    overlay = overlay_of(*SHOP)
    overlay.texts.lay(saved())
    before = answers(overlay)
    overlay.apply(uploaded({**SHOP[0], "title": "Steel trowel deluxe"}, at=10))
    later = [{**SHOP[0], "title": "Steel trowel deluxe"}, *SHOP[1:]]
    overlay.texts.lay(saved(later, "v2"))
    assert overlay.texts.version == "v2"
    assert found(overlay, "deluxe") == ["p0"]
    assert set(answers(overlay)["oak"]) == set(before["oak"])


def test_a_snapshot_of_other_products_is_not_laid() -> None:
    overlay = overlay_of(*SHOP)
    overlay.texts.lay(saved([{**one, "title": "x"} for one in SHOP]))
    assert overlay.texts.version == ""
    assert found(overlay, "oak chair")


def test_meaning_is_that_of_the_snapshot_and_products_that_changed_have_it_too() -> None:
    overlay = overlay_of(*SHOP)
    overlay.texts.lay(saved())
    overlay.apply(uploaded(product("new", "Kettle of brass", description="For the kitchen."), at=10))
    near = overlay.texts.find(TextAsk("kettles kitchenware", meaning=1.0, least_meaning=0.2), None, NOW_MS)
    ids = [overlay.catalog.product_ids[row] for row in near.rows.tolist()]
    assert "new" in ids
    assert ids.index("new") < len(ids)
    assert any("kettle" in overlay.catalog.record(row)["title"].lower() for row in near.rows[:3].tolist())
    overlay.apply(Change("product", f"{NOW_MS}-30", "remove", orjson.dumps(["new"])))
    assert "new" not in found(overlay, "kettles kitchenware", meaning=1.0, least_meaning=0.2)


def test_equal_products_give_equal_bytes_in_any_order() -> None:
    one, other = save(SHOP, learn_from=100), save(list(reversed(SHOP)), learn_from=100)
    assert one.facts == other.facts
    for name, array in one.arrays.items():
        assert array.tobytes() == other.arrays[name].tobytes(), name


@pytest.mark.parametrize("name", ["rows", "starts", "words.ends", "products.ends", "meaning.scales", "own"])
def test_damaged_arrays_are_refused(name: str) -> None:
    parts = save(SHOP, learn_from=100)
    damaged = Parts({**parts.arrays, name: parts.arrays[name][:-1]}, parts.facts)
    with pytest.raises(Fault):
        SavedProducts.load("v1", damaged)
    without = Parts({key: array for key, array in parts.arrays.items() if key != name}, parts.facts)
    with pytest.raises(Fault):
        SavedProducts.load("v1", without)


def test_what_another_release_kept_is_passed_over() -> None:
    parts = save(SHOP, learn_from=0)
    assert SavedProducts.load("v1", Parts(parts.arrays, {**parts.facts, "form": "older"})) is None
