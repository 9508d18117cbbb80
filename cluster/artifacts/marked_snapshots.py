"""Snapshots trained on rows that were erased since: marked until a training replaces them."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.artifacts.erasures import ErasureLog
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import FOLDER, MANIFEST, SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import HouseError


@dataclass(frozen=True, slots=True)
class MarkedSnapshot:
    """A version trained on data of erased users."""

    engine_id: str
    version: str
    erasures: int
    "Erasures, since its training, of rows it was trained on."


def find_marked_snapshots(store: ArtifactStore, app_id: str, seen: int = 0) -> list[MarkedSnapshot]:
    """Return the marked versions of all engines of an app, including deleted engines.

    With `seen`, only erasures after so many count.

    Errors:
        Fault: the manifest of the segments is damaged
    Cost:
        one small file for each version
    """
    log = SegmentStore(store).erasures(app_id)
    if not log.count:
        return []
    snapshots = SnapshotStore(store)
    above = f"{FOLDER}/{app_id}"
    marked = list[MarkedSnapshot]()
    for entry in store.entries(above):
        engine_id, _, rest = entry.path[len(above) + 1 :].partition("/")
        version, _, name = rest.partition("/")
        if name != MANIFEST:
            continue
        try:
            count = count_erasures_since(snapshots.manifest(app_id, engine_id, version), log, seen)
        except HouseError:  # it is being removed or damaged, so no replica can serve it
            continue
        if count:
            marked.append(MarkedSnapshot(engine_id, version, count))
    return marked


def count_erasures_since(manifest: Manifest, log: ErasureLog, seen: int = 0) -> int:
    """Return the number of erasures, after the first `seen`, of rows that a snapshot was trained on."""
    facts = manifest.facts
    return log.since(max(seen, int(facts.get("erasures", 0))), facts.get("offsets", {}))
