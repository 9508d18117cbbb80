"""Rows that ingests refused, in `<data>/ingest/<run>/quarantine.jsonl`: read, and overwritten in place.

A running ingest appends to its file and knows its length, so a row never moves; a settled row is replaced by a
reason of the same length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from cluster.records.intake import ABOUT, QuarantineEntry

MOST_ROWS = 10_000
"Rows of one file that are shown; after an operator settles these, the next ones follow."


@dataclass(frozen=True, slots=True)
class RefusedRows:
    """All files of one data directory."""

    ingests: Path

    @classmethod
    def from_data_dir(cls, data_dir: Path) -> RefusedRows:
        """Return the files of a data directory."""
        return cls(data_dir / "ingest")

    def files(self) -> list[Path]:
        """Return the files, one for each ingest that refused rows."""
        return sorted(self.ingests.glob("*/quarantine.jsonl"))

    def entries(self, app_id: str) -> list[QuarantineEntry]:
        """Return the rows of an app, and those of ingests without a recorded app."""
        return [
            entry for path in self.files() for entry in _read_entries(path) if entry.app_id in (app_id, "")
        ]

    def overwrite_rows(self, entry_ids: Sequence[str], reason: str) -> None:
        """Overwrite rows; those of one file in one pass."""
        lines: dict[str, set[int]] = {}
        for entry_id in entry_ids:
            run, _, line = entry_id.rpartition(":")
            lines.setdefault(run, set()).add(int(line))
        for run, numbers in lines.items():
            path = self.ingests / run / "quarantine.jsonl"
            for number, (at, row) in enumerate(read_rows(path)):
                if number in numbers:
                    overwrite_row(path, at, row, reason)


def read_rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a file: the position of each, and its bytes without the line's end."""
    at = 0
    with path.open("rb") as stream:
        for line in stream:
            yield at, line.rstrip(b"\n")
            at += len(line)


def overwrite_row(path: Path, at: int, row: bytes, reason: str) -> None:
    """Replace a row by a reason of the same length."""
    word = orjson.dumps({"reason": reason})
    with path.open("r+b") as stream:
        stream.seek(at)
        # A reason that is longer than the row is cut; the row is then no JSON and counts as settled too.
        stream.write(word.ljust(len(row))[: len(row)])


def _read_entries(path: Path) -> Iterator[QuarantineEntry]:
    about = _object(_row_bytes(path.with_name(ABOUT)))
    rows = ((number, _object(row)) for number, (_, row) in enumerate(read_rows(path)))
    for number, fields in islice(
        ((number, fields) for number, fields in rows if "text" in fields), MOST_ROWS
    ):
        yield QuarantineEntry(
            entry_id=f"{path.parent.name}:{number}",
            source="ingest",
            app_id=str(about.get("app_id", "")),
            kind="row",
            noun=str(about.get("noun", "")),
            name=f"row {_row_number(fields.get('row'))} of {fields.get('file')}",
            reason=str(fields.get("reason", "")),
            at=int(about.get("at", 0)),
            payload=str(fields["text"]).encode("utf-8", "replace"),
        )


def _row_number(row: Any) -> str:
    """Return the number of a row as people count: the first one is 1."""
    return str(row + 1) if isinstance(row, int) else str(row)


def _row_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
