"""Uploads and everything that reads records back: users, products, interactions, valid and not."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from jobs.playground.loader import build_sample
from tests.golden.caller import Caller
from tests.golden.catalog import (
    PRODUCTS,
    USERS,
    make_interactions,
    make_products,
    make_users,
    product_id,
    user_id,
)
from tests.golden.installation import MARKET, SHOP, parsed

_BATCH = 500
BAD_PRODUCTS: list[Any] = [
    {},
    {"data": []},
    {"data": {}},
    {"data": [1]},
    {"data": [{}]},
    {"data": [{"product_id": ""}]},
    [],
    "x",
    None,
    7,
    {"data": [{"product_id": "x" * 600, "title": "t"}]},
    {"data": [{"product_id": "b-1", "price": "cheap"}]},
    {"data": [{"product_id": "b-1", "price": True}]},
    {"data": [{"product_id": "b-1", "categories": "Garden"}]},
    {"data": [{"product_id": "b-1", "categories": [["Garden", 7]]}]},
    {"data": [{"product_id": "b-1", "location": {"lat": 91, "lon": 0}}]},
    {"data": [{"product_id": "b-1", "created_at": "yesterday"}]},
    {"data": [{"product_id": "b-1", "availability": "SOON"}]},
    {"data": [{"product_id": "b-1", "custom_attributes": {"deep": {"deeper": 1}}}]},
    {"data": [{"product_id": "b-1", "nobody_knows": 1}]},
    {
        "data": [
            {"product_id": "b-1", "title": "good"},
            {"product_id": "b-2", "rating": "many"},
            {"title": "no id"},
        ]
    },
    {"data": [{"product_id": "b-1", "custom_attributes": {"weight_g": "heavy"}}]},
    {"data": [{"product_id": "b-1"}, {"product_id": "b-1"}]},
    {"data": [{"product_id": "b-1", "i18n_xx": {"title": 5}}]},
]
BAD_USERS: list[Any] = [
    {},
    {"data": []},
    {"data": [{"user_id": 5}]},
    {"data": [{"user_id": "u", "age": "old"}]},
    {"data": [{"name": "x"}]},
    {"data": [{"user_id": "u", "created_at": 1e30}]},
    {"data": [{"user_id": "u", "custom_attributes": [1]}]},
    {"data": [{"user_id": "u", "gender": 4}, {"user_id": "v"}]},
    {"data": [{"user_id": "u", "age": -5}]},
]
BAD_INTERACTIONS: list[Any] = [
    {},
    {"data": []},
    {"data": [{"type": "click"}]},
    {"data": [{"type": "click", "user_id": "u"}]},
    {"data": [{"type": "dance", "user_id": "u", "product_ids": ["m-0001"]}]},
    {"data": [{"type": "click", "user_id": "u", "product_ids": "m-0001"}]},
    {"data": [{"type": "click", "user_id": "u", "product_ids": []}]},
    {"data": [{"type": "click", "user_id": "u", "product_ids": ["m-0001"], "timestamp": "soon"}]},
    {
        "data": [
            {"type": "click", "user_id": "u", "product_ids": ["m-0001"], "timestamp": "2031-01-01T00:00:00Z"}
        ]
    },
    {"data": [{"type": "rate", "user_id": "u", "product_ids": ["m-0001"], "rating": "high"}]},
    {"data": [{"type": "checkout", "user_id": "u", "product_ids": ["m-0001"], "quantities": [1, 2]}]},
    {"data": [{"type": "search", "user_id": "u"}]},
    {"data": [{"type": "search", "user_id": "u", "search": {}}]},
    {"data": [{"type": "click", "user_id": "u", "product_ids": ["m-0001"], "duration": -1}]},
    {"data": [{"type": "click", "product_ids": ["m-0001"], "anonymous_id": "a" * 2_000}]},
    {"data": [{"type": "click", "user_id": "u", "product_ids": ["m-0001"]}, {"type": "click"}]},
    {"data": [{"type": "click", "user_id": "u", "product_ids": ["m-0001"], "context": []}]},
]


async def fill_market(caller: Caller) -> list[str]:
    """Upload the market; return the task ids."""
    now_ms = caller.clock.now_ms()
    past = make_interactions(now_ms, 12_000, from_days=90, to_days=1)
    loads = {"products": make_products(now_ms), "users": make_users(now_ms), "interactions": past}
    return await _upload(caller, MARKET, loads)


async def fill_shop(caller: Caller) -> list[str]:
    """Upload the playground; return the task ids."""
    whole = build_sample(caller.clock.now_ms())
    loads = {"products": whole.products, "users": whole.users, "interactions": whole.interactions}
    return await _upload(caller, SHOP, loads)


async def _upload(caller: Caller, app: str, loads: dict[str, list[dict[str, Any]]]) -> list[str]:
    tasks = []
    for noun, records in loads.items():
        for start in range(0, len(records), _BATCH):
            answer = await caller.post(f"/v1/{noun}", {"data": records[start : start + _BATCH]}, app=app)
            if noun != "interactions":
                reply = parsed(answer.body)
                tasks.append(str(reply.get("task_id") or reply["data"]["task_id"]))
    return tasks


async def fill_after_training(caller: Caller) -> None:
    """Upload what no snapshot knows: new products, yesterday's interactions, searches of many users."""
    now_ms = caller.clock.now_ms()
    fresh = [
        {**product, "product_id": f"new-{at}", "title": f"New {product['title']}"}
        for at, product in enumerate(make_products(now_ms, 40))
    ]
    await caller.post("/v1/products", {"data": fresh}, app=MARKET, what="cold products")
    late = make_interactions(now_ms, 900, from_days=1, to_days=0)
    for start in range(0, len(late), _BATCH):
        await caller.post(
            "/v1/interactions", {"data": late[start : start + _BATCH]}, app=MARKET, what="after training"
        )
    for app in (MARKET, SHOP):
        for number in range(8):
            typed = ["steel trowel", "oak puzzle", "tulip bulbs", "river treaty"][: 1 + number % 4]
            searches = [
                {"type": "search", "user_id": user_id(number), "search": {"keywords": words}}
                for words in typed
            ]
            await caller.post("/v1/interactions", {"data": searches}, app=app, what="searches")


async def log_queries(caller: Caller) -> None:
    """Search as many users do, so that their queries are suggested to others."""
    for number in range(9):
        for app, words in (
            (MARKET, "steel trowel"),
            (MARKET, "light tent"),
            (SHOP, "tulip bulbs"),
            (SHOP, "coffee"),
        ):
            body = {"q": words, "rows": 1, "user_id": user_id(number), "fl": ["title"]}
            await caller.post("/v1/search/search", body, app=app, what="logged search")


async def refused_uploads(caller: Caller) -> None:
    """Send uploads that are refused as a whole or in part, dry and in earnest."""
    for noun, bodies in (
        ("products", BAD_PRODUCTS),
        ("users", BAD_USERS),
        ("interactions", BAD_INTERACTIONS),
    ):
        for number, body in enumerate(bodies):
            text = json.dumps(body).encode()
            for query in ("?dry_run=1", "", "?dry_run=2"):
                await caller.send(
                    "POST",
                    f"/v1/{noun}{query}",
                    body=text,
                    key=(MARKET, "secret"),
                    what=f"bad {noun} {number}{query}",
                )
            public = {"body": text, "key": (MARKET, "publishable"), "what": f"public bad {noun} {number}"}
            await caller.send("POST", f"/v1/{noun}", **public)  # type: ignore[arg-type]
        for raw in (b"", b"{", b"\xff\xfe", b"[" * 2_000, b'{"data":[{"a":1e999}]}', b'{"data":NaN}'):
            await caller.send("POST", f"/v1/{noun}", body=raw, key=(MARKET, "secret"), what=f"raw {noun}")


async def repeated_uploads(caller: Caller) -> None:
    """Send uploads again under one idempotency key."""
    for noun, record in (
        ("products", {"product_id": "idem-1", "title": "Once", "type": "garden"}),
        ("users", {"user_id": "idem-1", "name": "Once"}),
        ("interactions", {"type": "click", "user_id": "idem-1", "product_ids": ["m-0001"]}),
    ):
        for token in ("one", "one", "two", "x" * 300, ""):
            await caller.send(
                "POST",
                f"/v1/{noun}",
                json={"data": [record]},
                key=(MARKET, "secret"),
                headers={"idempotency-key": token},
                what=f"idempotent {noun} {token[:5]}",
            )
        await caller.send(
            "POST",
            f"/v1/{noun}",
            json={"data": [{**record, "type": "read"}]},
            key=(MARKET, "secret"),
            headers={"idempotency-key": "one"},
            what=f"idempotent {noun} with another body",
        )


async def read_records(caller: Caller, tasks: list[str]) -> None:
    """Read tasks, records and ids."""
    random = Random("records")
    for task in [*tasks, "00000000-0000-4000-8000-000000000000", "no-uuid"]:
        for app, noun in ((MARKET, "products"), (SHOP, "users")):
            await caller.get(f"/v1/{noun}/_status/{task}", app=app, what=f"{app} {noun} status")
    for _ in range(60):
        await caller.get(
            f"/v1/products/{product_id(random.randrange(PRODUCTS + 50))}", app=MARKET, what="product"
        )
    for _ in range(30):
        await caller.get(f"/v1/users/{user_id(random.randrange(USERS + 30))}", app=MARKET, what="user")
    for product in ("ardle-water-treaty", "hand-trowel-green", "%20", "a%2Fb", "x" * 600, "%ff"):
        await caller.get(f"/v1/products/{product}", what="product of the shop")
    for app in (MARKET, SHOP, "other"):
        for target in (
            "products/_ids",
            "users/_ids",
            "products/_ids?type=garden",
            "products/_ids?type=nothing",
        ):
            await caller.get(f"/v1/{target}", app=app)


async def count_values(caller: Caller) -> None:
    """Count values of many fields, filtered, in both forms."""
    fields = [
        "brand",
        "categories",
        "tags",
        "price",
        "type",
        "rating",
        "custom_attributes.finish",
        "custom_attributes.eco",
        "custom_attributes.weight_g",
        "attributes.finish",
        "availability",
        "color",
        "title",
        "nothing",
        "",
        "location",
        "custom_attributes",
        "created_at",
        "i18n_de.title",
    ]
    filters = [
        "",
        "price:[10 TO 30]",
        "brand:Birk AND NOT tags:eco",
        "brand:(",
        'title:"steel"',
        "type:books",
    ]
    for field in fields:
        for number, fq in enumerate(filters):
            body: dict[str, Any] = {"field": field, "size": 3 + number, **({"fq": fq} if fq else {})}
            await caller.post("/v1/products/_aggregate", body, app=MARKET)
    for field in (
        "country",
        "city",
        "age",
        "custom_attributes.plan",
        "custom_attributes.interests",
        "nothing",
    ):
        await caller.post("/v1/users/_aggregate", {"field": field, "size": 5}, app=MARKET)
        await caller.get(f"/v1/users/_aggregate?field={field}&size=2&include=G.*", app=MARKET)
        await caller.get(f"/v1/users/_aggregate?field={field}&fq=country:GB&exclude=L.*", app=SHOP)
    for query in (
        "",
        "field=brand&size=x",
        "field=brand&include=(",
        "size=3",
        "field=brand&size=-1",
        "field=tags&x=1",
    ):
        await caller.get(f"/v1/products/_aggregate?{query}", app=MARKET)


async def remove(caller: Caller) -> None:
    """Remove records and what people did, in every form."""
    app = SHOP
    for target, body in (
        ("products/_delete", {"data": {"product_ids": ["gone-1", "hand-fork"]}}),
        ("products/_delete", {"data": {"product_ids": []}}),
        ("products/_delete", {"product_ids": ["x"]}),
        ("users/_delete", {"data": {"user_ids": ["gone-1"]}}),
        ("users/_delete", {"data": {"user_ids": "gone-1"}}),
        ("interactions/_delete", {"data": {"user_ids": ["gone-1"]}}),
        ("interactions/_delete", {"user_ids": ["gone-1"]}),
    ):
        await caller.post(f"/v1/{target}", body, app=app)
    for target, sent in (
        ("interactions", {"user_ids": ["gone-2"]}),
        ("interactions", {"user_ids": []}),
        ("interactions", {}),
        ("products/gone-3", None),
        ("users/gone-3", None),
        ("users/gone-4?everything=true", None),
        ("users/gone-4?everything=maybe", None),
        ("products/%20", None),
    ):
        await caller.send("DELETE", f"/v1/{target}", json=sent, key=(app, "secret"))
    answer = await caller.send("DELETE", "/v1/users/lorenz-fuhrmann-001?everything=true", key=(app, "secret"))
    receipt = parsed(answer.body)["data"]["task_id"]
    await caller.get(f"/v1/users/_erasures/{receipt}", what="receipt of an erasure")
    await caller.get("/v1/users/_erasures/00000000-0000-4000-8000-000000000000", what="no receipt")


async def read_removed(caller: Caller) -> None:
    """Read what was removed, and ask with it."""
    for target in (
        "products/hand-fork",
        "users/lorenz-fuhrmann-001",
        "users/_ids",
        "products/_ids?type=tool",
    ):
        await caller.get(f"/v1/{target}")
    for who in ({"user_id": "lorenz-fuhrmann-001"}, {"user_id": "frieda-kessler-223"}, {}):
        await caller.post("/v1/recommendation/user_to_products", {**who, "rows": 3, "fl": ["title"]})
        await caller.post("/v1/recommendation/user_to_history", {**who, "rows": 3, "fl": ["title"]})
    for words in ("hand fork", "trowel"):
        await caller.post("/v1/search/search", {"q": words, "rows": 3, "fl": ["title"]})
