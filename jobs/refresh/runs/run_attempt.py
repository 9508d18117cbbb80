"""One attempt at a run: its record, stores, files and progress, and the stages that a worker executes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore, find_marked_snapshots
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import KioskError
from cluster.records.run import Run
from jobs.refresh.evaluation.report_store import ReportStore
from jobs.refresh.learners.training_progress import keep_progress
from jobs.refresh.runs.checkpoint import FOLDER, CheckpointStore, StoredProgress
from jobs.refresh.runs.training_source import TrainingSource

T = TypeVar("T")
StageProgress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class RunStage(Generic[T]):
    """A part of a run that takes seconds to minutes. `act` runs in a thread; `describe` gives the facts to record."""

    name: str
    act: Callable[[], T]
    describe: Callable[[T], dict[str, Any]]


RunStages = Generator[RunStage[Any], Any, dict[str, Any]]
"Yields stages in order, receives the result of each, and returns the fields of the run record at the end."


@dataclass(frozen=True, slots=True)
class TrainingContext:
    """The stores and folders of trainings."""

    artifacts: ArtifactStore
    segments: SegmentStore
    scratch: Path
    release: str
    salt: bytes = b""
    "Salt of the pseudonyms of the app; evaluations by the log of answers and re-rankers need it."

    def serving_recipe(self, app_id: str, engine_id: str, version: str) -> dict[str, Any]:
        """Return the settled recipe of a version."""
        manifest = SnapshotStore(self.artifacts).manifest(app_id, engine_id, version)
        return {"version": version, "recipe": manifest.facts["recipe"]}


class TrainingDataOutdated(Exception):
    """Users were erased after the data of a training was read."""


class RunAttempt:
    """The record, stores and files of a run in the process that executes it."""

    def __init__(
        self,
        run: Run,
        context: TrainingContext,
        report: StageProgress,
        serving: dict[str, Any] | None = None,
        memory_mb: int | None = None,
    ) -> None:
        self.run = run
        self.context = context
        self.report = report
        self.serving = serving
        "The serving version and its recipe; None: nothing serves, or it can't be read."
        self.memory_mb = memory_mb
        self.checkpoints = CheckpointStore(context.artifacts, run.app_id, run.run_id)
        self.in_use: Collection[str] = ()
        "Versions that are kept at any age. The worker sets them before the publication."
        self._step: tuple[str, float] = ("", 0.0)

    @property
    def folder(self) -> Path:
        """Return the local folder of the snapshot."""
        return self.context.scratch / self.run.app_id / self.run.run_id / "snapshot"

    def stage(
        self, name: str, source: TrainingSource, act: Callable[[], T], describe: Callable[[T], dict[str, Any]]
    ) -> RunStage[T]:
        """Return a stage that stores the progress of long trainings, and ends the attempt after an erasure."""

        def run() -> T:
            with keep_progress(StoredProgress(self.checkpoints, self._report_detail)):
                result = act()
            # After the result: it is thrown away with everything else if people were erased meanwhile.
            self.check_erasures(source)
            return result

        return RunStage(name, run, describe)

    def check_erasures(self, source: TrainingSource, version: str = "") -> None:
        """Check that no users were erased after the data was read.

        Errors:
            TrainingDataOutdated: users were erased; the version, if one was published, is deleted
        """
        if not self.has_erasures_since(source):
            return
        if version and version not in self.in_use:
            self._delete_version(version)
        raise TrainingDataOutdated

    def has_erasures_since(self, source: TrainingSource) -> bool:
        """Return true if users were erased after the data was read."""
        log = self.context.segments.erasures(self.run.app_id)
        return bool(log.since(source.erasures, source.offsets))

    def build_step_reporter(self, steps: int) -> Callable[[str], None]:
        """Return a function that reports the beginning of each of a number of steps."""
        done = 0

        def report_step(what: str) -> None:
            nonlocal done
            self._step = (what, done / steps)
            self.report(*self._step)
            done += 1

        return report_step

    def delete_outdated_versions(self, keep: Collection[str]) -> list[str]:
        """Delete unused versions whose data contains erased users; return the deleted versions."""
        deleted: list[str] = []
        for marked in find_marked_snapshots(self.context.artifacts, self.run.app_id):
            if marked.engine_id == self.run.engine_id and marked.version not in keep:
                self._delete_version(marked.version)
                deleted.append(marked.version)
        return deleted

    def clean_up(self) -> None:
        """Delete the checkpoints and the local files of the run."""
        try:
            self.checkpoints.clear()
        except KioskError:
            return  # the next run deletes the rest
        finally:
            # Also after an error: no other process can use the local files.
            shutil.rmtree(self.folder.parent, ignore_errors=True)

    def _delete_version(self, version: str) -> None:
        run = self.run
        # The version first: a report without its version is harmless, the reverse is not.
        SnapshotStore(self.context.artifacts).remove(run.app_id, run.engine_id, version)
        ReportStore(self.context.artifacts).delete(run.app_id, run.engine_id, version)

    def _report_detail(self, text: str) -> None:
        what, fraction = self._step
        self.report(f"{what}: {text}", fraction)


def delete_ended_run_files(
    artifacts: ArtifactStore, scratch: Path, app_id: str, going: Collection[str], before_ms: int
) -> int:
    """Delete checkpoints and scratch folders of ended runs that are older than a time; return their number."""
    above = f"{FOLDER}/{app_id}"
    old: set[str] = set()
    for entry in artifacts.entries(above):
        run_id = entry.path[len(above) + 1 :].partition("/")[0]
        # The age protects runs that began after `going` was read.
        if run_id not in going and entry.modified_ms < before_ms:
            old.add(run_id)
    for run_id in old:
        CheckpointStore(artifacts, app_id, run_id).clear()
    for folder in (scratch / app_id).glob("*"):
        if folder.name not in going and folder.stat().st_mtime * 1000 < before_ms:
            shutil.rmtree(folder, ignore_errors=True)
            old.add(folder.name)
    return len(old)
