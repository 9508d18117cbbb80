"""The served log in the artifact store: one row for each answer, with its products in order.

docs/guides/served-log.md describes the files for readers with other programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cluster.artifacts.logs.daily_log import DailyLog, table_from_objects
from cluster.artifacts.logs.query_log import TYPING_MS
from cluster.artifacts.manifest import Manifest
from cluster.meter import Meter
from cluster.records.served_list import ServedAnswer

MOST_DICTIONARY_BYTES = 8 << 20
"Bytes of a dictionary of a column. The default of 1 MB is too small for 100,000 product ids."
SESSION_GAP_MS = 1_800_000
"A request after such a pause begins a new session."

_VARIANT = pa.struct([("experiment", pa.string()), ("variant", pa.string())])
COLUMNS = pa.schema(
    [
        ("schema", pa.int16()),
        ("service_id", pa.string()),
        ("at", pa.int64()),
        ("endpoint", pa.string()),
        ("engine_id", pa.string()),
        ("snapshot", pa.string()),
        ("recipe", pa.string()),
        ("level", pa.string()),
        ("rules", pa.list_(pa.string())),
        ("experiments", pa.list_(_VARIANT)),
        ("user", pa.string()),
        ("session", pa.string()),
        ("device", pa.string()),
        ("request_digest", pa.string()),
        ("start", pa.int32()),
        ("rows", pa.int32()),
        ("took_ms", pa.float32()),
        ("products", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float32())),
        ("origins", pa.list_(pa.int8())),
        ("propensities", pa.list_(pa.float32())),
        ("sides", pa.list_(pa.int8())),
        ("state", pa.string()),
        ("request", pa.string()),
    ]
)
"`at` is milliseconds since 1970; `user` and `session` are empty without a user."

_UNIQUE = ("service_id", "scores.list.element")
"Columns whose values do not repeat: a dictionary would add bytes."


def _list_repeating() -> list[str]:
    """Return the Parquet paths of the columns with a dictionary."""
    paths = []
    for field in COLUMNS:
        if pa.types.is_list(field.type):
            inner = field.type.value_type
            parts = [f".{part.name}" for part in inner] if pa.types.is_struct(inner) else [""]
            paths += [f"{field.name}.list.element{part}" for part in parts]
        else:
            paths.append(field.name)
    return [path for path in paths if path not in _UNIQUE]


class ServedLogStore(DailyLog[ServedAnswer]):
    """The compacted answers of every app in one artifact store."""

    kind = "served"
    schema = COLUMNS
    user_column = "user"
    added = ("sides", "state", "request")
    dictionaries = ("user", "products.list.element")
    encodings = {  # noqa: RUF012
        "use_dictionary": _list_repeating(),
        "compression_level": 6,
        "dictionary_pagesize_limit": MOST_DICTIONARY_BYTES,
    }

    def table_from_rows(self, rows: Iterable[ServedAnswer]) -> Any:
        # A replica writes a batch again if the reply to the first time got lost.
        distinct = {row.service_id: row for row in rows}
        return table_from_answers(drop_keystrokes(sorted(distinct.values(), key=lambda row: row.at)))

    def count_compacted(self, meter: Meter, rows: int) -> None:
        meter.count("kiosk_settled_answers", rows)

    def reconcile_rows(self, app_id: str, table: Any, commit: Manifest) -> Any:
        """Leave out answers that are stored already, and name the session of each other row.

        A session is the rows of a user without a pause of 30 minutes.

        `table` is sorted by time. The newest sessions are read from the rows of `commit`, so a restart continues them.
        """
        if not table.num_rows:
            return table
        first_ms = table["at"][0].as_py()
        # A row that is stored twice has one time, so copies are not older than the first row.
        stored = self._read_commit(app_id, commit, first_ms, ("service_id",))["service_id"].combine_chunks()
        table = table.filter(pc.invert(pc.is_in(table["service_id"], value_set=stored)))
        earlier = self._read_commit(app_id, commit, first_ms - SESSION_GAP_MS, ("user", "session"))
        users = pc.filter(table["user"].unique(), pc.not_equal(table["user"].unique(), ""))
        newest = _list_newest(earlier.filter(pc.is_in(earlier["user"], value_set=users)).sort_by("at"))
        sessions = name_sessions(table["user"].to_pylist(), table["at"].to_pylist(), newest)
        at = table.schema.get_field_index("session")
        return table.set_column(at, "session", pa.array(sessions, pa.string()))


def _list_newest(rows: Any) -> dict[str, tuple[int, str]]:
    """Return the time and the session of the last row of each user; `rows` are sorted by time."""
    last = rows.group_by("user", use_threads=False).aggregate([("at", "last"), ("session", "last")])
    columns = (last[name].to_pylist() for name in ("user", "at_last", "session_last"))
    return {user: (at, session) for user, at, session in zip(*columns, strict=True)}


def drop_keystrokes(rows: Sequence[ServedAnswer]) -> list[ServedAnswer]:
    """Return rows without completions that the next one of the same typist follows within two seconds.

    `rows` are sorted by time.
    """
    next_ms: dict[str, int] = {}
    kept = []
    # Backwards, so that the following completion of the same typist is known at each row.
    for row in reversed(rows):
        if not row.typist or next_ms.get(row.typist, 1 << 62) - row.at > TYPING_MS:
            kept.append(row)
        if row.typist:
            next_ms[row.typist] = row.at
    kept.reverse()
    return kept


def name_sessions(
    users: Sequence[str], times_ms: Sequence[int], newest: dict[str, tuple[int, str]]
) -> list[str]:
    """Return the session of each row, in the order of time; empty for rows without a user.

    `newest` has the time and the session of the last row of each user, and is updated.
    """
    sessions = []
    for user, at in zip(users, times_ms, strict=True):
        if not user:
            sessions.append("")
            continue
        last = newest.get(user)
        # Derived from user and time and not drawn: a round that is repeated gives the same names.
        session = last[1] if last is not None and at - last[0] < SESSION_GAP_MS else _session_id(user, at)
        newest[user] = (at, session)
        sessions.append(session)
    return sessions


def _session_id(user: str, at: int) -> str:
    return blake2b(f"{user} {at}".encode(), digest_size=6).hexdigest()


def table_from_answers(answers: Sequence[ServedAnswer]) -> Any:
    """Return answers as a table with `COLUMNS`."""
    return table_from_objects(answers, COLUMNS)
