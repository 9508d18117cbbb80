"""Memory and time of a training, estimated from counts alone, so that a server can answer at any size of the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Invalid
from cluster.records.run import Run
from deployments.operations.framework.result_table import PlainResult

if TYPE_CHECKING:
    from jobs.refresh.recipe import Recipe

EVENTS_A_USER = 8
"Events of a user where no training counted them yet."


def estimate_from_counts(
    store: ArtifactStore, app_id: str, engine_id: str, recipe: Recipe, newest: Sequence[Run]
) -> PlainResult:
    """Return the estimate for the compacted rows of an app; `newest` are its runs, newest first. Blocks.

    Every interaction counts as an event, so the estimate is an upper bound. `kiosk train --dry-run` reads the data.

    Errors:
        Invalid: there is nothing to learn from
    """
    from jobs.refresh.runs.estimate import estimate_from_size
    from jobs.refresh.runs.local_worker import free_memory_mb
    from jobs.refresh.runs.workload import DataSize

    counts = SegmentStore(store).row_counts(app_id)
    events = counts.get("interaction", 0)
    products = counts.get("product", 0)
    if not events and not products:
        raise Invalid(f"app {app_id} has nothing to learn from: no data of it is compacted yet; upload some")
    if recipe.events.newest is not None:
        events = min(events, recipe.events.newest)
    size = DataSize(events, _count_users(events, newest), products, products)
    sizes = estimate_from_size(recipe, size, free_memory_mb())
    named = {"app_id": app_id, "engine_id": engine_id, "recipe": recipe.name}
    return PlainResult({**named, **sizes.to_dict(), "products": products})


def _count_users(events: int, newest: Sequence[Run]) -> int:
    """Return the number of users, by the share that the newest training counted."""
    for run in newest:
        for stage in run.stages:
            counted = stage.facts.get("events")
            users = stage.facts.get("readers")
            if stage.name == "dataset" and counted and users:
                return max(1, events * int(users) // int(counted))
    return max(1, events // EVENTS_A_USER)
