"""What a query hears that is answered and most probably not what was meant: over the corner shop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.records.apps import AppSettings
from cluster.records.validation.boost_rules import read_rules
from tests.contract.served_shop import open_served_shop
from tests.fakes.asgi import call
from tests.fakes.corner_shop import APP
from tests.fakes.request_handler import BROWSER, PLENTY, Corner

PRIZE = {
    "field": "prize",
    "parameter": "fq",
    "message": "no product has the field prize",
    "did_you_mean": "price",
}


@pytest.fixture
async def corner() -> AsyncIterator[Corner]:
    async with open_served_shop() as corner:
        yield corner


async def ask(corner: Corner, path: str, *, browser: bool = False, **body: Any) -> dict[str, Any]:
    headers = {"X-API-KEY": corner.publishable() if browser else corner.secret(), "User-Agent": BROWSER}
    answer = await call(corner.handler, "POST", f"/v1/{path}", headers=headers, json=body)
    assert answer.status == 200, answer.body
    data: dict[str, Any] = answer.json()["data"]
    return data


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("recommendation/user_to_products", {}),
        ("recommendation/user_to_trending", {}),
        ("recommendation/user_to_categories", {}),
        ("recommendation/user_to_attributes", {"field": "brand"}),
        ("recommendation/product_to_products", {"product_id": "hand-fork"}),
        ("search/search", {"q": "*"}),
        ("search/autocomplete", {"q": "tr"}),
        ("qa/question_answering", {"q": "What is mulch?", "min_probability": 0.5}),
        ("ask/search", {"q": "trowel", "answer": False}),
    ],
)
async def test_a_filter_on_an_absent_field_gives_a_message(
    corner: Corner, path: str, body: dict[str, Any]
) -> None:
    data = await ask(corner, path, **body, fq="prize:[1 TO 5]")
    assert data["warnings"] == [PRIZE]
    assert "warnings" not in await ask(corner, path, **body, fq="price:[1 TO 5]")
    assert "warnings" not in await ask(corner, path, **body)


async def test_every_parameter_that_names_fields_is_looked_at(corner: Corner) -> None:
    data = await ask(
        corner, "search/search", q="*",
        boost_fq="bramd:Alder", boost_rules=[{"boost_fq": "tag:steel"}],
        order_by=[{"field": "custom_attributes.popularity"}, {"field": "custom_attributes.stock * 2 + price"}],
        facets=["subtitle", {"field": "cheap", "queries": [{"query": "custom_attributes.Grip:x", "key": "x"}]}],
        facet_filters={"color": {"terms": ["x"]}},
        diversification={"publishers": {}},
        geo={"filter": [{"lat": 1, "lon": 1, "distance": 1, "field": "place"}]},
    )  # fmt: skip
    assert [
        (warning["parameter"], warning["field"], warning.get("did_you_mean")) for warning in data["warnings"]
    ] == [
        ("boost_fq", "bramd", "brand"),
        ("boost_rules[0].boost_fq", "tag", "tags"),
        ("order_by", "custom_attributes.popularity", None),
        ("order_by", "custom_attributes.stock", None),
        ("facets", "subtitle", None),
        ("facets", "custom_attributes.Grip", "custom_attributes.grip"),
        ("facet_filters", "color", None),
        ("diversification", "publishers", None),
        ("geo.filter", "place", None),
    ]
    data = await ask(corner, "recommendation/user_to_attributes", field="custom_attributes.gripp")
    assert data["warnings"][0] | {"message": ""} == {
        "field": "custom_attributes.gripp",
        "parameter": "field",
        "message": "",
        "did_you_mean": "custom_attributes.grip",
    }
    data = await ask(
        corner, "search/autocomplete", q="x", completion_fields=["title", "custom_attributes.nope"]
    )
    assert [warning["parameter"] for warning in data["warnings"]] == ["completion_fields"]


async def test_a_custom_attribute_without_its_prefix_is_recognised(corner: Corner) -> None:
    data = await ask(corner, "recommendation/user_to_products", fq="grip:green")
    assert data["warnings"][0]["did_you_mean"] == "custom_attributes.grip"


async def test_the_fields_of_stored_rules_and_full_text_are_not_the_callers_fault(corner: Corner) -> None:
    await corner.stores.boost_rules.put(APP, read_rules([{"name": "old", "boost_fq": "gone:1"}]))
    corner.clock.pass_ms(2_000)
    assert "warnings" not in await ask(corner, "search/search", advanced_q="full_text:trowel")


async def test_warnings_are_few_and_a_confidential_field_is_never_suggested(corner: Corner) -> None:
    wild = " OR ".join(f"x{at}:1" for at in range(40))
    assert len((await ask(corner, "search/search", q="*", fq=wild))["warnings"]) == 10
    settings = AppSettings(limits=PLENTY, confidential_fields=("custom_attributes.grip",))
    await corner.open_app("shop", settings=settings)
    path = "recommendation/user_to_products"
    assert "did_you_mean" in (await ask(corner, path, fq="gripp:green"))["warnings"][0]
    assert "did_you_mean" not in (await ask(corner, path, fq="gripp:green", browser=True))["warnings"][0]


async def test_a_missing_anchor_is_reported(corner: Corner) -> None:
    path = "recommendation/product_to_products"
    for body in ({"product_id": "nope"}, {"product_ids": ["no", "nope"]}, {"product_group_id": "nope"}):
        data = await ask(corner, path, **body)
        assert data["anchor_found"] is False
        assert data["products"]
    for body in (
        {"product_id": "hand-fork"},
        {"product_ids": ["nope", "hand-fork"]},
        {"product_group_id": "trowel"},
    ):
        assert "anchor_found" not in await ask(corner, path, **body)
    assert "anchor_found" not in await ask(corner, "recommendation/user_to_products")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("price < 5", "price:[* TO 5]"),
        ("price<5", "price:[* TO 5]"),
        ("price <= 5", "price:[* TO 5]"),
        ("brand:Alder AND price >5", "price:[5 TO *]"),
        ("price >= 5", "price:[5 TO *]"),
        ("brand = Alder", "brand:Alder"),
        ("price == 5", "price:5"),
    ],
)
async def test_a_comparison_hears_how_it_is_written(corner: Corner, text: str, written: str) -> None:
    answer = await call(
        corner.handler, "POST", "/v1/search/search", headers=corner.headers(), json={"q": "*", "fq": text}
    )
    (fault,) = answer.json()["detail"]
    assert answer.status == 422
    assert written in fault["msg"]
    assert "needs a field" not in fault["msg"]
