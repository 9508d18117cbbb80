"""Use cases of promotions: what the gate says of a snapshot, promote it, roll back, and what served when."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.errors import Conflict, NotFound
from cluster.records.engine import Promotion
from deployments.operations.framework.operation import OfEngine, operation
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.snapshots import (
    OfSnapshot,
    SnapshotComparison,
    SnapshotView,
    find_version,
    read_snapshot,
)

if TYPE_CHECKING:
    from jobs.refresh.evaluation.report_models import EvaluationReport

_VERSION = r"^[0-9A-Za-z_-]{0,128}$"


class PromoteSnapshot(OfEngine):
    """The snapshot that shall serve."""

    version: str = Field(default="", pattern=_VERSION)
    "A version or its start; empty: the newest one."
    force: str = Field(default="", max_length=2_000)
    "Why it is promoted although the gate refuses; the history keeps the reason."


class RollBack(OfEngine):
    """What shall serve again."""

    to: str = Field(
        default="",
        pattern=_VERSION,
        description="A version or its start, or `none`: no trained model; empty: what served before.",
    )


class ListPromotions(OfEngine):
    """How much of the history."""

    limit: int = Field(default=50, ge=1, le=10_000)


@dataclass(frozen=True, slots=True)
class PromotionPreview:
    """What the gate says of a snapshot, and what its promotion would change."""

    snapshot: SnapshotView
    serving: SnapshotView | None
    allowed: bool
    verdict: str
    is_current: bool
    "Whether the verdict compares with what serves now."

    @property
    def recipe_changes(self) -> list[dict[str, Any]]:
        """Return the fields in which the recipes differ, at most 200."""
        before = {} if self.serving is None else flatten_recipe(self.serving.recipe)
        after = flatten_recipe(self.snapshot.recipe)
        return [
            {"field": field, "before": before.get(field), "after": after.get(field)}
            for field in dict.fromkeys([*before, *after])
            if before.get(field) != after.get(field)
        ][:200]

    @property
    def comparison(self) -> SnapshotComparison | None:
        """Return what serves and the snapshot beside each other; None while nothing learned serves."""
        return None if self.serving is None else SnapshotComparison(self.serving, self.snapshot)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        beside = self.comparison
        return {
            "version": self.snapshot.version,
            "serving": "" if self.serving is None else self.serving.version,
            "allowed": self.allowed,
            "verdict": self.verdict,
            "is_current": self.is_current,
            "figures": [] if beside is None else beside.figures,
            "weights": [] if beside is None else beside.weights,
            "recipe_changes": self.recipe_changes,
        }


@dataclass(frozen=True, slots=True)
class PromotionView:
    """One entry of the history."""

    entry: Promotion

    def to_dict(self) -> dict[str, Any]:
        return self.entry.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class RolledBack(PromotionView):
    """What serves again."""

    def to_lines(self) -> ResultLines:
        """Return what serves, and what served before."""
        entry = self.entry
        serving = f"snapshot {entry.version}" if entry.version else "live signals, no trained model"
        return (
            f"Engine {entry.engine_id} of {entry.app_id} serves {serving} again, instead of {entry.before}.",
        )


@dataclass(frozen=True, slots=True)
class PromotionHistory:
    """What served an engine, newest first."""

    app_id: str
    engine_id: str
    serving: str
    entries: tuple[Promotion, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "app_id": self.app_id,
            "engine_id": self.engine_id,
            "serving": self.serving,
            "history": [entry.model_dump(mode="json") for entry in self.entries],
        }

    def to_lines(self) -> ResultLines:
        """Return a table of the entries."""
        rows = []
        for entry in self.entries:
            figure = entry.figures.get("ndcg@10")
            rows.append(
                (
                    iso_ms(entry.at_ms)[:19],
                    entry.kind.replace("_", " "),
                    entry.version or "none",
                    entry.by,
                    entry.run_id,
                    "" if figure is None else f"{figure:.4f}",
                    f"forced: {entry.reason}" if entry.forced else entry.reason.partition(":")[0],
                )
            )
        table = ResultTable(
            ("since", "what", "snapshot", "by", "run", "ndcg@10", "why"),
            rows,
            f"Nothing that was learned ever served engine {self.engine_id} of {self.app_id}.",
            ids=("snapshot", "run"),
            droppable=("run", "by"),
        )
        return (table,)


@operation("promotions.preview", "GET", "/apps/{app_id}/engines/{engine_id}/snapshots/{version}/promotion")
async def preview_promotion(services: AdminServices, given: OfSnapshot) -> PromotionPreview:
    """Read what the gate says of a snapshot and what its promotion would change."""
    from jobs.refresh.runs.promotion import get_engine

    engine = await get_engine(services.stores, given.app_id, given.engine_id)
    return await asyncio.to_thread(_preview, services.artifacts, given, engine.snapshot)


@operation("promotions.list", "GET", "/apps/{app_id}/engines/{engine_id}/promotions")
async def read_history(services: AdminServices, given: ListPromotions) -> PromotionHistory:
    """List which snapshot served from when on, and who decided that; newest first."""
    from jobs.refresh.runs.promotion import get_engine

    engine = await get_engine(services.stores, given.app_id, given.engine_id)
    entries = await services.stores.promotions.history(given.app_id, given.engine_id, given.limit)
    return PromotionHistory(given.app_id, given.engine_id, engine.snapshot, tuple(entries))


@operation("promotions.promote", "POST", "/apps/{app_id}/engines/{engine_id}/promotions", "editor")
async def promote_snapshot(services: AdminServices, given: PromoteSnapshot) -> PromotionView:
    """Let a snapshot serve, unless it is certainly worse than what serves."""
    from jobs.refresh.runs import promotion

    app_id = given.app_id
    engine_id = given.engine_id
    artifacts = services.artifacts
    serving = (await promotion.get_engine(services.stores, app_id, engine_id)).snapshot
    version = await asyncio.to_thread(_choose_version, artifacts, app_id, engine_id, given.version)
    report = await _current_report(services, given, version, serving)
    return PromotionView(
        await promotion.promote_version(
            services.stores,
            artifacts,
            app_id,
            engine_id,
            version,
            now_ms=services.now_ms(),
            by=name_of(services.principal),
            force=given.force,
            report=report,
        )
    )


@operation("promotions.roll_back", "POST", "/apps/{app_id}/engines/{engine_id}/rollback", "editor")
async def roll_back(services: AdminServices, given: RollBack) -> RolledBack:
    """Let serve again what served before.

    Nothing restarts.
    """
    from jobs.refresh.runs.promotion import roll_back_version

    app_id = given.app_id
    engine_id = given.engine_id
    artifacts = services.artifacts
    # None: what served before. An empty text: no trained model.
    to = None if not given.to else ""
    if given.to not in ("", "none"):
        to = await asyncio.to_thread(SnapshotStore(artifacts).find_version, app_id, engine_id, given.to)
    entry = await roll_back_version(
        services.stores,
        artifacts,
        app_id,
        engine_id,
        now_ms=services.now_ms(),
        by=name_of(services.principal),
        to=to,
    )
    return RolledBack(entry)


def name_of(principal: Principal) -> str:
    """Return the name of whoever decides, for the history."""
    if principal.way != "command line":
        return principal.username
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an administrator"


def flatten_recipe(recipe: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the fields of a recipe by their paths: `parts.rules.window`."""
    fields: dict[str, Any] = {}
    for name, value in recipe.items():
        path = f"{above}{name}"
        fields |= flatten_recipe(value, f"{path}.") if isinstance(value, Mapping) and value else {path: value}
    return fields


def _choose_version(artifacts: ArtifactStore, app_id: str, engine_id: str, start: str) -> str:
    if start:
        return SnapshotStore(artifacts).find_version(app_id, engine_id, start)
    versions = SnapshotStore(artifacts).versions(app_id, engine_id)
    if not versions:
        raise NotFound(
            f"engine {engine_id} of {app_id} has no snapshot; make one: kiosk train {app_id} --engine {engine_id}"
        )
    return versions[-1].version


async def _current_report(
    services: AdminServices, given: PromoteSnapshot, version: str, serving: str
) -> EvaluationReport | None:
    """Return a report that compares with what serves now.

    Errors:
        Conflict: the kept report compares with something else, and this process can't compare anew
    """
    from jobs.refresh.evaluation.report_store import ReportStore
    from jobs.refresh.runs.promotion import is_compared

    app_id = given.app_id
    engine_id = given.engine_id
    artifacts = services.artifacts
    kept = await asyncio.to_thread(ReportStore(artifacts).get, app_id, engine_id, version)
    has = SnapshotStore(artifacts).has
    if (
        serving == version
        or is_compared(kept, serving)
        or not await asyncio.to_thread(has, app_id, engine_id, version)
    ):
        return kept
    if services.compare_versions is not None:
        fresh = await services.compare_versions(app_id, engine_id, version, serving)
        # The report stays that of the run which trained the snapshot; a comparison is no run.
        run_id = "" if kept is None else kept.run_id
        return kept if fresh is None else fresh.model_copy(update={"run_id": run_id})
    if not given.force:
        raise Conflict(
            f"{version} was not compared with {serving}, which serves now. `kiosk promote {app_id} {version} "
            f"--engine {engine_id}` compares them on the server; or train again, or give a reason"
        )
    return kept


def _preview(artifacts: ArtifactStore, given: OfSnapshot, serving: str) -> PromotionPreview:
    from jobs.refresh.evaluation.gate import check_gate
    from jobs.refresh.runs.promotion import is_compared

    app_id = given.app_id
    engine_id = given.engine_id
    version = find_version(artifacts, app_id, engine_id, given.version)
    snapshot = read_snapshot(artifacts, app_id, engine_id, version, serving)
    now = None
    if serving and serving != version:
        now = read_snapshot(artifacts, app_id, engine_id, serving, serving)
    report = snapshot.report
    is_current = is_compared(report, serving) or not serving
    reason = _refusal_reason(snapshot)
    if reason:
        return PromotionPreview(snapshot, now, False, reason, is_current)
    if report is None:
        return PromotionPreview(snapshot, now, not serving, "never measured", is_current)
    verdict = check_gate(report)
    allowed = verdict.allowed and is_current
    sentence = verdict.sentence
    if not is_current:
        sentence = f"not compared with what serves now; against what served at its training it was {sentence}"
    return PromotionPreview(snapshot, now, allowed, sentence, is_current)


def _refusal_reason(snapshot: SnapshotView) -> str:
    if snapshot.serving:
        return "it serves already"
    if snapshot.erasures:
        return "it learned from people who were erased since; train again, or give a reason"
    if snapshot.has_shipped_code:
        return "it was trained with code that was shipped for that run only, and what serves can't import it"
    return ""
