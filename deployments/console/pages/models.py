"""Models of an app: engines, their snapshots and evaluations, promotion, and what served when."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from deployments.console.argument_form import list_inputs, operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest, path_of
from deployments.operations.models.engines import ScaleEngine

MODELS = "/apps/{app_id}/models"
ENGINE = MODELS + "/engines/{engine_id}"
SNAPSHOT = ENGINE + "/snapshots/{version}"
_OF_ENGINE = "engine_id=default"
_NEEDS_SNAPSHOT = "-"
NOT_IN_FORM = frozenset({"app_id", "engine_id", "max_replicas_per_node"})
SNAPSHOTS_A_PAGE = 20


def _engine(request: ConsoleRequest) -> dict[str, str]:
    return {"app_id": request.app_id, "engine_id": request.path["engine_id"]}


def _text(request: ConsoleRequest, key: str, **values: Any) -> str:
    return request.services.text(key, **values)


async def show_models(request: ConsoleRequest) -> Response:
    """Show the engines, the newest trainings and the schedules of an app."""
    engines, runs, schedules = await asyncio.gather(
        request.perform("engines.list"),
        request.perform("runs.list", limit=5),
        request.perform("schedules.list"),
    )
    return request.page(
        "models/models.html",
        engines=engines.engines,
        runs=runs.runs,
        schedules=[schedule.to_dict() for schedule in schedules.schedules],
    )


async def create_engine(request: ConsoleRequest) -> Response:
    """Create an engine."""
    engine_id = request.form.get("engine_id", "").strip()
    await request.perform(
        "engines.create", engine_id=engine_id, dedicated=request.form.get("dedicated") == "on"
    )
    return request.redirect(ENGINE, "models.created", engine_id=engine_id)


async def show_engine(request: ConsoleRequest) -> Response:
    """Show an engine: where it runs, its snapshots, and what served when."""
    engine = _engine(request)
    page = _page_number(request)
    view, snapshots, history, trial = await asyncio.gather(
        request.perform("engines.get", **engine),
        request.perform("snapshots.list", **engine, limit=SNAPSHOTS_A_PAGE, offset=page * SNAPSHOTS_A_PAGE),
        request.perform("promotions.list", **engine, limit=20),
        request.perform("trials.show", **engine),
    )
    address = path_of(ENGINE, **engine)
    return request.page(
        "models/engine.html",
        view=view,
        engine=view.engine,
        facts=view.to_dict(),
        address=address,
        snapshots=snapshots.snapshots,
        total=snapshots.total,
        history=history.entries,
        trial=trial.engine.trial,
        verdict=trial.verdict,
        scaling=list_inputs(ScaleEngine, view.engine.scaling, exclude=NOT_IN_FORM),
        newer=f"{address}?page={page - 1}" if page else "",
        older=f"{address}?page={page + 1}" if (page + 1) * SNAPSHOTS_A_PAGE < snapshots.total else "",
    )


async def change_repeat_pause(request: ConsoleRequest) -> Response:
    """Change how long an engine leaves out the products of a type of interaction."""
    days = request.form.get("days", "").strip()
    change = {
        "type": request.form.get("type", "").strip() or "*",
        "all_engines": request.form.get("all_engines", "") == "on",
        **({"days": days} if days else {}),
    }
    await request.perform("engines.repeat_after", **change)
    return request.redirect(ENGINE, "models.repeat_saved")


async def start_trial(request: ConsoleRequest) -> Response:
    """Give a share of people another snapshot."""
    form = request.form
    await request.perform(
        "trials.start",
        version=form.get("version", ""),
        share=form.get("share", "").strip(),
        days=form.get("days", "").strip(),
        promote_when_better=form.get("promote_when_better") == "on",
        roll_back_when_worse=form.get("roll_back_when_worse") == "on",
    )
    return request.redirect(ENGINE, "models.on_people_started")


async def delete_engine(request: ConsoleRequest) -> Response:
    """Delete an engine."""
    force = request.form.get("force") == "on"
    await request.perform("engines.delete", force=force)
    return request.redirect(MODELS, "models.deleted")


async def roll_back(request: ConsoleRequest) -> Response:
    """Let serve again what served before, or a chosen version."""
    view = await request.perform("promotions.roll_back", to=request.form.get("to", ""))
    key = "models.rolled_back" if view.entry.version else "models.rolled_back_to_nothing"
    return request.redirect(ENGINE, key, version=view.entry.version)


async def show_snapshot(request: ConsoleRequest) -> Response:
    """Show a snapshot: its evaluation with plots, what its promotion would change, and the gate's verdict."""
    engine = _engine(request)
    version = request.path["version"]
    preview = await request.perform("promotions.preview", **engine, version=version)
    plots: dict[str, Any] = {}
    if preview.snapshot.report is not None:
        evaluation = await request.perform("evaluations.get", **engine, version=preview.snapshot.version)
        plots = {plot["name"]: plot for plot in evaluation.plots}
    return request.page(
        "models/snapshot.html",
        preview=preview,
        one=preview.snapshot,
        plots=plots,
        facts=preview.snapshot.to_dict(),
        report=preview.snapshot.report,
        address=path_of(SNAPSHOT, **engine, version=version),
        engine_address=path_of(ENGINE, **engine),
    )


async def promote(request: ConsoleRequest) -> Response:
    """Let a snapshot serve."""
    view = await request.perform(
        "promotions.promote", version=request.path["version"], force=request.form.get("force", "").strip()
    )
    return request.redirect(ENGINE, "models.promoted", version=view.entry.version)


async def show_evaluations(request: ConsoleRequest) -> Response:
    """Show the evaluations of an engine, and how its quality developed from training to training."""
    engine = _engine(request)
    page = _page_number(request)
    evaluations = await request.perform(
        "evaluations.list", **engine, limit=SNAPSHOTS_A_PAGE, offset=page * SNAPSHOTS_A_PAGE
    )
    address = path_of(ENGINE + "/evaluations", **engine)
    return request.page(
        "models/evaluations.html",
        rows=[row.to_dict() for row in evaluations.rows],
        total=evaluations.total,
        curve=build_curve(evaluations.rows, _text(request, "models.curve")),
        engine_address=path_of(ENGINE, **engine),
        newer=f"{address}?page={page - 1}" if page else "",
        older=f"{address}?page={page + 1}" if (page + 1) * SNAPSHOTS_A_PAGE < evaluations.total else "",
    )


async def compare(request: ConsoleRequest) -> Response:
    """Show two snapshots beside each other."""
    engine = _engine(request)
    first = request.query.get("first", "")
    second = request.query.get("second", "")
    comparison = await request.perform("snapshots.compare", **engine, first=first, second=second)
    versions = {"first": comparison.first.version, "second": comparison.second.version}
    return request.page(
        "models/compare.html",
        found=comparison,
        versions=versions,
        engine_address=path_of(ENGINE, **engine),
        lists_address=path_of(ENGINE + "/compare/lists", **engine) + "?" + urlencode(versions),
    )


async def compare_lists(request: ConsoleRequest) -> Response:
    """Show what two snapshots recommend to the same users."""
    query = request.query
    comparison = await request.perform(
        "snapshots.compare_lists",
        first=query.get("first", ""),
        second=query.get("second", ""),
        user_ids=query.get("user_ids", ""),
    )
    return request.fragment("models/lists.html", found=comparison)


def build_curve(rows: Any, label: str) -> dict[str, Any] | None:
    """Return a chart of NDCG with its interval over the trainings; None with fewer than two of them."""
    points = []
    for row in rows:
        figure = row.report.everybody.get(f"ndcg@{row.report.k}") if row.report else None
        if figure:
            points.append((row.at_ms // 1000, figure.mean, figure.low, figure.high))
    if len(points) < 2:
        return None
    columns = list(zip(*sorted(points), strict=True))
    names = ("NDCG", "2.5 %", "97.5 %")
    series = [
        {"label": name, "values": list(column)} for name, column in zip(names, columns[1:], strict=True)
    ]
    return {"label": label, "x": list(columns[0]), "series": series, "time": True}


def _page_number(request: ConsoleRequest) -> int:
    text = request.query.get("page", "0")
    return min(int(text), 10_000) if text.isascii() and text.isdigit() and len(text) < 6 else 0


PAGES = (
    Page(MODELS, show_models),
    FormPage(MODELS + "/engines", create_engine, role="owner", shown_on=MODELS),
    Page(ENGINE, show_engine, example=_OF_ENGINE),
    operation_page(ENGINE + "/place", "engines.place", ENGINE, "models.moving", role="owner"),
    operation_page(ENGINE + "/scale", "engines.scale", ENGINE, "models.scaled", role="owner"),
    FormPage(ENGINE + "/trial", start_trial, role="editor", shown_on=ENGINE),
    operation_page(ENGINE + "/trial/stop", "trials.stop", ENGINE, "models.on_people_stopped", role="editor"),
    operation_page(ENGINE + "/explore", "engines.explore", ENGINE, "models.explored", role="owner"),
    FormPage(ENGINE + "/repeat-after", change_repeat_pause, role="owner", shown_on=ENGINE),
    FormPage(ENGINE + "/delete", delete_engine, role="owner", shown_on=ENGINE),
    FormPage(ENGINE + "/rollback", roll_back, role="editor", shown_on=ENGINE),
    Page(ENGINE + "/evaluations", show_evaluations, example=_OF_ENGINE),
    Page(ENGINE + "/compare", compare, example=_NEEDS_SNAPSHOT),
    Page(ENGINE + "/compare/lists", compare_lists, role="analyst", example=_NEEDS_SNAPSHOT),
    Page(SNAPSHOT, show_snapshot, example=_NEEDS_SNAPSHOT),
    FormPage(SNAPSHOT + "/promote", promote, role="editor", shown_on=SNAPSHOT),
)
NAVIGATION = (NavigationEntry("models.nav", MODELS, icon="model"),)
