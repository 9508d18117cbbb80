"""Show a run: a table for people, JSON for machines."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone

from rich.console import Console
from rich.table import Table

from tests.benchmarks.scenarios import Line


def as_table(lines: Sequence[Line]) -> Table:
    """Lay the lines out with their bounds."""
    table = Table("figure", "value", "bound", "", "note", title="kiosk bench")
    for line in lines:
        sign = (
            "" if line.bound is None else ("at most " if line.at_most else "at least ") + f"{line.bound:,g}"
        )
        mark = {True: "[green]kept[/]", False: "[red]missed[/]", None: ""}[line.kept]
        table.add_row(line.name, f"{line.value:,.2f} {line.unit}", sign, mark, line.note)
    return table


def as_json(lines: Sequence[Line]) -> str:
    """Write the run as JSON, with the machine it ran on."""
    document = {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.system(),
        },
        "lines": [{**asdict(line), "kept": line.kept} for line in lines],
    }
    return json.dumps(document, indent=2)


def show(lines: Sequence[Line]) -> None:
    """Print the table."""
    Console(stderr=False, width=120).print(as_table(lines))
