"""`kiosk runs`: trainings, how far they are, how they ended."""

from __future__ import annotations

import typer

from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.insight import evaluation_runs
from deployments.operations.models import runs

app = typer.Typer(help="Trainings: how far they are and how they ended.", no_args_is_help=True)

LIST_EPILOG = """
[bold]Examples[/]

  kiosk runs list                        of all apps, newest first
  kiosk runs list bookshop --limit 5
"""
SHOW_EPILOG = """
[bold]Example[/]

  kiosk runs show run-1f0c               the start of a name is enough while it is the only one
"""
REPORT_EPILOG = """
[bold]Example[/]

  kiosk runs report run-1f0c             of an evaluation or a sweep that the console or HTTP ordered
"""
CANCEL_EPILOG = """
[bold]Example[/]

  kiosk runs cancel run-1f0c5d2a9b       nothing of it is published; what serves stays
"""

RUN = {"run_id": "RUN"}
COMMANDS = (
    OperationCommand("list", "runs.list", LIST_EPILOG, {"engine_id": ""}, for_all="runs.list_all"),
    OperationCommand("show", "runs.get", SHOW_EPILOG, RUN, app_from="runs.find"),
    OperationCommand("report", "evaluations.report", REPORT_EPILOG, RUN, app_from="runs.find"),
    OperationCommand("cancel", "runs.cancel", CANCEL_EPILOG, RUN, app_from="runs.find"),
)
add_commands(app, COMMANDS, runs, evaluation_runs, names_app=False)
