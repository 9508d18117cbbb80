"""Recommendations of all kinds over the market with a trained snapshot."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.golden.caller import Caller
from tests.golden.catalog import BRANDS, PRODUCTS, TAGS, USERS, product_id, user_id
from tests.golden.installation import MARKET

KINDS = [
    "user_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "product_to_products",
]
FILTERS = [
    "price:[10 TO 40]",
    "brand:(Alder OR Birk)",
    "NOT tags:sale",
    "type:garden AND price:[* TO 20]",
    "rating:[3 TO *]",
    "custom_attributes.eco:true",
    "categories:Kitchen",
    "title:*steel*",
    "brand:K*",
    "+type:books -brand:Holt",
    "custom_attributes.weight_g:[100 TO 900] AND tags:(new OR gift)",
    "created_at:[2025-01-01 TO *]",
    "brand:Nobody",
    "colour:green",
    "_exists_:rating",
    'brand:"Mori"',
    "price:{10 TO 11}",
    "title:/.*oak.*/",
]
BROKEN = [
    {"fq": "brand:("},
    {"fq": 7},
    {"rows": -1},
    {"rows": 1_001},
    {"rows": "x"},
    {"user_id": 7},
    {"dithering": 0},
    {"fl": "title"},
    {"explain": 5},
    {"explain": [1]},
    {"boost_positions": [1]},
    {"boost_fq": "brand:("},
    {"user_cohort": {"country": 5}},
    {"geo": {"filter": [{"lat": 100, "lon": 0, "distance": 1}]}},
    {"geo": {"filter": [{"lat": 1, "lon": 0, "distance": 1, "distance_unit": "yard"}]}},
    {"additional_interactions": [{"type": "dance"}]},
    {"additional_interactions": 5},
    {"exclude": "x"},
    {"diversification": {"brand": {"minimum_distance": -1}}},
    {"engine_id": "nobodys"},
    {"unknown_field": 1},
    {"boost_rules": [{}]},
    {"custom_context": {"a": {"b": 1}}},
    {"user_type": "king"},
    {"start": -1},
    {"pagination_id": 5},
    {"history_type": "last_dance"},
    {"field": "nothing"},
    {"product_id": []},
    {"dedupe_product_group_id": "yes"},
    {"snapshot": "x"},
]


async def recommend(caller: Caller, count: int = 900) -> None:
    """Send generated requests of all kinds."""
    random = Random("recommend")
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        await caller.post(f"/v1/recommendation/{kind}", _body(random, kind), app=MARKET, what=kind)


async def refuse(caller: Caller) -> None:
    """Send bodies that are refused, or answered with a warning."""
    for kind in KINDS:
        for wrong in BROKEN:
            usual = _needed(kind)
            await caller.post(
                f"/v1/recommendation/{kind}", {**usual, "rows": 1, **wrong}, app=MARKET, what=f"bad {kind}"
            )
        for raw in (b"", b"[]", b"{", b"null", b'{"rows":NaN}'):
            target = f"/v1/recommendation/{kind}"
            await caller.send("POST", target, body=raw, key=(MARKET, "secret"), what=f"raw {kind}")
        for body in (
            {},
            {"user_id": user_id(1)},
            {"user_id": user_id(1), "user_hash": "00"},
            {"explain": True},
        ):
            sent = {**_needed(kind), **body, "rows": 1}
            target = f"/v1/recommendation/{kind}"
            await caller.send("POST", target, json=sent, key=(MARKET, "publishable"), what=f"public {kind}")
        await caller.post(f"/v1/recommendation/{kind}", _needed(kind), app="other", what=f"empty app {kind}")


async def turn_pages(caller: Caller) -> None:
    """Ask page after page, by session and by offset; what was shown does not come again."""
    for user in (user_id(3), user_id(40), "nobody-yet"):
        for page in range(4):
            body = {"user_id": user, "rows": 4, "pagination_id": f"p-{user}"}
            await caller.post("/v1/recommendation/user_to_products", body, app=MARKET, what=f"page {page}")
            offset = {"user_id": user, "rows": 4, "start": 4 * page}
            await caller.post(
                "/v1/recommendation/user_to_products", offset, app=MARKET, what=f"from {4 * page}"
            )
            trend = {"anonymous_id": f"v-{user}", "rows": 3, "pagination_id": "t"}
            await caller.post("/v1/recommendation/user_to_trending", trend, app=MARKET, what=f"trend {page}")


async def click(caller: Caller) -> None:
    """Let newcomers look at products."""
    random = Random("clicks")
    for number in range(20):
        seen = [product_id(random.randrange(300)) for _ in range(3)]
        clicks = [
            {"type": "product_detail_page_view", **_newcomer(number), "product_ids": [product_id]}
            for product_id in seen
        ]
        await caller.post("/v1/interactions", {"data": clicks}, app=MARKET, what="clicks of a newcomer")


async def after_clicks(caller: Caller) -> None:
    """Ask for the newcomers, whom no snapshot knows."""
    for number in range(20):
        body = {**_newcomer(number), "rows": 5, "explain": number % 4 == 0}
        for kind in ("user_to_products", "user_to_history", "user_to_categories"):
            await caller.post(f"/v1/recommendation/{kind}", body, app=MARKET, what=f"newcomer {kind}")


def _newcomer(number: int) -> dict[str, str]:
    return {"user_id" if number % 2 else "anonymous_id": f"newcomer-{number}"}


async def in_bulk(caller: Caller) -> None:
    """Ask several questions in one call."""
    random = Random("bulk")
    for number in range(40):
        chosen = [random.choice(KINDS) for _ in range(1 + number % 4)]
        requests = [
            {"api_name": f"recommendation/{kind}", "body": {**_body(random, kind), "rows": 2}}
            for kind in chosen
        ]
        requests.append(
            {"api_name": "search/search", "body": {"q": random.choice(["steel", "oak knife"]), "rows": 1}}
        )
        await caller.post("/v1/bulk", {"requests": requests}, app=MARKET, what="bulk")


def _needed(kind: str) -> dict[str, Any]:
    if kind == "user_to_attributes":
        return {"field": "brand"}
    return {"product_id": product_id(10)} if kind == "product_to_products" else {}


def _body(random: Random, kind: str) -> dict[str, Any]:
    """Draw one body: who asks, how much, and some of all parameters."""
    body: dict[str, Any] = {
        "rows": random.choice([1, 2, 3, 5]),
        "fl": random.choice([["title"], ["price", "brand"], []]),
    }
    draw = random.random()
    if draw < 0.75:
        body["user_id"] = user_id(int((USERS + 20) * random.random() ** 2))
    elif draw < 0.9:
        body["anonymous_id"] = f"visitor-{random.randrange(USERS):03d}"
    body |= _special(random, kind)
    for chance, choose in _CHOICES:
        if random.random() < chance:
            body |= choose(random)
    if kind not in ("user_to_products", "user_to_trending", "product_to_products"):
        body.pop("dithering", None)
    return body


def _special(random: Random, kind: str) -> dict[str, Any]:
    """Draw what only one kind of body has."""
    if kind == "user_to_categories":
        return {
            "products_per_category": 2,
            **random.choice([{}, {"root_category": ["Garden"]}, {"root_category": []}]),
        }
    if kind == "user_to_attributes":
        field = random.choice(["brand", "tags", "custom_attributes.finish", "color", "type"])
        chosen = random.sample(BRANDS, 2)
        more = random.choice([{}, {"boost_attributes": chosen[:1]}, {"exclude_attributes": chosen}])
        return {"field": field, "products_per_attribute": random.randrange(3), **more}
    if kind == "user_to_history":
        return random.choice([{}, {"history_type": "last_view"}, {"history_type": "last_checkout"}])
    if kind == "product_to_products":
        number = int(PRODUCTS * random.random() ** 3)
        anchors = [product_id(number), product_id(number // 2)]
        forms: list[dict[str, Any]] = [
            {"product_id": anchors[0]},
            {"product_ids": anchors},
            {"product_group_id": f"group-{number // 7}"},
            {"product_id": anchors, "buy_together": True},
            {"product_id": "unknown"},
        ]
        return random.choice(forms)
    return {}


def _boost(random: Random) -> dict[str, Any]:
    form = random.randrange(3)
    if form == 0:
        return {"boost_fq": f"brand:{random.choice(BRANDS)}", "boost_rule_name": "own"}
    if form == 1:
        return {"boost_fq": f"tags:{random.choice(TAGS)}", "boost_positions": [0, 2]}
    rules = [{"boost_fq": f"brand:{brand}", "boost_rule_name": brand} for brand in random.sample(BRANDS, 2)]
    return {"boost_rules": [*rules, {"boost_fq": "price:[* TO 5]", "boost_positions": [1]}]}


def _place(random: Random) -> dict[str, Any]:
    circle = {"lat": 53.8, "lon": -1.5, "distance": random.choice([10, 900]), "distance_unit": "km"}
    return {"geo": {random.choice(["filter", "boost"]): [circle]}}


def _simulated(random: Random) -> dict[str, Any]:
    seen = {"type": "click", "product_ids": [product_id(random.randrange(200))]}
    return {"additional_interactions": [{**seen, "user_id": "any"}]}


_CHOICES = (
    (0.35, lambda random: {"fq": random.choice(FILTERS)}),
    (0.2, _boost),
    (0.1, _place),
    (0.1, lambda random: {"user_cohort": {"country": random.choice(["GB", "FR", "XX"]), "plan": "gold"}}),
    (0.1, lambda random: {"exclude": [product_id(random.randrange(300)) for _ in range(20)]}),
    (0.15, lambda random: {"explain": random.choice([True, [product_id(0), product_id(10), "unknown"]])}),
    (0.1, lambda random: {"diversification": {"brand": {"minimum_distance": random.randrange(3)}}}),
    (0.05, lambda random: {"diversification": {"tags": {"minimum_distance": 2, "always_together": True}}}),
    (0.1, _simulated),
    (0.1, lambda random: {"dithering": random.choice([1, 1.5, 2])}),
    (0.1, lambda random: {"dedupe_product_group_id": False}),
    (0.1, lambda random: {"type": random.choice(["garden", "books", "nothing"])}),
    (0.1, lambda random: {"custom_context": {"week": "kitchen"}}),
    (0.05, lambda random: {"custom_context": {"season": "spring"}, "boosting_tags": ["guest"]}),
)
