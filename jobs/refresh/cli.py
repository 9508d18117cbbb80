"""The words `python -m jobs.refresh` understands, and what each of them does."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Invalid, Unavailable
from cluster.records.run import Run
from jobs.refresh.recipe import Recipe, load_recipe_file
from jobs.refresh.runs.display import TrainingDisplay
from jobs.refresh.runs.local_worker import lower_priority, new_worker_id, run_locally
from jobs.refresh.runs.run_commands import check_promotable, create_run
from jobs.refresh.runs.sweep import parse_assignments

if TYPE_CHECKING:
    from jobs.refresh.learners.conformance import ConformanceCheck

NO_REDIS = Unavailable("no Redis is known: start the system first, or set KIOSK_REDIS_URL")


@dataclass(frozen=True, slots=True)
class LocalInstallation:
    """The installation as this process reaches it."""

    connect: Callable[[], Any]
    "Opens the stores."
    open_shelf: Callable[[], ArtifactStore]
    scratch: Path


def train_and_wait(arguments: argparse.Namespace, train: Callable[..., Run]) -> int:
    """Train with whatever trains elsewhere, and wait."""
    with TrainingDisplay() as display:
        run = train(
            arguments.app,
            arguments.engine,
            _read_recipe(arguments),
            promote=arguments.promote,
            by=arguments.by,
            watch=display.show,
        )
    return _report_run(run)


def train_in_process(arguments: argparse.Namespace, place: LocalInstallation) -> int:
    """Train in this process."""
    recipe, owner = _read_recipe(arguments), new_worker_id("python -m jobs.refresh")

    async def ask() -> Run:
        async with place.connect() as stores:
            if arguments.promote:
                await check_promotable(stores, arguments.app)
            return await create_run(
                stores,
                arguments.app,
                arguments.engine,
                recipe.model_dump(mode="json"),
                now_ms=SystemClock().now_ms(),
                by=arguments.by,
                promote=arguments.promote,
                owner=owner,
            )

    run = asyncio.run(ask())
    return _report_run(asyncio.run(_run_worker(place, run.app_id, run.run_id, owner)))


def work_on_run(arguments: argparse.Namespace, place: LocalInstallation) -> int:
    """Do what is left of a run."""
    owner = arguments.owner or new_worker_id("python -m jobs.refresh")
    return _report_run(asyncio.run(_run_worker(place, arguments.app, arguments.run, owner)))


def run_conformance(arguments: argparse.Namespace) -> int:
    """Hold a learner to its promises."""
    from jobs.refresh.learners.conformance import check_conformance as checked

    try:
        config = json.loads(arguments.config)
    except ValueError as error:
        raise Invalid(f"--config is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise Invalid("--config is no JSON object; write the constructor's arguments as {...}")
    lines, fits = render_conformance(checked(arguments.learner, config))
    print("\n".join(lines))  # noqa: T201
    return 0 if fits else 1


def render_conformance(found: Sequence[ConformanceCheck]) -> tuple[list[str], bool]:
    """Say which promises a learner keeps, which need work and which are advice; and whether it can be used."""
    lines = []
    for check in found:
        mark = "kept  " if check.kept else "advice" if check.is_advice else "BROKEN"
        lines += [f"{mark} {check.promise}", *([] if check.kept else [f"       {check.reason}"])]
    kept = sum(check.kept for check in found)
    needed = sum(check.forbids_use for check in found)
    lines.append(f"{kept} of {len(found)} promises are kept")
    if needed:
        lines.append(
            f"{needed} that are needed are broken: it can't be used yet. docs/guides/learners.md explains them"
        )
    elif kept < len(found):
        lines.append("only advice is left: it can be trained, published and served as it is")
    return lines, not needed


def build_parser(about: str) -> argparse.ArgumentParser:
    """Make the parser."""
    made = argparse.ArgumentParser(
        prog="python -m jobs.refresh", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = made.add_subparsers(dest="what", required=True)
    train = commands.add_parser("train", help="train an engine and wait")
    train.add_argument("app", help="the app's id, for example development")
    train.add_argument("--engine", default="default", help="the engine")
    train.add_argument("--recipe", default="default", help="a recipe that comes along, or a file")
    train.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a field")
    train.add_argument("--promote", action="store_true", help="let it serve if the gate allows")
    train.add_argument("--local", action="store_true", help="in this process, without Ray")
    train.add_argument("--by", default="python -m jobs.refresh", help="who asks, for the record")
    worker = commands.add_parser("work", help="do what is left of an ordered run")
    worker.add_argument("app")
    worker.add_argument("run")
    worker.add_argument("--owner", default="", help="a name for this worker")
    learner = commands.add_parser("conform", help="hold a learner of yours to the protocol")
    learner.add_argument("learner", help="package.module:Class")
    learner.add_argument("--config", default="{}", help="arguments of its constructor, as JSON")
    return made


async def _run_worker(place: LocalInstallation, app_id: str, run_id: str, owner: str) -> Run | None:
    lower_priority()
    async with place.connect() as stores:
        with TrainingDisplay() as display:
            return await run_locally(
                stores,
                place.open_shelf(),
                place.scratch,
                app_id,
                run_id,
                owner=owner,
                watch=display.show,
            )


def _read_recipe(arguments: argparse.Namespace) -> Recipe:
    return load_recipe_file(arguments.recipe).with_changes(parse_assignments(arguments.set))


def _report_run(run: Run | None) -> int:
    if run is None:
        print("the run has ended, or belongs to another worker", file=sys.stderr)  # noqa: T201
        return 2
    print(run.model_dump_json(indent=2, exclude={"recipe", "owner", "until_ms", "revision"}))  # noqa: T201
    return 0 if run.status == "finished" else 1
