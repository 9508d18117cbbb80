"""What every way to a recommender promises, wherever it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from actors.recommender.messages import Boost, QueryKind, RecommendationResult, UserQuery
from actors.retrieval.messages import Facet, FacetFilter, OrderKey, SearchQuery
from actors.serving.client import RecommenderClient
from cluster.errors import NotFound
from cluster.query.language.parser import parse
from cluster.store.stores import Stores
from tests.fakes.corner_shop import APP, happen, upload, view, withdraw


def query(kind: QueryKind = "user_to_products", **more: Any) -> UserQuery:
    """A query to the shop's default engine."""
    return UserQuery(**{"kind": kind, "app_id": APP, "engine_id": "default", **more})


def ids(result: RecommendationResult) -> list[str]:
    """Product ids in order."""
    return [product["product_id"] for product in result.products]


async def within_a_second(true: Callable[[], Awaitable[bool]], seconds: float = 1.0) -> None:
    """Wait until something holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not await true():
        assert loop.time() < end, "did not happen in time"
        await asyncio.sleep(0.01)


class ClientSuite:
    """Subjects give `client` and `stores`, with the whole corner shop in them."""

    patience_s = 1.0
    "How long a change may take to show; a second, unless the subject's way there is long."

    async def test_an_unknown_engine_or_app_answers_404(self, client: RecommenderClient) -> None:
        for user_query in (query(engine_id="nobody"), query(app_id="nobody")):
            with pytest.raises(NotFound, match="engine is not found"):
                await client.answer(user_query)

    async def test_readers_get_what_is_theirs(self, client: RecommenderClient) -> None:
        assert ids(await client.answer(query(user_id="gina")))[0] == "crocus-bulbs"
        assert ids(await client.answer(query(user_id="carl")))[0] == "carving-knife"
        assert ids(await client.answer(query("user_to_trending", user_id="nora")))[0] == "watering-can"

    async def test_filters_boosts_and_fields_travel(self, client: RecommenderClient) -> None:
        result = await client.answer(
            query(
                rows=9,
                fields=("title", "custom_attributes.*"),
                filter=parse("tags:steel AND NOT brand:Birk"),
                boosts=(Boost(parse("price:[30 TO *]"), (0,), "dear"),),
            )
        )
        assert ids(result)[0] == "draw-hoe"
        assert result.products[0]["title"] == "Draw hoe with ash handle"
        assert result.products[0]["_boosted_rules"] == ["dear"]
        assert set(ids(result)) <= {"draw-hoe", "hand-fork", "trowel-green", "trowel-red"}

    async def test_searches_travel_both_ways(self, client: RecommenderClient) -> None:
        search_query = SearchQuery(
            text="steel",
            original="steel",
            order=(OrderKey("price * 2", ascending=True),),
            facets=(Facet("brand", "brand"), Facet("x", "x", keys=(("dear", parse("price:[30 TO *]")),))),
            facet_filters=(FacetFilter("tags", parse("tags:steel")),),
            existence=("draw-hoe", "teapot"),
        )
        result = await client.answer(query("search", search=search_query, fields=("title",), rows=2))
        assert ids(result) == ["hand-fork", "trowel-green"]
        assert result.search is not None
        assert result.search.total == 5
        assert result.search.facets["brand"] == [("Alder", 2), ("Birk", 2), ("Fernhill", 1)]
        assert result.search.facets["x"] == [("dear", 2)]
        assert result.search.existence == {"draw-hoe": True, "teapot": False}
        assert orjson.loads(orjson.dumps(result.products)) == result.products

    async def test_products_are_given_by_their_ids(self, client: RecommenderClient) -> None:
        result = await client.answer(query("mget", anchors=("nobody", "teapot"), fields=("brand",)))
        assert result.products == [
            {"_found": False, "product_id": "nobody"},
            {"_found": True, "product_id": "teapot", "brand": "Mori"},
        ]

    async def test_search_returns_a_new_product_within_a_second(
        self, client: RecommenderClient, stores: Stores
    ) -> None:
        user_query = query("search", search=SearchQuery(text="pewter", original="pewter"))
        assert ids(await client.answer(user_query)) == []
        await upload(stores, [{"product_id": "mug", "type": "ware", "title": "Pewter mug"}])

        async def there() -> bool:
            return ids(await client.answer(user_query)) == ["mug"]

        await within_a_second(there, self.patience_s)
        await withdraw(stores, ["mug"])

        async def gone() -> bool:
            return not await there()

        await within_a_second(gone, self.patience_s)

    async def test_answers_are_plain_json(self, client: RecommenderClient) -> None:
        result = await client.answer(query("user_to_categories", user_id="gina", group_rows=2, fields=("*",)))
        assert result.groups
        for group in result.groups:
            assert orjson.loads(orjson.dumps(group.products)) == group.products
            assert orjson.loads(orjson.dumps(group.value)) == list(group.value)

    async def test_a_click_shows_at_once_and_a_trend_within_a_second(
        self, client: RecommenderClient, stores: Stores
    ) -> None:
        await client.answer(query())
        await happen(stores, [view("anon-x", "carving-knife")])
        assert ids(await client.answer(query(anonymous_id="x")))[0] == "bread-knife"
        await happen(stores, [view(f"r{n}", "draw-hoe", kind="checkout") for n in range(9)])

        async def leads() -> bool:
            return ids(await client.answer(query("user_to_trending")))[0] == "draw-hoe"

        await within_a_second(leads, self.patience_s)

    async def test_products_come_and_go_within_a_second(
        self, client: RecommenderClient, stores: Stores
    ) -> None:
        await client.answer(query())
        await upload(stores, [{"product_id": "rake", "type": "tool", "title": "Rake"}])

        async def there() -> bool:
            return "rake" in ids(await client.answer(query(rows=50)))

        await within_a_second(there, self.patience_s)
        await withdraw(stores, ["rake"])

        async def gone() -> bool:
            return not await there()

        await within_a_second(gone, self.patience_s)

    async def test_pages_of_a_session_do_not_repeat(self, client: RecommenderClient) -> None:
        pages = [
            ids(await client.answer(query(anonymous_id="y", rows=4, start=start, pagination_id="s")))
            for start in (0, 4, 8)
        ]
        together = [product_id for page in pages for product_id in page]
        assert len(together) == len(set(together)) == 10

    async def test_many_at_once_are_all_answered(self, client: RecommenderClient) -> None:
        results = await asyncio.gather(*(client.answer(query(user_id="gina")) for _ in range(50)))
        assert {tuple(ids(result)) for result in results} == {tuple(ids(results[0]))}
