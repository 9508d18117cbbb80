"""Sweeps that are run: variant by variant in this process, and the comparison written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.errors import HouseError
from jobs.refresh.runs.checkpoint import CheckpointStore
from jobs.refresh.runs.sweep import SweepVariant, csv_from_rows, evaluate_saved_variant, markdown_from_rows

VariantCallback = Callable[[SweepVariant, dict[str, Any]], None]

FOLDER = "sweeps"


def run_sweep(found: Sequence[SweepVariant], checkpoints: CheckpointStore, told: VariantCallback) -> None:
    """Examine variants one after the other; one that can't be trained says why and does not stop the others."""
    for variant in found:
        told(variant, try_variant(variant, checkpoints))


def try_variant(variant: SweepVariant, checkpoints: CheckpointStore) -> dict[str, Any]:
    """Examine one variant; what goes wrong is its result."""
    started_s = time.perf_counter()
    try:
        report = evaluate_saved_variant(variant, checkpoints)
    except HouseError as error:
        return {"error": error.message}
    except Exception as error:  # noqa: BLE001
        # whatever a library or a learner of yours throws ends this variant, not the others
        return {"error": f"{type(error).__name__}: {error}"}
    return {**report, "seconds": round(time.perf_counter() - started_s, 2)}


def delete_sweep_data(
    checkpoints: CheckpointStore, results: Sequence[tuple[SweepVariant, Mapping[str, Any]]]
) -> None:
    """Remove the data of a sweep that is complete: asked for again, its results are there without it."""
    if not any("error" in report for _, report in results):
        checkpoints.delete_source()


def write_comparison(
    shelf: ArtifactStore,
    app_id: str,
    name: str,
    table: Sequence[Mapping[str, Any]],
    title: str,
    out: Path | None,
) -> list[str]:
    """Write the comparison as CSV and Markdown onto the shelf, and into a folder of yours; return where it is."""
    texts = {"comparison.csv": csv_from_rows(table), "comparison.md": markdown_from_rows(table, title)}
    places = []
    for file, text in texts.items():
        path = f"{FOLDER}/{app_id}/{name}/{file}"
        shelf.write(path, text.encode())
        places.append(str(shelf.local_path(path) or path))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / file).write_text(text, "utf-8")
            places.append(str(out / file))
    return places
