"""The first page of an app: what is to be done before it serves, with a tick at what is done."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from starlette.responses import Response

from cluster.errors import KioskError
from cluster.records.administration import AppRole
from deployments.console.page import NavigationEntry, Page
from deployments.console.request import ConsoleRequest, path_of
from deployments.operations.insight.outcome_report import UNKNOWABLE

START = "/apps/{app_id}/start"
MOST_ENGINES = 8
"Engines with a row: those with the most lists."


async def show_start(request: ConsoleRequest) -> Response:
    """Show the first steps of an app."""
    progress = await request.perform("apps.progress")
    text = request.services.text
    steps = [
        _build_step(request, "catalog", progress.products, "import", "editor", count=progress.products),
        _build_step(
            request, "orders", progress.interactions, "import", "editor", count=progress.interactions
        ),
        _build_step(
            request, "model", progress.models, "models/trainings/new", "editor", count=progress.models
        ),
        _build_step(request, "page", progress.is_on_page, "access", "owner"),
    ]
    done = sum(step["is_done"] for step in steps)
    outcomes = None
    if request.may("analyst"):
        with suppress(KioskError):  # the steps help also while the report can't be read
            outcomes = await request.perform("outcomes.report", by="engine")
    return request.page(
        "start/start.html",
        steps=steps,
        done=text("start.done", done=done, count=len(steps)),
        outcomes=outcomes,
        engines=outcomes.groups[:MOST_ENGINES] if outcomes else [],
        note=UNKNOWABLE,
        address=request.services.origin(request.raw),
    )


def _build_step(
    request: ConsoleRequest, name: str, state: float, page: str, role: AppRole, **figures: int
) -> dict[str, Any]:
    text = request.services.text
    counts = {key: f"{value:,}" for key, value in figures.items()}
    return {
        "name": name,
        "is_done": bool(state),
        "state": text("start." + name + ".done", **counts) if state else text("start." + name + ".open"),
        "address": path_of(f"/apps/{{app_id}}/{page}", app_id=request.app_id) if request.may(role) else "",
    }


PAGES = (Page(START, show_start),)
NAVIGATION = (NavigationEntry("start.nav", START, icon="play"),)
