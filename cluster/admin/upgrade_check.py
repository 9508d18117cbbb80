"""Check whether this release can run on the stored data of an installation. Reads only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from cluster.admin.schema import MIGRATIONS, Migration, newest_schema
from cluster.artifacts.manifest import FORMAT, manifest_format
from cluster.artifacts.signing import is_manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.build_info import installed_version
from cluster.errors import Fault, NotFound
from cluster.store.connect import OpenStores
from cluster.store.installation.schema_version import RunningRelease, StoredSchema
from cluster.store.seals.readability_scan import ReadabilityCounts, scan_records


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """The result of the check."""

    stored: StoredSchema
    newest: int
    "The schema of this release."
    running: tuple[RunningRelease, ...]
    pending: tuple[Migration, ...]
    records: ReadabilityCounts
    formats: dict[str, int] | None
    "Manifests by format; None when this process can't read the artifact store."

    @property
    def problems(self) -> list[str]:
        """Return why this release can't run beside the running releases; empty if it can."""
        problems = []
        if self.stored.oldest > self.newest:
            problems.append(
                f"the data needs a release with schema {self.stored.oldest}; this one has {self.newest}"
            )
        for step in self.pending:
            older = [release.release for release in self.running if release.schema < step.oldest]
            if older:
                problems.append(f"schema {step.number} can't be read by kiosk {', '.join(older)}, which runs")
        for noun, count in sorted(self.records.unreadable.items()):
            problems.append(f"{count} of {noun} were written by a newer release and can't be read")
        newer = {form: count for form, count in (self.formats or {}).items() if int(form) > FORMAT}
        problems += [
            f"{count} manifests have format {form}; this release reads {FORMAT}"
            for form, count in newer.items()
        ]
        return problems

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "release": installed_version(),
            "schema": {
                "stored": self.stored.number,
                "oldest": self.stored.oldest,
                "written_by": self.stored.release,
                "known": self.newest,
            },
            "running": [
                {"release": running.release, "build": running.build, "schema": running.schema}
                for running in self.running
            ],
            "pending": [{"number": step.number, "name": step.name} for step in self.pending],
            "records": {
                "read": self.records.read.total(),
                "extended": dict(+self.records.extended),
                "unreadable": dict(self.records.unreadable),
                "broken": dict(self.records.broken),
            },
            "manifests": self.formats,
            "problems": self.problems,
            "together": not self.problems,
        }


async def check_upgrade(stores: OpenStores, now_ms: int) -> UpgradeReport:
    """Read the schema, the running releases and all records; the caller adds the manifests (`count_formats`)."""
    schema = stores.schema
    stored = await schema.read()
    return UpgradeReport(
        stored=stored,
        newest=newest_schema(MIGRATIONS),
        running=tuple(await schema.list_releases(now_ms)),
        pending=tuple(step for step in MIGRATIONS if step.number > stored.number),
        records=await scan_records(stores.server),
        formats=None,
    )


def count_formats(store: ArtifactStore) -> dict[str, int]:
    """Return how many manifests of an artifact store have which format.

    Cost:
        one read for each manifest
    """
    counts: Counter[str] = Counter()
    for entry in store.entries(""):
        if is_manifest(entry.path):
            try:
                counts[str(manifest_format(store.read(entry.path)))] += 1
            except (Fault, NotFound):  # damaged (`kiosk doctor` reports it), or replaced since the listing
                continue
    return dict(sorted(counts.items()))
