"""The folders of one app in the artifact store, and their size."""

from __future__ import annotations

from cluster.artifacts.run_folders import TRAINING_FOLDERS
from cluster.artifacts.snapshots import FOLDER
from cluster.artifacts.storage.artifact_store import ArtifactStore

SHARED_FOLDERS = (FOLDER, *TRAINING_FOLDERS, "models", "reports")
"Folders beside those of apps. A new app has none of these names, or its segments would lie among other apps' files."


def measure_app(store: ArtifactStore, app_id: str) -> int:
    """Return the bytes of an app: segments, logs, outcomes, snapshots and artifacts of trainings.

    Errors:
        Unavailable: the artifact store is unreachable
    Cost:
        a recursive listing of each folder of the app
    """
    folders = (app_id, *(f"{above}/{app_id}" for above in (FOLDER, *TRAINING_FOLDERS)))
    return sum(entry.size for folder in folders for entry in store.entries(folder))
