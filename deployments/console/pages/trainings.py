"""Trainings of an app: recipes, orders with an estimate, live progress, and schedules."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from starlette.responses import Response

from deployments.console.argument_form import operation_page
from deployments.console.page import FormPage, Page
from deployments.console.pages.models import MODELS
from deployments.console.request import ConsoleRequest, path_of

TRAININGS = MODELS + "/trainings"
RUN = TRAININGS + "/{run_id}"
SCHEDULES = MODELS + "/schedules"
RUNS_A_PAGE = 50
LIST_LIVE_S = 2.5
RUN_LIVE_S = 1.5
"Seconds for which all consoles get the same live part; they ask every three, and every two."


async def show_trainings(request: ConsoleRequest) -> Response:
    """Show the trainings of an app, live while one is open."""
    if request.is_htmx:
        return await request.live_fragment("models/runs.html", partial(_read_trainings, request), LIST_LIVE_S)
    return request.page("models/trainings.html", **await _read_trainings(request))


async def _read_trainings(request: ConsoleRequest) -> dict[str, Any]:
    listed = await request.perform(
        "runs.list", limit=RUNS_A_PAGE, engine_id=request.query.get("engine_id", "")
    )
    return {
        "runs": listed.runs,
        "is_live": any(not run.has_ended for run in listed.runs),
        "address": path_of(TRAININGS, app_id=request.app_id),
    }


async def show_training_form(request: ConsoleRequest) -> Response:
    """Show the form that orders a training."""
    recipes, engines = await asyncio.gather(
        request.perform("recipes.list"),
        request.perform("engines.list"),
    )
    return request.page(
        "models/order.html",
        recipes=[recipe["name"] for recipe in recipes.facts["recipes"]],
        engines=[view.engine.engine_id for view in engines.engines],
        estimate_address=path_of(TRAININGS + "/estimate", app_id=request.app_id),
    )


def _order(request: ConsoleRequest) -> dict[str, Any]:
    form = request.form
    return {
        "engine_id": form.get("engine_id", "default"),
        "recipe": form.get("recipe", "default"),
        "changes": form.get("changes", ""),
    }


async def estimate(request: ConsoleRequest) -> Response:
    """Show memory and time of a training before it is queued."""
    costs = await request.perform("runs.estimate", **_order(request))
    return request.fragment("models/estimate.html", found=costs.to_dict())


async def order(request: ConsoleRequest) -> Response:
    """Order a training."""
    view = await request.perform("runs.order", **_order(request), promote=request.form.get("promote") == "on")
    return request.redirect(RUN, "models.ordered", run_id=view.run.run_id)


async def show_run(request: ConsoleRequest) -> Response:
    """Show a training: stages, progress, log, figures; the part that changes by itself for htmx."""
    if request.is_htmx:
        return await request.live_fragment("models/progress.html", partial(_read_run, request), RUN_LIVE_S)
    return request.page("models/run.html", **await _read_run(request))


async def _read_run(request: ConsoleRequest) -> dict[str, Any]:
    log = await request.perform("runs.log", run_id=request.path["run_id"])
    address = path_of(RUN, app_id=request.app_id, run_id=log.run.run_id)
    return {"run": log.run, "log_lines": log.lines, "address": address}


async def show_recipes(request: ConsoleRequest) -> Response:
    """Show the built-in recipes with all their parameters, and the learner classes that may run."""
    recipes = await request.perform("recipes.list")
    return request.page("models/recipes.html", **recipes.facts)


async def show_schedules(request: ConsoleRequest) -> Response:
    """Show the schedules of an app, and the form that adds one."""
    schedules, engines, recipes = await asyncio.gather(
        request.perform("schedules.list"),
        request.perform("engines.list"),
        request.perform("recipes.list"),
    )
    return request.page(
        "models/schedules.html",
        schedules=[schedule.to_dict() for schedule in schedules.schedules],
        engines=[view.engine.engine_id for view in engines.engines],
        recipes=[recipe["name"] for recipe in recipes.facts["recipes"]],
    )


async def add_schedule(request: ConsoleRequest) -> Response:
    """Add a schedule."""
    form = request.form
    name = form.get("schedule", "").strip()
    await request.perform(
        "schedules.add",
        schedule=name,
        when=form.get("when", "").strip(),
        engine_id=form.get("engine_id", "default"),
        recipe=form.get("recipe", "default"),
        promote=form.get("promote") == "on",
    )
    return request.redirect(SCHEDULES, "models.schedule_added", schedule=name)


PAGES = (
    Page(TRAININGS, show_trainings),
    Page(TRAININGS + "/new", show_training_form, role="editor"),
    FormPage(TRAININGS + "/new", order, role="editor"),
    FormPage(TRAININGS + "/estimate", estimate, role="editor", shown_on=TRAININGS + "/new"),
    Page(RUN, show_run, example="-"),
    operation_page(RUN + "/cancel", "runs.cancel", RUN, "models.cancelled", role="editor"),
    Page(MODELS + "/recipes", show_recipes),
    Page(SCHEDULES, show_schedules),
    FormPage(SCHEDULES, add_schedule, role="editor"),
    operation_page(
        SCHEDULES + "/{schedule}/remove",
        "schedules.remove",
        SCHEDULES,
        "models.schedule_removed",
        role="editor",
    ),
)
