"""Refused rows of an import as JSON, as JSON Lines and as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class RefusedRowsPage:
    """Some refused rows of an import.

    As CSV, texts that a spreadsheet would run begin with an apostrophe.
    """

    rows: tuple[dict[str, Any], ...]
    has_more: bool

    def to_lines(self) -> bytes:
        """Return the rows as JSON Lines."""
        return b"".join(orjson.dumps(row) + b"\n" for row in self.rows)

    def to_csv(self) -> bytes:
        """Return the rows as CSV."""
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        writer.writerow(("row", "reason", "text"))
        for row in self.rows:
            writer.writerow((row["row"], escape_formula(row["reason"]), escape_formula(row["text"])))
        return out.getvalue().encode("utf-8", "replace")


def escape_formula(text: str) -> str:
    """Return the text of a cell so that no spreadsheet computes it."""
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def parse_refused(row: bytes) -> dict[str, Any] | None:
    """Return a refused row; None for one that was replayed, dropped or erased."""
    try:
        value = orjson.loads(row)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict) or "text" not in value:
        return None
    return {
        "row": int(value.get("row", 0)) + 1,
        "reason": str(value.get("reason", "")),
        "text": str(value["text"]),
    }
