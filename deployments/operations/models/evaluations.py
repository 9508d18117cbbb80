"""Use cases of evaluations: the reports that trainings left, with their plots as data."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import KioskError, NotFound
from deployments.operations.framework.operation import OfEngine, operation
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engines import find_engine
from deployments.operations.models.snapshots import OfSnapshot, find_version

if TYPE_CHECKING:
    from jobs.refresh.evaluation.report_models import (
        EvaluationReport,
        MeanInterval,
        MeasurementRecord,
        ScorerComparison,
    )

LARGEST_REPORT = 4 << 20
"Bytes of a report that a server reads; one of a training has some 20 KB."


class ListEvaluations(OfEngine):
    """Which evaluations of an engine, newest first."""

    limit: int = Field(default=20, ge=1, le=100)
    offset: int = Field(default=0, ge=0, le=1_000_000)


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """The head of one evaluation."""

    version: str
    at_ms: int
    report: EvaluationReport | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        report = self.report
        return {
            "version": self.version,
            "at": self.at_ms,
            "recipe": report.recipe if report else "",
            "protocol": report.protocol if report else "",
            "trial": report.trial if report else "",
            "figures": report.figures if report else {},
            "verdict": asdict(report.verdict) if report and report.verdict else None,
            "measured": report is not None,
        }


@dataclass(frozen=True, slots=True)
class EvaluationList:
    """Evaluations, newest first."""

    rows: tuple[EvaluationRow, ...]
    total: int

    def to_dict(self) -> dict[str, Any]:
        return {"evaluations": [row.to_dict() for row in self.rows], "total": self.total}


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """One evaluation, whole."""

    version: str
    report: EvaluationReport

    @property
    def plots(self) -> list[dict[str, Any]]:
        """Return the plots as data."""
        return build_plots(self.report)

    def to_dict(self) -> dict[str, Any]:
        return {"version": self.version, "report": self.report.to_dict(), "plots": self.plots}


@operation("evaluations.list", "GET", "/apps/{app_id}/engines/{engine_id}/evaluations")
async def list_evaluations(services: AdminServices, given: ListEvaluations) -> EvaluationList:
    """List the evaluations of an engine's snapshots, newest first."""
    await find_engine(services.stores, given.app_id, given.engine_id)
    return await asyncio.to_thread(_list, services.artifacts, given)


@operation("evaluations.get", "GET", "/apps/{app_id}/engines/{engine_id}/evaluations/{version}")
async def get_evaluation(services: AdminServices, given: OfSnapshot) -> EvaluationView:
    """Read an evaluation with its plots as data."""
    await find_engine(services.stores, given.app_id, given.engine_id)
    return await asyncio.to_thread(_read, services.artifacts, given)


def build_plots(report: EvaluationReport) -> list[dict[str, Any]]:
    """Return the plots of a report: metrics of all users, NDCG by segment, calibration, and the weights of the blend.

    A plot has a `name`, `labels` below the axis, and `series`: name, values, and where known low and high.
    """
    segments = report.segments
    plots: list[dict[str, Any]] = []
    if segments:
        k = report.k
        figures = [f"ndcg@{k}", f"recall@{k}", f"hit_rate@{k}", f"mrr@{k}"]
        plots.append(_plot("figures", figures, [_ours([report.everybody.get(name) for name in figures])]))
        by_segment = [segment.figures.get(figures[0]) for segment in segments]
        labels = [f"{segment.name} ({segment.users:,})" for segment in segments]
        plots.append(_plot("segments", labels, [_ours(by_segment)]))
        for name, other in report.beside.items():
            plots[0]["series"].append(_theirs(name, other, [("all", figure) for figure in figures]))
            plots[1]["series"].append(
                _theirs(name, other, [(segment.name, figures[0]) for segment in segments])
            )
    if report.calibration is not None:
        rows = report.calibration.rows
        labels = [f"{row.predicted:.2g}" for row in rows]
        ends = {end: [getattr(row, end) for row in rows] for end in ("observed", "low", "high")}
        observed = {"name": "observed", "values": ends["observed"], "low": ends["low"], "high": ends["high"]}
        plots.append(_plot("calibration", labels, [observed]))
    parts = report.parts
    if parts:
        series = [
            {"name": field, "values": [getattr(part, field) for part in parts], "low": None, "high": None}
            for field in ("weight", "weight_new")
        ]
        plots.append(_plot("weights", [part.part for part in parts], series))
        alone = [part.alone for part in parts]
        if any(value is not None for value in alone):
            series = [{"name": "alone", "values": alone, "low": None, "high": None}]
            plots.append(_plot("parts", [part.part for part in parts], series))
    return plots


def _plot(name: str, labels: list[str], series: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "labels": labels, "series": series}


def _ours(figures: list[MeanInterval | None]) -> dict[str, Any]:
    ends = {
        end: [None if interval is None else getattr(interval, end) for interval in figures]
        for end in ("mean", "low", "high")
    }
    return {"name": "this recipe", "values": ends["mean"], "low": ends["low"], "high": ends["high"]}


def _theirs(name: str, other: ScorerComparison, places: list[tuple[str, str]]) -> dict[str, Any]:
    ends = [other.interval(segment, figure) for segment, figure in places]
    return {
        "name": name,
        "values": [other.mean(segment, figure) for segment, figure in places],
        "low": [low for low, _ in ends],
        "high": [high for _, high in ends],
    }


def _list(store: ArtifactStore, given: ListEvaluations) -> EvaluationList:
    app_id = given.app_id
    engine_id = given.engine_id
    snapshots = SnapshotStore(store).versions(app_id, engine_id)[::-1]
    rows = []
    for snapshot in snapshots[given.offset : given.offset + given.limit]:
        try:
            report = load_report(store, app_id, engine_id, snapshot.version)
        except KioskError:  # a damaged report must not hide the others
            report = None
        rows.append(EvaluationRow(snapshot.version, snapshot.published_ms, report))
    return EvaluationList(tuple(rows), len(snapshots))


def _read(store: ArtifactStore, given: OfSnapshot) -> EvaluationView:
    version = find_version(store, given.app_id, given.engine_id, given.version)
    report = load_report(store, given.app_id, given.engine_id, version)
    if report is None:
        raise NotFound(f"snapshot {version} of {given.app_id}/{given.engine_id} was never measured")
    return EvaluationView(version, report)


def load_report(store: ArtifactStore, app_id: str, engine_id: str, version: str) -> EvaluationReport | None:
    """Return the report of a snapshot, None if there is none. Blocks."""
    from jobs.refresh.evaluation.report_store import ReportStore

    return ReportStore(store).get(app_id, engine_id, version, largest=LARGEST_REPORT)


def load_measurement(
    store: ArtifactStore, app_id: str, engine_id: str, run_id: str
) -> MeasurementRecord | None:
    """Return what an evaluation or a sweep left, None if there is nothing. Blocks."""
    from jobs.refresh.evaluation.report_store import ReportStore

    return ReportStore(store).get_measurement(app_id, engine_id, run_id, largest=LARGEST_REPORT)
