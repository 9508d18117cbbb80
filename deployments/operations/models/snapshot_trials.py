"""Use cases of trials: a share of people gets another snapshot than the serving one, until one is certainly better."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore, count_erasures_since
from cluster.clock import iso_ms
from cluster.errors import Conflict, NotFound
from cluster.ids import new_request_id
from cluster.records.engine import Engine, SnapshotTrial
from deployments.operations.framework.operation import OfEngine, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engines import check_app
from deployments.operations.models.promotions import name_of

DAY_MS: Final = 86_400_000


class StartTrial(OfEngine):
    """The snapshot to try, and what happens when the trial is certain."""

    version: str = Field(pattern=r"^[0-9A-Za-z_-]{1,128}$", description="A version or its start.")
    share: float = Field(default=0.1, gt=0, le=0.5, description="Share of people that gets the snapshot.")
    days: int = Field(
        default=14, ge=1, le=90, description="Days after which the trial ends without a decision."
    )
    promote_when_better: bool = Field(
        default=False, description="Promote the snapshot once it is certainly better in clicks or revenue."
    )
    roll_back_when_worse: bool = Field(
        default=True, description="End the trial once the snapshot is certainly worse, or breaks a guardrail."
    )


@dataclass(frozen=True, slots=True)
class TrialView:
    """The trial of an engine and what it shows now."""

    engine: Engine
    verdict: dict[str, Any] | None = None
    "None if there is no trial, or nothing of it is in the log of answers yet."

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        trial = self.engine.trial
        return {
            "app_id": self.engine.app_id,
            "engine_id": self.engine.engine_id,
            "serving": self.engine.snapshot,
            "trial": None if trial is None else trial.model_dump(mode="json"),
            "verdict": self.verdict,
        }

    def to_lines(self) -> ResultLines:
        """Return what is compared, a table of both snapshots, and what is certain."""
        engine = self.engine
        trial = self.engine.trial
        if trial is None:
            return (f"Engine {engine.engine_id} of {engine.app_id} has no trial of snapshots.",)
        first = (
            f"{trial.share:.0%} of the people of engine {engine.engine_id} get {trial.version} instead of "
            f"{engine.snapshot}, until {iso_ms(trial.ends_at)[:16]} UTC."
        )
        if self.verdict is None:
            return (first, "Nothing of it is in the log of answers yet.")
        table = ResultTable(
            (
                "snapshot",
                "people",
                "lists",
                "clicks",
                "revenue",
                "latency (ms)",
                "empty",
                "coverage",
                "failed",
            ),
            [_row(self.verdict[side]) for side in ("candidate", "control")],
            ids=("snapshot",),
            droppable=("coverage", "empty", "latency (ms)"),
        )
        return (first, table, f"{self.verdict['outcome']}: {self.verdict['sentence']}.")


@operation("trials.show", "GET", "/apps/{app_id}/engines/{engine_id}/trial")
async def show_trial(services: AdminServices, given: OfEngine) -> TrialView:
    """Show the trial of an engine: both snapshots with people, clicks, revenue and guardrails.

    Cost:
        reads the log of answers since the trial began, in another thread, once in 30 seconds
    """
    engine = await _read_engine(services, given)
    if engine.trial is None:
        return TrialView(engine)
    trial = engine.trial

    async def load() -> dict[str, Any] | None:
        failures = await services.stores.engine_activity.read_failures(given.app_id, trial.trial_id)
        return await asyncio.to_thread(_read_verdict, services, engine, trial, failures)

    key = ("trials.show", given.app_id, trial.trial_id, engine.snapshot)
    return TrialView(engine, await services.cache.get(key, load))


@operation("trials.start", "POST", "/apps/{app_id}/engines/{engine_id}/trial", "editor")
async def start_trial(services: AdminServices, given: StartTrial) -> TrialView:
    """Give a random share of people another snapshot than the serving one, and compare what both groups do.

    Errors:
        NotFound: no such engine or snapshot
        Conflict: the engine has a trial, serves the snapshot or has no trained model, the snapshot
            learned from erased people or needs shipped code, or the app allows no trial
    """
    app = await check_app(services, given.app_id)
    if not app.is_automatic or app.settings.served_log != "on":
        raise Conflict(
            f"trials of {given.app_id} need the environment production and the switches automatic_models=true and "
            f"served_log=on; now: {app.environment}, {str(app.settings.automatic_models).lower()} and "
            f"{app.settings.served_log}"
        )
    find = SnapshotStore(services.artifacts).find_version
    version = await asyncio.to_thread(find, given.app_id, given.engine_id, given.version)
    await asyncio.to_thread(_check_snapshot, services, given, version)
    now_ms = services.now_ms()
    trial = SnapshotTrial(
        trial_id=new_request_id(),
        version=version,
        is_candidate=True,
        share=given.share,
        started_at=now_ms,
        ends_at=now_ms + given.days * DAY_MS,
        promote_when_better=given.promote_when_better,
        roll_back_when_worse=given.roll_back_when_worse,
        by=name_of(services.principal),
    )

    def begin(engine: Engine) -> Engine:
        # Inside of the change, because two trials may be started at once.
        if engine.trial is not None:
            raise Conflict(f"engine {engine.engine_id} has a trial of {engine.trial.version}; stop it first")
        if engine.snapshot in ("", version):
            raise Conflict(f"engine {engine.engine_id} serves {engine.snapshot or 'no trained model'}")
        return engine.model_copy(update={"trial": trial})

    engine = await services.stores.engines.change(given.app_id, given.engine_id, begin)
    if engine is None:
        raise NotFound(f"app {given.app_id} has no engine {given.engine_id}; see `kiosk engines list`")
    return TrialView(engine)


async def _read_trial(services: AdminServices, given: OfEngine) -> TrialView:
    return TrialView(await _read_engine(services, given))


@operation(
    "trials.stop", "DELETE", "/apps/{app_id}/engines/{engine_id}/trial", "editor", read_before=_read_trial
)
async def stop_trial(services: AdminServices, given: OfEngine) -> TrialView:
    """End the trial of an engine without a decision: everybody gets the serving snapshot.

    Errors:
        NotFound: no such engine, or it has no trial
    """
    from jobs.refresh.automation.trial_watch import end_trial

    engine = await _read_engine(services, given)
    if engine.trial is None:
        raise NotFound(f"engine {given.engine_id} of {given.app_id} has no trial of snapshots")
    ended = await end_trial(services.stores, given.app_id, given.engine_id, engine.trial.trial_id)
    return TrialView(engine if ended is None else ended)


async def _read_engine(services: AdminServices, given: OfEngine) -> Engine:
    from jobs.refresh.runs.promotion import get_engine

    await check_app(services, given.app_id)
    return await get_engine(services.stores, given.app_id, given.engine_id)


def _check_snapshot(services: AdminServices, given: OfEngine, version: str) -> None:
    manifest = SnapshotStore(services.artifacts).manifest(given.app_id, given.engine_id, version)
    if count_erasures_since(manifest, SegmentStore(services.artifacts).erasures(given.app_id)):
        raise Conflict(f"{version} learned from people who were erased since; train again")
    if manifest.facts.get("code"):
        raise Conflict(
            f"{version} was trained with code that was shipped for that run only, and what serves can't import it"
        )


def _read_verdict(
    services: AdminServices, engine: Engine, trial: SnapshotTrial, failures: dict[str, int]
) -> dict[str, Any] | None:
    from jobs.refresh.automation.trial_samples import TrialSamples
    from jobs.refresh.automation.trial_watch import read_verdict

    try:
        verdict = read_verdict(TrialSamples(services.artifacts, engine, trial), trial, failures)
    except NotFound:  # a file was replaced during the read
        return None
    return verdict.to_dict()


def _row(group: dict[str, Any]) -> tuple[str, ...]:
    def figure(measure: str, form: str) -> str:
        return format(group.get(f"{measure}_per_person", 0.0), form)

    return (
        group["version"],
        f"{group['people']:,}",
        f"{group['lists']:,}",
        figure("clicks", ".2%"),
        figure("revenue", ".2f"),
        figure("latency", ".1f"),
        figure("empty", ".2%"),
        figure("coverage", ".1%"),
        f"{group['failures']:,}",
    )
