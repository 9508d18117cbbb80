"""Promotion and rollback: compare-and-set of the serving version, with a gate and a history.

No process restarts: each process that serves the engine reads its record and loads the snapshot that it names.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog

from cluster.artifacts.manifest import Manifest
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore, count_erasures_since
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Conflict, KioskError, NotFound
from cluster.ids import new_request_id
from cluster.records.engine import Engine, Promotion, SnapshotTrial
from cluster.store.stores import Stores
from jobs.refresh.evaluation.gate import SERVING, GateDecision, check_gate
from jobs.refresh.evaluation.report_models import EvaluationReport
from jobs.refresh.evaluation.report_store import ReportStore

HOLDBACK: Final = 0.05
"Share of people that keeps the version that served before a promotion."
WATCH_MS: Final = 7 * 86_400_000
"A week has every day once."


async def promote_version(
    stores: Stores,
    artifacts: ArtifactStore,
    app_id: str,
    engine_id: str,
    version: str,
    *,
    now_ms: int,
    by: str,
    force: str = "",
    report: EvaluationReport | None = None,
    evidence: dict[str, Any] | None = None,
    is_watched: bool = False,
) -> Promotion:
    """Promote a version of an engine and return the promotion.

    `force` is the reason to override a refusal of the gate; the history records it. `report` is a newer comparison
    than the stored one. With `evidence`, people have compared the version, so the gate does not judge it.

    In an app with the switch `automatic_models`, a share of people keeps the version that served before for some
    days, so that a version that hurts is taken back. Not so after a promotion by force. `is_watched` says whether it
    is so with evidence: a trial has watched the version before, an interleaving counted clicks alone.

    Errors:
        Conflict: the gate refuses, the version needs shipped code, contains erased users or serves already, or
            another version was promoted at the same time
        NotFound: the engine or the version does not exist
    """
    engine = await get_engine(stores, app_id, engine_id)
    if engine.snapshot == version:
        raise Conflict(f"engine {engine_id} of {app_id} serves {version} already")
    # Before anything is written: a version that does not exist must fail here.
    manifest = await asyncio.to_thread(SnapshotStore(artifacts).manifest, app_id, engine_id, version)
    erased = await asyncio.to_thread(SegmentStore(artifacts).erasures, app_id)
    # A version that learned from erased people must not serve, unless an administrator gives a reason.
    has_erased = count_erasures_since(manifest, erased) > 0
    if has_erased and not force:
        raise Conflict(
            f"{version} learned from people who were erased since; train again, or give a reason: "
            '`kiosk promote --force "..."`'
        )
    is_shipped = bool(manifest.facts.get("code"))
    if is_shipped and not force:
        raise Conflict(
            f"{version} was trained with code that --working-dir shipped for that run only, and the processes that "
            f"serve can't import it ({', '.join(_custom_learners(manifest))}). Install the code into the "
            "environment of `kiosk up`, restart that, and train again without --working-dir; or, where it is "
            "installed by now: "
            '`kiosk promote --force "..."`'
        )
    # The report of the training. It may compare with a version that served then and not now.
    if report is None:
        report = await asyncio.to_thread(ReportStore(artifacts).get, app_id, engine_id, version)
    verdict = GateDecision(True, "never measured") if report is None else check_gate(report)
    if evidence is not None:
        verdict = GateDecision(True, str(evidence.get("sentence", "")))
    if not verdict.allowed and not force:
        raise Conflict(
            f"{version} was not promoted, it is {verdict.sentence}. Train with another recipe or more data, or give "
            'a reason: `kiosk promote --force "..."`'
        )
    is_forced = has_erased or is_shipped or not verdict.allowed
    entry = Promotion(
        app_id=app_id,
        engine_id=engine_id,
        version=version,
        before=engine.snapshot,
        kind="promoted",
        at_ms=now_ms,
        by=by,
        run_id="" if report is None else report.run_id,
        reason=force if is_forced else verdict.sentence,
        forced=is_forced,
        figures={} if report is None else report.figures,
        evidence=evidence or {},
    )
    watch = None
    if not is_forced and (evidence is None or is_watched):
        watch = await _plan_watch(stores, artifacts, entry)
    return await _save_promotion(stores, entry, watch)


async def roll_back_version(
    stores: Stores,
    artifacts: ArtifactStore,
    app_id: str,
    engine_id: str,
    *,
    now_ms: int,
    by: str,
    to: str | None = None,
    reason: str = "",
    evidence: dict[str, Any] | None = None,
) -> Promotion:
    """Promote the previous version, or a named one, and return the promotion; with `to=""`, no version serves.

    Two rollbacks go back two promotions. Versions that are no longer in the artifact store are skipped.

    Errors:
        Conflict: there is no previous version, or another version was promoted at the same time
        NotFound: the engine or the version does not exist
    """
    engine = await get_engine(stores, app_id, engine_id)
    snapshots = SnapshotStore(artifacts)
    if to is None:
        to = await asyncio.to_thread(
            _previous_version, snapshots, engine, await stores.promotions.history(app_id, engine_id)
        )
    elif to:
        # Read only to refuse a version that does not exist.
        await asyncio.to_thread(snapshots.manifest, app_id, engine_id, to)
    if to == engine.snapshot:
        raise Conflict(f"engine {engine_id} of {app_id} serves {to or 'nothing that was learned'} already")
    entry = Promotion(
        app_id=app_id,
        engine_id=engine_id,
        version=to,
        before=engine.snapshot,
        kind="rolled_back",
        at_ms=now_ms,
        by=by,
        reason=reason,
        evidence=evidence or {},
    )
    return await _save_promotion(stores, entry)


async def get_engine(stores: Stores, app_id: str, engine_id: str) -> Engine:
    """Return an engine.

    Errors:
        NotFound: the engine does not exist
    """
    engine = await stores.engines.get(app_id, engine_id)
    if engine is None:
        raise NotFound(f"app {app_id} has no engine {engine_id}; see `kiosk engines list`")
    return engine


def _custom_learners(manifest: Manifest) -> list[str]:
    """Return the custom learner classes that a snapshot needs."""
    return [part["learner"] for part in manifest.facts.get("parts", ()) if ":" in str(part.get("learner"))]


def is_compared(report: EvaluationReport | None, serving: str) -> bool:
    """Return true if the report compares the version with the one that serves now."""
    if report is None:
        return False
    if not serving:
        return True
    return SERVING in report.beside and report.beside[SERVING].version == serving


def _previous_version(snapshots: SnapshotStore, engine: Engine, history: list[Promotion]) -> str:
    """Return the previously serving version; promotions that were rolled back are skipped."""
    if not engine.snapshot:
        raise Conflict(
            f"engine {engine.engine_id} serves nothing that was learned; there is nothing to go back to"
        )
    version = engine.snapshot
    for entry in history:
        # Newest first: the promotion that brought `version` names what served before it.
        if entry.kind != "promoted" or entry.version != version:
            continue
        version = entry.before
        if not version or snapshots.has(engine.app_id, engine.engine_id, version):
            return version
    raise Conflict(
        f"what engine {engine.engine_id} served before is not known any more; name a version with --to"
    )


async def _plan_watch(stores: Stores, artifacts: ArtifactStore, entry: Promotion) -> SnapshotTrial | None:
    """Return the trial that compares a promoted version with the one that served before; None if nothing could be
    compared, or erased people are in the older one."""
    app = (await stores.access.read_all()).apps.get(entry.app_id)
    # Without the log of answers nothing could be compared, and a trial would only cost.
    if app is None or not app.is_automatic or app.settings.served_log != "on" or not entry.before:
        return None
    try:
        manifest = await asyncio.to_thread(
            SnapshotStore(artifacts).manifest, entry.app_id, entry.engine_id, entry.before
        )
        erased = await asyncio.to_thread(SegmentStore(artifacts).erasures, entry.app_id)
    # The watch is an extra: a promotion that is allowed must not fail for it.
    except KioskError:
        return None
    if count_erasures_since(manifest, erased):
        return None
    return SnapshotTrial(
        trial_id=new_request_id(),
        version=entry.before,
        share=HOLDBACK,
        started_at=entry.at_ms,
        ends_at=entry.at_ms + WATCH_MS,
        by=entry.by,
    )


async def _save_promotion(stores: Stores, entry: Promotion, trial: SnapshotTrial | None = None) -> Promotion:
    # A compare-and-set on the version that served: of two promotions at once one is refused (decision 12).
    if not await stores.promotions.promote(entry, trial):
        raise Conflict(
            f"engine {entry.engine_id} was changed by somebody else meanwhile; look again, then repeat"
        )
    structlog.get_logger().info(
        "engine_promoted" if entry.kind == "promoted" else "engine_rolled_back",
        app=entry.app_id,
        engine=entry.engine_id,
        version=entry.version,
        before=entry.before,
        forced=entry.forced,
    )
    return entry
