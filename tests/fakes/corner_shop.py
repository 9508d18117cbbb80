"""A shop of twelve products and five readers, small enough to see the right answer.

    garden tools    trowel-green and trowel-red (two variants of `trowel`), hand-fork, draw-hoe      Alder, Fernhill
    bulbs           tulip-bulbs, crocus-bulbs                                                        Fernhill
    watering        watering-can                                                                     Alder
    kitchen         bread-knife, carving-knife, cutting-board                                        Birk
                    teapot                                                 out of stock              Mori
    books           garden-almanac                                                                   Mori

    gina   gardens: looked at the green trowel and the hand fork, bought tulip bulbs
    pia    plants: tulip bulbs, crocus bulbs and the watering can, one after the other, twice
    carl   cooks: bought bread knife and cutting board together
    otto   cooks: the same basket, and the carving knife before it
    nora   is new and did nothing

Everybody but nora put the watering can into the cart yesterday, so it leads the trend. `teapot` was the best seller of
the whole year, long ago, and is out of stock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from actors.language.hashing_embedder import HashingEmbedder, embedding_text
from actors.recommender.recommender import Recommender
from cluster.clock import iso_ms
from cluster.ids import new_task_id
from cluster.records.interaction import RecentEvent
from cluster.store.data.change_log import ChangeLogEntry
from cluster.store.data.intake import RecordPut
from cluster.store.stores import Stores

APP = "shop"
NOW_MS = 1_772_452_800_000
"2026-03-02T12:00:00Z"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def _product(product_id: str, title: str, path: str, brand: str, price: float, **more: Any) -> dict[str, Any]:
    return {
        "product_id": product_id,
        "title": title,
        "categories": [path.split(">")],
        "brand": brand,
        "price": price,
        "type": "tool" if "Garden" in path else "ware",
        **more,
    }


_LEEDS, _PARIS = {"lat": 53.8, "lon": -1.55}, {"lat": 48.86, "lon": 2.35}

PRODUCTS: list[dict[str, Any]] = [
    _product(
        "trowel-green", "Steel trowel, green grip", "Garden>Hand tools", "Alder", 12.9,
        product_group_id="trowel", tags=["steel", "small"], location=_LEEDS, custom_attributes={"grip": "green"},
    ),
    _product(
        "trowel-red", "Steel trowel, red grip", "Garden>Hand tools", "Alder", 12.9,
        product_group_id="trowel", tags=["steel", "small"], custom_attributes={"grip": "red"},
    ),
    _product("hand-fork", "Steel hand fork", "Garden>Hand tools", "Alder", 9.5, tags=["steel", "small"], rating=4.6),
    _product("draw-hoe", "Draw hoe with ash handle", "Garden>Hand tools", "Fernhill", 31.0, tags=["steel"]),
    _product("tulip-bulbs", "Forty tulip bulbs", "Garden>Bulbs", "Fernhill", 14.0, tags=["autumn"], rating=4.2),
    _product("crocus-bulbs", "Fifty crocus bulbs", "Garden>Bulbs", "Fernhill", 11.0, tags=["autumn"], rating=3.1),
    _product("watering-can", "Zinc watering can", "Garden>Watering", "Alder", 24.0, tags=["zinc"]),
    _product("bread-knife", "Bread knife", "Kitchen>Knives", "Birk", 29.0, tags=["steel"], location=[_PARIS]),
    _product("carving-knife", "Carving knife", "Kitchen>Knives", "Birk", 34.0, tags=["steel"], rating=4.9),
    _product("cutting-board", "Oak cutting board", "Kitchen>Boards", "Birk", 22.0, tags=["oak"], location=_PARIS),
    _product("teapot", "Stoneware teapot", "Kitchen>Tea", "Mori", 44.0, availability="OUT_OF_STOCK"),
    _product("garden-almanac", "The garden almanac", "Books>Gardening", "Mori", 18.0, type="book"),
]  # fmt: skip


def _interaction(user_id: str, kind: str, product_ids: str, ago_ms: int, **more: Any) -> dict[str, Any]:
    who = {"anonymous_id": user_id[5:]} if user_id.startswith("anon-") else {"user_id": user_id}
    timestamp = iso_ms(NOW_MS - ago_ms)
    return {"type": kind, **who, "product_ids": product_ids.split(), "timestamp": timestamp, **more}


_VIEW, _CART, _BUY = "product_detail_page_view", "add_to_cart", "checkout"

INTERACTIONS: list[dict[str, Any]] = [
    *[_interaction(f"old-{n}", _BUY, "teapot", 300 * DAY_MS - n * HOUR_MS) for n in range(20)],
    _interaction("otto", _VIEW, "carving-knife", 5 * DAY_MS, duration=40.0),
    _interaction("otto", _BUY, "bread-knife cutting-board", 5 * DAY_MS - 2 * MINUTE_MS, quantities=[1, 1]),
    _interaction("carl", _BUY, "bread-knife cutting-board", 4 * DAY_MS),
    _interaction("pia", _VIEW, "tulip-bulbs", 3 * DAY_MS),
    _interaction("pia", _VIEW, "crocus-bulbs", 3 * DAY_MS - 1 * MINUTE_MS),
    _interaction("pia", _VIEW, "watering-can", 3 * DAY_MS - 2 * MINUTE_MS),
    _interaction("gina", _VIEW, "trowel-green", 2 * DAY_MS, duration=60.0),
    _interaction("gina", _VIEW, "hand-fork", 2 * DAY_MS - 1 * MINUTE_MS, duration=30.0),
    _interaction("gina", _BUY, "tulip-bulbs", 2 * DAY_MS - 3 * MINUTE_MS),
    _interaction("pia", _VIEW, "tulip-bulbs", 30 * HOUR_MS),
    _interaction("pia", _VIEW, "crocus-bulbs", 30 * HOUR_MS - 1 * MINUTE_MS),
    _interaction("otto", _CART, "watering-can", 26 * HOUR_MS),
    _interaction("carl", _CART, "watering-can", 25 * HOUR_MS),
    _interaction("gina", _CART, "watering-can", 24 * HOUR_MS),
    _interaction("pia", _CART, "watering-can", 23 * HOUR_MS),
]
USER_IDS = ("gina", "pia", "carl", "otto", "nora")


def product_change(
    products: Sequence[dict[str, Any]], offset: str, *, vectors: bool = True
) -> ChangeLogEntry:
    """Make the change-log entry of an upload."""
    embedder = HashingEmbedder()
    packed = (
        embedder.embed([embedding_text(product) for product in products]).astype("<f2").tobytes()
        if vectors
        else b""
    )
    version = embedder.version if vectors else ""
    return ChangeLogEntry("product", offset, "put", orjson.dumps(list(products)), packed, version)


def interaction_change(items: Sequence[dict[str, Any]], offset: str) -> ChangeLogEntry:
    """Make the change-log entry of one interactions call."""
    return ChangeLogEntry("interaction", offset, "put", orjson.dumps(list(items)))


def recent_events(user_id: str) -> list[RecentEvent]:
    """What a reader did, newest first."""
    return [
        RecentEvent(item["type"], tuple(item["product_ids"]), _ms_of(item), item.get("duration", 0.0))
        for item in reversed(INTERACTIONS)
        if item.get("user_id") == user_id
    ]


def recents(user_id: str) -> list[bytes]:
    """A reader's recent list as the store holds it."""
    return [event.pack() for event in recent_events(user_id)]


def open_catalog(products: Sequence[dict[str, Any]], offset: str = f"{NOW_MS}-0") -> Recommender:
    """A recommender that has products and no interaction."""
    recommender = Recommender(HashingEmbedder())
    recommender.apply(product_change(products, offset))
    return recommender


def open_shop(**options: Any) -> Recommender:
    """A recommender that knows the shop and everything that happened in it."""
    recommender = Recommender(HashingEmbedder(), **options)
    recommender.apply(product_change(PRODUCTS, f"{NOW_MS - 400 * DAY_MS}-0"))
    recommender.apply(interaction_change(INTERACTIONS, f"{NOW_MS}-0"))
    return recommender


async def upload(stores: Stores, products: Sequence[dict[str, Any]], *, app_id: str = APP) -> None:
    """Bring products all the way into the stores, as door and intake would."""
    payload = orjson.dumps(list(products))
    task_id = str(new_task_id())
    await stores.intake.accept(
        app_id, "product", "put", payload, task_id=task_id, total=len(products), now_ms=NOW_MS
    )
    (batch,) = await stores.intake.claim("shopkeeper", [app_id], count=1, block_ms=0)
    change = product_change(products, "0")
    assert await stores.intake.apply_put(
        batch,
        [RecordPut(product["product_id"], orjson.dumps(product), product["type"]) for product in products],
        change_payload=change.payload,
        vectors=change.vectors,
        embedder=change.embedder,
        failed=(),
        now_ms=NOW_MS,
    )


async def withdraw(stores: Stores, product_ids: Sequence[str], *, app_id: str = APP) -> None:
    """Take products out of the stores, as door and intake would."""
    payload = orjson.dumps(list(product_ids))
    task_id = str(new_task_id())
    await stores.intake.accept(
        app_id, "product", "remove", payload, task_id=task_id, total=len(product_ids), now_ms=NOW_MS
    )
    (batch,) = await stores.intake.claim("shopkeeper", [app_id], count=1, block_ms=0)
    assert await stores.intake.apply_remove(batch, product_ids, now_ms=NOW_MS)


async def happen(stores: Stores, items: Sequence[dict[str, Any]], *, app_id: str = APP) -> str:
    """Let interactions happen, as the door would write them."""
    packed = [
        (
            item.get("user_id", ""),
            item.get("anonymous_id", ""),
            RecentEvent(
                item["type"], tuple(item["product_ids"]), _ms_of(item), item.get("duration", 0.0)
            ).pack(),
        )
        for item in items
    ]
    return await stores.interactions.append(app_id, orjson.dumps(list(items)), packed)


async def furnish(stores: Stores, *, app_id: str = APP) -> None:
    """Fill the stores with the whole shop."""
    await upload(stores, PRODUCTS, app_id=app_id)
    await happen(stores, INTERACTIONS, app_id=app_id)


def view(
    user_id: str, product_ids: str, *, kind: str = _VIEW, ago_ms: int = 0, **more: Any
) -> dict[str, Any]:
    """One more interaction, just now."""
    return _interaction(user_id, kind, product_ids, ago_ms, **more)


def _ms_of(item: dict[str, Any]) -> int:
    return round(datetime.fromisoformat(str(item["timestamp"]).replace("Z", "+00:00")).timestamp() * 1000)
