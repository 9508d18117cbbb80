"""What followed from the answers of an app: one row for each credited interaction, in files by day of the interaction.

docs/guides/outcomes.md describes the rules of attribution and the columns for readers of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from cluster.artifacts.logs.day_files import DayFiles
from cluster.artifacts.logs.served_log import COLUMNS as ANSWER_COLUMNS

ANSWER_FACTS = (
    "endpoint",
    "engine_id",
    "snapshot",
    "recipe",
    "level",
    "rules",
    "experiments",
    "user",
    "device",
)
"Columns of an answer that its outcomes repeat, so that reports need no join."

REFUND_WINDOW_MS = 30 * 86_400_000
"A refund belongs to the newest purchase of the product by the person within this time before."

SEEN = "seen"
"Type of the rows that confirm places as seen: impressions of one answer together."

COLUMNS = pa.schema(
    [
        ("at", pa.int64()),
        ("type", pa.string()),
        ("product", pa.string()),
        ("value", pa.float64()),
        ("matched", pa.string()),
        ("service_id", pa.string()),
        ("answered_at", pa.int64()),
        ("places", pa.list_(pa.int16())),
        ("origins", pa.list_(pa.int8())),
        ("sides", pa.list_(pa.int8())),
        *((name, ANSWER_COLUMNS.field(name).type) for name in ANSWER_FACTS),
    ]
)
"""`at` and `answered_at` are milliseconds since 1970. `places` count from 1. `sides` has 0 for places that no
side of an interleaving experiment filled. `matched` is `id`, `person` or `purchase`.
`value` is 0 without money, and negative for refunds."""


class OutcomeStore(DayFiles):
    """The outcomes of every app in one artifact store."""

    kind = "outcomes"
    schema = COLUMNS
    user_column = "user"
    added = ("sides",)
    encodings = {"compression_level": 6}  # noqa: RUF012

    def replace_days(self, app_id: str, days: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Replace the rows of some days (`2026-03-02`) by tables with `COLUMNS`, and set facts of the manifest.

        Errors:
            Conflict: another writer committed meanwhile
        """
        manifest = self.commit(app_id)
        kept = [entry for entry in manifest.files if entry.facts["day"] not in days]
        for table in days.values():
            kept += self._write_days(app_id, self.without_erased(table, manifest))
        self._commit(app_id, manifest, kept, **facts)

    def counts(self, app_id: str, days: Iterable[str]) -> dict[str, int]:
        """Return how many interactions of some days got each verdict: see `actors.intake.attribution`."""
        stored: Mapping[str, Mapping[str, int]] = self.commit(app_id).facts.get("counts", {})
        totals: dict[str, int] = {}
        for day in days:
            for verdict, count in stored.get(day, {}).items():
                totals[verdict] = totals.get(verdict, 0) + count
        return totals
