"""`kiosk trials`: two snapshots of an engine on people, and what was certain."""

from __future__ import annotations

import typer

from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.models import snapshot_trials

app = typer.Typer(help="Comparisons of two snapshots on people.", no_args_is_help=True)

START_EPILOG = """
[bold]Examples[/]

  kiosk trials start bookshop default 053040c827b6cf19
  kiosk trials start bookshop default 053040c8 --share 0.2 --promote-when-better

The snapshot is compared in clicks and revenue per person, and guarded in latency, empty lists, coverage and errors.
"""
SHOW_EPILOG = """
[bold]Example[/]

  kiosk trials show bookshop default
"""
STOP_EPILOG = """
[bold]Example[/]

  kiosk trials stop bookshop default
"""
COMMANDS = (
    OperationCommand("start", "trials.start", START_EPILOG, {"version": "SNAPSHOT"}),
    OperationCommand("show", "trials.show", SHOW_EPILOG),
    OperationCommand("stop", "trials.stop", STOP_EPILOG),
)
add_commands(app, COMMANDS, snapshot_trials)
