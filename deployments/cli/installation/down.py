"""`kiosk down`: end everything and leave nothing but the data."""

from __future__ import annotations

import os
import signal
import time
from typing import Annotated

import typer

from cluster.errors import Fault
from cluster.process.installation_state import find_lock_holder
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation

PATIENCE_S = 45.0


def down(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Stop the installation: running requests end, Redis saves, no process, socket or temporary file stays.

    Also clears up after an installation that was killed. Data is kept; `kiosk up` goes on where it stopped.
    """
    installation = Installation()
    was_running = installation.is_running
    with screen.err().status("stopping"):
        if was_running:
            _stop_supervisor(installation)
        ended = installation.stop_processes()
    data_dir = installation.places.data_dir
    if as_json:
        screen.print_json(
            {"stopped": True, "was_running": was_running, "ended": ended, "data_dir": str(data_dir)}
        )
    elif was_running:
        screen.out().print(f"Kiosk is stopped. Data stays in {data_dir}.")
    elif ended:
        screen.out().print(
            f"The supervisor had been killed; {ended} processes of it were ended. Data stays in {data_dir}."
        )
    else:
        screen.out().print("Kiosk was not running.")


def _stop_supervisor(installation: Installation) -> None:
    """Ask the supervisor; one that does not end in time is killed with everything it keeps."""
    until = time.monotonic() + PATIENCE_S
    signalled = 0
    while (holder := find_lock_holder(installation.places)) and time.monotonic() < until:
        # Once for each process: another one may take the lock while this one waits.
        if holder > 0 and holder != signalled:
            signalled = holder
            try:
                os.kill(holder, signal.SIGTERM)
            except ProcessLookupError:
                continue
            except PermissionError as error:
                raise Fault(f"process {holder} belongs to another user; stop it as that user") from error
        time.sleep(0.05)
