"""`kiosk train --sweep`: try combinations beside each other and compare them."""

from __future__ import annotations

import asyncio
import json
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.live import Live

from deployments.cli import screen
from deployments.cli.installation import Installation
from deployments.cli.ray_connection import join_ray
from deployments.cli.responsive_table import ResponsiveTable

if TYPE_CHECKING:
    from jobs.refresh.recipe import Recipe
    from jobs.refresh.runs.sweep import Variant


def sweep(
    installation: Installation,
    app: str,
    engine: str,
    recipe: Recipe,
    given: list[str],
    texts: list[str],
    *,
    local: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Examine every combination, show a live table, and write the comparison; `given` are the words that chose the
    recipe."""
    from cluster.artifacts.segments import SegmentShelf
    from cluster.runtime.artifact_access import open_shelf, open_shelf_of
    from jobs.refresh.runs.checkpoint import Checkpoints
    from jobs.refresh.runs.run_commands import known_engine
    from jobs.refresh.runs.sweep import rows, sweep_id, variants
    from jobs.refresh.runs.sweep_runner import examine_here, let_go, write_comparison
    from jobs.refresh.runs.training_source import read_source

    found = variants(recipe, texts)

    async def check() -> None:
        async with installation.stores() as stores:
            await known_engine(stores, app, engine)

    asyncio.run(check())
    shelf = open_shelf(installation.settings)
    segments = SegmentShelf(shelf)
    name = sweep_id(found, segments.offsets(app))
    checkpoints = Checkpoints(shelf, app, name, folder="sweeps")
    with screen.err().status("reading what has settled"):
        if any(checkpoints.get(variant.name) is None for variant in found) and checkpoints.source() is None:
            checkpoints.put_source(read_source(segments, app, recipe))
    on_ray = not local and join_ray(installation)
    results: list[tuple[Variant, dict[str, Any]]] = []
    with Live(
        _drawn(found, results, on_ray), console=screen.err(), refresh_per_second=4, transient=True
    ) as live:

        def told(variant: Variant, report: dict[str, Any]) -> None:
            results.append((variant, report))
            live.update(_drawn(found, results, on_ray))

        if on_ray:
            from jobs.refresh.driver import examine_on_ray

            examine_on_ray(
                found, partial(open_shelf_of, str(installation.settings.data_dir)), app, name, told
            )
        else:
            examine_here(found, checkpoints, told)
    let_go(checkpoints, results)
    table = rows(results)
    places = write_comparison(shelf, app, name, table, f"{recipe.name} on {app}/{engine}", out)
    if as_json:
        screen.tell_json(
            {"app_id": app, "engine_id": engine, "sweep": name, "rows": table, "written": places}
        )
    else:
        screen.out().print(_drawn(found, results, on_ray))
        screen.out().print(f"Written: {', '.join(places)}")
        best = next((row for row in table if not row["error"]), None)
        if best is not None:
            changes = next(dict(variant.changes) for variant, _ in results if _stands_in(best, variant))
            settings = [f"--set={field}={_typed(value)}" for field, value in changes.items()]
            command = shlex.join(["kiosk", "train", app, "--engine", engine, *given, *settings])
            screen.out().print(f"Train the best one: {command}", markup=False, soft_wrap=True)
    if all(report.get("error") for _, report in results):
        raise typer.Exit(1)


def _typed(value: Any) -> str:
    """Write a value as `--set` reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def _stands_in(row: dict[str, Any], variant: Variant) -> bool:
    return all(row.get(field) == value for field, value in variant.changes)


def _drawn(
    found: list[Variant], results: list[tuple[Variant, dict[str, Any]]], on_ray: bool
) -> ResponsiveTable:
    from jobs.refresh.runs.sweep import rows

    fields = [field for field, _ in found[0].changes]
    where = "on the cluster" if on_ray else "here"
    title = f"{len(results)} of {len(found)} examined {where}"
    table = screen.table(
        *fields, "NDCG@10", "95 % interval", "recall@20", "coverage", "seconds", "", title=title
    )
    for row in rows(results):
        cells = [str(row[field]) for field in fields]
        if row["error"]:
            table.add_row(*cells, "", "", "", "", "", row["error"])
            continue
        table.add_row(
            *cells,
            f"{row.get('ndcg@10', 0):.4f}",
            f"{row['low']:.4f} to {row['high']:.4f}" if row["low"] is not None else "",
            f"{row.get('recall@20', 0):.4f}",
            f"{row.get('coverage@10', 0):.3f}",
            f"{row['seconds'] or 0:.1f}",
            "",
        )
    return table
