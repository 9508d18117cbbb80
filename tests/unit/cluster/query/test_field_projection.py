"""`fl`: chosen fields, nested objects, wildcards."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.query.field_projection import MOST_NAMES, MOST_WILDCARDS, Projection, exceeded_budget
from tests.unit.cluster.query.strategies import steps_of

RECORD: dict[str, Any] = {
    "product_id": "p-1",
    "title": "Trowel",
    "price": 3,
    "sale_price": 2,
    "size": None,
    "custom_attributes": {"year": 1999, "color": "red", "a.b": 1, "deep": {"x": {"y": 1, "z": 2}}},
    "children": [{"id": "1", "title": "One"}, {"id": "2"}, {"html": "x"}],
    "i18n_de": {"title": "Kelle", "url": "u"},
    "tags": ["a", "b"],
}
ID = {"product_id": "p-1"}


@pytest.mark.parametrize(
    ("fl", "picked"),
    [
        ([], {}),
        (["*"], RECORD),
        (["title", "*", "nowhere"], RECORD),
        (["title", "price"], {"title": "Trowel", "price": 3}),
        (["product_id"], {}),
        (["nowhere", "title.x", "tags.x", "", ".", "a..b"], {}),
        (["size"], {"size": None}),
        (["custom_attributes.year"], {"custom_attributes": {"year": 1999}}),
        (["attributes.year", "custom_attributes.color"], {"custom_attributes": {"year": 1999, "color": "red"}}),
        (["attributes"], {"custom_attributes": RECORD["custom_attributes"]}),
        (["custom_attributes.a.b"], {"custom_attributes": {"a.b": 1}}),
        (["custom_attributes.*"], {"custom_attributes": RECORD["custom_attributes"]}),
        (["custom_attributes.*r"], {"custom_attributes": {"year": 1999, "color": "red"}}),
        (["custom_attributes.deep.x.y"], {"custom_attributes": {"deep": {"x": {"y": 1}}}}),
        (
            ["custom_attributes.*.*.z", "custom_attributes.deep.x.y"],
            {"custom_attributes": {"deep": {"x": {"y": 1, "z": 2}}}},
        ),
        (["*_price", "pri*"], {"price": 3, "sale_price": 2}),
        (["title", "custom_attributes.*"], {"title": "Trowel", "custom_attributes": RECORD["custom_attributes"]}),
        (["i18n_*.title"], {"i18n_de": {"title": "Kelle"}}),
        (["*.title"], {"children": [{"title": "One"}], "i18n_de": {"title": "Kelle"}}),
        (["children.id"], {"children": [{"id": "1"}, {"id": "2"}]}),
        (["children.nowhere"], {}),
        (["custom_attributes", "custom_attributes.year"], {"custom_attributes": RECORD["custom_attributes"]}),
        (["t?tle"], {}),
        (["cust*year"], {}),
    ],
)  # fmt: skip
def test_a_projection_picks(fl: list[str], picked: dict[str, Any]) -> None:
    projection = Projection.of(fl)
    assert projection(RECORD) == ID | picked
    assert projection(RECORD) == ID | picked


def test_the_id_comes_first_and_the_record_stays_as_it_is() -> None:
    record = {"title": "Trowel", "product_id": "p-1"}
    picked = Projection.of(["title"])(record)
    picked["_boosted"] = True
    assert list(picked) == ["product_id", "title", "_boosted"]
    assert record == {"title": "Trowel", "product_id": "p-1"}
    everything = Projection.of(["*"])(record)
    everything["_boosted"] = True
    assert "_boosted" not in record


def test_a_user_has_no_product_id() -> None:
    assert Projection.of(["name"])({"user_id": "gina-7", "name": "Gina"}) == {"name": "Gina"}


def test_absurd_names_are_nothing() -> None:
    absurd = ["a" * 1_000, "a." * 1_000, "*a" * 250, ".*" * 200, "*a????????????????*"]
    assert Projection.of([*absurd, "title"])(RECORD) == ID | {"title": "Trowel"}


def test_a_wildcard_is_decided_once_a_name() -> None:
    projection = Projection.of(["*_price", "custom_attributes.c*"])
    first = steps_of(lambda: projection(RECORD))
    assert steps_of(lambda: projection(RECORD)) < first / 3


def test_lists_within_their_budgets_take_a_bounded_number_of_steps() -> None:
    record = {**RECORD, **{f"field{at}": at for at in range(20)}}
    dear = ["a*b*c*d*e*" * 20 + f"{at}.x*" for at in range(MOST_WILDCARDS)]
    deep = [".".join("ab" for _ in range(10)) + str(at) for at in range(MOST_NAMES)]
    assert exceeded_budget(dear) == exceeded_budget(deep) == ""
    assert steps_of(lambda: Projection.of(dear)(record)) < 5_000_000
    assert steps_of(lambda: Projection.of(deep)(record)) < 5_000_000
    once = Projection.of(dear)
    once(record)
    assert steps_of(lambda: once(record)) < 3_000


def test_each_exceeded_budget_has_a_message() -> None:
    assert exceeded_budget(["*", "custom_attributes.*", *map(str, range(900))]) == ""
    assert "fields" in exceeded_budget(["a"] * (MOST_NAMES + 1))
    assert "characters" in exceeded_budget(["a" * 512] * 65)
    assert "*" in exceeded_budget([f"a{at}*" for at in range(MOST_WILDCARDS + 1)])
