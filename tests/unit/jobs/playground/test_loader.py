"""The records of the playground: valid, linked to each other, and the same bytes everywhere."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import orjson
import pytest

from cluster.records.field_types.times import moment_ms
from cluster.records.validation.upload import parse_upload
from jobs.playground import data_files
from jobs.playground.data_files import list_data_files
from jobs.playground.loader import SampleData, build_sample, compute_edition

NOW_MS = 1_772_442_930_250
DAY_MS = 86_400_000
EXPECTED_SHA256 = "a100b863c7b2b41f6787964184f8addeb315718a0c0f861fbae4cb7debd3bd4d"
"Of the sample at NOW_MS. When data or code change on purpose, write the new one here."


@pytest.fixture(scope="module")
def whole() -> SampleData:
    return build_sample(NOW_MS)


def body(records: list[dict[str, Any]]) -> bytes:
    return orjson.dumps({"data": records})


def ids_of(entry: dict[str, Any]) -> list[str]:
    return list(entry.get("product_ids", []))


def test_every_product_and_user_follows_the_schema(whole: SampleData) -> None:
    for noun, records in (("product", whole.products), ("user", whole.users)):
        type_check = parse_upload(noun, body(records), now_ms=NOW_MS).check_types({})  # type: ignore[call-overload]
        assert type_check.messages == ()
        assert len(type_check.records) == len(records)


def test_every_interaction_follows_the_schema(whole: SampleData) -> None:
    upload = parse_upload("interaction", body(whole.interactions), now_ms=NOW_MS)
    assert upload.count == len(whole.interactions)


def test_the_same_moment_gives_the_same_bytes_on_every_machine(whole: SampleData) -> None:
    made = orjson.dumps([whole.products, whole.users, whole.interactions])
    assert hashlib.sha256(made).hexdigest() == EXPECTED_SHA256


def test_a_day_later_everything_happens_a_day_later(whole: SampleData) -> None:
    later = build_sample(NOW_MS + DAY_MS)
    assert len(later.interactions) == len(whole.interactions)
    for interaction, other in zip(whole.interactions, later.interactions, strict=True):
        assert moment_ms(other["timestamp"]) - moment_ms(interaction["timestamp"]) == DAY_MS
        assert {**interaction, "timestamp": ""} == {**other, "timestamp": ""}


def test_there_is_enough_of_everything(whole: SampleData) -> None:
    kinds = Counter(product["type"] for product in whole.products)
    assert set(kinds) == {"tool", "plant", "kitchenware", "outdoor", "toy", "course", "book", "article"}
    assert min(kinds.values()) >= 20
    assert 300 <= len(whole.products) - kinds["article"] <= 900
    sections = Counter(
        product["categories"][0][1] for product in whole.products if product["type"] == "article"
    )
    assert set(sections) == {"World", "Politics", "Science", "Sport", "Business"}
    assert min(sections.values()) >= 12
    assert 200 <= len(whole.users) <= 500
    assert 5_000 <= len(whole.interactions) <= 15_000


def test_no_id_and_no_title_of_a_type_comes_twice(whole: SampleData) -> None:
    for names in (
        [product["product_id"] for product in whole.products],
        [(product["type"], product["title"]) for product in whole.products],
        [user["user_id"] for user in whole.users],
    ):
        assert [name for name, count in Counter(names).items() if count > 1] == []


def test_everything_that_is_named_exists(whole: SampleData) -> None:
    products = {product["product_id"] for product in whole.products}
    groups = {product.get("product_group_id", product["product_id"]) for product in whole.products}
    for product in whole.products:
        assert set(product.get("related_ids", ())) <= groups, product["product_id"]
    assert {product_id for entry in whole.interactions for product_id in ids_of(entry)} <= products
    targets = {target for story in data_files.read_user_stories() for _, target in story.searches}
    assert targets <= groups


def test_variants_share_a_group_and_differ_in_a_field_a_filter_can_ask_for(whole: SampleData) -> None:
    groups: dict[str, list[dict[str, Any]]] = {}
    for product in whole.products:
        groups.setdefault(product.get("product_group_id", product["product_id"]), []).append(product)
    several = [members for members in groups.values() if len(members) > 1]
    assert len(several) >= 60
    for members in several:
        distinct = {
            orjson.dumps([member.get("color"), member.get("size"), member["custom_attributes"]])
            for member in members
        }
        assert len(distinct) == len(members)


def test_stock_prices_and_places_vary(whole: SampleData) -> None:
    shop = [product for product in whole.products if product["type"] != "article"]
    stock = Counter(product["availability"] for product in shop)
    assert stock["IN_STOCK"] > 0.9 * len(shop)
    assert stock["OUT_OF_STOCK"] >= 5
    reduced = [product for product in shop if "sale_price" in product]
    assert 0.05 < len(reduced) / len(shop) < 0.3
    assert all(product["sale_price"] < product["original_price"] for product in reduced)
    assert sum("location" in product for product in shop) > 0.5 * len(shop)


def test_translations_have_different_titles(whole: SampleData) -> None:
    for language in ("de", "fr", "es"):
        name = f"i18n_{language}"
        titled = [product for product in whole.products if name in product]
        described = [product for product in titled if "description" in product[name]]
        assert len(titled) > 300
        assert len(described) > 60
        same = [product["title"] for product in titled if product[name]["title"] == product["title"]]
        assert same == []


def test_nothing_happens_in_the_future_or_before_its_reader_joined(whole: SampleData) -> None:
    joined = {user["user_id"]: user["created_at"] for user in whole.users}
    times = [entry["timestamp"] for entry in whole.interactions]
    assert times == sorted(times)
    assert moment_ms(times[-1]) < NOW_MS
    for entry in whole.interactions:
        if "user_id" in entry:
            assert joined[entry["user_id"]] < entry["timestamp"][:10]


def test_an_edition_names_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, names = compute_edition(), list_data_files()
    monkeypatch.setattr("jobs.playground.loader.list_data_files", lambda: names[:-1])
    assert compute_edition() != whole
    monkeypatch.setattr("jobs.playground.loader.list_data_files", lambda: names)
    assert compute_edition() == whole
