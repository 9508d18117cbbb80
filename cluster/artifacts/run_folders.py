"""The folders in which trainings keep what they have behind them: `runs/<app>/<run>/...`."""

from __future__ import annotations

from cluster.artifacts.shelf import Shelf

FOLDER = "runs"


def run_folder(app_id: str, run_id: str) -> str:
    """Name the folder of one run."""
    return f"{FOLDER}/{app_id}/{run_id}"


def run_folders(shelf: Shelf, app_id: str) -> dict[str, list[str]]:
    """List what runs of an app left: run -> paths of its files."""
    above, found = f"{FOLDER}/{app_id}", dict[str, list[str]]()
    for entry in shelf.entries(above):
        run_id = entry.path[len(above) + 1 :].partition("/")[0]
        found.setdefault(run_id, []).append(entry.path)
    return found


def clear_run(shelf: Shelf, app_id: str, run_id: str) -> int:
    """Remove everything of one run; return how many files went."""
    folder = run_folder(app_id, run_id)
    gone = sum(shelf.remove(entry.path) for entry in shelf.entries(folder))
    return gone + shelf.sweep_parts(folder, 1 << 62)
