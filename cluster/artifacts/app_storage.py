"""The folders of one app in the artifact store, their size, and those of its training runs.

Artifacts of trainings lie at `runs/<app>/<run>/...` and `sweeps/<app>/<name>/...`.
"""

from __future__ import annotations

from cluster.artifacts.snapshots import FOLDER
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


def clear_run(store: ArtifactStore, app_id: str, run_id: str) -> int:
    """Remove all files of one run, also of interrupted writes; return their number."""
    place = f"{RUNS}/{app_id}/{run_id}"
    gone = sum(store.remove(entry.path) for entry in store.entries(place))
    return gone + store.sweep_parts(place, 1 << 62)


SHARED_FOLDERS = (FOLDER, *TRAINING_FOLDERS, "models", "reports")
"Folders beside those of apps. A new app has none of these names, or its segments would lie among other apps' files."


def measure_app(store: ArtifactStore, app_id: str) -> int:
    """Return the bytes of an app: segments, logs, outcomes, snapshots and artifacts of trainings.

    Cost:
        a recursive listing of each folder of the app
    """
    folders = (app_id, *(f"{above}/{app_id}" for above in (FOLDER, *TRAINING_FOLDERS)))
    return sum(entry.size for folder in folders for entry in store.entries(folder))
