"""Use cases of measuring recipes: order an evaluation or a sweep, and read what it found. Workers do the measuring."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from actors.models.loading.allowed_learners import ALLOWED
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.field_types.times import parse_span_ms
from cluster.records.run import Run, RunKind
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import ResultLines
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.evaluations import load_measurement
from deployments.operations.models.recipes import choose_recipe
from deployments.operations.models.runs import OfRun, RunView, get_run

if TYPE_CHECKING:
    from jobs.refresh.evaluation.report_models import MeasurementRecord
    from jobs.refresh.recipe import Recipe

_RecipeChoice = Annotated[str | dict[str, Any], Field(union_mode="left_to_right")]
_Text = Annotated[str, Field(min_length=1, max_length=2_000)]


class OrderEvaluation(OfApp):
    """What to evaluate; without recipe and snapshot, the serving version."""

    engine_id: str = "default"
    recipe: _RecipeChoice = ""
    "A built-in recipe by its name, or all fields of one."
    changes: dict[str, Any] | str = Field(default_factory=dict)
    "Path of a field -> value, as `parts.rules.window`; or a text with a line FIELD=VALUE for each."
    snapshot: str = Field(default="", max_length=64)
    "A version whose recipe is evaluated."
    protocols: Annotated[list[str], Field(max_length=4)] = Field(default_factory=list)
    "Of `by_time`, `leave_last_out`, `next_in_session`; none: the first two."
    readers: int = Field(default=4_000, ge=10, le=100_000)
    "Most users in the test."
    learning_curve: bool = False
    "Train again on shares of the users, and rank by shorter histories; takes about two trainings more."
    logged: bool = False
    "Estimate by the log of answers what lists would have earned, instead of a test on held-out events."
    candidate: str = Field(default="", max_length=64)
    "With `logged`: another engine, whose serving version is evaluated."
    since: str = Field(default="30d", description="With `logged`, how far back: a number and m, h, d or w.")
    lists: int = Field(default=20_000, ge=100, le=200_000)
    "With `logged`: most lists; of more, a sample is evaluated."


class OrderSweep(OfApp):
    """A recipe, and the values of its fields to try."""

    engine_id: str = "default"
    recipe: _RecipeChoice = "default"
    changes: dict[str, Any] | str = Field(default_factory=dict)
    sweep: Annotated[list[_Text], Field(min_length=1, max_length=20)]
    "FIELD=A,B,C for each field; every combination is evaluated."


@dataclass(frozen=True, slots=True)
class MeasurementReport:
    """What an evaluation or a sweep found."""

    run: Run
    report: MeasurementRecord

    def to_dict(self) -> dict[str, Any]:
        return {"run_id": self.run.run_id, "kind": self.run.kind, **self.report.to_dict()}

    def to_lines(self) -> ResultLines:
        """Return the report as Markdown."""
        from jobs.refresh.evaluation.reports import markdown_from_reports
        from jobs.refresh.runs.measurements.sweep import markdown_from_rows

        report = self.report
        title = f"{report.recipe} on {self.run.app_id}"
        if not report.rows:
            return markdown_from_reports(report.reports, title).splitlines()
        return markdown_from_rows(report.rows, title, report.split.get("sentence", "")).splitlines()


@operation("evaluations.order", "POST", "/apps/{app_id}/evaluations", "editor")
async def order_evaluation(services: AdminServices, given: OrderEvaluation) -> RunView:
    """Order an evaluation of a recipe, a snapshot or what serves.

    A worker of the running system claims it, and nothing is published. With `logged`, the lists of the engine are the
    log, and what is evaluated is the recipe, the snapshot, or the version of the engine `candidate`.

    Errors:
        Invalid: recipe and snapshot are both named, changes have no recipe, or a protocol does not exist
    """
    if given.candidate and not given.logged:
        raise Invalid("a candidate needs logged")
    if given.recipe and given.snapshot:
        raise Invalid("choose one of recipe and snapshot")
    recipe = await choose_recipe(given.recipe, given.changes) if given.recipe else None
    if recipe is None and given.changes:
        raise Invalid("changes change a recipe; name one")
    from jobs.refresh.runs.measurements.measurement import check_protocols, select_target
    from jobs.refresh.runs.promotion import get_engine
    from jobs.refresh.runs.run_commands import check_engine

    protocols = check_protocols(given.protocols)
    await check_engine(services.stores, given.app_id, given.engine_id)
    if given.logged:
        return await _order_logged(services, given, recipe)
    serving = (await get_engine(services.stores, given.app_id, given.engine_id)).snapshot
    target = await asyncio.to_thread(
        select_target, services.artifacts, given.app_id, given.engine_id, serving, recipe, given.snapshot
    )
    compare = target.serving is not None
    options: dict[str, Any] = {"protocols": list(protocols), "readers": given.readers, "compare": compare}
    if given.learning_curve:
        options["learning_curve"] = True
    return await _order(services, given, "evaluation", target.recipe.model_dump(mode="json"), options)


@operation("evaluations.sweep", "POST", "/apps/{app_id}/sweeps", "editor")
async def order_sweep(services: AdminServices, given: OrderSweep) -> RunView:
    """Order a sweep: evaluate every combination of some values of a recipe.

    A worker of the running system claims it, and nothing is published.
    """
    recipe = await choose_recipe(given.recipe, given.changes)
    from jobs.refresh.runs.measurements.sweep import build_variants

    # A value of the sweep may name a learner, so each combination is checked.
    for variant in await asyncio.to_thread(build_variants, recipe, given.sweep):
        ALLOWED.check_recipe(variant.recipe.model_dump(mode="json"))
    return await _order(services, given, "sweep", recipe.model_dump(mode="json"), {"sweep": given.sweep})


@operation("evaluations.report", "GET", "/apps/{app_id}/runs/{run_id}/report")
async def read_report(services: AdminServices, given: OfRun) -> MeasurementReport:
    """Read what an evaluation or a sweep found.

    Errors:
        NotFound: no such run, it is a training, or its report was removed for newer ones
        Conflict: it has not finished
    """
    run = (await get_run(services, given)).run
    if run.kind == "training":
        raise NotFound(f"{run.run_id} is a training; its evaluation is that of its snapshot")
    if run.status != "finished":
        raise Conflict(
            f"{run.run_id} is {run.status}; it has no report" + (f": {run.error}" if run.error else "")
        )
    report = await asyncio.to_thread(
        load_measurement, services.artifacts, run.app_id, run.engine_id, run.run_id
    )
    if report is None:
        raise NotFound(f"the report of {run.run_id} was removed for newer ones")
    return MeasurementReport(run, report)


async def _order_logged(services: AdminServices, given: OrderEvaluation, recipe: Recipe | None) -> RunView:
    from jobs.refresh.recipe import load_recipe_file
    from jobs.refresh.runs.measurements.off_policy_evaluation import select_logged_target

    span_ms = parse_span_ms(given.since)
    target, serving = await select_logged_target(
        services.stores,
        services.artifacts,
        given.app_id,
        given.engine_id,
        recipe,
        given.snapshot,
        given.candidate,
    )
    now_ms = services.now_ms()
    logged = {
        "is_recipe": recipe is not None,
        "engine_id": target.engine_id,
        "version": target.version,
        "serving": serving,
        "since_ms": now_ms - span_ms,
        "until_ms": now_ms,
        "most": given.lists,
        "pauses": dict(target.pauses),
        "serving_pauses": dict(target.serving_pauses),
    }
    chosen = await asyncio.to_thread(load_recipe_file, "default") if recipe is None else recipe
    return await _order(services, given, "evaluation", chosen.model_dump(mode="json"), {"logged": logged})


async def _order(
    services: AdminServices,
    given: OrderEvaluation | OrderSweep,
    kind: RunKind,
    recipe: Mapping[str, Any],
    options: Mapping[str, Any],
) -> RunView:
    from jobs.refresh.runs.run_commands import create_run

    return RunView(
        await create_run(
            services.stores,
            given.app_id,
            given.engine_id,
            recipe,
            now_ms=services.now_ms(),
            by=services.principal.username,
            kind=kind,
            options=options,
        )
    )
