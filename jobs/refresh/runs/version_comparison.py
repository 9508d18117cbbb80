"""Recipes of published versions, examined anew on what has settled by now."""

from __future__ import annotations

from typing import Any

from cluster.artifacts.segments import SegmentShelf
from cluster.artifacts.snapshots import SnapshotShelf
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.recipe import Recipe, parse
from jobs.refresh.runs.stages import READERS, examined, planned, splitted
from jobs.refresh.runs.training_source import read_source
from jobs.refresh.tuning.plan import Tell, say_nothing


def recipe_of(snapshots: SnapshotShelf, app_id: str, engine_id: str, version: str) -> Recipe:
    """Read the settled recipe of a version.

    Errors:
        NotFound: there is no such version
        Fault: its manifest is damaged
    """
    return parse(snapshots.manifest(app_id, engine_id, version).facts["recipe"])


def compared_now(
    segments: SegmentShelf,
    snapshots: SnapshotShelf,
    app_id: str,
    engine_id: str,
    version: str,
    serving: str,
    readers: int = READERS,
) -> dict[str, Any]:
    """Train the recipes of two versions on the same past, and examine them on the same readers.

    Errors:
        NotFound, Fault: a version is gone or damaged
        Invalid: there is too little data, or what was learned by a learner of yours that is not installed here
    """
    recipe = recipe_of(snapshots, app_id, engine_id, version)
    against = snapshots.manifest(app_id, engine_id, serving).facts["recipe"] if serving else None
    return evaluated(
        read_source(segments, app_id, recipe).data,
        recipe,
        serving=None if against is None else {"version": serving, "recipe": against},
        readers=readers,
    )


def evaluated(
    data: Interactions,
    recipe: Recipe,
    protocol: str = "auto",
    *,
    serving: dict[str, Any] | None = None,
    readers: int = READERS,
    tell: Tell = say_nothing,
) -> dict[str, Any]:
    """Examine a recipe by a protocol; open questions are answered on what came before the test.

    Errors:
        Invalid: there is too little data, or the protocol does not fit it
    """
    tell(f"split ({protocol})")
    split = splitted(recipe, data, protocol)
    plan = planned(recipe, data, split, tell)
    found = examined(plan, split.test, serving=serving, readers=readers, tell=tell)
    return {**found, "protocol": protocol}
