"""Manifest: what a set of files on the shelf says of itself, written after them and verified on load.

    {"checksum":"<sha-256 hex of the manifest bytes>","manifest":{...}}

The outer form is compared byte by byte and the inner bytes by checksum, so there is no bit in the file that
may flip unnoticed. Two kinds so far: `segments` (settled changes) and, with training, `snapshot`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from cluster.artifacts.shelf import checksum
from cluster.errors import Fault

FORMAT = 1
"Version of this file's own form; a reader refuses what is newer than itself."

_OPENING = b'{"checksum":"'
_MIDDLE = b'","manifest":'


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file that belongs to the set."""

    name: str
    "Relative to the manifest's folder."
    size: int
    sha256: str
    rows: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The set: its files, and the facts that hold for all of them."""

    kind: str
    sequence: int
    "Grows by one with every commit; 0 is the empty set nobody has written yet."
    written_at_ms: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[FileEntry, ...] = ()
    retired: tuple[str, ...] = ()
    "Files this commit replaced; whoever finds them still there may remove them."

    def dump(self) -> bytes:
        """Write it as checked JSON."""
        inner = orjson.dumps(
            {
                "format": FORMAT,
                "kind": self.kind,
                "sequence": self.sequence,
                "written_at_ms": self.written_at_ms,
                "facts": dict(self.facts),
                "files": [
                    {
                        "name": entry.name,
                        "size": entry.size,
                        "sha256": entry.sha256,
                        "rows": entry.rows,
                        "facts": dict(entry.facts),
                    }
                    for entry in self.files
                ],
                "retired": list(self.retired),
            }
        )
        return _OPENING + checksum(inner).encode() + _MIDDLE + inner + b"}"

    @classmethod
    def parse(cls, data: bytes, *, kind: str) -> Manifest:
        """Read what `dump` wrote.

        Errors:
            Fault: damaged, of another kind, or of a newer format than this release knows
        """
        fields = orjson.loads(_verified(data))
        if fields["format"] > FORMAT:
            raise Fault(f"manifest has format {fields['format']}, this release reads up to {FORMAT}")
        if fields["kind"] != kind:
            raise Fault(f"manifest is of kind {fields['kind']!r}, {kind!r} was asked for")
        return cls(
            kind=kind,
            sequence=fields["sequence"],
            written_at_ms=fields["written_at_ms"],
            facts=fields["facts"],
            files=tuple(FileEntry(**entry) for entry in fields["files"]),
            retired=tuple(fields["retired"]),
        )


def _verified(data: bytes) -> bytes:
    digest_at = len(_OPENING)
    inner_at = digest_at + 64 + len(_MIDDLE)
    inner = data[inner_at:-1]
    whole = (
        data[:digest_at] == _OPENING
        and data[digest_at + 64 : inner_at] == _MIDDLE
        and data[-1:] == b"}"
        and data[digest_at : digest_at + 64] == checksum(inner).encode()
    )
    if not whole:
        raise Fault("manifest is damaged: its checksum does not match")
    return inner
