"""What the command lines of jobs share with `kiosk`: the framework, the layout of help, errors and exit codes.

Exit codes: 0 all of the work is done, 1 a part of it or a failure, 2 wrong use, 3 Kiosk does not run.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cluster.errors import Invalid, KioskError, NotFound, Unavailable
from cluster.log import redact, set_up_logging

PARTLY = 1
WRONG_USE = 2
NOT_RUNNING = 3

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]

WORDS = "kiosk.words"
"Key of the arguments of a `DefaultGroup` in the `meta` of its context."


class DefaultGroup(TyperGroup):
    """A group whose first command gets all arguments that do not begin with the name of another command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the arguments as the user typed them, and pass them to a command."""
        ctx.meta[WORDS] = list(args)
        first = next(iter(self.commands))
        chosen = args[0] if args and args[0] in self.commands else first
        rest: list[str] = super().parse_args(ctx, [chosen, *(args if chosen == first else args[1:])])
        return rest

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Omit the name of the first command from usage lines, because users do not type it."""
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == next(iter(self.commands)) else name), command, rest


def build_app(about: str = "", *, group: type[TyperGroup] | None = None) -> typer.Typer:
    """Return an empty command line with the layout of `kiosk`."""
    return typer.Typer(
        help=about,
        cls=group,
        no_args_is_help=group is None,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def exit_code_of(error: KioskError) -> int:
    """Return the exit code of an error: 2 for wrong use, 3 if Kiosk or a store is unavailable, else 1."""
    if isinstance(error, Invalid | NotFound):
        return WRONG_USE
    if isinstance(error, Unavailable):
        return NOT_RUNNING
    return PARTLY


def print_json(value: Any) -> None:
    """Print one JSON object, and nothing else, on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def run_program(app: typer.Typer, program: str, *, process: str = "") -> int:
    """Run one command of `python -m` and return its exit code. Errors become a sentence, with `--json` an object.

    Logs go to standard error, so that standard output holds nothing but what the command prints: warnings for people,
    or, with the name of a process, each event as a JSON object.
    """
    if process:
        set_up_logging(process=process)
    else:
        set_up_logging(level=logging.WARNING, people=True)
    try:
        app(prog_name=program)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except KioskError as error:
        if "--json" in sys.argv:
            print_json({"error": {"code": error.code, "message": error.message}})
        sys.stderr.write(f"error: {redact(error.message)}\n")
        return exit_code_of(error)
    return 0
