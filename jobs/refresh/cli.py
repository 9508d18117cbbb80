"""The commands of `python -m jobs.refresh`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Invalid, Unavailable
from cluster.records.run import Run
from jobs.command_line import PARTLY, WRONG_USE, build_app
from jobs.refresh.recipe import Recipe, load_recipe_file
from jobs.refresh.runs.display import TrainingDisplay
from jobs.refresh.runs.local_worker import lower_priority, new_worker_id, run_locally
from jobs.refresh.runs.measurements.sweep import parse_assignments
from jobs.refresh.runs.run_commands import check_promotable, create_run

if TYPE_CHECKING:
    from jobs.refresh.learners.conformance import ConformanceCheck

NO_REDIS = Unavailable("no Redis is known: start the system first, or set KIOSK_REDIS_URL")
_PROGRAM = "python -m jobs.refresh"


@dataclass(frozen=True, slots=True)
class LocalInstallation:
    """The stores and folders of the installation, for this process."""

    connect: Callable[[], Any]
    "Opens the stores."
    open_artifacts: Callable[[], ArtifactStore]
    scratch: Path


AppIdOption = Annotated[str, typer.Argument(metavar="APP", help="The app's id, for example development.")]
EngineOption = Annotated[str, typer.Option(help="The engine.")]
RecipeOption = Annotated[str, typer.Option(help="A recipe that comes along, or a .toml or .json file.")]
ChangesOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change one field of the recipe, by its path."),
]
PromoteOption = Annotated[bool, typer.Option("--promote", help="Let it serve if the gate allows.")]
LocalOption = Annotated[bool, typer.Option("--local", help="Train in this process, without Ray.")]
ByOption = Annotated[str, typer.Option(help="Who asks, for the record.")]
WorkAppIdOption = Annotated[str, typer.Argument(metavar="APP", help="The app's id.")]
RunIdOption = Annotated[str, typer.Argument(metavar="RUN", help="The run.")]
OwnerOption = Annotated[str, typer.Option(help="A name for this worker.")]
LearnerOption = Annotated[str, typer.Argument(metavar="PACKAGE.MODULE:CLASS", help="The class.")]
ConfigOption = Annotated[str, typer.Option(help="The arguments of its constructor, as JSON.")]


def build_refresh_app(
    open_installation: Callable[[], LocalInstallation], train_on_ray: Callable[..., Run]
) -> typer.Typer:
    """Build the commands; `train_on_ray` trains as a task and waits."""
    app = build_app(
        "What `kiosk train` does, for `ray job submit` and for machines without the command line."
    )

    @app.command()
    def train(
        app_id: AppIdOption,
        engine: EngineOption = "default",
        recipe: RecipeOption = "default",
        changes: ChangesOption = None,
        promote: PromoteOption = False,
        local: LocalOption = False,
        by: ByOption = _PROGRAM,
    ) -> None:
        """Train an engine as a Ray task (`--local`: in this process) and wait."""
        installation = open_installation()
        chosen = load_recipe_file(recipe).with_changes(parse_assignments(changes or []))
        if local:
            run = _train_in_process(installation, app_id, engine, chosen, promote=promote, by=by)
        else:
            with TrainingDisplay() as display:
                run = train_on_ray(app_id, engine, chosen, promote=promote, by=by, watch=display.show)
        raise typer.Exit(_report_run(run))

    @app.command()
    def work(
        app_id: WorkAppIdOption,
        run_id: RunIdOption,
        owner: OwnerOption = "",
    ) -> None:
        """Do what is left of an ordered run, in this process."""
        worker = _run_worker(open_installation(), app_id, run_id, owner or new_worker_id(_PROGRAM))
        raise typer.Exit(_report_run(asyncio.run(worker)))

    @app.command()
    def conform(
        learner: LearnerOption,
        config: ConfigOption = "{}",
    ) -> None:
        """Check whether a learner of yours keeps the protocol."""
        raise typer.Exit(_run_conformance(learner, config))

    return app


def render_conformance(checks: Sequence[ConformanceCheck]) -> tuple[list[str], bool]:
    """Return as text which promises a learner keeps, which it breaks, which are advice, and whether it can be used."""
    lines = []
    for check in checks:
        mark = "kept  " if check.kept else "advice" if check.is_advice else "BROKEN"
        lines += [f"{mark} {check.promise}", *([] if check.kept else [f"       {check.reason}"])]
    kept = sum(check.kept for check in checks)
    needed = sum(check.forbids_use for check in checks)
    lines.append(f"{kept} of {len(checks)} promises are kept")
    if needed:
        lines.append(
            f"{needed} that are needed are broken: it can't be used yet. docs/guides/learners.md explains them"
        )
    elif kept < len(checks):
        lines.append("only advice is left: it can be trained, published and served as it is")
    return lines, not needed


def _train_in_process(
    installation: LocalInstallation, app_id: str, engine: str, recipe: Recipe, *, promote: bool, by: str
) -> Run | None:
    owner = new_worker_id(_PROGRAM)

    async def order() -> Run:
        async with installation.connect() as stores:
            if promote:
                await check_promotable(stores, app_id)
            return await create_run(
                stores,
                app_id,
                engine,
                recipe.model_dump(mode="json"),
                now_ms=SystemClock().now_ms(),
                by=by,
                promote=promote,
                owner=owner,
            )

    run = asyncio.run(order())
    return asyncio.run(_run_worker(installation, run.app_id, run.run_id, owner))


async def _run_worker(installation: LocalInstallation, app_id: str, run_id: str, owner: str) -> Run | None:
    lower_priority()
    async with installation.connect() as stores:
        with TrainingDisplay() as display:
            return await run_locally(
                stores,
                installation.open_artifacts(),
                installation.scratch,
                app_id,
                run_id,
                owner=owner,
                watch=display.show,
            )


def _run_conformance(learner: str, config: str) -> int:
    from jobs.refresh.learners.conformance import check_conformance

    try:
        arguments = json.loads(config)
    except ValueError as error:
        raise Invalid(f"--config is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise Invalid("--config is no JSON object; write the constructor's arguments as {...}")
    lines, fits = render_conformance(check_conformance(learner, arguments))
    typer.echo("\n".join(lines))
    return 0 if fits else PARTLY


def _report_run(run: Run | None) -> int:
    if run is None:
        sys.stderr.write("the run has ended, or belongs to another worker\n")
        return WRONG_USE
    typer.echo(run.model_dump_json(indent=2, exclude={"recipe", "owner", "until_ms", "revision"}))
    return 0 if run.status == "finished" else PARTLY
