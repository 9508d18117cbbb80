"""Searches, completions and reads by id over the market and the playground."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.golden.caller import Caller
from tests.golden.catalog import BRANDS, SHELVES, TAGS, USERS, WORDS, product_id, user_id
from tests.golden.installation import MARKET
from tests.golden.recommending import FILTERS

_THINGS = [thing for _, _, things in SHELVES for thing in things]
_SHOP_WORDS = [
    "trowel",
    "tulip bulbs",
    "coffee",
    "river treaty",
    "tent two",
    "puzzle",
    "bread",
    "gardening book",
    "tart",
]
ORDERS: list[list[dict[str, Any]]] = [
    [{"field": "price"}],
    [{"field": "price", "order": "asc"}],
    [{"field": "rating * 10 - price"}],
    [{"field": "_personalization_score"}, {"field": "price"}],
    [{"field": "created_at"}],
    [{"field": "price", "tie_breaker": {"threshold": 0.3}}, {"field": "rating", "default_value": 2}],
    [{"field": "_geo_distance", "order": "asc", "geo": {"lat": 53, "lon": -1}, "default_value": 9e5}],
    [{"field": "_search_score + log(1 + price)"}],
]
FACETS: list[list[Any]] = [
    ["brand"],
    ["tags", "type"],
    [{"field": "price", "alias": "band", "ranges": [{"to": 20, "key": "a"}, {"from": 20, "key": "b"}]}],
    [{"field": "brand", "size": 3, "include": "[A-F].*"}],
    [{"field": "x", "queries": [{"query": "tags:eco", "key": "eco"}]}],
    ["custom_attributes.finish", "rating", "categories"],
]
BROKEN: list[dict[str, Any]] = [
    {},
    {"q": 5},
    {"q": ""},
    {"q": "x", "rows": 2_000},
    {"advanced_q": "brand:("},
    {"q": "x", "order_by": [{"field": "title"}]},
    {"q": "x", "order_by": [{"field": "price +"}]},
    {"q": "x", "facets": ["nothing_known"]},
    {"q": "x", "facets": [{"field": "brand", "include": "("}]},
    {"q": "x", "facet_filters": {"brand": 5}},
    {"q": "x", "language": "english"},
    {"q": "x", "personalization_weight": 101},
    {"q": "x", "semantic_search_threshold": 2},
    {"q": "x", "partial_match_mode": "separated"},
    {"q": "x", "spellcheck": 1},
    {"q": "x", "anchoring_settings": [{"product_id": "a"}]},
    {"q": "x", "exclude_fields_from_search": ["brand"]},
    {"q": "x", "order_by": [{"field": "_geo_distance"}]},
    {"q": "x", "facets": [{"field": "price", "ranges": [{"key": "a"}]}]},
    {"advanced_q": "full_text:a*"},
    {"q": "x", "fq": "colour:red"},
    {"q": "x", "include": 5},
    {"q": "x" * 70_000},
]


async def search(caller: Caller, count: int = 420) -> None:
    """Send generated searches."""
    random = Random("search")
    for _ in range(count):
        await caller.post("/v1/search/search", _body(random), app=MARKET, what="search")
    for words in _SHOP_WORDS:
        for more in (
            {},
            {"language": "de"},
            {"enable_partial_match": True},
            {"type": "article"},
            {"facets": ["type"]},
        ):
            await caller.post(
                "/v1/search/search", {"q": words, "rows": 3, "fl": ["title"], **more}, what="shop"
            )
    for body in BROKEN:
        await caller.post("/v1/search/search", body, app=MARKET, what="bad search")
        await caller.send(
            "POST", "/v1/search/search", json=body, key=(MARKET, "publishable"), what="public bad search"
        )


async def read_many(caller: Caller) -> None:
    """Read products by id."""
    random = Random("mget")
    for number in range(60):
        product_ids = [product_id(random.randrange(3_100)) for _ in range(number % 6)]
        fields = random.choice(
            [["*"], ["title"], ["title", "custom_attributes.finish"], ["-title"], [], ["i18n_*"]]
        )
        await caller.post(
            "/v1/search/mget", {"product_ids": product_ids, "fl": fields}, app=MARKET, what="mget"
        )
    for body in (
        {},
        {"product_ids": "x"},
        {"product_ids": ["a"] * 1_001},
        {"product_ids": ["a"], "engine_id": "none"},
    ):
        await caller.post("/v1/search/mget", body, app=MARKET, what="bad mget")


async def complete(caller: Caller) -> None:
    """Complete words letter by letter, with slips, from several sources."""
    sources = [
        ["title"],
        ["brand", "title"],
        ["title", "custom_attributes.finish"],
        ["title", "tags"],
        ["historical_queries"],
        ["suggested_queries"],
    ]
    random = Random("complete")
    for number in range(260):
        words = f"{random.choice(WORDS)} {random.choice(WORDS)}" if number % 3 else random.choice(BRANDS)
        typed = words[: random.randrange(1, len(words) + 1)]
        body: dict[str, Any] = {
            "q": _slipped(random, typed),
            "completion_fields": random.choice(sources),
            "rows": 4,
        }
        if random.random() < 0.3:
            body |= random.choice(
                [
                    {"user_id": user_id(random.randrange(USERS))},
                    {"fq": random.choice(FILTERS)},
                    {"fl": ["price"]},
                ]
            )
        if random.random() < 0.2:
            body |= random.choice(
                [{"language": "de"}, {"min_query_users": 1}, {"start": 2}, {"type": "garden"}]
            )
        await caller.post("/v1/search/autocomplete", body, app=MARKET, what="complete")
    for typed in (
        "tul",
        "gart",
        "cof",
        "river",
        "how",
        "tro",
        "t",
        "",
        "  ",
        "zzzz",
        "Tül",
        "tulip bul",
        "wie",
        "best",
    ):
        for chosen in (["title"], ["historical_queries"], ["suggested_queries"]):
            body = {"q": typed, "completion_fields": chosen, "rows": 5, "min_query_users": 1}
            await caller.post("/v1/search/autocomplete", body, what="complete in the shop")
    for wrong in (
        {},
        {"q": 5},
        {"q": "x", "completion_fields": []},
        {"q": "x", "completion_fields": ["nothing"]},
        {"q": "x", "rows": -1},
    ):
        await caller.post("/v1/search/autocomplete", wrong, app=MARKET, what="bad complete")


def _slipped(random: Random, word: str) -> str:
    """Type a word, one time in three with a slip."""
    if len(word) < 4 or random.random() < 0.67:
        return word
    at = random.randrange(1, len(word) - 1)
    return random.choice(
        [
            word[:at] + word[at + 1 :],
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + "x" + word[at:],
        ]
    )


def _body(random: Random) -> dict[str, Any]:
    """Draw one search."""
    words = random.choice(
        [
            random.choice(_THINGS),
            f"{random.choice(WORDS)} {random.choice(_THINGS)}",
            random.choice(BRANDS),
            "*",
        ]
    )
    body: dict[str, Any] = {
        "q": _slipped(random, words),
        "rows": random.choice([1, 2, 3]),
        "fl": random.choice([["title"], ["price"]]),
    }
    if random.random() < 0.08:
        body = {
            "advanced_q": random.choice(
                [f"full_text:{words.split()[-1]}", 'full_text:"steel oak"', "title:steel AND price:[5 TO 50]"]
            )
        }
        body |= {"rows": 2, "fl": ["title"]}
    for chance, choose in _CHOICES:
        if random.random() < chance:
            body |= choose(random)
    return body


_CHOICES = (
    (0.4, lambda random: {"user_id": user_id(int(620 * random.random() ** 2))}),
    (0.2, lambda random: {"fq": random.choice(FILTERS)}),
    (0.2, lambda random: {"order_by": random.choice(ORDERS)}),
    (0.3, lambda random: {"facets": random.choice(FACETS)}),
    (0.1, lambda random: {"facet_filters": {"brand": {"terms": random.sample(BRANDS, 3)}}}),
    (0.1, lambda random: {"facet_filters": {"price": {"ranges": [{"from": 5, "to": 30}]}}}),
    (0.1, lambda random: {"boost_fq": f"tags:{random.choice(TAGS)}", "boost_rule_name": "r"}),
    (0.1, lambda random: {"enable_partial_match": True}),
    (
        0.05,
        lambda random: {
            "enable_partial_match": True,
            "partial_match_mode": "separated",
            "enable_partial_match_threshold": 3,
        },
    ),
    (0.1, lambda random: {"enable_semantic_search": True, "semantic_search_threshold": 0.4}),
    (0.1, lambda random: {"like": f"{random.choice(WORDS)} {random.choice(_THINGS)}"}),
    (0.1, lambda random: {"personalization_weight": random.choice([0, 1, 5])}),
    (0.1, lambda random: {"category": random.choice([["Garden"], ["Kitchen", "Pans"], ["None"]])}),
    (0.05, lambda random: {"include": [product_id(5)], "exclude": [product_id(10), product_id(20)]}),
    (0.05, lambda random: {"query_product_existence": {"product_ids": [product_id(3), "unknown"]}}),
    (
        0.05,
        lambda random: {
            "anchoring_settings": [
                {"product_id": product_id(7), "anchor_ids": [product_id(n) for n in range(200)]}
            ]
        },
    ),
    (0.1, lambda random: {"enable_matched_fields": True}),
    (0.05, lambda random: {"spellcheck": {"enable_auto_spelling_correction": False}}),
    (0.1, lambda random: {"start": random.randrange(1, 9)}),
    (0.1, lambda random: {"diversification": {"brand": {"minimum_distance": 1}}}),
    (0.1, lambda random: {"custom_context": {"season": "spring"}}),
    (0.05, lambda random: {"dedupe_product_group_id": False}),
)
