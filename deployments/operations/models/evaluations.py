"""Use cases of evaluations: the reports that trainings left, with their plots as data."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import HouseError, NotFound
from deployments.operations.frame.operation import OfEngine, operation
from deployments.operations.frame.services import AdminServices
from deployments.operations.models.engines import find_engine
from deployments.operations.models.snapshots import OfSnapshot, find_version

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
    report: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        report = self.report or {}
        return {
            "version": self.version,
            "at": self.at_ms,
            "recipe": report.get("recipe", ""),
            "protocol": report.get("protocol", ""),
            "trial": report.get("trial", ""),
            "figures": report.get("figures", {}),
            "verdict": report.get("verdict"),
            "measured": self.report is not None,
        }


@dataclass(frozen=True, slots=True)
class EvaluationList:
    """Evaluations, newest first."""

    rows: tuple[EvaluationRow, ...]
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON."""
        return {"evaluations": [row.to_dict() for row in self.rows], "total": self.total}


@dataclass(frozen=True, slots=True)
class EvaluationView:
    """One evaluation, whole."""

    version: str
    report: Mapping[str, Any]

    @property
    def plots(self) -> list[dict[str, Any]]:
        """Return the plots as data."""
        return build_plots(self.report)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"version": self.version, "report": dict(self.report), "plots": self.plots}


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


def build_plots(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the plots of a report: metrics of all users, NDCG by segment, calibration, and the weights of the blend.

    A plot has a `name`, `labels` below the axis, and `series`: name, values, and where known low and high.
    """
    segments = report.get("segments") or []
    plots: list[dict[str, Any]] = []
    if segments:
        k = report["k"]
        figures = [f"ndcg@{k}", f"recall@{k}", f"hit_rate@{k}", f"mrr@{k}"]
        everybody = segments[0]["figures"]
        plots.append(_plot("figures", figures, [_ours([everybody.get(name) for name in figures])]))
        by_segment = [segment["figures"].get(figures[0]) for segment in segments]
        labels = [f"{segment['name']} ({segment['readers']:,})" for segment in segments]
        plots.append(_plot("segments", labels, [_ours(by_segment)]))
        for name, other in report.get("beside", {}).items():
            plots[0]["series"].append(_theirs(name, other, [("all", figure) for figure in figures]))
            plots[1]["series"].append(
                _theirs(name, other, [(group["name"], figures[0]) for group in segments])
            )
    if calibration := report.get("calibration"):
        rows = calibration["rows"]
        labels = [f"{row['predicted']:.2g}" for row in rows]
        ends = {end: [row[end] for row in rows] for end in ("observed", "low", "high")}
        observed = {"name": "observed", "values": ends["observed"], "low": ends["low"], "high": ends["high"]}
        plots.append(_plot("calibration", labels, [observed]))
    parts = [part for part in report.get("parts", ()) if isinstance(part, Mapping)]
    if parts:
        series = [
            {"name": field, "values": [part.get(field) for part in parts], "low": None, "high": None}
            for field in ("weight", "weight_new")
        ]
        plots.append(_plot("weights", [str(part.get("part", "")) for part in parts], series))
        alone = [part.get("alone") for part in parts]
        if any(value is not None for value in alone):
            series = [{"name": "alone", "values": alone, "low": None, "high": None}]
            plots.append(_plot("parts", [str(part.get("part", "")) for part in parts], series))
    return plots


def _plot(name: str, labels: list[str], series: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "labels": labels, "series": series}


def _ours(figures: list[Mapping[str, float] | None]) -> dict[str, Any]:
    ends = {
        end: [None if interval is None else interval.get(end) for interval in figures]
        for end in ("mean", "low", "high")
    }
    return {"name": "this recipe", "values": ends["mean"], "low": ends["low"], "high": ends["high"]}


def _theirs(name: str, other: Mapping[str, Any], places: list[tuple[str, str]]) -> dict[str, Any]:
    ends = [
        other.get("intervals", {}).get(segment, {}).get(figure, (None, None)) for segment, figure in places
    ]
    return {
        "name": name,
        "values": [other.get("segments", {}).get(segment, {}).get(figure) for segment, figure in places],
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
        except HouseError:  # a damaged report must not hide the others
            report = None
        rows.append(EvaluationRow(snapshot.version, snapshot.published_ms, report))
    return EvaluationList(tuple(rows), len(snapshots))


def _read(store: ArtifactStore, given: OfSnapshot) -> EvaluationView:
    version = find_version(store, given.app_id, given.engine_id, given.version)
    report = load_report(store, given.app_id, given.engine_id, version)
    if report is None:
        raise NotFound(f"snapshot {version} of {given.app_id}/{given.engine_id} was never measured")
    return EvaluationView(version, report)


def load_report(store: ArtifactStore, app_id: str, engine_id: str, version: str) -> dict[str, Any] | None:
    """Return the report of a snapshot or of a run, None if there is none. Blocks."""
    from jobs.refresh.evaluation.reports import ReportStore

    return ReportStore(store).get(app_id, engine_id, version, largest=LARGEST_REPORT)
