from __future__ import annotations

from typing import Any

import pytest

from actors.recommender.messages import Circle
from actors.recommender.state.catalog import Catalog
from cluster.query.language.parser import parse
from tests.fakes.corner_shop import PRODUCTS


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    for product in PRODUCTS:
        made.put(product)
    return made


def _ids(catalog: Catalog, mask: Any) -> set[str]:
    return {catalog.product_ids[row] for row in mask.nonzero()[0]}


def test_rows_stay_with_their_products(catalog: Catalog) -> None:
    row = catalog.row_of("draw-hoe")
    catalog.put({"product_id": "draw-hoe", "title": "Hoe"})
    assert catalog.row_of("draw-hoe") == row
    assert catalog.record(row) == {"product_id": "draw-hoe", "title": "Hoe"}
    assert catalog.products == 12


def test_filters_circles_and_types_mark_rows(catalog: Catalog) -> None:
    assert _ids(catalog, catalog.filter_mask(parse("brand:Birk AND price:[25 TO *]"))) == {
        "bread-knife",
        "carving-knife",
    }
    assert _ids(catalog, catalog.near_mask(Circle(53.8, -1.55, 10))) == {"trowel-green"}
    assert _ids(catalog, catalog.type_mask("book")) == {"garden-almanac"}
    assert not catalog.type_mask("hotel").any()


def test_products_out_of_stock_are_there_but_not_offered(catalog: Catalog) -> None:
    row = catalog.row_of("teapot")
    assert catalog.present[row]
    assert not catalog.offered[row]
    catalog.put({"product_id": "teapot", "availability": "PRE_ORDER"})
    assert catalog.offered[row]


def test_a_removed_product_is_in_no_mask_and_may_come_back(catalog: Catalog) -> None:
    row = catalog.remove("bread-knife")
    assert not catalog.present[row]
    assert "bread-knife" not in _ids(catalog, catalog.filter_mask(parse("brand:Birk")))
    assert catalog.record(row) == {}
    assert catalog.remove("bread-knife") == row
    assert catalog.products == 11
    catalog.put({"product_id": "bread-knife", "brand": "Birk"})
    assert catalog.row_of("bread-knife") == row
    assert catalog.offered[row]


def test_variants_find_each_other_as_long_as_they_belong_together(catalog: Catalog) -> None:
    green, red = catalog.row_of("trowel-green"), catalog.row_of("trowel-red")
    assert sorted(catalog.expand_variants([green])) == sorted([green, red])
    assert catalog.row_of("group:trowel") == green
    catalog.put({"product_id": "trowel-red", "product_group_id": "other"})
    assert catalog.expand_variants([green]) == [green]
    catalog.remove("trowel-green")
    assert catalog.row_of("group:trowel") == -1
    assert catalog.expand_variants([green]) == [green]


def test_a_product_clicked_before_its_upload_has_a_row_waiting(catalog: Catalog) -> None:
    row = catalog.get_or_add_row("soon")
    assert catalog.row_of("soon") == row
    assert not catalog.present[row]
    assert len(catalog.filter_mask(parse("*:*"))) == len(catalog) == 13
    assert catalog.put({"product_id": "soon"}) == row


def test_made_up_products_cannot_fill_the_memory() -> None:
    catalog = Catalog(most_unknown=3)
    assert [catalog.get_or_add_row(f"made-up-{n}") for n in range(6)] == [0, 1, 2, -1, -1, -1]
    assert catalog.put({"product_id": "real"}) == 3
    assert catalog.get_or_add_row("group:nobody") == -1


def test_removed_products_take_no_place_of_unknown_ones() -> None:
    catalog = Catalog(most_unknown=2)
    for number in range(4):
        catalog.put({"product_id": f"p-{number}"})
        catalog.remove(f"p-{number}")
    assert [catalog.get_or_add_row(name) for name in ("soon", "later", "never", "p-0")] == [4, 5, -1, 0]
    # An upload makes room for another unknown product, and again it does not.
    catalog.put({"product_id": "soon"})
    catalog.put({"product_id": "soon"})
    catalog.put({"product_id": "p-0"})
    assert [catalog.get_or_add_row(name) for name in ("never", "at-all")] == [6, -1]
    catalog.remove("soon")
    catalog.put({"product_id": "soon"})
    assert catalog.get_or_add_row("at-all") == -1


def test_attribute_groups_follow_changes(catalog: Catalog) -> None:
    groups = catalog.group_by_attribute("tags")
    assert dict(zip(groups.values, groups.count_rows(catalog.present).tolist(), strict=True))["steel"] == 6
    catalog.remove("bread-knife")
    catalog.put({"product_id": "new", "tags": ["steel", "new"]})
    catalog.put({"product_id": "newer", "tags": ["steel"]})
    assert catalog.group_by_attribute("tags") is groups
    assert dict(zip(groups.values, groups.count_rows(catalog.present).tolist(), strict=True))["steel"] == 7
    assert catalog.group_by_attribute("attributes.grip").values == ["green", "red"]
    assert catalog.group_by_attribute("custom_attributes.grip").values == ["green", "red"]
    assert catalog.group_by_attribute("no_such_field").values == []


def test_categories_hold_every_level_of_every_path(catalog: Catalog) -> None:
    totals = dict(
        zip(catalog.categories.values, catalog.categories.count_rows(catalog.present).tolist(), strict=True)
    )
    assert totals[("Garden",)] == 7
    assert totals["Garden", "Bulbs"] == 2


def test_numbers_and_switches_group_as_they_are_written() -> None:
    catalog = Catalog()
    catalog.put({"product_id": "a", "rating": 4, "custom_attributes": {"new": True, "sizes": ["S", "M"]}})
    assert catalog.group_by_attribute("rating").values == ["4"]
    assert catalog.group_by_attribute("custom_attributes.new").values == ["true"]
    assert sorted(catalog.group_by_attribute("custom_attributes.sizes").values) == ["M", "S"]
