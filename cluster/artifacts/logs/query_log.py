"""The query log in the artifact store: one row for each query that was answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cluster.artifacts.logs.daily_log import DailyLog
from cluster.meter import Meter
from cluster.records.logged_query import LoggedQuery

TYPING_MS = 2_000
"A completion query that another follows within this time is a keystroke, not a final query."

COLUMNS = pa.schema(
    [
        ("at", pa.int64()),
        ("kind", pa.string()),
        ("text", pa.string()),
        ("total", pa.int64()),
        ("language", pa.string()),
        ("served_by", pa.string()),
        ("engine_id", pa.string()),
        ("took_ms", pa.float64()),
        ("reader", pa.string()),
        ("origin", pa.string()),
        ("written", pa.string()),
    ]
)
"`at` is milliseconds since 1970; `reader` is a pseudonym, empty when the user is unknown."


class QueryLogStore(DailyLog[LoggedQuery]):
    """The compacted queries of every app in one artifact store."""

    kind = "queries"
    schema = COLUMNS
    user_column = "reader"
    added = ("origin", "written")
    encodings = {"use_dictionary": ["kind", "language", "served_by", "engine_id", "reader", "text"]}  # noqa: RUF012

    def table_from_rows(self, rows: Iterable[LoggedQuery]) -> Any:
        return super().table_from_rows(drop_keystrokes(rows))

    def count_compacted(self, meter: Meter, rows: int) -> None:
        meter.count("kiosk_settled_queries", rows)


def drop_keystrokes(queries: Iterable[LoggedQuery]) -> list[LoggedQuery]:
    """Return the final queries, without the keystrokes before them.

    A completion query is final unless its user continues typing within two seconds. For unknown users (many may
    share one server), one of the two texts must also be a prefix of the other.
    """
    ordered = sorted(queries, key=lambda query: query.at)
    following: dict[str, LoggedQuery] = {}
    kept: list[LoggedQuery] = []
    # From the newest back, so that each keystroke is compared with what its person typed next.
    for query in reversed(ordered):
        if query.kind == "autocomplete":
            later = following.get(query.typist)
            if query.typist:
                following[query.typist] = query
            if later is not None and _is_continued_by(query, later):
                continue
        kept.append(query)
    kept.reverse()
    return kept


def _is_continued_by(query: LoggedQuery, later: LoggedQuery) -> bool:
    if later.at - query.at > TYPING_MS:
        return False
    begins = later.text.startswith(query.text) or query.text.startswith(later.text)
    return bool(query.reader) or (begins and later.text != query.text)
