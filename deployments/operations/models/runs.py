"""Use cases of trainings: order, estimate, list, read, follow and cancel. Workers elsewhere do the training."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from cluster.clock import iso_ms
from cluster.errors import Conflict, NotFound
from cluster.records.run import FACT_LABELS, Run
from cluster.store.stores import Stores
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engines import check_app, list_visible, no_app_error
from deployments.operations.models.recipes import choose_recipe
from deployments.operations.models.training_estimate import estimate_from_counts

SEARCHED = 500
"How many of an app's newest runs are searched for the start of a name."


class ListRuns(OfApp):
    """Which runs of an app."""

    limit: int = Field(default=20, ge=1, le=500)
    engine_id: str = ""
    "Only of this engine."


class ListAllRuns(Arguments):
    """Which runs of all apps."""

    limit: int = Field(default=20, ge=1, le=500)
    "Of each app."


class OfRun(OfApp):
    """A run by its name, or by the start of it while that is the only one."""

    run_id: str = Field(min_length=1, max_length=200)


class FindRun(Arguments):
    """A run of any app."""

    run_id: str = Field(min_length=1, max_length=200)


class EstimateRun(OfApp):
    """The training to estimate."""

    engine_id: str = "default"
    recipe: Annotated[str | dict[str, Any], Field(union_mode="left_to_right")] = "default"
    "A built-in recipe by its name, or all fields of one."
    changes: dict[str, Any] | str = Field(default_factory=dict)
    "Path of a field -> value, as `parts.rules.window`; or a text with a line FIELD=VALUE for each."


class OrderRun(EstimateRun):
    """The training to order."""

    promote: bool = False
    "Let the result serve if the gate allows."


@dataclass(frozen=True, slots=True)
class RunView:
    """One run."""

    run: Run

    def to_dict(self) -> dict[str, Any]:
        return run_to_dict(self.run)

    def to_lines(self) -> ResultLines:
        """Return its stages, figures, parts and verdict, or why it failed."""
        run = self.run
        figures = ", ".join(f"{key} {value:.4f}" for key, value in run.figures.items())
        return (
            f"{run.run_id}: {run.status}, engine {run.engine_id} of {run.app_id}, "
            f"recipe {run.recipe.get('name', '')}, ordered {iso_ms(run.created_at)[:19]} "
            f"by {run.by or 'nobody'}, attempt {run.attempt}",
            *([f"now: {run.stage} {run.fraction:.0%} {run.message}"] if run.status == "running" else []),
            *([_build_stage_table(run)] if run.stages else []),
            *filter(None, (run.split.get("sentence"), figures)),
            *([_build_part_table(run)] if run.parts else []),
            *filter(
                None,
                (
                    run.chosen,
                    run.version and f"snapshot {run.version}",
                    run.verdict,
                    run.error and f"error: {run.error}",
                ),
            ),
        )


@dataclass(frozen=True, slots=True)
class CancelledRun(RunView):
    """A run that was cancelled."""

    def to_lines(self) -> ResultLines:
        return (f"Run {self.run.run_id} is cancelled; nothing of it is published.",)


@dataclass(frozen=True, slots=True)
class RunList:
    """Runs, newest first."""

    runs: tuple[Run, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"runs": [run_to_dict(run) for run in self.runs]}

    def to_lines(self) -> ResultLines:
        """Return a table of the runs."""
        rows = [
            (
                iso_ms(run.created_at)[:19],
                run.app_id,
                run.engine_id,
                run.run_id,
                run.status,
                f"{run.stage} {run.fraction:.0%}" if run.status == "running" else "",
                str(run.attempt),
                run.by,
                run.version,
            )
            for run in self.runs
        ]
        table = ResultTable(
            ("ordered", "app", "engine", "run", "status", "stage", "attempt", "by", "snapshot"),
            rows,
            "There are no runs yet; `kiosk train` orders one.",
            ids=("run", "snapshot"),
            droppable=("attempt", "by", "engine"),
        )
        return (table,)


@dataclass(frozen=True, slots=True)
class RunLog:
    """What a run did, oldest first."""

    run: Run
    lines: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"run_id": self.run.run_id, "status": self.run.status, "lines": list(self.lines)}


def _build_stage_table(run: Run) -> ResultTable:
    rows = [
        (
            stage.name,
            f"{stage.seconds:.1f}",
            ", ".join(f"{FACT_LABELS.get(key, key)} {value}" for key, value in stage.facts.items()),
        )
        for stage in run.stages
    ]
    return ResultTable(("stage", "seconds", "facts"), rows)


def _build_part_table(run: Run) -> ResultTable:
    rows = []
    for part in run.parts:
        alone = part.get("alone")
        weight = part.get("weight", 0.0)
        unseen = part.get("weight_unseen")
        rows.append(
            (
                str(part.get("part", "")),
                f"{weight:g}",
                f"{weight if unseen is None else unseen:g}",
                f"{part.get('weight_new', 0.0):g}",
                "" if alone is None else f"{alone:.4f}",
                str(part.get("reason", "")),
            )
        )
    return ResultTable(("part", "weight", "new products", "without history", "alone", "why"), rows)


def run_to_dict(run: Run) -> dict[str, Any]:
    """Write a run as JSON for programs."""
    return run.model_dump(mode="json", exclude={"revision", "until_ms", "owner", "log"})


@operation("runs.list_all", "GET", "/runs", scope="person")
async def list_all_runs(services: AdminServices, given: ListAllRuns) -> RunList:
    """List the trainings of all apps, newest first."""
    runs: list[Run] = []
    for app_id in await list_visible(services):
        runs += await services.stores.runs.newest(app_id, given.limit)
    return RunList(tuple(sorted(runs, key=lambda run: -run.created_at)))


@operation("runs.find", "GET", "/runs/{run_id}", scope="person")
async def search_run(services: AdminServices, given: FindRun) -> RunView:
    """Read a training of any app."""
    return RunView(await _find(services, "", given.run_id))


@operation("runs.list", "GET", "/apps/{app_id}/runs")
async def list_runs(services: AdminServices, given: ListRuns) -> RunList:
    """List the trainings of an app, newest first."""
    await check_app(services, given.app_id)
    if not given.engine_id:
        return RunList(tuple(await services.stores.runs.newest(given.app_id, given.limit)))
    runs = await services.stores.runs.newest(given.app_id, SEARCHED)
    return RunList(tuple(run for run in runs if run.engine_id == given.engine_id)[: given.limit])


@operation("runs.get", "GET", "/apps/{app_id}/runs/{run_id}")
async def get_run(services: AdminServices, given: OfRun) -> RunView:
    """Read a training: its stages, figures and verdict, or why it failed."""
    return RunView(await _find(services, given.app_id, given.run_id))


@operation("runs.log", "GET", "/apps/{app_id}/runs/{run_id}/log")
async def read_run_log(services: AdminServices, given: OfRun) -> RunLog:
    """Read what a training did, line by line."""
    run = await _find(services, given.app_id, given.run_id)
    return RunLog(run, tuple(describe_run(run)))


@operation("runs.estimate", "POST", "/apps/{app_id}/runs/estimate", "editor")
async def estimate_run(services: AdminServices, given: EstimateRun) -> PlainResult:
    """Estimate memory and time of a training; train nothing.

    From the counts of the data, without reading the data.
    """
    recipe = await choose_recipe(given.recipe, given.changes)
    from jobs.refresh.runs.run_commands import check_engine

    await check_engine(services.stores, given.app_id, given.engine_id)
    newest = await services.stores.runs.newest(given.app_id, 20)
    return await asyncio.to_thread(
        estimate_from_counts, services.artifacts, given.app_id, given.engine_id, recipe, newest
    )


@operation("runs.order", "POST", "/apps/{app_id}/runs", "editor")
async def order_run(services: AdminServices, given: OrderRun) -> RunView:
    """Order a training of an engine on all accepted data.

    A worker of the running system claims it, unless this process trains.
    """
    recipe = await choose_recipe(given.recipe, given.changes)
    from jobs.refresh.runs.run_commands import check_promotable, create_run

    if given.promote:
        await check_promotable(services.stores, given.app_id)
    principal = services.principal
    by = "kiosk train" if principal.way == "command line" else principal.username
    return RunView(
        await create_run(
            services.stores,
            given.app_id,
            given.engine_id,
            recipe.model_dump(mode="json"),
            now_ms=services.now_ms(),
            by=by,
            promote=given.promote,
            owner=services.training_owner,
            code=services.training_code,
        )
    )


@operation("runs.cancel", "POST", "/apps/{app_id}/runs/{run_id}/cancel", "editor", read_before=get_run)
async def cancel_run(services: AdminServices, given: OfRun) -> CancelledRun:
    """Cancel a training; what serves stays.

    Its worker notices within seconds, and nothing of it is published.
    """
    from jobs.refresh.runs.run_commands import cancel_training

    run = await _find(services, given.app_id, given.run_id)
    return CancelledRun(await cancel_training(services.stores, run.app_id, run.run_id, services.now_ms()))


async def find_run(stores: Stores, apps: Sequence[str], words: Sequence[str]) -> Run:
    """Return the run that `[APP] RUN` names; RUN may be the start of a name.

    Errors:
        NotFound: no such app, or no run of that name
        Conflict: several runs begin like that
    """
    *app_words, run_name = [word for word in words if word]
    if app_words and app_words[0] not in apps:
        raise no_app_error(app_words[0], apps)
    searched = app_words or list(apps)
    # The exact name first: it is found by its key, also when the run is older than those that are searched
    # below.
    for app_id in searched:
        if exact := await stores.runs.get(app_id, run_name):
            return exact
    newest = [run for app_id in searched for run in await stores.runs.newest(app_id, SEARCHED)]
    matches = [run for run in newest if run.run_id.startswith(run_name)]
    if not matches:
        where, listed = (
            (f"app {app_words[0]}", f" {app_words[0]}") if app_words else ("this installation", "")
        )
        raise NotFound(f"{where} has no run {run_name}; see `kiosk runs list{listed}`")
    if len(matches) > 1:
        names = ", ".join(run.run_id for run in matches[:5])
        raise Conflict(f"{len(matches)} runs begin with {run_name}: {names}")
    return matches[0]


def describe_run(run: Run) -> list[str]:
    """Return what a run did as lines, oldest first."""
    promotes = ", to serve if the gate allows" if run.promote else ""
    lines = [f"{_time(run.created_at)}  ordered by {run.by or 'nobody'}{promotes}"]
    if run.started_at is not None:
        lines.append(f"{_time(run.started_at)}  claimed by a worker, attempt {run.attempt}")
    lines += run.log
    if run.finished_at is not None:
        why = f": {run.error}" if run.error else ""
        lines.append(f"{_time(run.finished_at)}  {run.status}{why}")
    elif run.error:
        lines.append(f"{' ' * 19}  the last attempt ended: {run.error}")
    return lines


def _time(at_ms: int) -> str:
    return iso_ms(at_ms)[:19]


async def _find(services: AdminServices, app_id: str, run_id: str) -> Run:
    return await find_run(services.stores, await list_visible(services), (app_id, run_id))
