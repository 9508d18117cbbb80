"""What readers did becomes a snapshot, the snapshot serves, what happens afterwards counts beside it, and back again:
through intake, segments, training, promotion and the recommender, without Ray."""

from __future__ import annotations

from functools import partial

import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.host import EngineHost
from cluster.clock import iso_ms
from jobs.refresh.recipe import parse_recipe
from jobs.refresh.runs.promotion import roll_back_version
from jobs.refresh.runs.training_source import read_training_source
from tests.fakes.corner_shop import APP, happen, upload
from tests.fakes.trained_snapshot import RECIPE, name
from tests.journeys.workshop import Workshop
from tests.suites.waiting import until


@pytest.mark.usefixtures("allow_world")
async def test_from_clicks_to_a_snapshot_that_serves_and_back(workshop: Workshop) -> None:
    stores, now_ms = workshop.stores, workshop.now_ms
    await workshop.settle_the_ring()
    assert read_training_source(workshop.segments, APP, parse_recipe(RECIPE)).offsets.keys() >= {
        "interaction"
    }
    version, host = workshop.train(), workshop.replica()
    assert await ids(host)
    assert await serves(host, "")

    await workshop.promote(version)
    took_s = await until(partial(serves, host, version))
    print(f"\npromoted after {took_s:.2f} s", end="")
    assert took_s < 3.0

    # the reader's click of a moment ago is asked with, and what was learned answers
    step = {"type": "click", "user_id": "gina", "timestamp": iso_ms(now_ms)}
    await happen(stores, [{**step, "product_ids": [name(11)]}, {**step, "product_ids": [name(12)]}])
    assert (await ids(host))[0] == name(13)

    # what was never learned counts beside it within a second
    await upload(stores, [{"product_id": "clasp", "title": "Clasp", "type": "tool", "categories": [["x"]]}])
    pairs = [
        {"type": "click", "user_id": f"new-{n}", "product_ids": [product], "timestamp": iso_ms(now_ms + at)}
        for n in range(40)
        for at, product in enumerate((name(12), "clasp"))
    ]
    await happen(stores, pairs)

    async def clasped() -> bool:
        return "clasp" in await ids(host, rows=5)

    assert await until(clasped) < 1.5
    assert name(13) in await ids(host, rows=5)

    await roll_back_version(stores, workshop.artifacts, APP, "default", now_ms=now_ms + 1, by="test")
    took_s = await until(partial(serves, host, ""))
    print(f", back after {took_s:.2f} s")
    assert took_s < 3.0


async def ids(host: EngineHost, rows: int = 3) -> list[str]:
    result = await host.answer(UserQuery("user_to_products", APP, "default", user_id="gina", rows=rows))
    assert isinstance(result, RecommendationResult), result
    return [product["product_id"] for product in result.products]


async def serves(host: EngineHost, version: str) -> bool:
    """Look at what serves; there are answers all the while."""
    assert len(await ids(host)) == 3
    return (await host._followers.get(APP)).serving_version("default") == version
