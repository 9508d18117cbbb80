"""A training as a sequence of stages over artifact store and segments; an attempt may begin at any stage.

A stage with a checkpoint is skipped. The data is read once and stored, so all attempts train on the same bytes and
build the same snapshot.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from actors.models.allowed_learners import ALLOWED
from actors.models.registry import RERANKER
from actors.models.snapshot import MANIFEST, Snapshot
from actors.vectors.snapshot_arrays import ModelState
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.marked_snapshots import find_marked_snapshots
from cluster.artifacts.outcomes import OutcomeStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.served_log import ServedLogStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.errors import Fault, HouseError
from cluster.records.run import DAY_MS, Run
from jobs.refresh.build.build import (
    SnapshotOrigin,
    build_completions_index,
    build_search_index,
    build_snapshot,
)
from jobs.refresh.build.fit import TrainedEngine, build_content_weights, train_engine
from jobs.refresh.build.rerank import LearnedReranker, learn_reranker
from jobs.refresh.data.served_lists import ListLog
from jobs.refresh.data.split import TrainingSplit
from jobs.refresh.evaluation.reports import ReportStore
from jobs.refresh.learners.registry import check_packages
from jobs.refresh.learners.training_progress import keep_progress
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.runs.checkpoint import FOLDER, CheckpointStore, StoredProgress
from jobs.refresh.runs.estimate import DataSize, check_memory
from jobs.refresh.runs.stages import (
    add_reranker,
    apply_confirmation,
    count_data,
    evaluate_plan,
    plan_from_dict,
    plan_to_dict,
    plan_training,
    plan_without_interactions,
    report_without_interactions,
    split_data,
)
from jobs.refresh.runs.training_source import TrainingSource, read_training_source
from jobs.refresh.tuning.plan import TuningPlan

StageProgress = Callable[[str, float], None]
Stage = Callable[[], dict[str, Any]]

KEPT_VERSIONS = 10
"Number of newest versions of an engine that are kept, in addition to recently promoted ones."


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
        """Return the settled recipe of a version.

        Errors:
            NotFound, Fault: the version does not exist, or is damaged
        """
        manifest = SnapshotStore(self.artifacts).manifest(app_id, engine_id, version)
        return {"version": version, "recipe": manifest.facts["recipe"]}


class TrainingDataOutdated(Exception):
    """Users were erased after the data of a training was read."""


class Training:
    """The stages of one run."""

    def __init__(
        self,
        run: Run,
        bench: TrainingContext,
        say: StageProgress,
        serving: Mapping[str, Any] | None,
        memory_mb: int | None,
        keep: Collection[str] = (),
    ) -> None:
        self._run = run
        self._bench = bench
        self._say = say
        self._serving = serving
        self._memory_mb = memory_mb
        self.keep = keep
        "Versions that are kept at any age: the serving ones and the targets of a rollback."
        self._checkpoints = CheckpointStore(bench.artifacts, run.app_id, run.run_id)
        self._version = ""
        self._step: tuple[str, float] = ("", 0.0)

    def stages(self) -> Iterator[tuple[str, Stage]]:
        """Yield the stages in order, with their names."""
        yield "dataset", self._dataset
        progress = StoredProgress(self._checkpoints, self._show_detail)
        for name, stage in (("plan", self._plan), ("evaluate", self._evaluate), ("train", self._train)):
            yield name, partial(_run_with_progress, progress, stage)
        yield "publish", self._publish

    def outcome(self) -> dict[str, Any]:
        """Return the fields of the run record at the end."""
        report = self._report
        return {
            "version": self._version,
            "figures": report["figures"],
            "verdict": report["verdict"]["sentence"],
            "chosen": report.get("chosen", ""),
            "parts": tuple(report.get("parts", ())),
            "split": dict(report.get("split", {})),
            "error": "",
        }

    def check_erasures(self) -> None:
        """Check that no users were erased after the data was read.

        Errors:
            TrainingDataOutdated: users were erased; the published version is deleted
        """
        run = self._run
        if "_source" not in self.__dict__ or not self._has_erasures_since(self._source):
            return
        if self._version and self._version not in self.keep:
            SnapshotStore(self._bench.artifacts).remove(run.app_id, run.engine_id, self._version)
            ReportStore(self._bench.artifacts).delete(run.app_id, run.engine_id, self._version)
        raise TrainingDataOutdated

    def delete_outdated_versions(self, keep: Collection[str]) -> list[str]:
        """Delete unused versions whose data contains erased users; return the deleted versions."""
        run, gone = self._run, list[str]()
        for marked in find_marked_snapshots(self._bench.artifacts, run.app_id):
            if marked.engine_id == run.engine_id and marked.version not in keep:
                SnapshotStore(self._bench.artifacts).remove(run.app_id, run.engine_id, marked.version)
                ReportStore(self._bench.artifacts).delete(run.app_id, run.engine_id, marked.version)
                gone.append(marked.version)
        return gone

    def clean_up(self) -> None:
        """Delete the checkpoints and the local files of the run."""
        try:
            self._checkpoints.clear()
        except HouseError:
            return  # the next run deletes the rest
        finally:
            shutil.rmtree(self._folder.parent, ignore_errors=True)

    def _dataset(self) -> dict[str, Any]:
        source = self._source
        memory_mb = self._memory_mb
        check_memory(self._recipe, DataSize.from_interactions(source.data, len(source.texts)), memory_mb)
        facts: dict[str, Any] = {**count_data(source.data), "products": source.products}
        return {**facts, "damaged": list(source.damaged)} if source.damaged else facts

    def _plan(self) -> dict[str, Any]:
        plan = self._tuning_plan
        weights = plan.recipe.blend.weights
        return {"protocol": plan.protocol, "ndcg": round(plan.figure, 5), "weights": weights}

    def _evaluate(self) -> dict[str, Any]:
        report = self._report
        facts = {"readers": report["readers_asked"], "verdict": report["verdict"]["sentence"]}
        return {**facts, "dropped": sorted(report["dropped"])} if report.get("dropped") else facts

    def _train(self) -> dict[str, Any]:
        folder = self._folder
        if not self._is_built(folder):
            shutil.rmtree(folder, ignore_errors=True)
            settled = apply_confirmation(self._tuning_plan, self._report).recipe
            engine = train_engine(settled, self._source.data, self._step_counter(len(settled.parts) + 2))
            extras = self._build_extras(engine)
            self._say("write snapshot", 0.95)
            source = self._source
            origin = SnapshotOrigin(
                source.offsets, source.embedder, self._bench.release, source.erasures, self._run.code
            )
            # the creation time of the run, so that all attempts write the same bytes
            build_snapshot(engine, folder, written_at_ms=self._run.created_at, origin=origin, extras=extras)
        snapshot = Snapshot.open(folder)
        return {"version": snapshot.version, "bytes": snapshot.size}

    def _publish(self) -> dict[str, Any]:
        run = self._run
        snapshots = SnapshotStore(self._bench.artifacts)
        version = Snapshot.open(self._folder, verify=False).version
        # before the snapshot, so that each visible version has a report
        ReportStore(self._bench.artifacts).put(
            run.app_id, run.engine_id, version, {**self._report, "run_id": run.run_id}
        )
        self._version = snapshots.publish(run.app_id, run.engine_id, self._folder, self._say)
        return {"version": self._version, "removed": self._delete_old_versions(snapshots)}

    def _delete_old_versions(self, snapshots: SnapshotStore) -> list[str]:
        """Delete incomplete versions, and versions that are neither new nor recently promoted."""
        run = self._run
        day_ago_ms = run.created_at - DAY_MS
        gone = snapshots.tidy(
            run.app_id, run.engine_id,
            keep={self._version, *self.keep}, newest=KEPT_VERSIONS, older_than_ms=day_ago_ms,
        )  # fmt: skip
        for version in gone:
            ReportStore(self._bench.artifacts).delete(run.app_id, run.engine_id, version)
        return gone

    @cached_property
    def _recipe(self) -> Recipe:
        ALLOWED.check_recipe(self._run.recipe)  # before the data is read, because the record comes from Redis
        recipe = parse_recipe(self._run.recipe)
        check_packages(recipe.parts.values(), recipe.reranker)
        return recipe

    @cached_property
    def _source(self) -> TrainingSource:
        self._say("read what is settled", 0.05)
        source = self._checkpoints.source()
        if source is not None and self._has_erasures_since(source):
            self.clean_up()  # an earlier attempt read data of users who were erased later
            source = None
        if source is None:
            read = read_training_source(
                self._bench.segments,
                self._run.app_id,
                self._recipe,
                products_suffice=not self._serves_ranking_model,
            )
            self._say("keep a copy", 0.8)
            source = self._checkpoints.put_source(read)
        return source

    def _has_erasures_since(self, source: TrainingSource) -> int:
        log = self._bench.segments.erasures(self._run.app_id)
        return log.since(source.erasures, source.offsets)

    @property
    def _serves_ranking_model(self) -> bool:
        """Return true if the serving version has a ranking model; a version without one must not replace it."""
        recipe = (self._serving or {}).get("recipe") or {}
        return bool(recipe.get("blend", {}).get("weights"))

    @cached_property
    def _split(self) -> TrainingSplit:
        return split_data(self._recipe, self._source.data)

    @cached_property
    def _tuning_plan(self) -> TuningPlan:
        kept = self._checkpoints.get("plan")
        if kept is None and not len(self._source.data):
            kept = plan_to_dict(plan_without_interactions(self._recipe))
        if kept is None:
            on_step = self._step_counter(2 * len(self._recipe.parts) + 2)
            on_step("split")
            kept = plan_to_dict(plan_training(self._recipe, self._source.data, self._split, on_step))
            self._checkpoints.put("plan", kept)
        return plan_from_dict(kept)

    @cached_property
    def _report(self) -> dict[str, Any]:
        kept = self._checkpoints.get("report")
        if kept is None and not len(self._source.data):
            kept = report_without_interactions(self._recipe)
        if kept is None:
            plan = self._tuning_plan
            on_step = self._step_counter(len(plan.recipe.parts) + 5)
            on_step("split")
            kept = evaluate_plan(plan, self._split.test, serving=self._serving, on_step=on_step)
            if self._recipe.reranker is not None:
                learned = self._learn_reranker(apply_confirmation(plan, kept).recipe)
                kept = add_reranker(kept, learned.facts)
            self._checkpoints.put("report", kept)
        return kept

    def _learn_reranker(self, recipe: Recipe) -> LearnedReranker:
        """Learn the re-ranker and keep it for the snapshot, so that all attempts write the same one."""
        run, part = self._run, recipe.reranker
        assert part is not None
        self._say("read the log of answers", 0.9)
        log = ListLog(
            ServedLogStore(self._bench.artifacts), OutcomeStore(self._bench.artifacts), self._bench.salt
        )
        lists = log.read(run.app_id, run.engine_id, part.days, part.lists, self._source.data)
        learned = learn_reranker(recipe, self._source.data, lists, lambda what: self._say(what, 0.95))
        self._checkpoints.put_state(RERANKER, learned.save())
        return learned

    def _build_extras(self, engine: TrainedEngine) -> Mapping[str, ModelState]:
        recipe = engine.recipe
        texts, extras = self._source.texts, dict[str, ModelState]()
        if recipe.completions is not None and texts:
            self._say("index completions", 0.85)
            extras.update(build_completions_index(recipe.completions, texts, self._source.data))
        if recipe.search is not None and texts:
            self._say("index products", 0.9)
            extras.update(build_search_index(recipe.search, texts))
        if recipe.content is not None and texts:
            self._say("learn from what products are like", 0.93)
            learners = {name: part.learner for name, part in recipe.parts.items()}
            extras.update(
                build_content_weights(
                    recipe.content, texts, self._source.data, learners, engine.blend, recipe.seed
                )
            )
        if self._report.get("reranker", {}).get("kept"):
            state = self._checkpoints.get_state(RERANKER)
            if state is None:  # the checkpoint is damaged: learn again
                state = self._learn_reranker(recipe).save()
            if state.arrays:
                extras[RERANKER] = state
        return extras

    @property
    def _folder(self) -> Path:
        return self._bench.scratch / self._run.app_id / self._run.run_id / "snapshot"

    def _is_built(self, folder: Path) -> bool:
        if not (folder / MANIFEST).exists():
            return False
        try:
            Snapshot.open(folder)
        except Fault:
            return False
        return True

    def _show_detail(self, text: str) -> None:
        what, fraction = self._step
        self._say(f"{what}: {text}", fraction)

    def _step_counter(self, steps: int) -> Callable[[str], None]:
        done = 0

        def show_step(what: str) -> None:
            nonlocal done
            self._step = (what, done / steps)
            self._say(*self._step)
            done += 1

        return show_step


def _run_with_progress(progress: StoredProgress, stage: Stage) -> dict[str, Any]:
    with keep_progress(progress):
        return stage()


def delete_leftovers(
    artifacts: ArtifactStore, scratch: Path, app_id: str, going: Collection[str], before_ms: int
) -> int:
    """Delete checkpoints and scratch folders of ended runs that are older than a time; return their number."""
    above, old = f"{FOLDER}/{app_id}", set()
    for entry in artifacts.entries(above):
        run_id = entry.path[len(above) + 1 :].partition("/")[0]
        if run_id not in going and entry.modified_ms < before_ms:
            old.add(run_id)
    for run_id in old:
        CheckpointStore(artifacts, app_id, run_id).clear()
    for folder in (scratch / app_id).glob("*"):
        if folder.name not in going and folder.stat().st_mtime * 1000 < before_ms:
            shutil.rmtree(folder, ignore_errors=True)
            old.add(folder.name)
    return len(old)
