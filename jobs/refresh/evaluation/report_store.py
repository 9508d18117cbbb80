"""Reports in the artifact store, without what measures: a process that only reads them needs no numpy."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import ValidationError

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Fault, NotFound
from jobs.refresh.evaluation.report_models import EvaluationReport, MeasurementRecord, ReportModel

FOLDER = "reports"

ReportT = TypeVar("ReportT", bound=ReportModel)


class ReportStore:
    """Reports of engine versions, and of evaluations and sweeps by their runs, in the artifact store."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts

    def put(self, app_id: str, engine_id: str, name: str, report: ReportModel) -> None:
        """Write the report of a version or of a run."""
        body = json.dumps(report.to_dict(), indent=2).encode()
        self._artifacts.write(_path(app_id, engine_id, name), body)

    def get(self, app_id: str, engine_id: str, version: str, *, largest: int = 0) -> EvaluationReport | None:
        """Return the report of a version, None if there is none. `largest` bounds its bytes; 0: no bound."""
        return self._read(EvaluationReport, app_id, engine_id, version, largest)

    def get_measurement(
        self, app_id: str, engine_id: str, run_id: str, *, largest: int = 0
    ) -> MeasurementRecord | None:
        """Return what an evaluation or a sweep left, None if there is nothing; `largest` as of `get`."""
        return self._read(MeasurementRecord, app_id, engine_id, run_id, largest)

    def _read(
        self, model: type[ReportT], app_id: str, engine_id: str, version: str, largest: int
    ) -> ReportT | None:
        path = _path(app_id, engine_id, version)
        # The size first, so that a large file is never read.
        if largest and (self._artifacts.size(path) or 0) > largest:
            raise Fault(f"report is larger than {largest:,} bytes: {path}", path=path)
        try:
            return model.model_validate_json(self._artifacts.read(path))
        except NotFound:
            return None
        except ValidationError as error:
            raise Fault(f"report is damaged: {path}", path=path) from error

    def delete(self, app_id: str, engine_id: str, version: str) -> bool:
        """Delete the report of a version; return False if there was none."""
        return self._artifacts.remove(_path(app_id, engine_id, version))

    def delete_old_runs(self, app_id: str, engine_id: str, kept: int) -> None:
        """Delete reports that stand under names of runs, but for the newest ones."""
        folder = f"{FOLDER}/{app_id}/{engine_id}"
        entries = [
            stored for stored in self._artifacts.entries(folder) if stored.path.startswith(f"{folder}/run-")
        ]
        for entry in sorted(entries, key=lambda stored: -stored.modified_ms)[kept:]:
            self._artifacts.remove(entry.path)


def _path(app_id: str, engine_id: str, version: str) -> str:
    return f"{FOLDER}/{app_id}/{engine_id}/{version}.json"
