"""Keep the names valid by which actors that release 0.2.0 created open the artifact store; see `connecting`."""

from __future__ import annotations

from cluster.process.artifact_access import open_artifact_store, open_patient_artifact_store

__all__ = ["open_artifact_store", "open_patient_artifact_store"]
