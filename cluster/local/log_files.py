"""Read the log files of an installation: one event a line, of all processes together.

Each process of Kiosk writes JSON lines (`cluster.log`). Other lines, of libraries and Redis, have no time of their own:
they take the time of the line before them in the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.log import redact

MOST_BYTES = 8 << 20
"Bytes at the end of each file that are read."
LEVELS = ("debug", "info", "warning", "error", "critical")
"From harmless to severe."


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log file."""

    at: str
    "Time in UTC as ISO 8601; empty before the first time of a file."
    level: str
    "Empty: the line names none."
    file: str
    text: str
    "The whole line without secrets."
    fields: Mapping[str, Any]
    "The fields of a JSON line; empty for others."


def read_log_files(
    files: Iterable[Path], *, text: str = "", level: str = "", since: str = "", most: int = 200
) -> list[LogLine]:
    """Return the newest lines that fit, the oldest first.

    text    a part of the line, for example a request id
    level   this level or a more severe one; lines without a level are left out
    since   ISO 8601 in UTC; lines before it, and lines without a time, are left out
    """
    least = LEVELS.index(level) if level else 0
    fitting = [
        line
        for path in files
        for line in _read_file(path)
        if text in line.text
        and line.at >= since
        and (not level or (line.level in LEVELS and LEVELS.index(line.level) >= least))
    ]
    # The sort is stable: lines of one time stay in the order of their file.
    fitting.sort(key=lambda line: line.at)
    return fitting[-most:]


def _read_file(path: Path) -> Iterator[LogLine]:
    """Read the end of a file; one that is gone or can't be read has no lines."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_BYTES))
            lines = file.read(MOST_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return
    at = ""
    # The first line is cut if the file is longer than what was read.
    for text in lines[1:] if size > MOST_BYTES else lines:
        if not text.strip():
            continue
        fields = _parse(text)
        # A line without a time, as in a traceback, stays behind the line before it.
        at = str(fields.get("timestamp") or at)
        yield LogLine(at, str(fields.get("level", "")), path.name, redact(text), fields)


def _parse(text: str) -> Mapping[str, Any]:
    if not text.startswith("{"):
        return {}
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
