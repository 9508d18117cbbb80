"""What is uploaded is found by its words at once, in small steps, and by its meaning when asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from actors.language.embed import HashingEmbedder
from actors.recommender.overlay import Overlay
from actors.search.products.found import TextAsk
from cluster.store.ports import Change

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
