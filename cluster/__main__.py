"""`kiosk`, also as `python -m cluster`: the command line."""

from __future__ import annotations

import logging
import sys

import typer

from cluster.commands import (
    apps,
    clients,
    doctor,
    down,
    elsewhere,
    engines,
    evaluate,
    experiments,
    forget,
    keys,
    promote,
    report,
    rules,
    runs,
    schedules,
    screen,
    status,
    train,
    up,
    users,
)
from cluster.errors import HouseError
from cluster.log import set_up_logging


def command_line() -> typer.Typer:
    """Put the commands together."""
    line = typer.Typer(
        name="kiosk",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    line.callback()(_quietly)
    line.command("up", epilog=up.EPILOG)(up.up)
    line.command("down")(down.down)
    line.command("status", epilog=status.EPILOG)(status.status)
    line.command("doctor", epilog=doctor.EPILOG)(doctor.doctor)
    for group in (apps, keys, users, rules, engines, clients, report, runs, schedules, experiments):
        line.add_typer(group.app, name=group.__name__.rpartition(".")[2])
    line.command("train", epilog=train.EPILOG)(train.train)
    line.command("evaluate", epilog=evaluate.EPILOG)(evaluate.evaluate)
    for part in (promote, forget):
        part.add_to(line)
    for command in (elsewhere.ingest, elsewhere.models, elsewhere.bench):
        line.command(command.__name__, context_settings=elsewhere.PASS_ON)(command)
    return line


def _quietly() -> None:
    """Personalization, search and question answering on your own machines."""
    set_up_logging(level=logging.WARNING, people=True)


def main() -> None:
    """Run one command; errors become a sentence and exit code 1."""
    try:
        command_line()()
    except HouseError as error:
        screen.tell_error(error, as_json="--json" in sys.argv)
        sys.exit(1)
    except KeyboardInterrupt:
        screen.err().print("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
