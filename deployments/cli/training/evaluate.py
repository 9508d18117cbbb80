"""`kiosk evaluate`: measure a recipe, a snapshot or the serving version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.errors import Invalid
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.training.train import AppName, AsJson, EngineName

if TYPE_CHECKING:
    from cluster.artifacts.storage.artifact_store import ArtifactStore
    from jobs.refresh.evaluation.report_models import (
        EvaluationReport,
        FailedEvaluation,
        LearningCurve,
        LoggedReport,
        PairedTests,
        ProtocolReport,
        ScorerComparison,
    )
    from jobs.refresh.runs.measurements.measurement import EvaluationTarget

EPILOG = """
[bold]Examples[/]

  kiosk evaluate bookshop                            the serving version, compared with popularity
  kiosk evaluate bookshop --recipe shop              a recipe, compared with popularity and the serving version
  kiosk evaluate bookshop --snapshot 053040c827b6cf19 --protocol leave_last_out
  kiosk evaluate bookshop --recipe shop --learning-curve           also with fewer users and shorter histories
  kiosk evaluate bookshop --recipe ./mine.toml --out figures/      charts (SVG), report.json, report.md
  kiosk evaluate bookshop --logged --recipe shop --since 14d       by the log of answers: clicks for each list
  kiosk evaluate bookshop --logged --candidate fresh               the same for the version of another engine

The whole catalog is ranked for every user; only users are sampled. `by_time` trains on everything before a
moment and tests with what came after it; `leave_last_out` tests with the last product of each user. Weights
and parameters are chosen on events before the test. Intervals are 95 % bootstrap intervals over users.
Users are new without an event before the test, light with 1 to 9 events, heavy with 10 or more.
Where all products of a basket have one timestamp, `leave_last_out` is far below `by_time`: the choice
of the last product is chance, and only that product counts as right.

The command trains once more for each protocol, so each takes about twice as long as a training: on two cores half a
minute for 100,000 events with `--recipe fast`, some minutes with `default`.
`kiosk train --dry-run` estimates a training.

`--logged` needs an engine that explored (`kiosk engines explore`). It estimates from the answers and clicks since
`--since` what other lists would have earned, and compares them with the serving version on the same lists.
"""


def evaluate(
    app: AppName = "playground",
    engine: EngineName = "default",
    recipe: Annotated[str, typer.Option(help="A recipe to evaluate; default: the serving version.")] = "",
    snapshot: Annotated[str, typer.Option(help="A version to evaluate; default: the serving version.")] = "",
    protocol: Annotated[
        list[str] | None,
        typer.Option(help="by_time, leave_last_out or next_in_session; can be repeated."),
    ] = None,
    users: Annotated[
        int, typer.Option("--users", "--readers", help="Maximum number of users in the test.", min=10)
    ] = 4_000,
    learning_curve: Annotated[
        bool,
        typer.Option("--learning-curve", help="Also evaluate fewer training users and shorter histories."),
    ] = False,
    logged: Annotated[
        bool, typer.Option("--logged", help="Estimate clicks from the log of answers.")
    ] = False,
    candidate: Annotated[str, typer.Option(help="With --logged: another engine to evaluate.")] = "",
    since: Annotated[str, typer.Option(help="With --logged: how far back, as 14d.")] = "30d",
    lists: Annotated[
        int, typer.Option(help="With --logged: most lists; of more, a sample counts.", min=100)
    ] = 20_000,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Folder for charts and reports.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure NDCG, recall, hit rate, MRR, coverage, novelty and calibration, by segment, with intervals and tests."""
    if logged:
        _evaluate_logged(app, engine, recipe, snapshot, candidate, since, lists, out, as_json=as_json)
        return
    if candidate:
        raise Invalid("--candidate needs --logged")
    from cluster.artifacts.segments import SegmentStore
    from cluster.process.artifact_access import open_artifact_store
    from jobs.refresh.runs.local_worker import lower_priority
    from jobs.refresh.runs.measurements.measurement import (
        check_protocols,
        evaluate_protocols,
        select_complete_reports,
    )
    from jobs.refresh.runs.training_source import read_training_source

    protocols = check_protocols(protocol or ())
    if recipe and snapshot:
        raise Invalid("choose one of --recipe and --snapshot")
    installation = Installation()
    installation.refuse_absent()
    artifacts = open_artifact_store(installation.settings)
    target = asyncio.run(_select_target(installation, artifacts, app, engine, recipe, snapshot))
    lower_priority()
    with screen.err().status("reading compacted data") as status:
        data = read_training_source(SegmentStore(artifacts), app, target.recipe).data
        reports = evaluate_protocols(
            data,
            target.recipe,
            target.serving,
            protocols,
            users,
            status.update,
            learning_curve=learning_curve,
        )
    select_complete_reports(reports)
    written = [] if out is None else _write_files(out, reports, app, engine)
    if as_json:
        screen.print_json(
            {"app_id": app, "engine_id": engine, "reports": _to_dicts(reports), "written": written}
        )
        return
    for report in reports:
        _show(report)
    if written:
        screen.out().print("Written: " + ", ".join(written))


def _evaluate_logged(
    app: str,
    engine: str,
    recipe: str,
    snapshot: str,
    candidate: str,
    since: str,
    lists: int,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Evaluate by the log of answers and show the report."""
    from cluster.artifacts.segments import SegmentStore
    from cluster.clock import SystemClock
    from cluster.process.artifact_access import open_artifact_store
    from cluster.records.field_types.times import parse_span_ms
    from jobs.refresh.recipe import load_recipe_file
    from jobs.refresh.runs.local_worker import lower_priority
    from jobs.refresh.runs.measurements.off_policy_evaluation import (
        LoggedTarget,
        LogPeriod,
        LogServices,
        evaluate_log,
        select_logged_target,
    )
    from jobs.refresh.runs.run_commands import check_engine

    now_ms = SystemClock().now_ms()
    period = LogPeriod(now_ms - parse_span_ms(since), now_ms, lists)
    given = load_recipe_file(recipe) if recipe else None
    installation = Installation()
    installation.refuse_absent()
    artifacts = open_artifact_store(installation.settings)

    async def select() -> tuple[LoggedTarget, str, bytes]:
        async with installation.open_stores() as stores:
            await check_engine(stores, app, engine)
            await installation.compact_new_data(stores, app)
            chosen = await select_logged_target(stores, artifacts, app, engine, given, snapshot, candidate)
            return *chosen, await stores.served.salt(app)

    target, serving, salt = asyncio.run(select())
    lower_priority()
    services = LogServices(artifacts, SegmentStore(artifacts), salt)
    with screen.err().status("reading the log of answers") as status:
        report = evaluate_log(services, app, engine, serving, target, period, status.update)
    written = [] if out is None else _write_files(out, [report], app, engine)
    if as_json:
        screen.print_json(
            {"app_id": app, "engine_id": engine, "reports": _to_dicts([report]), "written": written}
        )
        return
    _show_logged(report)
    if written:
        screen.out().print("Written: " + ", ".join(written))


def _to_dicts(reports: Sequence[ProtocolReport]) -> list[dict[str, Any]]:
    return [report.to_dict() for report in reports]


def _show_logged(report: LoggedReport) -> None:
    from jobs.refresh.evaluation.off_policy_report import describe_log, list_notes, list_rows

    screen.print_lines(describe_log(report))
    if report.estimates:
        table = screen.build_table(
            "", "clicks for each list", f"against {report.against}", title=report.target
        )
        for row in list_rows(report):
            table.add_row(*row)
        screen.out().print(table)
    screen.print_lines(*list_notes(report))


async def _select_target(
    installation: Installation, artifacts: ArtifactStore, app: str, engine: str, recipe: str, snapshot: str
) -> EvaluationTarget:
    from jobs.refresh.recipe import load_recipe_file
    from jobs.refresh.runs.measurements.measurement import select_target
    from jobs.refresh.runs.promotion import get_engine
    from jobs.refresh.runs.run_commands import check_engine

    async with installation.open_stores() as stores:
        await check_engine(stores, app, engine)
        await installation.compact_new_data(stores, app)
        now = (await get_engine(stores, app, engine)).snapshot
    given = load_recipe_file(recipe) if recipe else None
    target = select_target(artifacts, app, engine, now, given, snapshot)
    if target.is_fallback:
        screen.err().print("No trained version serves yet; the default recipe is evaluated.")
    return target


def _format_comparison(other: ScorerComparison, figure: str) -> str:
    mean = other.mean("all", figure)
    low, high = other.interval("all", figure)
    if mean is None:
        return ""
    return f"{mean:.4f}" if low is None or high is None else f"{mean:.4f} ±{(high - low) / 2:.4f}"


def _show(report: EvaluationReport | FailedEvaluation) -> None:
    from jobs.refresh.evaluation.report_models import FailedEvaluation
    from jobs.refresh.evaluation.reports import SEGMENT_NOTE

    if isinstance(report, FailedEvaluation):
        screen.err().print(f"{report.protocol}: {report.error}")
        return
    screen.print_lines(*filter(None, [report.split_sentence]))
    k = report.k
    names = [f"ndcg@{k}", f"recall@{k}", "recall@20", f"hit_rate@{k}", f"mrr@{k}", f"novelty@{k}"]
    table = screen.build_table("users", "", *names, title=f"{report.trial}: {report.recipe}")
    for segment in report.segments:
        cells = []
        for name in names:
            figure = segment.figures.get(name)
            cells.append("" if figure is None else f"{figure.mean:.4f} ±{(figure.high - figure.low) / 2:.4f}")
        table.add_row(segment.name, f"{segment.users:,}", *cells)
    for name, other in report.beside.items():
        table.add_row(name, "", *(_format_comparison(other, figure) for figure in names))
    screen.out().print(table)
    screen.print_lines(SEGMENT_NOTE)
    if report.note:
        screen.out().print(report.note)
    gini = "" if report.gini is None else f", gini@{k} {report.gini:.3f}"
    screen.out().print(f"coverage@{k} {report.coverage:.3f}{gini}")
    if report.chosen:
        screen.out().print(report.chosen)
    for name, other in report.beside.items():
        screen.out().print(
            f"{other.figure} against {name}: {other.after - other.before:+.4f} (95 % interval {other.low:+.4f} to "
            f"{other.high:+.4f}, the same {other.users:,} users)"
        )
    if report.tests is not None:
        _show_tests(report.tests)
    if report.calibration is not None:
        from jobs.refresh.evaluation.calibration import describe_calibration

        screen.out().print(describe_calibration(report.calibration))
    if report.learning_curve is not None:
        _show_learning_curve(report.learning_curve)
    if report.not_compared:
        screen.err().print(report.not_compared)


def _show_tests(tests: PairedTests) -> None:
    if not tests.rows:
        return
    table = screen.build_table("against", "figure", "difference", "p", "corrected p")
    for row in tests.rows:
        table.add_row(
            row.against,
            row.figure,
            f"{row.difference:+.4f} ({row.low:+.4f} to {row.high:+.4f})",
            f"{row.p:.4f}",
            f"{row.p_corrected:.4f}",
        )
    screen.out().print(table)
    screen.out().print(tests.method)


def _show_learning_curve(curve: LearningCurve) -> None:
    from jobs.refresh.evaluation.reports import list_curve_points

    table = screen.build_table("", curve.figure, "95 % interval", "against all")
    for label, point in list_curve_points(curve):
        table.add_row(
            label,
            f"{point.mean:.4f}",
            f"{point.low:.4f} to {point.high:.4f}",
            f"{point.difference:+.4f} ({point.difference_low:+.4f} to {point.difference_high:+.4f})",
        )
    screen.out().print(table)


def _write_files(out: Path, reports: Sequence[ProtocolReport], app: str, engine: str) -> list[str]:
    from jobs.refresh.evaluation.plots import render_reports_svg
    from jobs.refresh.evaluation.reports import markdown_from_reports

    out.mkdir(parents=True, exist_ok=True)
    files = {name: text.encode() for name, text in render_reports_svg(reports).items()}
    files["report.json"] = json.dumps(_to_dicts(reports), indent=2).encode()
    files["report.md"] = markdown_from_reports(reports, f"{app}/{engine}").encode()
    for name, data in files.items():
        (out / name).write_bytes(data)
    return [str(out / name) for name in files]
