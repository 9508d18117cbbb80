"""Archive calls as rows of their log."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from cluster.artifacts.logs.call_log import COLUMNS
from cluster.artifacts.logs.daily_log import table_from_objects
from cluster.records.archive.archive_client import ArchiveCall


def frame_from_calls(calls: Sequence[ArchiveCall]) -> pl.DataFrame:
    """Return rows of the log as a frame."""
    frame = pl.from_arrow(table_from_objects(calls, COLUMNS))
    assert isinstance(frame, pl.DataFrame)
    return frame
