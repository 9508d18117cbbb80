"""Files in a folder that a manifest vouches for: what is written of them, and whether they still are that."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from cluster.artifacts.manifest import FileEntry
from cluster.errors import Fault

_CHUNK = 4 << 20


def digest_of(path: Path) -> str:
    """SHA-256 of a file in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def entry_of(path: Path) -> FileEntry:
    """Say of a file what its manifest should."""
    return FileEntry(path.name, path.stat().st_size, digest_of(path))


def check(path: Path, entry: FileEntry, *, verify: bool) -> None:
    """Compare a file with what was written of it; without `verify` only its size.

    Errors:
        Fault: it is missing, a link to elsewhere, or has another size or checksum; fact `path`
    Cost:
        verifying: 0.5 s per GB from memory
    """
    folder = path.parents[entry.name.count("/")]
    if os.path.realpath(path) != os.path.join(os.path.realpath(folder), entry.name):
        raise damaged(entry.name, "it is a link that leads elsewhere")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise damaged(entry.name, "it is missing") from error
    if size != entry.size:
        raise damaged(entry.name, f"it has {size} bytes, {entry.size} were written")
    if verify and digest_of(path) != entry.sha256:
        raise damaged(entry.name, "its checksum does not match")


def damaged(name: str, why: str) -> Fault:
    """Say which file of a snapshot is damaged."""
    return Fault(f"snapshot is damaged: {name}: {why}", path=name)
