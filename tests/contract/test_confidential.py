"""What a publishable key does not learn (finding 14), against a whole door with a real recommender."""

from __future__ import annotations

from typing import Any

import pytest

from actors.serving.host import EngineHost
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.apps import CONFIDENTIAL_FIELDS, AppSettings
from tests.fakes.asgi import Answer, call
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, open_corner
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

PRODUCT = {
    "product_id": "p1", "title": "Steel trowel", "price": 14.5, "margin": 0.42, "brand": "Alder",
    "enable_question_answering": True, "html": "<p>The steel trowel is short and strong.</p>",
    "custom_attributes": {"cost_price": 3.25, "supplier": "Fernhill", "handle": "ash"},
    "i18n_de": {"title": "Kelle", "custom_attributes": {"cost_price": 3.25, "handle": "Esche"}},
}  # fmt: skip
SAFE = AppSettings(limits=PLENTY, confidential_fields=CONFIDENTIAL_FIELDS)


@pytest.fixture
async def corner() -> Any:
    clock, stores = SystemClock(), memory_stores()
    host = EngineHost(stores, None, clock, SilentMeter())
    corner = await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host))
    await corner.open_app("shop", settings=SAFE)
    await call(corner.handler, "POST", "/v1/products", headers=corner.headers(), json={"data": [PRODUCT]})
    await corner.apply()
    await host.start()
    yield corner
    await host.close()


async def ask(corner: Corner, path: str, body: Any, *, server: bool = False) -> Answer:
    target = f"/v1/{path}" if server else f"/v1/{path}?api_key={corner.publishable()}"
    headers = corner.headers() if server else {"User-Agent": BROWSER}
    return await call(corner.handler, "POST", target, headers=headers, json=body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("search/mget", {"product_ids": ["p1"], "fl": ["*"]}),
        ("search/mget", {"product_ids": ["p1"]}),
        ("search/search", {"q": "trowel", "fl": ["*"]}),
        ("search/search", {"q": "trowel", "fl": ["custom_attributes", "ma*", "i18n_*"]}),
        ("recommendation/user_to_products", {"fl": ["*"]}),
        ("recommendation/user_to_products", {"fl": ["custom_attributes.*", "*.custom_attributes"]}),
        ("recommendation/user_to_attributes", {"field": "brand", "fl": ["*"]}),
        ("search/autocomplete", {"q": "ste", "fl": ["*"]}),
        ("qa/question_answering", {"q": "steel trowel strong", "min_probability": 0, "fl": ["*"]}),
    ],
)
async def test_what_is_confidential_is_left_out(corner: Corner, path: str, body: Any) -> None:
    reply = await ask(corner, path, body, server=True)
    assert reply.status == 200
    assert b"cost_price" in reply.body or b"margin" in reply.body
    shown = await ask(corner, path, body)
    assert shown.status == 200, shown.body
    for secret in (b"margin", b"cost_price", b"supplier", b"3.25", b"Fernhill"):
        assert secret not in shown.body
    assert b"ash" in shown.body or b"Steel" in shown.body


@pytest.mark.parametrize(
    "body",
    [
        {"fl": ["margin"]},
        {"fl": ["attributes.cost_price"]},
        {"fl": ["i18n_de.custom_attributes.cost_price"]},
        {"fq": "margin:[0.4 TO *]"},
        {"fq": "brand:Alder AND NOT (attributes.supplier:Fern* OR title:x)"},
        {"fq": "custom_attributes:Fernhill"},
        {"boost_fq": "custom_attributes.cost_price:3.25"},
        {"boost_rules": [{"boost_fq": "margin:1"}]},
        {"facets": ["custom_attributes.supplier"]},
        {"facets": [{"field": "x", "queries": [{"query": "margin:[0 TO 1]", "key": "k"}]}]},
        {"facet_filters": {"custom_attributes.supplier": {"terms": ["Fernhill"]}}},
        {"order_by": [{"field": "margin"}]},
        {"order_by": [{"field": "price * margin + 1"}]},
        {"diversification": {"custom_attributes.supplier": {}}},
        {"advanced_q": "margin:0.42"},
        {"custom_context": {"margin": 0.42}},
        {"custom_context": {"attributes.supplier": ["Fernhill"]}},
    ],
)
async def test_confidential_fields_neither_match_nor_count(corner: Corner, body: Any) -> None:
    full = body if "advanced_q" in body else {"q": "trowel", **body}
    assert (await ask(corner, "search/search", full, server=True)).status == 200
    refused = await ask(corner, "search/search", full)
    assert refused.status == 422, refused.body
    assert "confidential" in refused.json()["detail"][0]["msg"]


async def test_other_parameters_name_no_confidential_field_either(corner: Corner) -> None:
    for path, body in (
        ("recommendation/user_to_attributes", {"field": "custom_attributes.supplier"}),
        ("search/autocomplete", {"q": "f", "completion_fields": ["custom_attributes.supplier"]}),
        ("qa/question_answering", {"q": "steel", "min_probability": 0, "fl": ["margin"]}),
        ("ask/search_autocomplete", {"q": "f", "completion_fields": ["attributes.supplier"]}),
        ("ask/search", {"q": "x", "fl": ["margin"]}),
        ("ask/search", {"q": "x", "fq": "margin:1"}),
        ("recommendation/user_to_products", {"custom_context": {"margin": 0.42}}),
        ("ask/questions", {"question": "x", "fq": "margin:[0.4 TO *]"}),
        ("ask/questions", {"question": "x", "boost_fq": "brand:Alder OR attributes.supplier:Fern*"}),
        ("ask/questions", {"question": "x", "source_fl": ["margin"]}),
        ("ask/questions", {"question": "x", "source_fl": ["*"]}),
    ):
        assert (await ask(corner, path, body)).status == 422, path
    for fine in (
        {"fl": ["title", "custom_attributes.handle"]},
        {"fq": "custom_attributes.handle:ash"},
        {"custom_context": {"children": 2, "brand": "Alder"}},
    ):
        assert (await ask(corner, "search/search", {"q": "trowel", **fine})).status == 200


async def test_an_app_may_show_everything(corner: Corner) -> None:
    await corner.open_app("shop", settings=AppSettings(limits=PLENTY))
    shown = await ask(corner, "search/mget", {"product_ids": ["p1"]})
    assert b"cost_price" in shown.body


async def test_no_browser_learns_what_few_people_searched_for(corner: Corner) -> None:
    async def typed(query: str, people: int, ip: str) -> None:
        for n in range(people):
            event = {"type": "search", "anonymous_id": f"{query}-{n}", "search": {"keywords": query}}
            await call(
                corner.handler, "POST", f"/v1/interactions?api_key={corner.publishable()}",
                headers={"User-Agent": BROWSER}, json={"data": [event]}, client=(ip.format(n), 1),
            )  # fmt: skip

    await typed("private disease of victim jane", 1, "192.0.2.1")
    await typed("jerk shop buy cheap", 6, "192.0.2.2")
    await typed("please visit evil.example", 6, "192.0.2.{}")
    await typed("jute string", 6, "198.51.100.{}")
    request = {"completion_fields": ["historical_queries"], "min_query_users": 1, "rows": 20}

    async def complete(start: str, *, server: bool = False) -> list[str]:
        answer = await ask(corner, "search/autocomplete", {**request, "q": start}, server=server)
        return [
            historical_query["text"]
            for historical_query in answer.json()["data"]["completions"]["historical_queries"]
        ]

    async def is_counted() -> bool:
        return bool(await complete("ju"))

    await until(is_counted)
    assert await complete("ju") == ["jute string"]
    assert await complete("private") == []
    assert await complete("jerk") == []
    assert await complete("please") == []
    assert await complete("private", server=True) == ["private disease of victim jane"]


async def test_only_the_secret_key_explains_searches(corner: Corner) -> None:
    body = {"q": "trowel", "explain": True}
    refused = await ask(corner, "search/search", body)
    assert refused.status == 403
    assert refused.json()["message"] == "Publishable key is not allowed to explain; use the secret key"
    explained = (await ask(corner, "search/search", body, server=True)).json()["data"]["products"][0][
        "_explain"
    ]
    assert explained["score"] == pytest.approx(sum(explained["score_parts"].values()))
    assert (explained["rank"], explained["place"]) == (0, 0)
