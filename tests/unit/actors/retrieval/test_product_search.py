"""What is uploaded is found by its words at once, in small steps, and by its meaning when asked.

Words and meaning in one list.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import orjson
import pytest

from actors.language import analysis
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.state.overlay import Overlay
from actors.retrieval.lexical.messages import TextHits, TextQuery
from actors.retrieval.product_search import blend_hits
from actors.retrieval.snapshot_format import SearchSnapshot, save
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Fault
from cluster.store.data.change_log import ChangeLogEntry

NOW_MS = 1_700_000_000_000


def uploaded(*products: dict[str, Any], at: int = 1) -> ChangeLogEntry:
    return ChangeLogEntry("product", f"{NOW_MS}-{at}", "put", orjson.dumps(list(products)))


def product(product_id: str, title: str, **more: Any) -> dict[str, Any]:
    return {"product_id": product_id, "title": title, "language": "en", **more}


def overlay_of(*products: dict[str, Any]) -> Overlay:
    overlay = Overlay(HashingEmbedder())
    overlay.apply(uploaded(*products))
    return overlay


def find_ids(overlay: Overlay, text: str, **options: Any) -> list[str]:
    rows = overlay.texts.find(TextQuery(text, **options), None, NOW_MS).rows
    return [overlay.catalog.product_ids[row] for row in rows.tolist()]


def test_an_upload_matches_and_a_new_title_replaces_the_old_one() -> None:
    overlay = overlay_of(product("a", "Steel trowel"), product("b", "Desk lamp"))
    assert find_ids(overlay, "trowel") == ["a"]
    overlay.apply(uploaded(product("a", "Oak chair"), at=2))
    assert find_ids(overlay, "trowel ", correct=False) == []
    assert find_ids(overlay, "chair") == ["a"]


def test_a_removed_product_never_matches() -> None:
    overlay = overlay_of(product("a", "Steel trowel"), product("b", "Potting trowel"))
    overlay.apply(ChangeLogEntry("product", f"{NOW_MS}-2", "remove", orjson.dumps(["a"])))
    assert find_ids(overlay, "trowel") == ["b"]


def test_an_upload_is_indexed_in_small_steps() -> None:
    overlay = Overlay(HashingEmbedder())
    steps = sum(
        1 for _ in overlay.apply_in_steps([uploaded(*(product(f"p{at}", f"Lamp {at}") for at in range(100)))])
    )
    assert steps >= 30
    assert len(overlay.texts) == 100


def test_a_product_put_without_the_log_matches_too() -> None:
    overlay = Overlay(HashingEmbedder())
    overlay.put_products([product("a", "Steel trowel")], None)
    assert find_ids(overlay, "trowel") == ["a"]


def test_much_that_changed_is_put_in_order_aside() -> None:
    overlay = overlay_of(*(product(f"p{at}", f"Lamp number{at}") for at in range(1_000)))
    work = overlay.texts.plan_rebuild()
    assert work is not None
    texts, build = work
    built = build()
    overlay.apply(uploaded(product("p5", "Kettle"), at=2))
    texts.adopt(built)
    assert find_ids(overlay, "number5 ", correct=False) == []
    assert find_ids(overlay, "kettle") == ["p5"]
    assert len(find_ids(overlay, "lamp")) == 999
    overlay.texts.index_all()
    assert overlay.texts.plan_rebuild() is None


def test_meaning_adds_products_that_share_no_word() -> None:
    overlay = overlay_of(
        product("a", "Gardening trowel"), product("b", "Desk lamp"), product("c", "Troweling set")
    )
    assert find_ids(overlay, "gardening trowel") == ["a"]
    near = overlay.texts.find(TextQuery("gardening trowel", meaning=1.0, least_meaning=0.1), None, NOW_MS)
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
    near = overlay.texts.find(TextQuery("gardening trowel", meaning=1.0, least_meaning=0.0), allowed, NOW_MS)
    assert near.rows.tolist() == [1]


def test_products_with_all_words_are_listed_for_filters() -> None:
    overlay = overlay_of(
        product("a", "Red steel trowel"),
        product("b", "Trowel in red"),
        product("c", "Red trowel"),
        product("d", "Lamp"),
    )
    assert overlay.texts.rows_with_words("red trowel").tolist() == [0, 1, 2]
    assert overlay.texts.rows_with_words("red trowel", together=True).tolist() == [2]


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


def saved(products: list[dict[str, Any]] = SHOP, version: str = "v1") -> SearchSnapshot:
    snapshot = SearchSnapshot.load(version, save(products, learn_from=100))
    assert snapshot is not None
    return snapshot


def answers(overlay: Overlay, **options: Any) -> dict[str, dict[str, float]]:
    scores = {}
    for question in QUESTIONS:
        hits = overlay.texts.find(TextQuery(question, **options), None, NOW_MS)
        ids = [overlay.catalog.product_ids[row] for row in hits.rows.tolist()]
        scores[question] = dict(zip(ids, hits.scores.round(4).tolist(), strict=True))
    return scores


def test_an_index_of_a_snapshot_equals_one_built_in_memory() -> None:
    in_memory, bound = overlay_of(*SHOP), Overlay(HashingEmbedder())
    bound.texts.pause_indexing()
    bound.put_products(list(reversed(SHOP)), None)
    bound.texts.bind_rows(saved())
    assert len(bound.texts) == len(SHOP)
    bound.texts.index_all()
    assert bound.texts.version == "v1"
    for options in ({}, {"partial": True}, {"language": "fr"}, {"fields": {"description": 0}}):
        assert answers(bound, **options) == answers(in_memory, **options)
    row = bound.catalog.row_of("p0")
    assert bound.texts.find(TextQuery("steel garden"), None).matched([row]) == [
        ("title", "description", "metadata")
    ]


def test_products_that_changed_since_the_snapshot_are_followed() -> None:
    in_memory, bound = overlay_of(*SHOP), overlay_of(*SHOP)
    bound.texts.bind_rows(saved())
    for at, overlay in enumerate((in_memory, bound)):
        overlay.apply(uploaded(product("p3", "Copper bell"), product("new", "Oak bell"), at=10 + at))
        overlay.apply(ChangeLogEntry("product", f"{NOW_MS}-{20 + at}", "remove", orjson.dumps(["p4"])))
        in_memory.texts.index_all()
    assert find_ids(bound, "bell") == ["new", "p3"] or find_ids(bound, "bell") == ["p3", "new"]
    assert "p4" not in find_ids(bound, "steel")
    for question in QUESTIONS:
        assert set(find_ids(bound, question)) == set(find_ids(in_memory, question))


def test_a_later_snapshot_takes_over_and_the_old_one_is_let_go() -> None:
    overlay = overlay_of(*SHOP)
    overlay.texts.bind_rows(saved())
    before = answers(overlay)
    overlay.apply(uploaded({**SHOP[0], "title": "Steel trowel deluxe"}, at=10))
    later = [{**SHOP[0], "title": "Steel trowel deluxe"}, *SHOP[1:]]
    overlay.texts.bind_rows(saved(later, "v2"))
    assert overlay.texts.version == "v2"
    assert find_ids(overlay, "deluxe") == ["p0"]
    assert set(answers(overlay)["oak"]) == set(before["oak"])


@pytest.mark.parametrize("seed", range(100))
def test_after_a_load_no_rebuild_changes_a_score(seed: int) -> None:
    rng = random.Random(seed)
    snapshot = saved(rng.sample(SHOP, rng.randint(20, len(SHOP))))
    present = rng.sample(SHOP, rng.randint(1, len(SHOP)))
    changed = {record["product_id"] for record in rng.sample(present, rng.randint(0, len(present) // 2))}
    overlay = Overlay(HashingEmbedder())
    overlay.texts.pause_indexing()
    overlay.put_products(
        [
            {**record, "title": "Copper bell"} if record["product_id"] in changed else record
            for record in present
        ],
        None,
    )
    overlay.texts.bind_rows(snapshot)
    overlay.texts.index_all()
    before = answers(overlay)
    # as a follower does aside, soon or late
    while (work := overlay.texts.plan_rebuild()) is not None:
        texts, build = work
        texts.adopt(build())
    assert answers(overlay) == before


def test_a_snapshot_of_other_products_is_not_bound() -> None:
    overlay = overlay_of(*SHOP)
    overlay.texts.bind_rows(saved([{**record, "title": "x"} for record in SHOP]))
    assert overlay.texts.version == ""
    assert find_ids(overlay, "oak chair")


def test_meaning_is_that_of_the_snapshot_and_products_that_changed_have_it_too() -> None:
    overlay = overlay_of(*SHOP)
    overlay.texts.bind_rows(saved())
    overlay.apply(uploaded(product("new", "Kettle of brass", description="For the kitchen."), at=10))
    near = overlay.texts.find(TextQuery("kettles kitchenware", meaning=1.0, least_meaning=0.2), None, NOW_MS)
    ids = [overlay.catalog.product_ids[row] for row in near.rows.tolist()]
    assert "new" in ids
    assert ids.index("new") < len(ids)
    assert any("kettle" in overlay.catalog.record(row)["title"].lower() for row in near.rows[:3].tolist())
    overlay.apply(ChangeLogEntry("product", f"{NOW_MS}-30", "remove", orjson.dumps(["new"])))
    assert "new" not in find_ids(overlay, "kettles kitchenware", meaning=1.0, least_meaning=0.2)


DESSERTS = [
    product("d1", "Crème brûlée spoon", language="en"),
    product("d2", "Brulee torch", language="en"),
    product("d3", "Moule à crème brûlée", language="fr"),
]


def test_a_search_finds_words_with_and_without_their_accents() -> None:
    overlay = overlay_of(*DESSERTS)
    for text in ("brulee", "brûlée", "bru\u0302le\u0301e"):
        assert sorted(find_ids(overlay, text, language="en"))[:2] == ["d1", "d2"], text


def test_products_whose_accents_an_earlier_release_stemmed_are_indexed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    products = [*SHOP, *DESSERTS]
    with monkeypatch.context() as patch:
        patch.setattr(analysis, "_FOLDED_FIRST", frozenset())
        parts = save(products, learn_from=100)
    former = SearchSnapshot.load("v1", ModelState(parts.arrays, {**parts.facts, "form": "products-1"}))
    assert former is not None
    assert [former.names.name(row) for row in former.index.outdated.tolist()] == ["d1"]
    in_memory, bound = overlay_of(*products), Overlay(HashingEmbedder())
    bound.texts.pause_indexing()
    bound.put_products(products, None)
    bound.texts.bind_rows(former)
    assert len(bound.texts) == len(products) - 1
    bound.texts.index_all()
    for text in ("brulee", "crème brûlée", "creme brulee spoon"):
        assert set(find_ids(bound, text)) == set(find_ids(in_memory, text)) >= {"d1"}
    assert answers(bound) == answers(in_memory)


def test_snapshots_of_other_forms_are_not_read() -> None:
    parts = save(SHOP, learn_from=0)
    assert SearchSnapshot.load("v1", ModelState(parts.arrays, {**parts.facts, "form": "products-9"})) is None


def test_equal_products_give_equal_bytes_in_any_order() -> None:
    first, other = save(SHOP, learn_from=100), save(list(reversed(SHOP)), learn_from=100)
    assert first.facts == other.facts
    for name, array in first.arrays.items():
        assert array.tobytes() == other.arrays[name].tobytes(), name


@pytest.mark.parametrize("name", ["rows", "starts", "words.ends", "products.ends", "meaning.scales", "own"])
def test_damaged_arrays_are_refused(name: str) -> None:
    parts = save(SHOP, learn_from=100)
    damaged = ModelState({**parts.arrays, name: parts.arrays[name][:-1]}, parts.facts)
    with pytest.raises(Fault):
        SearchSnapshot.load("v1", damaged)
    without = ModelState({key: array for key, array in parts.arrays.items() if key != name}, parts.facts)
    with pytest.raises(Fault):
        SearchSnapshot.load("v1", without)


def test_what_another_release_kept_is_passed_over() -> None:
    parts = save(SHOP, learn_from=0)
    assert SearchSnapshot.load("v1", ModelState(parts.arrays, {**parts.facts, "form": "older"})) is None


NOBODY = np.zeros(0, np.int64), np.zeros(0, np.float32)


def text_hits(**scores: float) -> TextHits:
    rows = np.array([int(name[1:]) for name in scores], np.int64)
    values = np.array(list(scores.values()), np.float32)
    return TextHits(rows, values, np.ones(len(rows), bool))


def near(**likeness: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([int(name[1:]) for name in likeness], np.int64), np.array(
        [*likeness.values()], np.float32
    )


def test_both_lists_are_scaled_and_added() -> None:
    mixed = blend_hits(text_hits(p1=8.0, p2=4.0, p3=2.0), *near(p3=0.9, p2=0.5, p1=0.4), 0.5, least=0.0)
    worth = dict(zip(mixed.rows.tolist(), (mixed.scores / 8).round(3).tolist(), strict=True))
    assert worth == {1: 0.5, 3: 0.5, 2: pytest.approx(0.5 / 3 + 0.1, abs=1e-3)}


def test_products_near_in_meaning_join_when_they_are_near_enough() -> None:
    mixed = blend_hits(text_hits(p1=8.0), *near(p5=0.9, p6=0.4), 0.5, least=0.5)
    assert set(mixed.rows.tolist()) == {1, 5}
    assert dict(zip(mixed.rows.tolist(), mixed.complete.tolist(), strict=True)) == {1: True, 5: False}


def test_without_words_meaning_decides_alone() -> None:
    mixed = blend_hits(text_hits(), *near(p5=0.9, p6=0.6, p7=0.1), 0.1, least=0.5)
    assert mixed.rows.tolist() == [5, 6]
    assert (mixed.scores > 0).all()


def test_without_hits_the_result_is_empty() -> None:
    assert not len(blend_hits(text_hits(), *NOBODY, 0.5, least=0.5).rows)


def test_what_stands_behind_the_best_hundred_keeps_its_order() -> None:
    scores = np.linspace(9, 1, 300).astype(np.float32)
    words = TextHits(np.arange(300), scores, np.ones(300, bool))
    mixed = blend_hits(words, *NOBODY, 0.2, least=0.5)
    assert mixed.rows.tolist() == list(range(300))
    assert (np.diff(mixed.scores) <= 0).all()
