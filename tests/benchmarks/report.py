"""Show a run: a table for people, JSON for machines."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

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


def told(figures: Iterable[Line], *, json_wanted: bool = False, out: Path | None = None) -> int:
    """Show figures as they come and all together in the end; return 1 when a bound was missed, else 0."""
    progress, lines = Console(stderr=True), []
    for line in figures:
        progress.print(f"  {line.name}: {line.value:,.2f} {line.unit}")
        lines.append(line)
    if json_wanted:
        print(as_json(lines))
    else:
        Console(width=120).print(as_table(lines))
    if out:
        out.write_text(as_json(lines) + "\n")
    return 1 if any(line.kept is False for line in lines) else 0
