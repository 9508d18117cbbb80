"""What was uploaded becomes an index in the engine's snapshot, replicas map it, and what is uploaded afterwards is
completed beside it: through intake, segments, training stages, promotion and two recommenders, without Ray."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.retrieval.autocomplete.field_indexes import FieldKey
from actors.serving.host import EngineHost
from tests.fakes.corner_shop import APP, upload
from tests.journeys.workshop import Workshop, is_mapped
from tests.suites.waiting import until

pytestmark = pytest.mark.usefixtures("allow_world")
KEY = FieldKey("title", "en", False)


async def test_completions_come_from_the_snapshot_and_new_titles_beside_it(workshop: Workshop) -> None:
    await workshop.settle_the_ring()
    version = workshop.train()
    first, other = workshop.replica(), workshop.replica()
    assert await titles(first, "bead nmber 7") == ["Bead number 7 of colour 0"]
    await workshop.promote(version)
    await until(partial(serves, first, version), 5.0)
    for replica in (first, other):
        assert await titles(replica, "bead nmber 7") == ["Bead number 7 of colour 0"]
        assert await serves(replica, version)
        _, field = await field_of(replica)
        assert is_mapped(field._main.built.index.texts.codes), "the characters of the titles"
    await upload(workshop.stores, [{"product_id": "clasp", "title": "Silver clasp", "type": "tool"}])
    took_s = [
        await until(partial(completes, replica, "silver cl", ["Silver clasp"])) for replica in (first, other)
    ]
    print(f"\ncompleted {sum(took_s):.2f} s after the upload")
    assert sum(took_s) < 1.0


async def titles(host: EngineHost, typed: str) -> list[str]:
    query = UserQuery(
        "autocomplete", APP, "default", typed=typed, completion_fields=("title",), language="en", rows=1
    )
    result = await host.answer(query)
    assert isinstance(result, RecommendationResult), result
    return [entry["text"] for entry in result.completions["title"]]


async def completes(host: EngineHost, typed: str, expected: list[str]) -> bool:
    return await titles(host, typed) == expected


async def field_of(host: EngineHost) -> Any:
    follower = await host._followers.get(APP)
    recommender = follower.recommender
    catalog = recommender.overlay.catalog
    return recommender.completions, recommender.completions.get_field(
        KEY, catalog, lambda: np.zeros(len(catalog))
    )


async def serves(host: EngineHost, version: str) -> bool:
    completions, field = await field_of(host)
    return bool(completions.version == version and field.changed_count == 0)
