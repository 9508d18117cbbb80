"""Write the folder of a model snapshot.

A write is atomic: it goes into a temporary folder, which is then renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from actors.models.loading.snapshot import ITEMS, KIND, MANIFEST, version_of
from actors.models.loading.snapshot_models import BASKETS, COHORTS
from actors.vectors.snapshot_arrays import Array, ModelState
from actors.vectors.vocabulary import Vocabulary
from cluster.artifacts.file_verification import sha256_of_file
from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.errors import Conflict, Fault
from jobs.refresh.build.fit import TrainedEngine


@dataclass(frozen=True, slots=True)
class SnapshotOrigin:
    """Facts about the origin of a snapshot, stored in its manifest."""

    offsets: Mapping[str, str] = field(default_factory=dict)
    "Noun -> change-log offset of the newest training event; an engine applies the log after it."
    embedder: str = ""
    release: str = ""
    erasures: int = 0
    "Number of erasures of users before the events were read."
    code: str = ""
    "Digest of the code that was shipped with the run; serving processes can't import it."


def write_model_snapshot(
    engine: TrainedEngine,
    folder: Path,
    *,
    written_at_ms: int,
    sequence: int = 1,
    origin: SnapshotOrigin | None = None,
    extras: Mapping[str, ModelState] | None = None,
) -> Manifest:
    """Write an engine and `extras` as a snapshot into a new folder, and return the manifest.

    Errors:
        Conflict: the folder exists
        Fault: a custom learner saves arrays of objects or of unsupported types
    """
    if folder.exists():
        raise Conflict(f"there is a snapshot already: {folder.name}", path=str(folder))
    origin = origin or SnapshotOrigin()
    extras = extras or {}
    # one name per process: a worker that lost its run may still write while the new worker does
    part_folder = folder.parent / f".{folder.name}.{os.getpid()}.part"
    shutil.rmtree(part_folder, ignore_errors=True)
    part_folder.mkdir(parents=True)
    try:
        # Sorted: the version is a digest of this list, and folders list their files in any order.
        files = tuple(sorted(_write_files(engine, extras, part_folder), key=lambda entry: entry.name))
        facts = _manifest_facts(engine, extras, origin)
        facts["version"] = version_of(facts, files)
        manifest = Manifest(KIND, sequence, written_at_ms, facts, files)
        # Last: a folder without a manifest is no snapshot, whatever a killed process left in it.
        _write(part_folder / MANIFEST, manifest.dump())
        # A rename within one file system is atomic: others see the whole folder or none.
        os.rename(part_folder, folder)
    except OSError as error:
        if folder.exists():  # another process created the folder first
            raise Conflict(f"there is a snapshot already: {folder.name}", path=str(folder)) from error
        raise
    finally:
        shutil.rmtree(part_folder, ignore_errors=True)
    return manifest


def _saved_parts(engine: TrainedEngine, extras: Mapping[str, ModelState]) -> Iterator[tuple[str, ModelState]]:
    for part in engine.blend.parts:
        yield part.name, part.model.save()
    if engine.baskets is not None:
        yield BASKETS, engine.baskets.save()
    if engine.cohorts is not None:
        yield COHORTS, engine.cohorts.save()
    yield from extras.items()


def _manifest_facts(
    engine: TrainedEngine, extras: Mapping[str, ModelState], origin: SnapshotOrigin
) -> dict[str, Any]:
    saved = {name: dict(parts.facts) for name, parts in _saved_parts(engine, extras)}
    return {
        "recipe": engine.recipe.model_dump(mode="json"),
        "data": asdict(engine.facts),
        "parts": [
            {
                "name": part.name,
                "learner": engine.recipe.parts[part.name].learner,
                "weight": part.weight,
                "weight_new": part.weight_new,
                **({} if part.weight_unseen is None else {"weight_unseen": part.weight_unseen}),
                "facts": saved[part.name],
            }
            for part in engine.blend.parts
        ],
        "extras": [
            {"name": name, "facts": saved[name]} for name in (BASKETS, COHORTS, *extras) if name in saved
        ],
        "offsets": dict(origin.offsets),
        "embedder": origin.embedder,
        "release": origin.release,
        "erasures": origin.erasures,
        **({"code": origin.code} if origin.code else {}),
    }


def _write_files(
    engine: TrainedEngine, extras: Mapping[str, ModelState], folder: Path
) -> Iterator[FileEntry]:
    _write_names(folder / ITEMS, engine.items)
    yield _file_entry(folder / ITEMS, ITEMS, len(engine.items), {})
    for name, parts in _saved_parts(engine, extras):
        (folder / name).mkdir()
        for array_name, array in parts.arrays.items():
            path = folder / name / f"{array_name}.npy"
            kept = _contiguous_array(array, f"{name}/{array_name}")
            with path.open("wb") as stream:
                # A fixed version of the format: equal arrays give equal bytes, and the version of the
                # snapshot is a digest.
                np.lib.format.write_array(stream, kept, version=(1, 0), allow_pickle=False)
                stream.flush()
                # Before the rename: after a power cut a renamed folder could otherwise have empty files.
                os.fsync(stream.fileno())
            about = {"dtype": str(kept.dtype), "shape": list(kept.shape)}
            yield _file_entry(path, f"{name}/{array_name}.npy", len(kept) if kept.ndim else 0, about)


def _contiguous_array(array: Array, name: str) -> Array:
    """Return an array in the contiguous form that snapshots store.

    Errors:
        Fault: the array holds objects
    """
    if array.dtype.hasobject:
        raise Fault(f"array {name} holds objects; a snapshot keeps numbers and fixed texts only")
    # Little-endian on every machine: equal arrays must give equal bytes, and so one version.
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _write_names(path: Path, items: Vocabulary) -> None:
    table = pa.table({"item_id": items.names})
    with path.open("wb") as stream:
        with pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
        stream.flush()
        os.fsync(stream.fileno())


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _file_entry(path: Path, name: str, rows: int, facts: Mapping[str, Any]) -> FileEntry:
    return FileEntry(name, path.stat().st_size, sha256_of_file(path), rows, facts)
