"""`kiosk train --sweep`: try combinations beside each other and compare them."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.live import Live

from cluster.runtime.ray_environment import driver_environment
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.screen import ResponsiveTable

if TYPE_CHECKING:
    from jobs.refresh.recipe import Recipe
    from jobs.refresh.runs.measurements.sweep import SweepReport, SweepVariant


def run_sweep(
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
    from cluster.artifacts.segments import SegmentStore
    from cluster.process.artifact_access import artifact_store_opener, open_artifact_store
    from jobs.refresh.runs.measurements import sweep
    from jobs.refresh.runs.run_commands import check_engine
    from jobs.refresh.runs.training_source import read_training_source

    variants = sweep.build_variants(recipe, texts)

    async def check() -> None:
        async with installation.open_stores() as stores:
            await check_engine(stores, app, engine)
            await installation.compact_new_data(stores, app)

    asyncio.run(check())
    artifacts = open_artifact_store(installation.settings)
    segments = SegmentStore(artifacts)
    with screen.err().status("reading compacted data"):
        name, checkpoints = sweep.open_sweep(
            artifacts, segments, app, variants, lambda: read_training_source(segments, app, recipe)
        )
    on_ray = not local and connect_to_ray(installation)
    results: list[tuple[SweepVariant, SweepReport]] = []
    with Live(
        _render_table(variants, [], on_ray), console=screen.err(), refresh_per_second=4, transient=True
    ) as live:

        def show(variant: SweepVariant, report: SweepReport) -> None:
            results.append((variant, report))
            # The tests wait for the end: to repeat all of them after each variant would take an hour for 200.
            live.update(_render_table(variants, sweep.result_rows(results, has_tests=False), on_ray))

        if on_ray:
            from jobs.refresh.driver import run_sweep_on_ray

            open_artifacts = artifact_store_opener(installation.settings)
            run_sweep_on_ray(variants, open_artifacts, app, name, show)
        else:
            sweep.run_sweep(variants, checkpoints, show)
    title = f"{recipe.name} on {app}/{engine}"
    table, places = sweep.finish_sweep(artifacts, app, name, checkpoints, results, title, out)
    if as_json:
        screen.print_json(
            {
                "app_id": app,
                "engine_id": engine,
                "sweep": name,
                "rows": table,
                "written": places,
                "summary": sweep.compare_rows(table),
                "split": sweep.find_split(results),
            }
        )
    else:
        screen.out().print(_render_table(variants, table, on_ray))
        screen.out().print(f"Written: {', '.join(places)}")
        _print_summary(table, results, ["kiosk", "train", app, "--engine", engine, *given])
    if all(report.error for _, report in results):
        raise typer.Exit(1)


def _print_summary(
    table: list[dict[str, Any]], results: list[tuple[SweepVariant, SweepReport]], words: list[str]
) -> None:
    """Print the test, whether a best variant is proven, and the command that trains the first one."""
    from jobs.refresh.runs.measurements.sweep import compare_rows, find_split

    summary = compare_rows(table)
    screen.print_lines(*filter(None, [find_split(results).get("sentence", "")]))
    screen.print_lines(f"{summary['sentence'][:1].upper()}{summary['sentence'][1:]}.")
    best = next((row for row in table if not row["error"]), None)
    if best is None:
        return
    changes = next(dict(variant.changes) for variant, _ in results if _row_of_variant(best, variant))
    settings = [f"--set={field}={_format_value(value)}" for field, value in changes.items()]
    label = "Train the best one" if summary["is_proven"] else "Train the first one"
    screen.out().print(f"{label}: {shlex.join([*words, *settings])}", markup=False, soft_wrap=True)


def _format_value(value: Any) -> str:
    """Write a value as `--set` reads it."""
    return value if isinstance(value, str) else json.dumps(value)


def _row_of_variant(row: dict[str, Any], variant: SweepVariant) -> bool:
    return all(row.get(field) == value for field, value in variant.changes)


def _render_table(variants: list[SweepVariant], rows: list[dict[str, Any]], on_ray: bool) -> ResponsiveTable:
    fields = [field for field, _ in variants[0].changes]
    where = "on the cluster" if on_ray else "here"
    title = f"{len(rows)} of {len(variants)} examined {where}"
    table = screen.build_table(
        *fields,
        "NDCG@10",
        "95 % interval",
        "behind the first",
        "recall@20",
        "coverage",
        "seconds",
        "",
        title=title,
    )
    for row in rows:
        cells = [str(row[field]) for field in fields]
        if row["error"]:
            table.add_row(*cells, "", "", "", "", "", "", row["error"])
            continue
        table.add_row(
            *cells,
            f"{row.get('ndcg@10', 0):.4f}",
            f"{row['low']:.4f} to {row['high']:.4f}" if row["low"] is not None else "",
            _format_difference(row),
            f"{row.get('recall@20', 0):.4f}",
            f"{row.get('coverage@10', 0):.3f}",
            f"{row['seconds'] or 0:.1f}",
            "",
        )
    return table


def _format_difference(row: dict[str, Any]) -> str:
    if "difference" not in row:
        return ""
    return f"{row['difference']:.4f} ({row['difference_low']:+.4f} to {row['difference_high']:+.4f})"


def connect_to_ray(installation: Installation) -> bool:
    """Connect to the running installation's Ray; False when it does not run, or its Ray can't be reached.

    What Ray reads from the environment must stand there before it is imported.
    """
    state = installation.state
    if state is None or not state.ray_address:
        return False
    os.environ |= driver_environment(installation.places)
    from cluster.runtime.bootstrap import connect_ray

    try:
        connect_ray(state.ray_address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        screen.err().print(f"Ray can't be reached ({error}); the work is done here instead.")
        return False
    return True
