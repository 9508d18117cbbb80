"""Products of partners beside answers: a shop and a magazine in one app, with planted products."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.errors import Invalid
from cluster.records.apps import AppSettings
from tests.fakes.asgi import call
from tests.fakes.corner_shop import upload
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, open_corner
from tests.fakes.small_archive import ARTICLES
from tests.suites.waiting import until

QUESTION = "Who signed the treaty about the water of the river?"
NONSENSE = "zyx qwv unheard of gibberish?"
PARTNER = "tags:partner AND type:product"


def _product(product_id: str, title: str, **more: Any) -> dict[str, Any]:
    return {
        "product_id": product_id,
        "type": "product",
        "title": title,
        "url": f"https://p.example/{product_id}",
        **more,
    }


PRODUCTS = [
    _product("named", "Rope ladder", tags=["partner"], brand="Holm", price=12.5, custom_attributes={"margin": 9}),
    _product("river-map", "Map of the river Ardle", description="Water and treaty lines.", tags=["partner"]),
    _product("own-map", "Map of the river and its water", description="The treaty river."),
    _product("sold-map", "River and water", tags=["partner"], availability="OUT_OF_STOCK"),
    _product("teapot", "Stoneware teapot", description="For four cups.", tags=["partner"]),
]  # fmt: skip


def _magazine() -> list[dict[str, Any]]:
    named = {"related_ids": ["own-map", "named", "sold-map"]}
    return [
        {**article, **named} if article["product_id"] == "river-treaty" else article for article in ARTICLES
    ]


@pytest.fixture
async def corner() -> AsyncIterator[Corner]:
    corner = await open_corner()
    await upload(corner.stores, [*_magazine(), *PRODUCTS], app_id="shop")
    await corner.asking.start()
    yield corner
    await corner.close()


async def ask(corner: Corner, question: str = QUESTION, **settings: Any) -> dict[str, Any]:
    await corner.open_app("shop", settings=AppSettings(limits=PLENTY, **settings))
    headers = {**corner.headers(), "User-Agent": BROWSER}
    accepted = await call(
        corner.handler, "POST", "/v1/ask/questions", headers=headers, json={"question": question}
    )
    path = f"/v1/ask/questions/{accepted.json()['data']['question_id']}/answer"
    record: dict[str, Any] = {}

    async def is_finished() -> bool:
        record.update((await call(corner.handler, "GET", path, headers=headers)).json()["data"])
        assert record["finished"] or record["affiliation_products"] == []
        return bool(record["finished"])

    await until(is_finished)
    return record


async def test_products_of_partners_stand_beside_an_answer_and_no_others(corner: Corner) -> None:
    record = await ask(corner, affiliation_fq=PARTNER)
    assert [source["product_id"] for source in record["sources"]] == ["river-treaty"]
    assert record["affiliation_products"] == [
        {
            "product_id": "named", "title": "Rope ladder", "url": "https://p.example/named", "brand": "Holm",
            "price": 12.5,
        },
        {
            "product_id": "river-map", "title": "Map of the river Ardle", "description": "Water and treaty lines.",
            "url": "https://p.example/river-map",
        },
    ]  # fmt: skip


async def test_a_refused_answer_and_an_app_without_partners_have_none(corner: Corner) -> None:
    refused = await ask(corner, NONSENSE, affiliation_fq=PARTNER)
    assert (refused["sources"], refused["affiliation_products"]) == ([], [])
    assert (await ask(corner))["affiliation_products"] == []
    assert (await ask(corner, affiliation_fq="tags:nobody"))["affiliation_products"] == []


async def test_an_answer_from_memory_has_them_by_the_filter_of_now(corner: Corner) -> None:
    assert (await ask(corner))["affiliation_products"] == []
    again = await ask(corner, affiliation_fq="product_id:river-map")
    assert [affiliation_product["product_id"] for affiliation_product in again["affiliation_products"]] == [
        "river-map"
    ]


async def test_a_field_that_browsers_can_not_read_is_not_shown(corner: Corner) -> None:
    record = await ask(corner, affiliation_fq=PARTNER, confidential_fields=("brand", "price"))
    assert set(record["affiliation_products"][0]) == {"product_id", "title", "url"}


async def test_a_filter_that_no_longer_parses_costs_no_answer(corner: Corner) -> None:
    record = await ask(corner, affiliation_fq="tags:(")
    assert record["finish_reason"] == "success"
    assert record["sources"]
    assert record["affiliation_products"] == []


async def test_a_filter_is_checked_where_it_is_set(corner: Corner) -> None:
    keeping = AppKeyAdmin(corner.stores.access, corner.vault)
    settings = await keeping.set_switches("shop", {"affiliation_fq": PARTNER})
    assert settings.affiliation_fq == PARTNER
    assert (await keeping.set_switches("shop", {"affiliation_fq": ""})).affiliation_fq == ""
    for wrong in ("tags:(", "price < 5"):
        with pytest.raises(Invalid, match="affiliation_fq"):
            await keeping.set_switches("shop", {"affiliation_fq": wrong})
