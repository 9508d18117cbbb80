"""Verifying a backup: every checksum, then a restore into a scratch installation whose records are compared.

`kiosk backup` verifies a sample of chunks for a bounded time: it writes them into a scratch Redis and reads them back.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.catalogue import Backup
from cluster.backup.chunks import read_chunk, read_parts
from cluster.backup_pace import Progress, ignore_progress
from cluster.clock import Clock
from cluster.errors import Fault, NotFound
from cluster.store.client.key_loader import PAGE, KeyLoader, KeyPart
from cluster.store.client.key_writer import KeyWriter
from cluster.store.client.replies import split_pairs
from cluster.store.connect import OpenStores

SAMPLE_S = 20.0
"Seconds after which the verification of a sample begins no further chunk."
_SOON_MS = 60_000
"Keys that expire within this time are not compared."


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
    compared = 0
    different = []
    for digest in backup.facts.answers:
        for part in read_parts(target, backup.chunks[digest])[: most - compared]:
            value = await stores.server.execute_slow("GET", part.key)
            compared += 1
            # An absent record was written down as an empty value at the cut.
            if (value or b"") != part.items[0]:
                different.append(part.key.decode("utf-8", "replace"))
    return ComparedRecords(compared, tuple(different))


@dataclass
class SampleVerification:
    """The chunks of a backup that were read back, and what differs."""

    of: int
    "Chunks of the backup."
    chunks: int = 0
    "Chunks read back, all with their checksum."
    keys: int = 0
    "Keys that were written into a scratch Redis, read back and compared."
    damaged: list[str] = field(default_factory=list)
    "Paths of chunks that are missing or differ from their checksum."
    different: list[str] = field(default_factory=list)
    "Keys that a restore would change."
    error: str = ""
    "Why the verification ended early: the scratch Redis could not start, or refused a part."

    @property
    def is_good(self) -> bool:
        """Return whether nothing is damaged and nothing differs."""
        return not (self.damaged or self.different or self.error)


async def verify_sample(
    target: ArtifactStore,
    backup: Backup,
    scratch: OpenStores,
    clock: Clock,
    *,
    seconds: float = SAMPLE_S,
) -> SampleVerification:
    """Restore chunks of keys into an empty scratch Redis, the control keys first, and compare what it then has.

    Half of the time is for chunks of keys, half for the checksums of files; both are chosen at random.

    Errors:
        KioskError: the scratch Redis refuses a part
    """
    rng = secrets.SystemRandom()
    facts = backup.facts
    begun = time.monotonic()
    result = SampleVerification(len(backup.chunks))
    logs = [digest for cut in facts.apps.values() for chunks in cut.changes.values() for digest in chunks]
    # Always read: without the control keys no app exists, and they are few.
    control = list(dict.fromkeys(facts.control))
    # Logs and bulk keys may share a chunk, which is then read once.
    sampled = list({*facts.bulk, *logs}.difference(control))
    rng.shuffle(sampled)
    for number, digest in enumerate([*control, *sampled]):
        if number >= len(control) and time.monotonic() - begun > seconds / 2:
            break
        result.chunks += 1
        try:
            parts = read_parts(target, backup.chunks[digest])
        except (Fault, NotFound):
            result.damaged.append(backup.chunks[digest].name)
            continue
        await _compare_chunk(result, parts, scratch, clock)
    # equal parts of files share a chunk
    pieces = [backup.chunks[piece] for piece in {piece for copy in facts.artifacts for piece in copy.pieces}]
    rng.shuffle(pieces)
    for entry in pieces:
        if time.monotonic() - begun > seconds:
            break
        result.chunks += 1
        try:
            read_chunk(target, entry)
        except (Fault, NotFound):
            result.damaged.append(entry.name)
    return result


async def _compare_chunk(
    result: SampleVerification, parts: list[KeyPart], scratch: OpenStores, clock: Clock
) -> None:
    """Write the parts of one chunk, read their keys, and remove them again."""
    server = scratch.server
    soon_ms = clock.now_ms() + _SOON_MS
    # Such a key would be gone from the scratch Redis before it is read back.
    parts = [part for part in parts if not part.expires_ms or part.expires_ms > soon_ms]
    writer = KeyWriter(server, clock.now_ms())
    key_loader = KeyLoader(server, clock)
    await writer.write(parts)
    await writer.finish()
    names = list(dict.fromkeys(part.key for part in parts))
    for first in range(0, len(names), PAGE):
        page = names[first : first + PAGE]
        # The parts of one key may stand in several places of the chunk, so its values are joined first.
        on_page = set(page)
        expected = _values(part for part in parts if part.key in on_page)
        stored = _values([part async for part in key_loader.read(page)])
        different = [name for name in page if stored.get(name) != expected[name]]
        result.different += [name.decode("utf-8", "replace") for name in different]
        result.keys += len(page)
        # A scratch Redis never holds more than one chunk.
        await writer.send(("DEL", name) for name in page)


def _values(parts: Iterable[KeyPart]) -> dict[bytes, Any]:
    """Return keys with their whole values; members of hashes and sets have no order."""
    joined: dict[bytes, tuple[str, list[Any]]] = {}
    for part in parts:
        joined.setdefault(part.key, (part.kind, []))[1].extend(part.items)
    return {key: (kind, _value(kind, items)) for key, (kind, items) in joined.items()}


def _value(kind: str, items: list[Any]) -> Any:
    if kind in ("hash", "zset"):
        pairs = split_pairs(items)
        return {name: float(value) if kind == "zset" else value for name, value in pairs}
    return set(items) if kind == "set" else items
