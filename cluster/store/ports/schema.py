"""The protocol of the schema number of everything stored, and of the releases that run on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """The schema of a store; number 0 stands for a store that no release with schema numbers has used."""

    number: int = 0
    oldest: int = 0
    "The schema a release needs to run on it."
    release: str = ""
    at_ms: int = 0
    restoring: str = ""
    "The backup whose restore has not ended; no release may start on it."


@dataclass(frozen=True, slots=True)
class RunningRelease:
    """A release with at least one API replica."""

    release: str
    schema: int
    "The newest schema that the release supports."
    at_ms: int
    build: str = ""
    "The digest of its product files; empty of a release that wrote none."

    @property
    def label(self) -> str:
        """Return the release, the build and the schema for people."""
        build = f" build {self.build}" if self.build else ""
        return f"{self.release}{build} (schema {self.schema})"


class SchemaStore(Protocol):
    """The schema number, and the releases that run."""

    async def read(self) -> StoredSchema:
        """Return the stored schema."""
        ...

    async def write(self, schema: StoredSchema) -> None:
        """Replace the stored schema; the caller holds the lease."""
        ...

    async def mark_restoring(self, backup_id: str) -> None:
        """Mark the store as one into which a backup is being restored; an empty id removes the mark."""
        ...

    async def record_release(self, running: RunningRelease) -> None:
        """Record that a release runs."""
        ...

    async def list_releases(self, now_ms: int) -> list[RunningRelease]:
        """Return the builds of releases that run, by name; entries of a day ago are removed."""
        ...
