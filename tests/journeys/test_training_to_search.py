"""What was uploaded becomes a search index in the engine's snapshot, replicas map it, and what is uploaded afterwards
is found beside it: through intake, segments, training stages, promotion and two recommenders, without Ray."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.retrieval.messages import SearchQuery
from actors.retrieval.product_search import ProductSearch
from actors.serving.host import EngineHost
from tests.fakes.corner_shop import APP, upload
from tests.journeys.workshop import Workshop, is_mapped
from tests.suites.waiting import until

pytestmark = pytest.mark.usefixtures("allow_world")
MORE = [
    {"product_id": f"cord-{at:02d}", "title": f"Waxed cord {at}", "type": "cord", "language": "en"}
    for at in range(40)
]


async def test_searches_are_answered_out_of_the_snapshot_and_new_products_beside_it(
    workshop: Workshop,
) -> None:
    await workshop.settle_the_ring(*MORE)
    version = workshop.train()
    running, later = workshop.replica(), workshop.replica()
    before = await find_product_ids(running, "bead nmber 7 ")
    assert before == ["ring-07"]
    await workshop.promote(version)
    await until(partial(serves, running, version), 5.0)
    for replica in (running, later):
        assert await find_product_ids(replica, "bead nmber 7 ") == before
        assert await serves(replica, version)
        (mapped,) = [
            active_segment
            for active_segment in (await texts_of(replica))._index.parts[0].segments.active_segments()
            if active_segment.row_mapping is not None
        ]
        assert is_mapped(mapped.segment.rows), "the postings"
        assert await find_product_ids(replica, "waxen cords", partial=True, meaning=0.1)
    await upload(workshop.stores, [{"product_id": "clasp", "title": "Silver clasp", "type": "tool"}])
    await upload(workshop.stores, [{"product_id": "ring-07", "title": "Amber pearl", "type": "bead"}])
    took_s = 0.0
    for replica in (running, later):
        took_s += await until(partial(finds, replica, "silver clasp", ["clasp"]))
        took_s += await until(partial(finds, replica, "bead number 7 ", []))
        assert await find_product_ids(replica, "amber") == ["ring-07"]
    print(f"\nfound {took_s:.2f} s after the upload")
    assert took_s < 1.0


async def texts_of(host: EngineHost) -> ProductSearch:
    follower = await host._followers.get(APP)
    return follower.recommender.overlay.texts


async def find_product_ids(host: EngineHost, text: str, **options: Any) -> list[str]:
    search = SearchQuery(text=text, original=text, personalization=0, **options)
    result = await host.answer(UserQuery("search", APP, "default", rows=20, search=search))
    assert isinstance(result, RecommendationResult), result
    return [product["product_id"] for product in result.products]


async def finds(host: EngineHost, text: str, expected: list[str]) -> bool:
    return await find_product_ids(host, text, correct=False) == expected


async def serves(host: EngineHost, version: str) -> bool:
    return (await texts_of(host)).version == version
