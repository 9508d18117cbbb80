"""`kiosk status`: how every part is."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from cluster.runtime.installation_state import load_state
from deployments.cli import screen
from deployments.cli.installation import KILLED, Installation
from deployments.cli.installation_parts import InstallationPart, inspect_parts
from deployments.cli.summary import build_summary

EPILOG = """
[bold]Examples[/]

  kiosk status
  kiosk status --json | jq .ready

Ends with 0 when everything is well, with 1 when a part is not or the supervisor was killed, with 3 when the
installation does not run.
"""


def status(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Show the health of every part in a table."""
    installation = Installation()
    state = installation.state
    if state is None:
        raise typer.Exit(_report_not_running(installation, as_json=as_json))
    screen.print_ignored_settings(installation.in_vain)
    parts = inspect_parts(installation, state)
    well = state.phase == "ready" and all(part.ok for part in parts)
    if as_json:
        told = build_summary(installation, state, reveal=False).to_dict(secrets=False) if parts[1].ok else {}
        screen.print_json(
            {**told, "ready": well, "phase": state.phase, "parts": [part.to_dict() for part in parts]}
        )
    else:
        _show(parts, state.api_url)
    if not well:
        raise typer.Exit(1)


def _show(parts: list[InstallationPart], url: str) -> None:
    table = screen.build_table("part", "", "", title=f"Kiosk at {url}")
    for part in parts:
        table.add_row(part.part, _status_sign(part.ok), part.detail)
    screen.out().print(table)
    if not all(part.ok for part in parts):
        screen.err().print("`kiosk doctor` says what can be done.")


def _status_sign(well: bool) -> Text:
    return screen.style_text("ok", "green") if well else screen.style_text("not ok", "bold red")


def _report_not_running(installation: Installation, *, as_json: bool) -> int:
    """Say in what way it does not run; return the exit code."""
    left, last = len(installation.leftovers), load_state(installation.places)
    if as_json:
        phase, more = ("killed", {"processes": left}) if left else ("stopped", {})
        screen.print_json(
            {"ready": False, "phase": phase, "data_dir": str(installation.places.data_dir), **more}
        )
    if left:
        screen.err().print(KILLED.format(left))
        return 1
    words = (
        f"The last start failed: {last.message.rstrip('.')}."
        if last and last.phase == "failed"
        else "Kiosk does not run."
    )
    screen.err().print(f"{words} Start it with `kiosk up`.")
    return 3
