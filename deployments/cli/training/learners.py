"""`kiosk learners`: learner classes of yours that may run in this installation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.admin.allowed_learners import allow_learner, allowed_learners, remove_learner
from cluster.errors import Invalid
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation

app = typer.Typer(help="Learners: model classes of yours that may run here.", no_args_is_help=True)

EPILOG = """
[bold]Examples[/]

  kiosk learners conform my_learner:NextItem --working-dir .     hold it to the protocol first
  kiosk learners allow shop.markov:Markov
  kiosk learners list

A class runs with all rights of the process that imports it: in trainings, and in the processes that serve users.
"""

Learner = Annotated[str, typer.Argument(metavar="package.module:Class", help="The class.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("allow", epilog=EPILOG)
def allow(learner: Learner, as_json: AsJson = False) -> None:
    """Let a class be imported by trainings and by those who serve; no restart is needed."""
    installation = Installation()
    if installation.is_absent:  # there is no audit log yet
        added = allow_learner(installation.settings, learner)
    else:
        added = installation.perform("learners.allow", learner=learner)["added"]
    _print_learners(as_json, f"{learner} is allowed" if added else f"{learner} was allowed already")


@app.command("list", epilog=EPILOG)
def list_learners(as_json: AsJson = False) -> None:
    """List the classes that are allowed."""
    names = sorted(allowed_learners(Installation().settings))
    _print_learners(as_json, *(names or ["none; only the built-in learners run"]))


@app.command("remove", epilog=EPILOG)
def remove(learner: Learner, as_json: AsJson = False) -> None:
    """Take a class off the list; snapshots that were trained with it are refused when they are loaded next."""
    installation = Installation()
    if installation.is_absent:
        remove_learner(installation.settings, learner)
    else:
        installation.perform("learners.remove", learner=learner)
    _print_learners(as_json, f"{learner} is not allowed any more")


@app.command("conform", epilog=EPILOG)
def conform(
    learner: Learner,
    config: Annotated[str, typer.Option(help="Arguments of its constructor, as JSON.")] = "{}",
    working_dir: Annotated[
        Path,
        typer.Option("--working-dir", help="Folder its module is imported from, if it is not installed."),
    ] = Path(),
    as_json: AsJson = False,
) -> None:
    """Hold a class to the protocol: which promises it keeps, which are needed, and which are advice.

    Exit code 1: a promise is broken that is needed.
    """
    from jobs.refresh.cli import render_conformance
    from jobs.refresh.learners.conformance import check_conformance as checked

    try:
        given: Any = json.loads(config)
    except ValueError as error:
        raise Invalid(f"--config is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise Invalid("--config is no JSON object; write the constructor's arguments as {...}")
    sys.path.insert(0, str(working_dir.resolve()))
    checks = checked(learner, given)
    lines, fits = render_conformance(checks)
    if as_json:
        rows = [
            {
                "promise": check.promise,
                "kept": check.kept,
                "needed": not check.is_advice,
                "reason": check.reason,
            }
            for check in checks
        ]
        screen.print_json({"learner": learner, "usable": fits, "promises": rows})
    else:
        screen.print_lines(*lines)
    if not fits:
        raise typer.Exit(1)


def _print_learners(as_json: bool, *lines: str) -> None:
    if as_json:
        screen.print_json({"learners": sorted(allowed_learners(Installation().settings))})
    else:
        screen.print_lines(*lines)
