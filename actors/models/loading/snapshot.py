"""A model snapshot on disk: arrays that are memory-mapped, and a manifest with checksums of all files.

    <folder>/manifest.json               kind `snapshot`; written last
    <folder>/items.arrow                 names of the rows, in their order (Arrow IPC, one column `item_id`)
    <folder>/<part>/<array>.npy          arrays of one part, C order, little-endian, never pickled

Facts of the manifest: `recipe` (with chosen parameters), `data` (fingerprint, counts), `parts` (name, learner, weights,
facts of the model), `extras` (models outside the blend), `offsets`, `embedder`, `release` and `version`. The version is
a digest of these facts and all files, so equal recipe, data and seed give equal versions. Facts of a file: `dtype`,
`shape`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from actors.vectors.snapshot_arrays import Array, ModelState
from actors.vectors.vocabulary import Vocabulary
from cluster.artifacts.file_verification import damaged_file_error, verify_file
from cluster.artifacts.manifest import FileEntry, Manifest

KIND = "snapshot"
MANIFEST = "manifest.json"
ITEMS = "items.arrow"

_CHUNK = 4 << 20
_GROUPS = ("parts", "extras")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An opened snapshot: facts in memory, arrays mapped read-only."""

    folder: Path
    manifest: Manifest
    items: Vocabulary
    parts: Mapping[str, ModelState]
    "Name -> arrays and facts of a part of the blend or of an extra."

    @property
    def version(self) -> str:
        return str(self.manifest.facts["version"])

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.manifest.files)

    @classmethod
    def open(cls, folder: Path, manifest: Manifest | None = None, *, verify: bool = True) -> Snapshot:
        """Open a snapshot. Without `verify`, only sizes are compared, for files verified before.

        The files must fit the given manifest. Without one, the manifest in the folder is used: only for folders that
        this process wrote.

        Errors:
            Fault: a file is missing, or its size, checksum or form differs from the manifest; fact `path`
        Cost:
            verifying: 0.5 s per GB from memory; mapping: 1 ms
        """
        if manifest is None:
            manifest = Manifest.parse(_read_bytes(folder / MANIFEST), kind=KIND)
        arrays: dict[str, dict[str, Array]] = {}
        for entry in manifest.files:
            path = folder / entry.name
            # Before mapping: numpy would read the header of a file that nobody checked.
            verify_file(path, entry, verify=verify)
            if entry.name != ITEMS:
                part, _, name = entry.name.removesuffix(".npy").rpartition("/")
                arrays.setdefault(part, {})[name] = _map_array(path, entry)
        facts = _read_facts(manifest)
        parts = {name: ModelState(arrays.get(name, {}), fact) for name, fact in facts.items()}
        return cls(folder, manifest, Vocabulary(_read_names(folder / ITEMS)), parts)


def version_of(facts: Mapping[str, Any], files: tuple[FileEntry, ...]) -> str:
    """Return the version of a snapshot: a digest of its facts and files, without the time of writing."""
    # Sorted keys: equal facts give equal bytes, whatever the order in which they were collected.
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for entry in files:
        digest.update(f"{entry.name} {entry.sha256}".encode())
    # 64 bits are enough for a name: checksums and the signature protect the content.
    return digest.hexdigest()[:16]


def _read_facts(manifest: Manifest) -> dict[str, Any]:
    """Return the facts of every part of the blend and every extra."""
    try:
        return {kept["name"]: kept["facts"] for group in _GROUPS for kept in manifest.facts[group]}
    except (KeyError, TypeError) as error:
        raise damaged_file_error(MANIFEST, f"it is of another release, without {error}") from error


def _map_array(path: Path, entry: FileEntry) -> Array:
    try:
        if 0 in entry.facts["shape"]:  # an empty array can not be mapped
            array = np.load(path, allow_pickle=False)
            array.flags.writeable = False
        else:
            # Never pickled: loading a pickle runs code that the file chooses (decision 16).
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (KeyError, ValueError, OSError) as error:
        raise damaged_file_error(entry.name, f"it is no array: {error}") from error
    if [str(array.dtype), list(array.shape)] != [entry.facts.get("dtype"), list(entry.facts["shape"])]:
        raise damaged_file_error(entry.name, f"it holds {array.dtype} {array.shape}")
    mapped: Array = array
    return mapped


def _read_names(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            # Mapped, so replicas of one machine share the names as they share the arrays.
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return pa.ipc.open_file(pa.py_buffer(mapped)).read_all()["item_id"].combine_chunks()
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise damaged_file_error(path.name, f"names can't be read: {error}") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise damaged_file_error(path.name, "it is missing") from error
