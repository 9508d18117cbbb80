"""`kiosk doctor`: what people get wrong, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.commands import screen
from cluster.commands.findings import examine
from cluster.commands.installation import Installation

EPILOG = """
[bold]Examples[/]

  kiosk doctor
  kiosk doctor --json

Works on a running installation and on a stopped one. Ends with 1 when something is bad.
"""
_STYLES = {"ok": "green", "warning": "yellow", "bad": "bold red"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Check versions, files, disk, Redis, Ray's ports and tokens, HAProxy, limits and the clock."""
    installation = Installation()
    findings = examine(installation)
    well = not any(finding.level == "bad" for finding in findings)
    if as_json:
        screen.tell_json({"ok": well, "findings": [finding.told() for finding in findings]})
    else:
        table = screen.table("check", "", "", title=f"Installation in {installation.places.data_dir}")
        for finding in findings:
            words = finding.words if not finding.advice else f"{finding.words}\n→ {finding.advice}"
            table.add_row(finding.check, screen.marked(finding.level, _STYLES[finding.level]), words)
        screen.out().print(table)
    if not well:
        raise typer.Exit(1)
