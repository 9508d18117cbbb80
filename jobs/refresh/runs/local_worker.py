"""Trainings in the calling process: on a laptop, in a worker process or in a Ray task."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.build_info import installed_version
from cluster.clock import SystemClock
from cluster.ids import new_request_id
from cluster.machine_memory import available_memory
from cluster.process.priority import lower_priority as lower_priority
from cluster.process.priority import use_idle_priority as use_idle_priority
from cluster.process.training_memory_limit import training_memory_mb
from cluster.records.run import Run
from cluster.store.stores import Stores
from jobs.refresh.runs.shipped_code import code_path

if TYPE_CHECKING:
    from jobs.refresh.runs.worker import RunWatcher

# Left for the other processes of this machine.
_RESERVED_MB = 256


def new_worker_id(what: str) -> str:
    """Return a new unique id of a worker."""
    return f"{what} {os.getpid()} {new_request_id()}"


def free_memory_mb() -> int:
    """Return the memory in MB that a training may use: what this machine or container has left, or the installation's
    bound if that is less."""
    free_mb = max((available_memory() >> 20) - _RESERVED_MB, 0)
    return min(free_mb, training_memory_mb() or free_mb)


def scratch_path(data_dir: Path) -> Path:
    """Return the folder in which snapshots are built before publication."""
    return data_dir / "scratch"


async def run_locally(
    stores: Stores,
    artifacts: ArtifactStore,
    scratch: Path,
    app_id: str,
    run_id: str,
    *,
    owner: str,
    watch: RunWatcher | None = None,
) -> Run | None:
    """Execute a run until it has ended, and return it; None if it belongs to another worker.

    Errors:
        NotFound: the run does not exist
    """
    from jobs.refresh.runs.mlflow_tracking import URI_VARIABLE
    from jobs.refresh.runs.worker import (  # imports all learners, which the scheduler does not need
        TrainingWorker,
        WorkerResources,
    )

    place = WorkerResources(
        stores,
        artifacts,
        SystemClock(),
        scratch,
        free_memory_mb(),
        release=installed_version(),
        code_dir=code_path(scratch.parent),
        tracking_uri=os.environ.get(URI_VARIABLE, ""),
    )
    return await TrainingWorker(place, owner, watch).work(app_id, run_id)
