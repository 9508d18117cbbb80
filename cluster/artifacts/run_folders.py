"""The folders of the artifacts of training runs: `runs/<app>/<run>/...`, `sweeps/<app>/<name>/...`."""

from __future__ import annotations

from cluster.artifacts.storage.artifact_store import ArtifactStore

RUNS = "runs"
SWEEPS = "sweeps"
TRAINING_FOLDERS = (RUNS, SWEEPS)
"Folders that may contain rows of users."


def run_folders(store: ArtifactStore, app_id: str, folder: str = RUNS) -> dict[str, list[str]]:
    """Return the files of an app's runs: run -> paths."""
    above = f"{folder}/{app_id}"
    folders = dict[str, list[str]]()
    for entry in store.entries(above):
        run_id = entry.path[len(above) + 1 :].partition("/")[0]
        folders.setdefault(run_id, []).append(entry.path)
    return folders


def clear_run(store: ArtifactStore, app_id: str, run_id: str, folder: str = RUNS) -> int:
    """Remove all files of one run, also of interrupted writes; return their number."""
    place = f"{folder}/{app_id}/{run_id}"
    gone = sum(store.remove(entry.path) for entry in store.entries(place))
    return gone + store.sweep_parts(place, 1 << 62)
