"""Exit codes that pipelines rely on: 0 done, 1 partly done or failed, 2 wrong use, 3 not running (decision E12)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from cluster.errors import Conflict, HouseError, Invalid, NotFound, Unavailable
from deployments.cli import screen

PARTLY, WRONG_USE, NOT_RUNNING = 1, 2, 3


@contextmanager
def exit_on_error(*, as_json: bool) -> Iterator[None]:
    """Print an error of ours and end the command with its code."""
    try:
        yield
    except HouseError as error:
        screen.print_error(error, as_json=as_json)
        raise typer.Exit(exit_code_of(error)) from error
    except BrokenPipeError:
        # whoever read our output has enough; what Python would flush at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(PARTLY) from None


def exit_code_of(error: HouseError) -> int:
    """Choose the exit code of an error."""
    if isinstance(error, Invalid | NotFound):
        return WRONG_USE
    if isinstance(error, Unavailable | Conflict):
        return NOT_RUNNING
    return PARTLY
