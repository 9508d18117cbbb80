"""What a replica publishes about its state while that changes."""

from __future__ import annotations

from collections.abc import Callable

from actors.serving.replica_comparison import ReplicaComparison
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import SilentMeter
from tests.fakes.corner_shop import APP
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import open_ring_shop


async def test_lists_of_a_snapshot_that_was_adopted_meanwhile_are_not_those_of_the_former_one() -> None:
    recommender = open_ring_shop(offset="1-0")
    state = recommender.get_engine_state(DEFAULT_ENGINE)
    state.serving_version = "first"

    async def adopt_and_run(work: Callable[[], str]) -> str:
        state.serving_version = "second"
        return work()

    comparison = ReplicaComparison(
        APP, "replica", memory_stores().changes, StillClock(), SilentMeter(), adopt_and_run
    )
    digest = await comparison.digest(recommender, is_as_loaded=True)
    assert (digest["version"], digest["lists"]) == ("first", "")
    digest = await comparison.digest(recommender, is_as_loaded=True)
    assert digest["version"] == "second"
    assert digest["lists"]
