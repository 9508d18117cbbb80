"""Files of this machine that may contain personal data: refused rows of ingests, copies of damaged Redis files."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import structlog

from cluster.admin.refused_rows import RefusedRows, overwrite_row, read_rows
from cluster.paths import InstallationPaths
from cluster.records.erasure import COPIES, REFUSED, Person

_log = structlog.get_logger()


class LocalPersonFiles:
    """The files below one data directory."""

    def __init__(self, data_dir: Path) -> None:
        places = InstallationPaths.from_data_dir(data_dir)
        self._refused = RefusedRows.from_data_dir(places.data_dir)
        self._redis = places.redis_dir

    def find(self, person: Person) -> dict[str, list[Any]]:
        """Return the content that names the person, by place."""
        rows = [row for path in self._refused.files() for _, row in _rows_of(path, person)]
        copies = [path.name for path in self._copies() if _holds(path, person)]
        return {REFUSED: [_read(row) for row in rows], COPIES: copies}

    def erase(self, person: Person) -> None:
        """Overwrite rows in place, so that a running ingest continues; remove copies that contain the person."""
        for path in self._refused.files():
            for at, row in _rows_of(path, person):
                overwrite_row(path, at, row, "erased")
        for path in self._copies():
            if _holds(path, person):
                path.unlink(missing_ok=True)
                _log.info("damaged_copy_removed", file=path.name)

    def _copies(self) -> list[Path]:
        return sorted(path for mark in ("*.damaged-*", "*.mending") for path in self._redis.rglob(mark))


def _rows_of(path: Path, person: Person) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of a file that name a person."""
    return ((at, row) for at, row in read_rows(path) if person.is_named_in(row))


def _holds(path: Path, person: Person) -> bool:
    """Return whether a file contains one of the person's ids anywhere."""
    if not path.stat().st_size:
        return False
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return any(data.find(word.encode("utf-8", "replace")) >= 0 for word in person.words)


def _read(row: bytes) -> Any:
    try:
        return orjson.loads(row)
    except orjson.JSONDecodeError:
        return row.decode("utf-8", "replace")
