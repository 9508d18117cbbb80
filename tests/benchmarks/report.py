"""Show a run: a table for people, JSON for machines."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
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
        table.add_row(line.name, _value(line), sign, mark, escape(line.reason or line.note))
    return table


def _value(line: Line) -> str:
    return "not measured" if math.isnan(line.value) else f"{line.value:,.2f} {line.unit}"


def as_json(lines: Sequence[Line]) -> str:
    """Write the run as JSON, with the machine it ran on."""
    document = {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.system(),
        },
        "lines": [_row(line) for line in lines],
    }
    return json.dumps(document, indent=2)


def _row(line: Line) -> dict[str, Any]:
    value = None if math.isnan(line.value) else line.value
    return {**asdict(line), "value": value, "kept": line.kept}


def print_report(figures: Iterable[Line], *, as_json_document: bool = False, out: Path | None = None) -> int:
    """Print figures as they come and all together in the end.

    Returns:
        1 when a bound was missed or something could not be measured, else 0
    """
    progress, lines = Console(stderr=True), []
    for line in figures:
        progress.print(f"  {line.name}: {_value(line)} {line.reason}".rstrip(), markup=False, soft_wrap=True)
        lines.append(line)
    if as_json_document:
        print(as_json(lines))
    else:
        Console(width=120).print(as_table(lines))
    if out:
        out.write_text(as_json(lines) + "\n")
    return int(any(line.kept is False or math.isnan(line.value) for line in lines))
