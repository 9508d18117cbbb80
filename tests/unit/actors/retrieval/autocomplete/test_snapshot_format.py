"""Completions out of a snapshot: the same answers as completions made here, and what came since counts at once."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.models.loading.snapshot import Snapshot
from actors.models.loading.validation import validate_snapshot
from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.retrieval.autocomplete.field_indexes import FieldKey
from actors.retrieval.autocomplete.snapshot_format import MOST_LANGUAGES, CompletionSnapshot, save
from actors.serving import dispatch
from actors.vectors.snapshot_arrays import ModelState
from cluster.errors import Fault
from cluster.store.data.change_log import ChangeLogEntry
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.build.snapshot_indexes import build_completions_index, select_completion_fields
from jobs.refresh.recipe import CompletionsRecipe, parse_recipe
from tests.fakes.corner_shop import APP, NOW_MS, open_catalog, product_change
from tests.fakes.trained_snapshot import RECIPE, ring_data, ring_products

PRODUCTS: list[dict[str, Any]] = [
    *ring_products(),
    {"product_id": "b-1", "title": "Watering can", "tags": ["tin", "can"], "language": "en"},
    {"product_id": "b-2", "title": "Watering can", "tags": ["can"], "i18n_de": {"title": "Gießkanne"}},
    {"product_id": "b-3", "title": "Gartenschlauch", "language": "de"},
    {"product_id": "b-4", "title": "", "language": "de"},
    {"product_id": "b-5", "brand": "Alder"},
]
TYPED = ("", "wat", "watreing", "bead", "bead number 7", "colour bead", "gies", "gart", "beda nmber", "zzz")
FIELDS = ("title", "tags")


def saved(products: list[dict[str, Any]], folder: Path, **recipe: Any) -> ServingModel:
    """Train a snapshot with completions of some products and lay it over nothing."""
    data = ring_data()
    import orjson

    completions = CompletionsRecipe(fields=FIELDS, **recipe)
    records = select_completion_fields((orjson.dumps(product) for product in products), completions)
    extras = build_completions_index(completions, records, data)
    manifest = write_model_snapshot(
        train_engine(parse_recipe(RECIPE), data), folder, written_at_ms=1, extras=extras
    )
    learned = validate_snapshot(Snapshot.open(folder), str(manifest.facts["version"]))
    return ServingModel(learned, [])


def shop_of(products: list[dict[str, Any]], serving_model: ServingModel | None = None) -> Recommender:
    shop = open_catalog(products)
    if serving_model is not None:
        shop.set_serving_model(
            "default", ServingModel(serving_model.learned, shop.overlay.catalog.product_ids), NOW_MS
        )
    return shop


def texts(
    shop: Recommender,
    typed: str,
    field: str = "title",
    language: str = "en",
    only: bool = False,
    rows: int = 8,
) -> list[str]:
    request = UserQuery(
        kind="autocomplete", app_id=APP, engine_id="default", typed=typed, completion_fields=(field,),
        language=language, only_language=only, rows=rows,
    )  # fmt: skip
    return [entry["text"] for entry in dispatch.answer(shop, request, (), (), NOW_MS).completions[field]]


@pytest.fixture(scope="module")
def serving_model(tmp_path_factory: pytest.TempPathFactory) -> ServingModel:
    return saved(PRODUCTS, tmp_path_factory.mktemp("s") / "snapshot")


@pytest.mark.parametrize("language", ["en", "de", "fr"])
@pytest.mark.parametrize("only", [False, True])
def test_completions_of_a_snapshot_equal_completions_built_in_memory(
    serving_model: ServingModel, language: str, only: bool
) -> None:
    in_memory, mapped = shop_of(PRODUCTS), shop_of(PRODUCTS, serving_model)
    for field in FIELDS:
        for typed in TYPED:
            both = [sorted(texts(shop, typed, field, language, only, 50)) for shop in (in_memory, mapped)]
            assert both[0] == both[1], (field, typed)
    key = FieldKey("title", language, only)
    assert mapped.completions.version == serving_model.version
    assert mapped.completions.get_field(key, mapped.overlay.catalog, lambda: np.zeros(0)).changed_count == 0


def test_the_arrays_are_mapped_from_the_files_of_the_snapshot(serving_model: ServingModel) -> None:
    assert serving_model.completions is not None
    built = serving_model.completions.fields["title"].get("en", False)
    assert built is not None
    for array in (built.index.texts.codes, built.index.pairs.texts, built.holders, built.source_texts.blob):
        assert type(array) is np.ndarray
        below: Any = array
        while isinstance(below, np.ndarray):
            below = below.base
        assert isinstance(below, mmap.mmap)


def test_what_came_since_the_snapshot_counts_at_once(serving_model: ServingModel) -> None:
    shop = shop_of(PRODUCTS, serving_model)
    shop.apply(product_change([{"product_id": "new", "title": "Wheelbarrow"}], f"{NOW_MS + 1}-0"))
    assert texts(shop, "wheel") == ["Wheelbarrow"]
    shop.apply(product_change([{"product_id": "b-3", "title": "Hosepipe"}], f"{NOW_MS + 2}-0"))
    assert texts(shop, "garten") == []
    assert texts(shop, "hosep") == ["Hosepipe"]
    shop.apply(ChangeLogEntry("product", f"{NOW_MS + 3}-0", "remove", b'["b-1"]'))
    assert texts(shop, "watering") == ["Watering can"]
    shop.apply(ChangeLogEntry("product", f"{NOW_MS + 4}-0", "remove", b'["b-2"]'))
    assert texts(shop, "watering") == []
    # as it was: the snapshot speaks for it again
    field = shop.completions.get_field(
        FieldKey("title", "en", False), shop.overlay.catalog, lambda: np.zeros(0)
    )
    assert field.changed_count == 2
    back = [product for product in PRODUCTS if product["product_id"] in ("b-2", "b-3")]
    shop.apply(product_change(back, f"{NOW_MS + 5}-0"))
    assert texts(shop, "garten") == ["Gartenschlauch"]
    assert texts(shop, "watering") == ["Watering can"]
    assert field.changed_count == 1


def test_a_snapshot_lies_over_a_catalog_that_went_on_before_it_was_adopted(
    serving_model: ServingModel,
) -> None:
    changed = [
        {**product, "title": "Lantern"} if product["product_id"] == "b-3" else product for product in PRODUCTS
    ]
    shop = shop_of(
        [{"product_id": "first", "title": "Wheelbarrow"}, *changed[:-4], *changed[-3:]], serving_model
    )
    assert texts(shop, "lant") == ["Lantern"]
    assert texts(shop, "garten") == []
    assert texts(shop, "wheel") == ["Wheelbarrow"]
    assert texts(shop, "gies", language="de") == []
    assert (
        shop.completions.get_field(
            FieldKey("title", "en", False), shop.overlay.catalog, lambda: np.zeros(0)
        ).changed_count
        == 2
    )


def test_a_snapshot_that_knows_little_of_the_catalog_is_not_waited_for(serving_model: ServingModel) -> None:
    many = [{"product_id": f"m{at}", "title": f"Other thing {at}"} for at in range(1_200)]
    shop = shop_of(many, serving_model)
    assert texts(shop, "other thing 1199") == ["Other thing 1199"]
    assert (
        shop.completions.get_field(
            FieldKey("title", "en", False), shop.overlay.catalog, lambda: np.zeros(0)
        ).changed_count
        == 0
    )


def test_a_new_snapshot_takes_over_while_completions_serve(
    serving_model: ServingModel, tmp_path: Path
) -> None:
    shop = shop_of(PRODUCTS)
    assert texts(shop, "wat") == ["Watering can"]
    assert shop.completions.version == ""
    shop.set_serving_model(
        "default", ServingModel(serving_model.learned, shop.overlay.catalog.product_ids), NOW_MS
    )
    assert texts(shop, "wat") == ["Watering can"]
    assert shop.completions.version == serving_model.version
    later = saved([*PRODUCTS, {"product_id": "z", "title": "Water butt"}], tmp_path / "later")
    shop.apply(product_change([{"product_id": "z", "title": "Water butt"}], f"{NOW_MS + 1}-0"))
    shop.set_serving_model("default", ServingModel(later.learned, shop.overlay.catalog.product_ids), NOW_MS)
    assert sorted(texts(shop, "wate")) == ["Water butt", "Watering can"]
    field = shop.completions.get_field(
        FieldKey("title", "en", False), shop.overlay.catalog, lambda: np.zeros(0)
    )
    assert (shop.completions.version, field.changed_count) == (later.version, 0)
    shop.set_serving_model("default", None, NOW_MS)
    assert sorted(texts(shop, "wate")) == ["Water butt", "Watering can"]


def test_snapshots_without_completions_still_serve(tmp_path: Path) -> None:
    manifest = write_model_snapshot(
        train_engine(parse_recipe(RECIPE), ring_data()), tmp_path / "old", written_at_ms=1
    )
    learned = validate_snapshot(Snapshot.open(tmp_path / "old"), str(manifest.facts["version"]))
    serving_model = ServingModel(learned, [])
    assert serving_model.completions is None
    shop = shop_of(PRODUCTS, serving_model)
    assert texts(shop, "watreing") == ["Watering can"]


def test_a_newer_form_of_completions_is_left_alone() -> None:
    parts = save(PRODUCTS, FIELDS, {})
    snapshot = CompletionSnapshot.load("v", ModelState(parts.arrays, {**parts.facts, "form": 99}), ["b-1"])
    assert snapshot.fields == {}


def test_the_same_products_in_any_order_give_the_same_bytes() -> None:
    saved_parts, other = save(PRODUCTS, FIELDS, {"b-1": 3.0}), save(PRODUCTS[::-1], FIELDS, {"b-1": 3.0})
    assert saved_parts.facts == other.facts
    assert bytes_of(saved_parts.arrays) == bytes_of(other.arrays)
    assert bytes_of(saved_parts.arrays) != bytes_of(save(PRODUCTS, FIELDS, {"b-3": 3.0}).arrays)


def test_languages_that_read_alike_share_an_index_and_rare_ones_have_none() -> None:
    (title, tags) = save(PRODUCTS, FIELDS, {}).facts["fields"]
    assert title["languages"] == ["de", "en"]
    assert len(tags["indexes"]) < len(title["indexes"]) <= 5
    many = [
        {"product_id": f"{at}{letter}", "title": f"x{at}", "language": f"{letter}{letter}"}
        for at, letter in enumerate("abcdefghijkl")
        for at in range(3 + at)
    ]
    loaded = CompletionSnapshot.load("v", save(many, ("title",), {}), [])
    field = loaded.fields["title"]
    assert len({language for language, _, _ in field.variants}) == MOST_LANGUAGES + 1
    assert field.get("ll", True) is not None
    assert field.get("aa", True) is None
    assert field.get("zz", True) is not None


def test_what_a_look_up_could_not_read_is_refused() -> None:
    parts = save(PRODUCTS, FIELDS, {})
    for name, array in parts.arrays.items():
        for hurt in hurts(array):
            arrays = {**parts.arrays, name: hurt}
            with pytest.raises(Fault, match="damaged"):
                CompletionSnapshot.load("v", ModelState(arrays, parts.facts), [])
        with pytest.raises(Fault):
            CompletionSnapshot.load(
                "v",
                ModelState({key: kept for key, kept in parts.arrays.items() if key != name}, parts.facts),
                [],
            )


def hurts(array: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Damage an array in ways that its reader must notice: another type, and too few of it."""
    return [array.astype(np.complex64), np.append(array, array[-1:])[: len(array) - 1]] if len(array) else []


def bytes_of(arrays: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def test_locked_products_have_separate_indexes_which_earlier_releases_pass_over() -> None:
    locked = [
        {**product, "access": "gold"} if product["product_id"] == "b-3" else product for product in PRODUCTS
    ]
    parts = save(locked, ("title",), {})
    for index in parts.facts["fields"][0]["indexes"]:
        assert all(len(pair) == 2 for pair in index["for"])
    field = CompletionSnapshot.load("v", parts, []).fields["title"]
    listed = {}
    for access in (None, "", "gold"):
        built = field.get("en", False, access)
        assert built is not None
        listed[access] = {built.source_texts[at] for at in range(len(built))}
    assert listed["gold"] == {"Gartenschlauch"}
    assert listed[None] - listed["gold"] == listed[""]
    assert field.get("en", False, "silver") is None
    without = CompletionSnapshot.load("v", save(PRODUCTS, ("title",), {}), []).fields["title"]
    assert {access for _, _, access in without.variants} == {None}
