"""Use cases of snapshots: list, read, and compare two of them by their figures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from cluster.artifacts.manifest import Manifest
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotInfo, SnapshotStore, count_erasures_since
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import KioskError
from deployments.operations.framework.operation import OfEngine, operation
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engines import find_engine

if TYPE_CHECKING:
    from jobs.refresh.evaluation.report_models import EvaluationReport

Version = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,128}$")]
"A version, or the start of one. The form is checked: versions are parts of paths in the artifact store."


class ListSnapshots(OfEngine):
    """Which snapshots of an engine, newest first."""

    limit: int = Field(default=50, ge=1, le=1_000)
    offset: int = Field(default=0, ge=0, le=1_000_000)


class OfSnapshot(OfEngine):
    """A snapshot by its version, or by the start of it while that is the only one."""

    version: Version


class CompareSnapshots(OfEngine):
    """Two snapshots of one engine."""

    first: Version
    second: Version


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """Snapshots of an engine, newest first."""

    snapshots: tuple[SnapshotInfo, ...]
    total: int
    serving: str

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON."""
        rows = [
            {
                "version": snapshot.version,
                "published_at": snapshot.published_ms,
                "bytes": snapshot.size,
                "files": snapshot.files,
                "serving": snapshot.version == self.serving,
            }
            for snapshot in self.snapshots
        ]
        return {"snapshots": rows, "total": self.total, "serving": self.serving}


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """One snapshot: what it was trained from, what it consists of, and its figures."""

    version: str
    serving: bool
    published_ms: int
    size: int
    recipe: Mapping[str, Any]
    parts: tuple[Mapping[str, Any], ...]
    data: Mapping[str, Any]
    release: str
    has_shipped_code: bool
    erasures: int
    "Erasures of rows that it learned from, since its training."
    report: EvaluationReport | None

    @property
    def figures(self) -> Mapping[str, float]:
        """Return the figures of all users; empty if it was never measured."""
        return {} if self.report is None else self.report.figures

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        report = self.report
        return {
            "version": self.version,
            "serving": self.serving,
            "published_at": self.published_ms,
            "bytes": self.size,
            "recipe": dict(self.recipe),
            "parts": [dict(part) for part in self.parts],
            "data": dict(self.data),
            "release": self.release,
            "erased_since": self.erasures,
            "run_id": "" if report is None else report.run_id,
            "figures": dict(self.figures),
            "verdict": None if report is None or report.verdict is None else asdict(report.verdict),
        }


@dataclass(frozen=True, slots=True)
class SnapshotComparison:
    """Two snapshots beside each other."""

    first: SnapshotView
    second: SnapshotView

    @property
    def figures(self) -> list[dict[str, Any]]:
        """Return each figure of both with its interval, in the order of the first."""
        first = read_intervals(self.first.report)
        second = read_intervals(self.second.report)
        return [
            {"figure": name, "first": first.get(name), "second": second.get(name)}
            for name in dict.fromkeys([*first, *second])
        ]

    @property
    def weights(self) -> list[dict[str, Any]]:
        """Return the weight of each part in both blends; None where a snapshot lacks the part."""
        first = {str(part["part"]): part["weight"] for part in self.first.parts}
        second = {str(part["part"]): part["weight"] for part in self.second.parts}
        return [
            {"part": name, "first": first.get(name), "second": second.get(name)}
            for name in dict.fromkeys([*first, *second])
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "figures": self.figures,
            "weights": self.weights,
        }


def read_intervals(report: EvaluationReport | None) -> dict[str, dict[str, float]]:
    """Return the figures of all users in a report: mean, low and high; empty without a report."""
    figures = {} if report is None else report.everybody
    return {name: figure.to_dict() for name, figure in figures.items()}


@operation("snapshots.list", "GET", "/apps/{app_id}/engines/{engine_id}/snapshots")
async def list_snapshots(services: AdminServices, given: ListSnapshots) -> SnapshotList:
    """List the snapshots of an engine, newest first.

    Complete ones alone.
    """
    engine = await find_engine(services.stores, given.app_id, given.engine_id)
    snapshots = await asyncio.to_thread(
        SnapshotStore(services.artifacts).versions, given.app_id, given.engine_id
    )
    page = snapshots[::-1][given.offset : given.offset + given.limit]
    return SnapshotList(tuple(page), len(snapshots), engine.snapshot)


@operation("snapshots.get", "GET", "/apps/{app_id}/engines/{engine_id}/snapshots/{version}")
async def get_snapshot(services: AdminServices, given: OfSnapshot) -> SnapshotView:
    """Read a snapshot: its recipe, parts, data and figures."""
    engine = await find_engine(services.stores, given.app_id, given.engine_id)
    return await asyncio.to_thread(
        read_snapshot, services.artifacts, given.app_id, given.engine_id, given.version, engine.snapshot
    )


@operation(
    "snapshots.compare", "GET", "/apps/{app_id}/engines/{engine_id}/snapshots/{first}/compare/{second}"
)
async def compare_snapshots(services: AdminServices, given: CompareSnapshots) -> SnapshotComparison:
    """Compare the figures and weights of two snapshots."""
    engine = await find_engine(services.stores, given.app_id, given.engine_id)
    first, second = await asyncio.gather(
        *(
            asyncio.to_thread(
                read_snapshot, services.artifacts, given.app_id, given.engine_id, version, engine.snapshot
            )
            for version in (given.first, given.second)
        )
    )
    return SnapshotComparison(first, second)


def find_version(store: ArtifactStore, app_id: str, engine_id: str, start: str) -> str:
    """Return the version that begins with a text; a whole version is found without listing. Blocks."""
    snapshots = SnapshotStore(store)
    if snapshots.has(app_id, engine_id, start):
        return start
    return snapshots.find_version(app_id, engine_id, start)


def read_snapshot(
    store: ArtifactStore, app_id: str, engine_id: str, start: str, serving: str
) -> SnapshotView:
    """Return the snapshot whose version begins with a text. Blocks.

    Errors:
        NotFound, Conflict: no version begins with it, or several do
        Fault: the manifest or the report is damaged
    """
    from jobs.refresh.evaluation.report_store import ReportStore

    version = find_version(store, app_id, engine_id, start)
    manifest = SnapshotStore(store).manifest(app_id, engine_id, version)
    facts = manifest.facts
    return SnapshotView(
        version=version,
        serving=version == serving,
        published_ms=manifest.written_at_ms,
        size=sum(entry.size for entry in manifest.files),
        recipe=facts.get("recipe", {}),
        parts=tuple(_read_parts(manifest)),
        data=facts.get("data", {}),
        release=str(facts.get("release", "")),
        has_shipped_code=bool(facts.get("code")),
        erasures=_count_erasures(store, app_id, manifest),
        report=ReportStore(store).get(app_id, engine_id, version),
    )


def _read_parts(manifest: Manifest) -> list[dict[str, Any]]:
    return [
        {
            "part": str(part.get("name", "")),
            "learner": str(part.get("learner", "")),
            "weight": float(part.get("weight", 0.0)),
            "weight_new": float(part.get("weight_new", 0.0)),
            **({"weight_unseen": float(part["weight_unseen"])} if "weight_unseen" in part else {}),
        }
        for part in manifest.facts.get("parts", ())
    ]


def _count_erasures(store: ArtifactStore, app_id: str, manifest: Manifest) -> int:
    try:
        return count_erasures_since(manifest, SegmentStore(store).erasures(app_id))
    except KioskError:  # `kiosk doctor` says what is wrong there
        return 0
