"""The log of archive calls in the artifact store: one row for each call of an agent, and for each visit that followed.

No row names a person. docs/guides/readership.md describes the columns for readers with other programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from cluster.artifacts.logs.daily_log import DailyLog
from cluster.artifacts.manifest import Manifest
from cluster.meter import Meter
from cluster.records.archive.archive_client import ArchiveCall

_VARIANT = pa.struct([("experiment", pa.string()), ("variant", pa.string())])
COLUMNS = pa.schema(
    [
        ("schema", pa.int16()),
        ("event", pa.string()),
        ("call_id", pa.string()),
        ("question_id", pa.string()),
        ("at", pa.int64()),
        ("tool", pa.string()),
        ("client", pa.string()),
        ("client_name", pa.string()),
        ("host", pa.string()),
        ("signature", pa.string()),
        ("agent", pa.string()),
        ("skill_used", pa.string()),
        ("question", pa.string()),
        ("articles", pa.list_(pa.string())),
        ("outcome", pa.string()),
        ("refusal", pa.string()),
        ("coverage", pa.float64()),
        ("took_ms", pa.float64()),
        ("reply_bytes", pa.int64()),
        ("model_tokens", pa.int64()),
        ("marked", pa.bool_()),
        ("experiments", pa.list_(_VARIANT)),
    ]
)
"`at` is milliseconds since 1970; docs/guides/readership.md has the meanings."
_IDENTITY = ("event", "call_id", "at", "articles")
"Columns that are equal in two rows only if a replica wrote one row twice."


class CallLogStore(DailyLog[ArchiveCall]):
    """The compacted archive calls of every app in one artifact store."""

    kind = "calls"
    schema = COLUMNS
    user_column = ""
    dictionaries = ("client_name", "tool")
    encodings = {  # noqa: RUF012
        "use_dictionary": [
            "event",
            "tool",
            "client",
            "client_name",
            "host",
            "signature",
            "agent",
            "skill_used",
            "question",
            "articles.list.element",
            "outcome",
            "refusal",
        ]
    }

    def table_from_rows(self, rows: Iterable[ArchiveCall]) -> Any:
        # A replica writes a batch again if the reply to the first time got lost.
        ordered = sorted(rows, key=lambda row: row.at)
        distinct = {
            # Rows of earlier releases have no id; their number keeps all of them.
            _identify(row.event, row.call_id, row.at, row.articles) or number: row
            for number, row in enumerate(ordered)
        }
        return super().table_from_rows(distinct.values())

    def count_compacted(self, meter: Meter, rows: int) -> None:
        meter.count("kiosk_settled_calls", rows)

    def reconcile_rows(self, app_id: str, table: Any, commit: Manifest) -> Any:
        """Leave out rows that are stored already. `table` is sorted by time."""
        if not table.num_rows:
            return table
        first_ms = table["at"][0].as_py()
        stored = set(_identities(self._read_commit(app_id, commit, first_ms, _IDENTITY)))
        is_new = [identity is None or identity not in stored for identity in _identities(table)]
        return table.filter(pa.array(is_new, pa.bool_()))


def _identities(table: Any) -> list[tuple[Any, ...] | None]:
    columns = (table[name].to_pylist() for name in _IDENTITY)
    return [_identify(*values) for values in zip(*columns, strict=True)]


def _identify(event: str, call_id: str, at: int, articles: Sequence[str]) -> tuple[Any, ...] | None:
    """Return what makes a row this one; None for rows of earlier releases, which have no id."""
    return (event, call_id, at, *articles) if call_id else None
