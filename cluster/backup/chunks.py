"""Chunks of a backup: files named by the SHA-256 of their bytes, written once and shared by all backups of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from cluster.artifacts.manifest import FileEntry
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.errors import Fault
from cluster.store.client.key_loader import KeyPart

FOLDER = "chunks"
CHUNK_BYTES = 4 << 20
"Bytes of keys after which a chunk is closed, before compression."
MOST_PLAIN_BYTES = 1 << 30
"Bytes of a chunk of keys after decompression: 16 entries of the largest bodies need half of it."
PIECE_BYTES = 16 << 20
"Bytes of one piece of an artifact file."

# A low level: a backup runs beside serving on the same cores.
_ZSTD = pa.Codec("zstd", compression_level=3)


@dataclass
class ChunkWriter:
    """Writes chunks that the target lacks, and remembers which ones a backup needs."""

    target: ArtifactStore
    sizes: dict[str, int]
    "Name -> size of the chunks on the target."
    needed: dict[str, FileEntry] = field(default_factory=dict)
    new_bytes: int = 0
    new_chunks: int = 0

    @classmethod
    def open(cls, target: ArtifactStore) -> ChunkWriter:
        """Return a writer that knows the chunks on the target."""
        return cls(target, {entry.path: entry.size for entry in target.entries(FOLDER)})

    def write(self, data: bytes) -> str:
        """Write one chunk unless the target has it; return its SHA-256."""
        digest = checksum(data)
        name = chunk_path(digest)
        self.needed[digest] = FileEntry(name, len(data), digest)
        # A chunk of another size was cut off by an interrupted write, and is written again.
        if self.sizes.get(name) != len(data):
            self.target.write(name, data)
            self.sizes[name] = len(data)
            self.new_bytes += len(data)
            self.new_chunks += 1
        return digest

    def keep(self, digest: str, size: int) -> bool:
        """Name a chunk of an earlier backup again; return False when the target lacks it."""
        name = chunk_path(digest)
        if self.sizes.get(name) != size:
            return False
        self.needed[digest] = FileEntry(name, size, digest)
        return True

    def write_parts(self, parts: Sequence[KeyPart]) -> str:
        """Write some parts of keys as one compressed chunk; return its SHA-256."""
        plain = msgspec.msgpack.encode(parts)
        # The plain size stands before the data in 16 hexadecimal digits, so a reader can bound it first.
        return self.write(b"%016x" % len(plain) + _ZSTD.compress(plain, asbytes=True))


def chunk_path(digest: str) -> str:
    """Return the path of a chunk on the target."""
    return f"{FOLDER}/{digest[:2]}/{digest}"


def read_chunk(target: ArtifactStore, entry: FileEntry) -> bytes:
    """Return a chunk whose bytes match its name.

    Errors:
        NotFound: it is missing
    """
    return target.read_checked(entry.name, size=entry.size, sha256=entry.sha256)


def read_parts(target: ArtifactStore, entry: FileEntry) -> list[KeyPart]:
    """Return the parts of keys in a chunk.

    Errors:
        Fault: it is damaged
    """
    data = read_chunk(target, entry)
    try:
        size = int(data[:16], 16)
        # Checked before any byte is decompressed: a small file could claim to fill the memory.
        if size > MOST_PLAIN_BYTES:
            raise ValueError("too large")
        plain = _ZSTD.decompress(data[16:], decompressed_size=size, asbytes=True)
        return msgspec.msgpack.decode(plain, type=list[KeyPart])
    except (ValueError, OSError, msgspec.DecodeError) as error:
        raise Fault(f"chunk of the backup can't be read: {entry.name}", path=entry.name) from error
