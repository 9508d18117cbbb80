"""Workers as processes of this machine: `python -m jobs.refresh work`. On a cluster they are Ray tasks (`driver`)."""

from __future__ import annotations

import subprocess
import sys

from jobs.refresh.runs.scheduler import RunAssignment


class ProcessWorkerPool:
    """Starts a process a run."""

    def __init__(self, places: int = 1) -> None:
        self._places = places
        self._at_work: dict[RunAssignment, subprocess.Popen[bytes]] = {}

    @property
    def capacity(self) -> int:
        """How many may work at once."""
        return self._places

    @property
    def pids(self) -> dict[str, int]:
        """The processes at work: run id -> pid."""
        processes = {assignment.run_id: process for assignment, process in self._at_work.items()}
        return {run_id: process.pid for run_id, process in processes.items() if process.poll() is None}

    def start(self, assignment: RunAssignment) -> None:
        """Start a worker."""
        self._at_work[assignment] = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jobs.refresh",
                "work",
                assignment.app_id,
                assignment.run_id,
                "--owner",
                assignment.owner,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def collect_finished(self) -> list[RunAssignment]:
        """Say which workers have ended since the last time."""
        ended = [assignment for assignment, process in self._at_work.items() if process.poll() is not None]
        for assignment in ended:
            del self._at_work[assignment]
        return ended

    def close(self) -> None:
        """End all workers and wait for that; their runs are free when their leases have ended."""
        for process in self._at_work.values():
            process.terminate()
        for process in self._at_work.values():
            process.wait()
        self._at_work.clear()
