"""Copies of the artifact store: logs that the intake replaces all the time don't stop a backup."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from cluster.artifacts.logs.outcomes import COLUMNS, OutcomeStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.artifact_copies import copy_artifacts
from cluster.backup.chunks import ChunkWriter

APPS = ("bookshop", "winery")
DAY = "1970-01-01"


def replace_day(artifacts: ArtifactStore, app_id: str) -> None:
    row = dict.fromkeys(COLUMNS.names) | {"at": 1, "type": "click", "user": "u"}
    OutcomeStore(artifacts).replace_days(app_id, {DAY: pa.Table.from_pylist([row], schema=COLUMNS)}, {})


def test_a_backup_succeeds_while_outcomes_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = ArtifactStore.open(tmp_path / "source"), ArtifactStore.open(tmp_path / "target")
    source.write("models/big", b"weights")
    for app_id in APPS:
        replace_day(source, app_id)
    read = ArtifactStore.read

    def read_slowly(self: ArtifactStore, path: str, *more: int) -> bytes:
        data = read(self, path, *more)
        if path == "models/big":
            for app_id in APPS:
                replace_day(source, app_id)
        return data

    monkeypatch.setattr(ArtifactStore, "read", read_slowly)
    copies = copy_artifacts(source, ChunkWriter.open(target), None, lambda kind, count: None)
    folders = [copy.path.rpartition("/")[0] for copy in copies]
    assert sorted(folders) == ["bookshop/outcomes"] * 2 + ["models"] + ["winery/outcomes"] * 2
