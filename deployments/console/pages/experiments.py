"""Pages of experiments: list, wizard with sample size, report with intervals, and the steps of their lives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from starlette.responses import Response

from actors.experiments.report import ExperimentReport
from actors.experiments.sample_size import estimate_missing_sample
from cluster.clock import iso_ms
from cluster.errors import KioskError
from cluster.records.experiment import CONVERSION, GOALS, GUARDRAILS
from cluster.records.field_types.times import moment_ms
from cluster.records.interaction import INTERACTION_TYPES
from deployments.console.argument_form import arguments_from_form, list_inputs
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest
from deployments.operations.framework.argument_fields import parse_number
from deployments.operations.insight.experiments import EditExperiment, ScheduleExperiment

LIST = "/apps/{app_id}/experiments"
NEW = LIST + "/new"
EXPERIMENT = LIST + "/{experiment}"
INTERLEAVING = "/apps/{app_id}/interleavings/{interleaving}"
QUESTIONS = "/apps/{app_id}/question-experiments/{question_experiment}"
VARIANTS = 4
"Variants that the wizard has inputs for."
MOST_ENGINES = 10
MOST_SNAPSHOTS = 20
"Engines whose snapshots are listed, and snapshots of each."
MAIN_GOALS = ("checkout", "add_to_cart", "click", "subscribe", "product_detail_page_view", "read")
"Interactions that the form shows first."
IN_ADDRESS = frozenset({"app_id", "experiment"})
CHECKED = ("goal", "goals", "segments", "guardrails", "engines")
"Fields of the wizard that are check boxes."
SEGMENTS = ("history", "device", "through")
ONLY_DRAFTS = frozenset({"goal", "layer", "slice"})
"Arguments of an edit that the wizard asks for; users who met the experiment would change places."
STEPS = ("start", "pause", "complete", "archive")
NEXT_STEPS: Mapping[str, tuple[str, ...]] = {
    "Draft": ("start", "archive"),
    "Scheduled": ("start", "archive"),
    "Active": ("pause", "complete"),
    "Completed": ("archive",),
    "Archived": (),
}
"Status -> steps that the page offers."


async def list_experiments(request: ConsoleRequest) -> Response:
    """Show the experiments of the app, the newest first."""
    listed = await request.perform("experiments.list")
    rows = [(experiment, experiment.status_at(listed.now_ms)) for experiment in reversed(listed.experiments)]
    return request.page("experiments/list.html", rows=rows)


async def show_wizard(request: ConsoleRequest) -> Response:
    """Show the form of a new experiment, with the engines, snapshots and rules to choose from."""
    engines, rules = await asyncio.gather(
        request.perform("engines.list"),
        request.perform("rules.list"),
    )
    names = [view.engine.engine_id for view in engines.engines]
    lists = await asyncio.gather(*(_list_snapshots(request, name) for name in names[:MOST_ENGINES]))
    return request.page(
        "experiments/wizard.html",
        variants=range(1, VARIANTS + 1),
        engines=names,
        snapshots=[option for options in lists for option in options],
        rules=sorted({rule.name for rule in rules.rules}),
        main_goals=MAIN_GOALS,
        more_goals=[kind for kind in INTERACTION_TYPES if kind not in MAIN_GOALS],
        values=[goal.name for goal in GOALS],
        conversion=CONVERSION,
        guardrails=GUARDRAILS,
        segments=SEGMENTS,
        chosen={name: request.form_lists.get(name, []) for name in CHECKED}
        | {"declared": [name for name in ("reports_exposure",) if name in request.form]},
    )


async def _list_snapshots(request: ConsoleRequest, engine_id: str) -> list[tuple[str, str]]:
    """Return the newest snapshots of an engine as values and texts of a list."""
    listed = await request.perform("snapshots.list", engine_id=engine_id, limit=MOST_SNAPSHOTS)
    return [
        (
            snapshot.version,
            f"{engine_id}: {snapshot.version[:8]}, {iso_ms(snapshot.published_ms)[:16].replace('T', ' ')}",
        )
        for snapshot in listed.snapshots
    ]


async def create_experiment(request: ConsoleRequest) -> Response:
    """Make a draft from the form."""
    draft = draft_from_form(request.form, request.form_lists)
    made = await request.perform("experiments.create", experiments=[draft])
    experiment = made.experiments[0]
    return request.redirect(EXPERIMENT, "experiments.made", experiment=experiment.experiment_id)


async def show_plan(request: ConsoleRequest) -> Response:
    """Show how many people an experiment needs, as part of the wizard."""
    try:
        plan = await request.perform(
            "experiments.plan",
            **_figure_from_query(request.query),
            relative_lift=parse_number(request.query.get("lift", ""), "lift") / 100,
            variants=count_variants(request.query),
            people_per_day=parse_number(request.query.get("people_per_day") or "0", "people_per_day"),
        )
    except KioskError as error:
        return request.fragment("experiments/plan.html", plan=None, message=error.message)
    return request.fragment("experiments/plan.html", plan=plan, message="")


def _figure_from_query(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the rate that a person typed; without one, the goal whose figures are to be measured."""
    if query.get("rate", "").strip():
        return {"rate": parse_number(query["rate"], "rate") / 100}
    primary = query.get("primary", CONVERSION)
    return {"goal": query.get("goal", "checkout") if primary == CONVERSION else primary}


async def show_experiment(request: ConsoleRequest) -> Response:
    """Show an experiment and what came of it."""
    shown = await request.perform("experiments.get")
    if shown.experiment.method == "interleave":
        return request.redirect(INTERLEAVING, interleaving=request.path["experiment"])
    if shown.experiment.method == "question":
        return request.redirect(QUESTIONS, question_experiment=request.path["experiment"])
    report = await request.perform("experiments.report")
    return request.page(
        "experiments/experiment.html",
        one=shown.experiment,
        stage=shown.status,
        report=report,
        edit_inputs=list_inputs(
            EditExperiment,
            shown.experiment,
            exclude=IN_ADDRESS | ONLY_DRAFTS,
            keys={
                "weights": {
                    variant.slug: (variant.name, variant.weight) for variant in shown.experiment.variants
                },
                "guardrails": {name: (name, limit) for name, limit in shown.experiment.guardrails.items()},
            },
        ),
        schedule_inputs=list_inputs(ScheduleExperiment, exclude=IN_ADDRESS),
        intervals=interval_bars(report),
        chart=people_chart(request, report),
        steps=NEXT_STEPS[shown.status],
        missing=estimate_missing_sample(report) if shown.experiment.primary == CONVERSION else None,
        known_goals=(CONVERSION, *(goal.name for goal in GOALS)),
        names={variant.variant_id: variant.name for variant in shown.experiment.variants},
    )


async def step_experiment(request: ConsoleRequest) -> Response:
    """Take a step of an experiment's life, or change its traffic, weights and end."""
    step = request.form.get("step", "")
    if step in STEPS:
        shown = await request.perform(f"experiments.{step}")
    elif step == "schedule":
        times = arguments_from_form(ScheduleExperiment, request.form, exclude=IN_ADDRESS)
        shown = await request.perform("experiments.schedule", **times)
    else:
        changes = arguments_from_form(EditExperiment, request.form, exclude=IN_ADDRESS | ONLY_DRAFTS)
        shown = await request.perform("experiments.edit", **changes)
    changed = shown.experiment
    values = {"experiment": changed.experiment_id, "name": changed.name, "status": shown.status}
    return request.redirect(EXPERIMENT, "experiments.changed", **values)


def draft_from_form(form: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the draft that the wizard describes; `lists` has the values of its check boxes."""
    variants = []
    for at in range(1, VARIANTS + 1):
        name = form.get(f"variant_{at}", "").strip()
        if not name:
            continue
        variant: dict[str, Any] = {
            "name": name,
            "weight": parse_number(form.get(f"weight_{at}") or "1", "weight"),
        }
        for field in ("engine_id", "snapshot", "boost_rule"):
            value = form.get(f"{field}_{at}", "").strip()
            if value:
                variant[field] = value
        variants.append(variant)
    draft: dict[str, Any] = {
        "name": form.get("name", "").strip(),
        "goal": list(lists.get("goal", ())) or ["checkout"],
        "reports_exposure": "reports_exposure" in form,
        "traffic": parse_number(form.get("traffic") or "100", "traffic") / 100,
        "variants": variants,
    }
    for field in ("goals", "segments", "guardrails"):
        if lists.get(field):
            draft[field] = list(lists[field])
    primary = form.get("primary", "").strip()
    if primary:
        draft["primary"] = primary
        if primary != CONVERSION:
            draft["goals"] = list(dict.fromkeys([*draft.get("goals", ()), primary]))
    if form.get("slug", "").strip():
        draft["slug"] = form["slug"].strip()
    if lists.get("engines"):
        draft["engines"] = list(lists["engines"])
    if form.get("layer", "").strip():
        draft["layer"] = form["layer"].strip()
        first, last = (
            parse_number(form.get(name) or default, name) / 100
            for name, default in (("slice_from", "0"), ("slice_to", "100"))
        )
        draft["slice"] = [first, last]
    return draft


def interval_bars(report: ExperimentReport) -> dict[str, dict[str, float]]:
    """Return, by variant id, where an interval begins, ends and has its value, in percent of a common width."""
    return place_intervals(
        {
            line.variant.variant_id: (line.lift.low, line.lift.value, line.lift.high)
            for line in report.lines
            if line.lift is not None and isfinite(line.lift.low)
        }
    )


def place_intervals(spans: Mapping[str, tuple[float, float, float]]) -> dict[str, dict[str, float]]:
    """Return where intervals of differences lie, in percent of a common width with 0 in its middle.

    Shapes:
        spans: name -> low end, value, high end
    """
    # With 49 % to each side, the widest interval still ends inside of the frame.
    reach = max((abs(end) for low, _, high in spans.values() for end in (low, high)), default=0.0) or 1.0
    return {
        name: {
            "left": round(50 + 49 * low / reach, 2),
            "width": round(max(49 * (high - low) / reach, 0.4), 2),
            "point": round(50 + 49 * value / reach, 2),
        }
        for name, (low, value, high) in spans.items()
    }


def people_chart(request: ConsoleRequest, report: ExperimentReport) -> dict[str, Any] | None:
    """Return the chart of new people by day; None before there are some."""
    days = list(report.days.items())[-60:]
    if not days:
        return None
    return {
        "label": request.services.text("experiments.people_by_day"),
        "x": [moment_ms(f"{day}T00:00") // 1000 for day, _ in days],
        "series": [
            {
                "label": line.variant.name,
                "values": [counts.get(line.variant.variant_id, 0) for _, counts in days],
                "kind": "line",
            }
            for line in report.lines
        ],
        "time": True,
    }


def count_variants(query: Mapping[str, str]) -> int:
    """Return how many variants the inputs of the wizard name; at least two."""
    return max(2, sum(bool(query.get(f"variant_{at}", "").strip()) for at in range(1, VARIANTS + 1)))


PAGES = (
    Page(LIST, list_experiments),
    Page(NEW, show_wizard, role="editor"),
    FormPage(NEW, create_experiment, role="editor"),
    Page(LIST + "/plan", show_plan, example="-"),
    Page(EXPERIMENT, show_experiment, example="-"),
    FormPage(EXPERIMENT, step_experiment, role="editor"),
)
NAVIGATION = (NavigationEntry("experiments.nav", LIST, icon="flask"),)
