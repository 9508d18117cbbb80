"""Load the data of a report, and check that the artifact store holds the versions that variants name.

Exposures and counters come from the store, conversions from compacted interactions. Interactions of the last half
minute may not be compacted yet: the report gives their number and counts them the next time.
"""

from __future__ import annotations

import asyncio

from actors.experiments.report import ExperimentReport, build_report
from actors.hosting.uncompacted_interactions import read_uncompacted
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.errors import NotFound
from cluster.records.experiment import Experiment
from cluster.store.ports.stores import Stores


def validate_snapshots(experiment: Experiment, shelf: ArtifactStore | None) -> None:
    """Refuse versions that the artifact store does not hold: a variant would then change nothing.

    Errors:
        NotFound: names the version
    """
    for variant in experiment.variants:
        if not variant.snapshot:
            continue
        for engine_id in (variant.engine_id,) if variant.engine_id else experiment.engines:
            if variant.snapshot not in _snapshot_versions(shelf, experiment.app_id, engine_id):
                raise NotFound(
                    f"variant {variant.slug}: engine {engine_id} has no snapshot {variant.snapshot!r}; "
                    "see `kiosk engines history`"
                )


async def load_report(
    stores: Stores, shelf: ArtifactStore | None, experiment: Experiment
) -> ExperimentReport:
    """Read all data in a separate thread and build the report; without an artifact store there are no conversions.

    Errors:
        Fault: the manifest of the compacted interactions is damaged
    """
    app_id, name = experiment.app_id, experiment.experiment_id
    exposures = [row async for row in stores.experiments.exposures(app_id, name)]
    since_ms = min((exposure.at_ms for _, exposure in exposures), default=0)
    did, after = await asyncio.to_thread(_read_conversions, shelf, experiment, since_ms)
    late = await read_uncompacted(stores.changes, app_id, after, experiment.goal) if exposures else []
    visitors = [reader[2:] for reader, _ in exposures if reader.startswith("a:")]
    links = await stores.interactions.links(app_id, visitors)
    served = await stores.experiments.served(app_id, name)
    settling = [(one.reader_id, one.at_ms) for one in late]
    return await asyncio.to_thread(
        build_report, experiment, exposures, did, links=links, served=served, settling=settling
    )


def _snapshot_versions(shelf: ArtifactStore | None, app_id: str, engine_id: str) -> set[str]:
    return {one.version for one in SnapshotStore(shelf).versions(app_id, engine_id)} if shelf else set()


def _read_conversions(
    shelf: ArtifactStore | None, experiment: Experiment, since_ms: int
) -> tuple[list[tuple[str, int]], str]:
    """Return the compacted conversions and the offset up to which interactions are compacted."""
    if shelf is None:
        return [], "0"
    segments = SegmentStore(shelf)
    # an interaction that is compacted between the two reads appears in both
    after = segments.offsets(experiment.app_id).get("interaction", "0")
    table = segments.load_interaction_times(experiment.app_id, experiment.goal, since_ms)
    return list(zip(table["reader"].to_pylist(), table["at_ms"].to_pylist(), strict=True)), after
