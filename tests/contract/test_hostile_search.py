"""Hostile searches, through the door and down to the recommender: an answer or a 422, quickly, never a stall."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import pytest

from actors.serving.host import EngineHost
from cluster.meter import SilentMeter
from tests.fakes.asgi import Answer, call
from tests.fakes.corner_shop import APP, NOW_MS, PRODUCTS, upload
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import BROWSER, Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores

MOST_MS = 100
"Of processor time, over 1,000 products."

POISON: list[dict[str, Any]] = [
    {
        "product_id": "large",
        "type": "x",
        "title": "steel",
        "price": 1e308,
        "rating": -1e308,
        "margin": 5e-324,
    },
    {
        "product_id": "long",
        "type": "x",
        "title": "steel " * 20_000,
        "brand": "b" * 100_000,
        "tags": ["t"] * 5_000,
    },
    {
        "product_id": "wide",
        "type": "x",
        "title": "steel",
        "custom_attributes": {f"a{at}": at for at in range(5_000)},
    },
    {
        "product_id": "nul",
        "type": "x",
        "title": "steel\x00\x1b[31m",
        "tags": ["\x00", "\u202e", "'; DROP", "=1+1"],
    },
    {
        "product_id": "around",
        "type": "x",
        "title": "steel",
        "categories": [["A", "B", "A", "B"], [], ["", ""]],
    },
    {"product_id": "empty", "type": "x", "title": "", "tags": [], "categories": [], "custom_attributes": {}},
    {
        "product_id": "odd",
        "type": "x",
        "title": "steel",
        "custom_attributes": {"a.b": 1, "": 2, "a": {"b": [None]}},
    },
]
MANY = [
    {"product_id": f"p{at}", "type": "x", "title": f"steel part {at}", "price": at, "tags": [f"t{at % 50}"]}
    for at in range(1_000)
]


@pytest.fixture
async def corner() -> AsyncIterator[Corner]:
    clock = StillClock(NOW_MS)
    stores = memory_stores(clock)
    for batch in (PRODUCTS, POISON, MANY):
        await upload(stores, batch)
    host = EngineHost(stores, None, clock, SilentMeter())
    await host.start()
    yield await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host))
    await host.close()


async def ask(corner: Corner, **body: Any) -> Answer:
    headers = {"X-API-KEY": corner.secret(APP), "User-Agent": BROWSER}
    return await call(
        corner.handler, "POST", "/v1/search/search", headers=headers, body=json.dumps(body).encode()
    )


ANSWERED: dict[str, dict[str, Any]] = {
    "10 KB of words": {"q": "steel " * 2_000},
    "10 KB of different words": {"q": " ".join(f"w{at}x" for at in range(2_000))},
    "10 KB in one word": {"q": "a" * 10_240},
    "10 KB of wrong words, in part": {"q": "stele prat " * 900, "enable_partial_match": True},
    "control characters": {"q": "\x00\x01\x1b[31mste\x07el\x7f\r\n"},
    "nothing but signs": {"q": "?!.,;:-_#'\"()[]{}"},
    "stars": {"q": "*" * 10_000},
    "quotes": {"q": '"' * 10_000},
    "right to left and zero width": {"q": "\u202este\u200bel\u202c"},
    "four bytes": {"q": "🛒" * 2_000},
    "markup": {"q": "<script>alert(1)</script> steel"},
    "a filter as a query": {"q": "brand:Alder AND (price:[1 TO"},
    "a language nobody speaks": {"q": "steel", "language": "xx"},
    "meaning of a long text": {"q": "steel", "like": "steel part " * 5_000, "enable_semantic_search": True},
    "a division by zero": {"q": "*", "order_by": [{"field": "1 / (price - price)"}]},
    "a tower of powers": {"q": "*", "order_by": [{"field": "9 ** 9 ** 9 ** 9 ** 9 ** price"}]},
    "exponentials": {"q": "*", "order_by": [{"field": "exp(exp(exp(exp(price))))"}]},
    "logarithms of nothing": {"q": "*", "order_by": [{"field": "log(0 - price) + sqrt(-1) + asin(2) % 0"}]},
    "as long as a formula may be": {"q": "*", "order_by": [{"field": "price" + "+1" * 99}]},
    "numbers without end": {"q": "*", "order_by": [{"field": "price * rating", "tie_breaker": {"threshold": 1e308}}]},
    "patterns that backtrack elsewhere": {
        "q": "*",
        "facets": [{"field": "tags", "include": text} for text in ("(a+)+", "(a|a)*b", "(t?t?t?t?)*1", ".*.*.*.*x")],
    },
    "a value of every product": {"q": "*", "facets": ["product_id", "title", "tags", "custom_attributes.a7"]},
    "odd names": {"q": "*", "facets": ["custom_attributes.a.b", "custom_attributes.\u202e", "custom_attributes. "]},
    "infinite ranges": {"q": "*", "facets": [{"field": "price", "ranges": [{"from": -1e308, "to": 1e308, "key": ""}]}]},
    "the end of time": {
        "q": "*",
        "facets": [{"field": "published_at", "ranges": [{"from": "0001-01-01", "to": "9999-12-31", "key": "k"}]}],
    },
    "as many phrases as there may be": {
        "advanced_q": " OR ".join(f'full_text:"steel part {at}"' for at in range(16)),
    },
    "a leading star": {"q": "*", "fq": "tags:*7"},
    "everything excluded": {"q": "*", "exclude": [f"p{at}" for at in range(1_000)]},
    "a thousand anchors": {
        "q": "*", "rows": 1_000,
        "anchoring_settings": [{"product_id": f"p{at}", "anchor_ids": [f"p{at + 1}"]} for at in range(100)],
    },
}  # fmt: skip

REFUSED: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "more than 64 KB": ({"q": "a" * 65_537}, ["q"]),
    "a language in two characters": ({"q": "a", "language": "日本"}, ["language"]),
    "local parameters": ({"q": "a", "fq": "{!join from=a to=b}x"}, ["fq"]),
    "a query in a query": ({"advanced_q": '_query_:"x"'}, ["advanced_q"]),
    "a function query": ({"advanced_q": "_val_:recip(x)"}, ["advanced_q"]),
    "64 KB of a boolean query": ({"advanced_q": "a:1 OR " * 9_000}, ["advanced_q"]),
    "10,000 clauses": ({"advanced_q": "a:1 " * 8_000}, ["advanced_q"]),
    "depth 10,000": ({"advanced_q": "(" * 10_000 + "a" + ")" * 10_000}, ["advanced_q"]),
    "phrases without end": (
        {"advanced_q": " OR ".join(f'full_text:"steel part {at}"' for at in range(17))}, ["advanced_q"],
    ),
    "words without end in all texts": ({"advanced_q": "steel " * 33}, ["advanced_q"]),
    "parentheses": ({"q": "a", "order_by": [{"field": "(" * 900}]}, ["order_by", 0, "field"]),
    "too deep a formula": (
        {"q": "a", "order_by": [{"field": "sin(" * 40 + "1" + ")" * 40}]}, ["order_by", 0, "field"],
    ),
    "too long a formula": ({"q": "a", "order_by": [{"field": "1" + "+1" * 490}]}, ["order_by", 0, "field"]),
    "remainders without end": ({"q": "a", "order_by": [{"field": "1" + "%price" * 61}]}, ["order_by", 0, "field"]),
    "functions in many formulas": (
        {"q": "a", "order_by": [{"field": "sin(price)" + "+cos(rating)" * 6} for _ in range(9)]},
        ["order_by", 8, "field"],
    ),
    "a loop": ({"q": "a", "order_by": [{"field": "while(1)"}]}, ["order_by", 0, "field"]),
    "python": ({"q": "a", "order_by": [{"field": "().__class__"}]}, ["order_by", 0, "field"]),
    "a pattern of too many states": (
        {"q": "a", "facets": [{"field": "tags", "include": ".*a.{12}"}]}, ["facets", 0, "include"],
    ),
    "repetitions of repetitions": (
        {"q": "a", "facets": [{"field": "tags", "include": "((a{1,100}){1,100}){1,100}"}]}, ["facets", 0, "include"],
    ),
    "patterns that are too much together": (
        {"q": "a", "facets": [{"field": "tags", "include": ".*a.{7}"} for _ in range(32)]}, ["facets"],
    ),
    "filters that are too much together": (
        {"q": "a", "facets": [{"field": "x", "queries": [{"query": f"tags:*{at}*", "key": "k"} for at in range(17)]}]},
        ["facets"],
    ),
    "wildcards for fields without end": ({"q": "a", "fl": ["a*b*c*d*" * 50 + str(at) for at in range(65)]}, ["fl"]),
    "the names of fields in 64 KB": ({"q": "a", "fl": ["a" * 512] * 128}, ["fl"]),
    "too many facets": ({"q": "a", "facets": ["tags"] * 33}, ["facets"]),
}  # fmt: skip


async def quickest(corner: Corner, body: dict[str, Any]) -> tuple[Answer, float]:
    """Ask up to four times; processor time, for what neighbours do to the clock is not the body's fault."""
    least_ms = float("inf")
    for _ in range(4):
        begin = time.process_time()
        answer = await ask(corner, **body)
        least_ms = min(least_ms, (time.process_time() - begin) * 1000)
        if least_ms <= MOST_MS:
            break
    return answer, least_ms


async def test_hostile_searches_are_answered_or_refused_quickly(corner: Corner) -> None:
    slow: list[tuple[str, float]] = []
    for name, body in ANSWERED.items():
        answer, took_ms = await quickest(corner, body)
        assert answer.status == 200, (name, answer.body[:300])
        reply = answer.json()["data"]
        if "q" in body:
            assert reply["spellcheck"]["original_query"] == body["q"], name
            assert (
                unescape(
                    reply["spellcheck"]["original_query_with_markups"]
                    .replace("<mark>", "")
                    .replace("</mark>", "")
                )
                == body["q"]
            )
        assert b"<script" not in json.dumps(reply["spellcheck"]["original_query_with_markups"]).encode()
        slow += [(name, took_ms)] if took_ms > MOST_MS else []
    for name, (body, place) in REFUSED.items():
        answer, took_ms = await quickest(corner, body)
        assert answer.status == 422, (name, answer.status, answer.body[:300])
        loc = answer.json()["detail"][0]["loc"]
        assert loc[: len(place) + 1] == ["body", *place], (name, loc)
        slow += [(name, took_ms)] if took_ms > MOST_MS else []
    assert not slow


async def test_poisonous_records_match_count_and_sort_like_others(corner: Corner) -> None:
    sought = ["large", "long", "wide", "nul", "around", "odd"]
    for order in ("price", "rating", "margin", "price * price", "custom_attributes.a7"):
        answer = await ask(
            corner,
            q="steel",
            fl=["price"],
            order_by=[{"field": order}],
            facets=["tags", "price", "categories"],
            query_product_existence={"product_ids": sought},
        )
        assert answer.status == 200, answer.body[:300]
        assert answer.json()["data"]["product_existence"] == dict.fromkeys(sought, True)
    (first,) = (await ask(corner, q="*", rows=1, order_by=[{"field": "price"}])).json()["data"]["products"]
    assert first["product_id"] == "large"


async def test_products_of_another_app_neither_match_nor_appear_nor_count(corner: Corner) -> None:
    theirs = {"product_id": "theirs", "type": "x", "title": "steel zeppelin", "brand": "Zep"}
    await upload(corner.stores, [theirs], app_id="other")
    headers = {"X-API-KEY": corner.secret("other"), "User-Agent": BROWSER}
    body = json.dumps({"q": "zeppelin", "include": ["hand-fork"], "facets": ["brand"]}).encode()
    data = (await call(corner.handler, "POST", "/v1/search/search", headers=headers, body=body)).json()[
        "data"
    ]
    assert [product["product_id"] for product in data["products"]] == ["theirs"]
    assert data["facet_counts"]["facet_fields"] == {"brand": [["Zep", 1]]}
    foreign = await ask(corner, q="zeppelin", facets=["brand"], include=["theirs"])
    unknown = await ask(corner, q="zeppelin", facets=["brand"], include=["nobody"])
    for answer in (foreign, unknown):
        data = answer.json()["data"]
        assert (data["total"], data["facet_counts"]) == (0, {"facet_fields": {"brand": []}})
    named = await call(
        corner.handler,
        "POST",
        "/v1/search/mget",
        headers={"X-API-KEY": corner.secret(APP), "User-Agent": BROWSER},
        body=b'{"product_ids": ["theirs"]}',
    )
    assert named.json()["data"]["products"] == [{"_found": False, "product_id": "theirs"}]
