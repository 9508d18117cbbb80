"""Verifying a backup: every checksum, then a restore into a scratch installation whose records are compared."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.admin.backup.catalogue import Backup
from cluster.admin.backup.chunks import read_chunk, read_parts
from cluster.admin.backup.pace import Progress, ignore_progress
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.errors import Fault, NotFound
from cluster.store.connect import OpenStores


@dataclass(frozen=True, slots=True)
class ComparedRecords:
    """Records by id, compared with what Redis held at the cut."""

    compared: int
    different: tuple[str, ...]
    "Keys of records that differ."


def find_damage(target: ArtifactStore, backup: Backup, progress: Progress = ignore_progress) -> list[str]:
    """Return the paths of chunks that are missing or differ from their checksum."""
    damaged = []
    for done, entry in enumerate(backup.chunks.values()):
        try:
            read_chunk(target, entry)
        except (Fault, NotFound):
            damaged.append(entry.name)
        progress("chunks checked", done + 1)
    return damaged


async def compare_records(
    target: ArtifactStore, backup: Backup, stores: OpenStores, most: int
) -> ComparedRecords:
    """Compare records of a restored installation byte by byte with those written down at the cut."""
    compared, different = 0, []
    for digest in backup.facts.answers:
        for part in read_parts(target, backup.chunks[digest])[: most - compared]:
            value = await stores.server.execute_slow("GET", part.key)
            compared += 1
            if (value or b"") != part.items[0]:
                different.append(part.key.decode("utf-8", "replace"))
    return ComparedRecords(compared, tuple(different))
