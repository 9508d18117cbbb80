"""`kiosk train`: train an engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.errors import Invalid, Unavailable
from cluster.records.run import Run
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.training import parameter_sweep
from deployments.operations.framework.principal import COMMAND_LINE
from deployments.operations.models.runs import run_to_dict as run_to_dict

if TYPE_CHECKING:
    from cluster.store.stores import Stores
    from jobs.refresh.recipe import Recipe

EPILOG = """
[bold]Examples[/]

  kiosk train                                       the playground, with the default recipe
  kiosk train bookshop --recipe shop --promote      promote it afterwards, if the gate allows
  kiosk train bookshop --recipe ./mine.toml --dry-run
  kiosk train bookshop --set parts.rules.window=30 --set seed=7
  kiosk train bookshop --recipe ./mine.toml --working-dir .      your classes that are not installed
  kiosk train bookshop --recipe fast --sweep parts.rules.window=5,10,20 --sweep parts.rules.damping=0.1,0.3

A running system trains with lower priority than it serves. Stopped, or with --local, this command trains itself.
If the worker dies, another one continues the training. The serving version stays untouched.
The command first waits until accepted data is compacted, so that the training reads it.
Exit code 1: the training failed, was cancelled, or --promote was refused by the gate.
Built-in recipes: default, fast, deep, sequence, shop, session.
"""

WAIT_EVERY_S = 0.25
PICKED_UP_S = 60.0
"A run that no worker claims within this time is reported."

AppName = Annotated[str, typer.Argument(metavar="[APP]", help="The app.")]
EngineName = Annotated[str, typer.Option("--engine", help="The engine.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def train(
    app: AppName = "playground",
    engine: EngineName = "default",
    recipe: Annotated[str, typer.Option(help="A built-in recipe, or a .toml or .json file.")] = "default",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="FIELD=VALUE: change one field of the recipe, by its path."),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=A,B,C: try every combination and compare; nothing is published."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate rows, memory and time; train nothing.")
    ] = False,
    promote: Annotated[
        bool, typer.Option("--promote", help="Promote it afterwards if the gate allows.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Train in this process, without the cluster.")
    ] = False,
    working_dir: Annotated[
        Path | None,
        typer.Option(
            "--working-dir",
            help="Ship this folder's code for this run only, for learner classes that are not installed.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the end, or only create the run.")
    ] = True,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Also write a sweep's comparison into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train an engine on all accepted data, evaluate it and publish a snapshot."""
    from jobs.refresh.recipe import load_recipe_file

    chosen = load_recipe_file(recipe)
    if changes:
        from jobs.refresh.runs.measurements.sweep import parse_assignments

        chosen = chosen.with_changes(parse_assignments(changes))
    if sweep and working_dir is not None:
        raise Invalid("a sweep trains in many processes and takes no --working-dir: install the code first")
    if sweep and (dry_run or promote):
        raise Invalid(
            "a sweep publishes nothing and is not rehearsed: leave out "
            + ("--dry-run" if dry_run else "--promote, and train the best one with it afterwards")
        )
    installation = Installation()
    installation.refuse_absent()
    screen.print_ignored_settings(installation.in_vain)
    if not dry_run:
        installation.refuse_full_disk()
    if sweep:
        given = ["--recipe", recipe, *(f"--set={change}" for change in changes or ())]
        parameter_sweep.run_sweep(
            installation, app, engine, chosen, given, sweep, local=local, out=out, as_json=as_json
        )
        return
    if dry_run:
        _dry_run(installation, app, engine, chosen, as_json=as_json)
        return
    code = "" if working_dir is None else _ship_code(installation, working_dir, chosen, promote=promote)
    in_process = local or not (installation.is_running or installation.settings.redis_is_external)
    if in_process and not local:
        screen.err().print("Kiosk does not run, so this command trains by itself.")
    try:
        run = asyncio.run(
            _train(
                installation,
                app,
                engine,
                chosen,
                promote=promote,
                in_process=in_process,
                wait=wait,
                code=code,
            )
        )
    except KeyboardInterrupt:
        screen.err().print(
            "The training goes on without this command"
            + (" as soon as a trainer runs" if in_process else "")
            + f"; `kiosk runs list {app}` shows it, `kiosk runs cancel RUN` ends it."
        )
        raise
    show_run(run, as_json=as_json)
    if is_failure(run):
        raise typer.Exit(1)


def _ship_code(installation: Installation, folder: Path, recipe: Recipe, *, promote: bool) -> str:
    """Ship a folder with the run, and say what that means before anything is trained."""
    from jobs.refresh.runs.shipped_code import pack_and_store

    code = pack_and_store(
        folder, recipe.model_dump(mode="json"), installation.settings.data_dir, promote=promote
    )
    screen.err().print(
        f"Code of {folder} goes along with this run only ({code[:12]}). What is published can be examined, and not "
        "promoted: processes that serve can't import it."
    )
    return code


async def _train(
    installation: Installation,
    app: str,
    engine: str,
    recipe: Recipe,
    *,
    promote: bool,
    in_process: bool,
    wait: bool,
    code: str = "",
) -> Run:
    from cluster.artifacts.storage.artifact_store import PATIENT
    from cluster.process.artifact_access import open_artifact_store
    from jobs.refresh.runs.display import TrainingDisplay
    from jobs.refresh.runs.local_worker import lower_priority, new_worker_id, run_locally, scratch_path

    owner = new_worker_id("kiosk train") if in_process else ""
    fields = recipe.model_dump(mode="json")
    async with installation.open_administration(training_owner=owner, training_code=code) as administration:
        stores = administration.services.stores
        order = {"app_id": app, "engine_id": engine, "recipe": fields, "promote": promote}
        run: Run = (await administration.perform(COMMAND_LINE, "runs.order", order)).run
        if not in_process and not wait:
            return run
        with TrainingDisplay() as display:
            display.show(run)
            if not in_process:
                return await follow_run(stores, run, display)
            lower_priority()
            settings = installation.settings
            artifacts = open_artifact_store(settings, patience=PATIENT)
            done = await run_locally(
                stores,
                artifacts,
                scratch_path(settings.data_dir),
                app,
                run.run_id,
                owner=owner,
                watch=display.show,
            )
    return done or run


async def follow_run(stores: Stores, run: Run, display: Any) -> Run:
    """Follow a run that others work on until it has ended.

    Errors:
        Unavailable: nobody takes it, or the store is away for long
    """
    waited_s = 0.0
    away = 0
    while not run.has_ended:
        await asyncio.sleep(WAIT_EVERY_S)
        try:
            run = await stores.runs.get(run.app_id, run.run_id) or run
            away = 0
        except Unavailable:
            # The trainer works without this command, so a restart of Redis need not end it.
            away += 1
            if away > 60 / WAIT_EVERY_S:
                raise
        display.show(run)
        # From zero again, when a worker gave the run back.
        waited_s = waited_s + WAIT_EVERY_S if run.status == "queued" else 0.0
        if waited_s > PICKED_UP_S and not await _has_other_runs(stores, run):
            raise Unavailable(
                f"nobody took run {run.run_id} within {PICKED_UP_S:.0f} s; it stays ordered. `kiosk status` shows "
                "whether the system is well; `kiosk train --local` trains in this process"
            )
    return run


async def _has_other_runs(stores: Stores, run: Run) -> bool:
    return any(other.status == "running" for other in await stores.runs.list_open(run.app_id))


def is_failure(run: Run) -> bool:
    """Tell whether a pipeline must not go on: nothing was trained, or it was to serve and does not."""
    is_refused = run.promote and run.status == "finished" and not run.promoted
    return run.status in ("failed", "cancelled") or is_refused


def show_run(run: Run, *, as_json: bool) -> None:
    """Print how a run ended."""
    if as_json:
        screen.print_json(run_to_dict(run))
        return
    if run.status == "queued":
        screen.out().print(
            f"Run {run.run_id} is queued. `kiosk runs show {run.app_id} {run.run_id}` follows it."
        )
        return
    if run.status != "finished":
        screen.err().print(
            screen.style_text(f"{run.status}:", "bold red", f" {run.error or 'run ' + run.run_id}")
        )
        screen.err().print("The serving version is untouched.")
        return
    if run.message:
        screen.err().print(run.message)
    table = screen.build_table("figure", "all users")
    for name, value in run.figures.items():
        table.add_row(name, f"{value:.4f}")
    screen.out().print(f"Run {run.run_id} published snapshot {run.version} of {run.app_id}/{run.engine_id}.")
    if run.split.get("sentence"):
        screen.out().print(run.split["sentence"])
    if run.figures:
        screen.out().print(table)
    if run.chosen:
        screen.out().print(_capitalised(run.chosen))
        screen.out().print(f"Why, part by part: kiosk runs show {run.app_id} {run.run_id}", soft_wrap=True)
    screen.out().print(run.verdict if run.verdict.startswith(run.version) else _capitalised(run.verdict))
    if run.promote and not run.promoted:
        screen.out().print(
            "The gate refused it, so what serves is untouched. To let it serve all the same, give a reason:"
        )
        screen.out().print(
            f'kiosk promote {run.app_id} {run.version} --engine {run.engine_id} --force "..."', soft_wrap=True
        )
    elif run.code:
        screen.out().print(
            "Its code was shipped for this run only. To let it serve: install the code into the environment of "
            "`kiosk up`, restart that, and train again without --working-dir."
        )
    elif run.promoted:
        screen.out().print(
            f"It serves from now on. Undo: kiosk rollback {run.app_id} --engine {run.engine_id}"
        )
    elif not run.figures:
        screen.out().print("It has no trained model, so there is no reason to promote it yet.")
    else:
        screen.out().print(f"Let it serve: kiosk promote {run.app_id} {run.version} --engine {run.engine_id}")


def _capitalised(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _dry_run(installation: Installation, app: str, engine: str, recipe: Recipe, *, as_json: bool) -> None:
    from cluster.artifacts.segments import SegmentStore
    from cluster.process.artifact_access import open_artifact_store
    from jobs.refresh.runs.estimate import count_uncompacted_interactions, estimate_training
    from jobs.refresh.runs.local_worker import free_memory_mb
    from jobs.refresh.runs.run_commands import check_engine
    from jobs.refresh.runs.training_source import read_training_source

    segments = SegmentStore(open_artifact_store(installation.settings))

    async def check() -> int:
        async with installation.open_stores() as stores:
            await check_engine(stores, app, engine)
            await installation.compact_new_data(stores, app)
            offset = segments.offsets(app).get("interaction", "0")
            return await count_uncompacted_interactions(stores.changes, app, offset)

    waiting = asyncio.run(check())
    with screen.err().status("reading compacted data"):
        source = read_training_source(segments, app, recipe, products_suffice=True, explain=True)
        if source.account is not None:
            source = replace(source, account=replace(source.account, waiting=waiting))
        estimate = estimate_training(recipe, source, free_memory_mb())
    if as_json:
        screen.print_json({"app_id": app, "engine_id": engine, "recipe": recipe.name, **estimate.to_dict()})
    else:
        table = screen.build_table("part", "memory", "time", "up to", "trainings")
        for cost in estimate.costs:
            memory = f"{cost.memory >> 20:,} MB"
            up_to = f"{cost.seconds_at_most:.1f} s"
            table.add_row(cost.part, memory, f"{cost.seconds:.1f} s", up_to, str(cost.trainings))
        facts = estimate.facts
        screen.out().print(
            f"{facts['events']:,} events of {facts['readers']:,} users with {facts['items']:,} products "
            f"({facts['dropped']:,} invalid rows)"
        )
        for sentence in () if estimate.account is None else estimate.account.explain():
            screen.out().print(f"  {sentence}")
        screen.out().print(table)
        for part, reason in estimate.left_out.items():
            screen.out().print(f"left out: {part} {reason}", markup=False)
        screen.out().print(
            f"In all about {estimate.seconds:.0f} s of processor time, up to {estimate.seconds_at_most:.0f} s if all "
            f"epochs run and the blend keeps all parts; {estimate.memory >> 20:,} MB of memory, "
            f"{estimate.memory_allowed >> 20:,} MB may be used."
        )
    if not estimate.fits:
        from jobs.refresh.runs.estimate import check_memory
        from jobs.refresh.runs.workload import DataSize

        check_memory(
            recipe, DataSize.from_interactions(source.data, len(source.texts)), estimate.memory_allowed >> 20
        )
        raise Invalid("it would not fit")
