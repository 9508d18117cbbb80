"""What is recommended, through the door and down to the recommender: scenarios over the corner shop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.store.stores import Stores
from tests.contract.scenario import Scenario, load
from tests.contract.served_shop import open_served_shop
from tests.contract.test_rest import play
from tests.contract.ways import InProcess
from tests.fakes.corner_shop import APP
from tests.fakes.request_handler import Corner

RULES = [
    {"name": "almanac for guests", "boost_fq": "product_id:garden-almanac", "boosting_tags": ["guest"]},
    {
        "name": "no hoes in spring",
        "boost": [{"field": "product_id", "query": "draw-hoe", "action": "remove"}],
        "context": {"season": ["spring"]},
    },
    {"name": "boards", "boost_fq": "product_id:cutting-board", "position": [2], "query": "board"},
]


@pytest.fixture
async def corner() -> AsyncIterator[Corner]:
    async with open_served_shop(RULES) as corner:
        yield corner


@pytest.mark.parametrize("scenario", load(Path(__file__).parent / "shop"), ids=lambda scenario: scenario.name)
async def test_the_shop_answers_as_specified(scenario: Scenario, corner: Corner) -> None:
    await play(scenario, InProcess(corner, corner.handler), "unknown")


async def _written(stores: Stores) -> object:
    user_keys = [f"u:{name}" for name in ("gina", "nora", "x")] + ["a:x"]
    return (
        [await stores.interactions.recent(APP, [user_key]) for user_key in user_keys],
        await stores.changes.last(APP, "interaction"),
    )


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("user_to_products", {"pagination_id": "s"}),
        ("user_to_trending", {}),
        ("user_to_categories", {}),
        ("user_to_attributes", {"field": "brand"}),
        ("user_to_history", {}),
        ("product_to_products", {"product_id": "hand-fork"}),
    ],
)
async def test_simulated_interactions_are_never_written(
    corner: Corner, kind: str, more: dict[str, object]
) -> None:
    import orjson

    from tests.fakes.asgi import call

    before = await _written(corner.stores)
    for who in ({"user_id": "gina"}, {"anonymous_id": "x"}, {"user_id": "x", "anonymous_id": "x"}, {}):
        simulated = [{"type": "checkout", "user_id": "nora", "product_ids": ["carving-knife"]}]
        body = orjson.dumps({**who, **more, "additional_interactions": simulated})
        answer = await call(
            corner.handler, "POST", f"/v1/recommendation/{kind}", headers=corner.headers(), body=body
        )
        assert answer.status == 200
        assert b"product_id" in answer.body
    assert await _written(corner.stores) == before
