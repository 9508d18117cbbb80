"""A log of an app in the artifact store: rows that API replicas wrote, in files by day."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

import pyarrow as pa

from cluster.artifacts.logs.day_files import DayFiles
from cluster.artifacts.manifest import Manifest
from cluster.meter import Meter

Row = TypeVar("Row")


class DailyLog(DayFiles, ABC, Generic[Row]):
    """The compacted rows of one log of every app in one artifact store."""

    def table_from_rows(self, rows: Iterable[Row]) -> Any:
        """Return the rows that are kept, as a table with `schema`."""
        return table_from_objects(list(rows), self.schema)

    @abstractmethod
    def count_compacted(self, meter: Meter, rows: int) -> None:
        """Count rows that were compacted."""

    def reconcile_rows(self, app_id: str, table: Any, commit: Manifest) -> Any:
        """Return new rows with columns that depend on the rows of a commit.

        Errors:
            NotFound: a file of the commit was replaced meanwhile
        """
        return table

    def last_offset(self, app_id: str) -> str:
        """Return the offset of the last compacted batch; `"0"` before the first."""
        return str(self._manifest(app_id).facts.get("offset", "0"))

    def append(self, app_id: str, rows: Iterable[Row], last: str) -> int:
        """Append rows of the batches up to `last`, without those of erased users; return their number.

        Errors:
            Conflict: another writer committed meanwhile
        """
        manifest = self._manifest(app_id)
        table = self.reconcile_rows(
            app_id, self.without_erased(self.table_from_rows(rows), manifest), manifest
        )
        self._commit(app_id, manifest, [*manifest.files, *self._write_days(app_id, table)], offset=last)
        return int(table.num_rows)

    def _read_commit(self, app_id: str, commit: Manifest, since_ms: int, columns: Sequence[str]) -> Any:
        """Return the rows of a commit from a time on, in the order of its files."""
        # 1 << 62 is later than every time, and an int64, with which Arrow compares.
        tables = self.files(app_id, commit, since_ms, 1 << 62, columns)
        return pa.concat_tables([self.schema.empty_table().select(self._names(columns)), *tables])


def table_from_objects(rows: Sequence[Any], schema: Any) -> Any:
    """Return objects as a table: one column for each attribute that the schema names."""
    columns = [pa.array(list(map(attrgetter(field.name), rows)), field.type) for field in schema]
    return pa.table(columns, schema=schema)
