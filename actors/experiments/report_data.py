"""Load the data of a report, and check that the artifact store holds the versions that variants name.

Exposures and counters come from the store, conversions and values from compacted interactions. Interactions of the last
half minute may not be compacted yet: the report gives the number of conversions and counts them the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import orjson
import polars as pl

from actors.experiments.goal_report import build_goal_reports, build_segment_reports
from actors.experiments.goal_values import ExperimentPeople, PeopleFigures, list_goals, load_figures
from actors.experiments.report import ExperimentReport, build_report, collect_people
from actors.hosting.uncompacted_interactions import read_uncompacted
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import NotFound
from cluster.records.experiment import Experiment, Exposure
from cluster.records.user import USER_TIMES
from cluster.store.stores import Stores

_USERS_A_PAGE: Final = 1_000
_MONTH: Final = len("2026-03")


def validate_snapshots(experiment: Experiment, artifacts: ArtifactStore | None) -> None:
    """Refuse versions that the artifact store does not hold: a variant would then change nothing.

    Errors:
        NotFound: names the version
    """
    for variant in experiment.variants:
        if not variant.snapshot:
            continue
        for engine_id in (variant.engine_id,) if variant.engine_id else experiment.engines:
            if variant.snapshot not in _snapshot_versions(artifacts, experiment.app_id, engine_id):
                raise NotFound(
                    f"variant {variant.slug}: engine {engine_id} has no snapshot {variant.snapshot!r}; "
                    "see `kiosk engines history`"
                )


async def load_report(
    stores: Stores, artifacts: ArtifactStore | None, experiment: Experiment
) -> ExperimentReport:
    """Read all data in a separate thread and build the report; without an artifact store there are no conversions."""
    app_id = experiment.app_id
    name = experiment.experiment_id
    exposures, links = await _read_exposures(stores, experiment)
    since_ms = min((exposure.at_ms for _, exposure in exposures), default=0)
    # Linked users too: a visitor may convert after the sign-in.
    user_keys = [*(user_key for user_key, _ in exposures), *(f"u:{user}" for user in links.values())]
    goal_interactions, after = await asyncio.to_thread(
        _read_conversions, artifacts, experiment, since_ms, user_keys
    )
    late = await read_uncompacted(stores.changes, app_id, after, experiment.goal) if exposures else []
    served = await stores.experiments.served(app_id, name)
    settling = [(interaction.user_key, interaction.at_ms) for interaction in late]
    report = await asyncio.to_thread(
        build_report, experiment, exposures, goal_interactions, links=links, served=served, settling=settling
    )
    if artifacts is None or not (experiment.goals or experiment.segments):
        return report
    return await _add_goals(report, stores, artifacts, exposures, links)


async def _add_goals(
    report: ExperimentReport,
    stores: Stores,
    artifacts: ArtifactStore,
    exposures: Sequence[tuple[str, Exposure]],
    links: Mapping[str, str],
) -> ExperimentReport:
    experiment = report.experiment
    people, met = await asyncio.to_thread(list_people, experiment, exposures, links)
    figures = await load_figures(stores, artifacts, experiment.app_id, list_goals(experiment), people)
    labels: dict[str, Sequence[str]] = {}
    for name in experiment.segments:
        if name == "history":
            labels[name] = ["returning" if was_seen else "new" for was_seen in figures.is_returning]
        elif name.startswith("user."):
            labels[name] = await _read_attribute(stores, experiment.app_id, people, name.partition(".")[2])
        else:
            labels[name] = [str(getattr(exposure, name)) or "unknown" for exposure in met]
    goals = await asyncio.to_thread(build_goal_reports, experiment, people, figures)
    segments = await asyncio.to_thread(build_segment_reports, experiment, people, figures, labels)
    return replace(report, goals=goals, segments=segments)


async def load_people_figures(
    stores: Stores, artifacts: ArtifactStore, experiment: Experiment
) -> tuple[ExperimentPeople, PeopleFigures]:
    """Read the people of an experiment and the figures of all its goals."""
    exposures, links = await _read_exposures(stores, experiment)
    people, _ = await asyncio.to_thread(list_people, experiment, exposures, links)
    return people, await load_figures(stores, artifacts, experiment.app_id, list_goals(experiment), people)


async def _read_exposures(
    stores: Stores, experiment: Experiment
) -> tuple[list[tuple[str, Exposure]], Mapping[str, str]]:
    """Return the exposures of all users, and the users to which anonymous visitors are linked."""
    app_id = experiment.app_id
    exposures = [row async for row in stores.experiments.exposures(app_id, experiment.experiment_id)]
    visitors = [user_key[2:] for user_key, _ in exposures if user_key.startswith("a:")]
    return exposures, await stores.interactions.links(app_id, visitors)


def list_people(
    experiment: Experiment, exposures: Iterable[tuple[str, Exposure]], links: Mapping[str, str]
) -> tuple[ExperimentPeople, list[Exposure]]:
    """Return the people whose figures count, and the exposure of each: not forced, and since the weights changed."""
    met, person_of = collect_people(exposures, links)
    place = {variant.variant_id: at for at, variant in enumerate(experiment.variants)}
    fair = {
        person: exposure
        for person, exposure in met.items()
        if not exposure.forced and exposure.at_ms >= experiment.weights_at and exposure.variant_id in place
    }
    numbers = {person: at for at, person in enumerate(fair)}
    rows = [
        (user_key, numbers[person], fair[person].at_ms)
        for user_key, person in person_of.items()
        if person in numbers
    ]
    names = pl.DataFrame(
        rows, schema={"user_key": pl.String, "person": pl.Int64, "met_at": pl.Int64}, orient="row"
    )
    people = ExperimentPeople(
        np.array([place[exposure.variant_id] for exposure in fair.values()], np.int32),
        np.array([exposure.at_ms for exposure in fair.values()], np.int64),
        names,
        1 << 62 if experiment.ends_at is None else experiment.ends_at,
    )
    return people, list(fair.values())


async def _read_attribute(stores: Stores, app_id: str, people: ExperimentPeople, name: str) -> Sequence[str]:
    """Return a field of each person's stored user record, as text, a time as its month; `unknown` without one."""
    values = ["unknown"] * len(people.variants)
    users = people.by_user_key.filter(pl.col("user_key").str.starts_with("u:"))
    for page in users.iter_slices(_USERS_A_PAGE):
        user_ids = [user_key[2:] for user_key in page["user_key"]]
        bodies = await stores.records.get_many(app_id, "user", user_ids)
        for person, body in zip(page["person"], bodies, strict=True):
            user = {} if body is None else orjson.loads(body)
            value = user.get(name, (user.get("custom_attributes") or {}).get(name))
            if isinstance(value, str | int | float):
                values[person] = str(value)[:_MONTH] if name in USER_TIMES else str(value)
    return values


def _snapshot_versions(artifacts: ArtifactStore | None, app_id: str, engine_id: str) -> set[str]:
    if artifacts is None:
        return set()
    return {snapshot.version for snapshot in SnapshotStore(artifacts).versions(app_id, engine_id)}


def _read_conversions(
    artifacts: ArtifactStore | None, experiment: Experiment, since_ms: int, user_keys: Sequence[str]
) -> tuple[list[tuple[str, int]], str]:
    """Return the compacted conversions of some users and the offset up to which interactions are compacted."""
    if artifacts is None:
        return [], "0"
    segments = SegmentStore(artifacts)
    # an interaction that is compacted between the two reads appears in both
    after = segments.offsets(experiment.app_id).get("interaction", "0")
    table = segments.load_interaction_times(experiment.app_id, experiment.goal, since_ms, user_keys)
    return list(zip(table["reader"].to_pylist(), table["at_ms"].to_pylist(), strict=True)), after
