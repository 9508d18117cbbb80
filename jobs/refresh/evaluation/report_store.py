"""Reports on the shelf, one a version: what was measured before it was published.

reports/<app>/<engine>/<version>.json
"""

from __future__ import annotations

import json
from typing import Any

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.errors import Fault, NotFound

FOLDER = "reports"


class ReportStore:
    """Reports of every engine."""

    def __init__(self, shelf: ArtifactStore) -> None:
        self._shelf = shelf

    def put(self, app_id: str, engine_id: str, version: str, report: dict[str, Any]) -> None:
        """Keep a version's report."""
        self._shelf.write(_path(app_id, engine_id, version), json.dumps(report, indent=2).encode())

    def get(self, app_id: str, engine_id: str, version: str) -> dict[str, Any] | None:
        """Read a version's report, None when there is none.

        Errors:
            Fault: it is damaged
        """
        path = _path(app_id, engine_id, version)
        try:
            found: dict[str, Any] = json.loads(self._shelf.read(path))
        except NotFound:
            return None
        except ValueError as error:
            raise Fault(f"report is damaged: {path}", path=path) from error
        return found

    def delete(self, app_id: str, engine_id: str, version: str) -> bool:
        """Remove a version's report; False when there was none."""
        return self._shelf.remove(_path(app_id, engine_id, version))


def _path(app_id: str, engine_id: str, version: str) -> str:
    return f"{FOLDER}/{app_id}/{engine_id}/{version}.json"
