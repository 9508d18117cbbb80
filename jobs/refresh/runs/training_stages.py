"""A training as a sequence of stages over artifact store and segments; an attempt may begin at any stage.

A stage with a checkpoint reads its result. The data is read once and stored, so all attempts train on the same bytes
and build the same snapshot.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from actors.models.loading.allowed_learners import ALLOWED
from actors.models.loading.snapshot import MANIFEST, Snapshot
from actors.models.loading.snapshot_models import RERANKER, SEARCH_RERANKER
from actors.vectors.snapshot_arrays import ModelState
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.errors import Fault
from cluster.records.run import DAY_MS, Run
from jobs.refresh.build.fit import TrainedEngine, build_content_weights, train_engine
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.build.reranker_training import LearnedReranker, learn_reranker
from jobs.refresh.build.snapshot_indexes import build_completions_index, build_search_index
from jobs.refresh.data.served_lists import LISTS, SEARCHES, ListLog
from jobs.refresh.data.split import TrainingSplit
from jobs.refresh.evaluation.report_models import EvaluationReport
from jobs.refresh.evaluation.report_store import ReportStore
from jobs.refresh.learners.registry import check_packages
from jobs.refresh.learners.reranker import RerankerRecipe
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.runs.estimate import check_memory
from jobs.refresh.runs.plan_evaluation import (
    add_reranker_outcome,
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
from jobs.refresh.runs.run_attempt import RunAttempt, RunStage, RunStages
from jobs.refresh.runs.training_source import TrainingSource, read_training_source
from jobs.refresh.runs.workload import DataSize
from jobs.refresh.tuning.plan import TuningPlan

KEPT_VERSIONS = 10
"Number of newest versions of an engine that are kept, in addition to recently promoted ones."

RERANKERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"reranker": (LISTS, RERANKER), "search_reranker": (SEARCHES, SEARCH_RERANKER)}
)
"Section of a recipe -> the endpoint from whose lists its re-ranker learns, and the name of its extra."


class Publication(NamedTuple):
    """The published version, and the old versions that were deleted."""

    version: str
    removed: list[str]


def train(attempt: RunAttempt) -> RunStages:
    """Yield the stages of a training. Each takes the results of earlier stages, which the worker sends back."""
    recipe = read_recipe(attempt.run)
    source: TrainingSource = yield RunStage("dataset", partial(load_source, attempt, recipe), describe_source)
    # Computed at the first use: an attempt that continues after the evaluation needs no split.
    split = cache(partial(split_data, recipe, source.data))
    plan: TuningPlan = yield attempt.stage(
        "plan", source, partial(load_plan, attempt, recipe, source, split), describe_plan
    )
    report: EvaluationReport = yield attempt.stage(
        "evaluate", source, partial(load_report, attempt, recipe, source, split, plan), describe_report
    )
    settled = apply_confirmation(plan, report).recipe
    folder: Path = yield attempt.stage(
        "train",
        source,
        partial(train_and_write_snapshot, attempt, settled, source, report),
        describe_snapshot,
    )
    publication: Publication = yield RunStage(
        "publish", partial(publish, attempt, source, report, folder), Publication._asdict
    )
    return {
        "version": publication.version,
        "figures": report.figures,
        "verdict": report.verdict.sentence if report.verdict else "",
        "chosen": report.chosen,
        "parts": tuple(part.to_dict() for part in report.parts),
        "split": report.split,
        "error": "",
    }


def read_recipe(run: Run) -> Recipe:
    """Return the recipe of a run.

    Errors:
        Invalid: the recipe names a learner that is not allowed, or needs a package that is not installed
    """
    ALLOWED.check_recipe(run.recipe)  # before the data is read, because the record comes from Redis
    recipe = parse_recipe(run.recipe)
    check_packages(recipe.parts.values(), reranks=bool(recipe.list_rerankers()))
    return recipe


def load_source(attempt: RunAttempt, recipe: Recipe) -> TrainingSource:
    """Return the data of a run: that of an earlier attempt, or what has settled by now.

    Errors:
        Invalid: the training needs more memory than is allowed
        TrainingDataOutdated: users were erased while the data was read
    """
    attempt.report("read what is settled", 0.05)
    source = attempt.checkpoints.source()
    if source is not None and attempt.has_erasures_since(source):
        attempt.clean_up()  # an earlier attempt read data of users who were erased later
        source = None
    # Data that has passed an erasure is read anew, never repaired: no model may know the erased people.
    if source is None:
        products_suffice = not _serves_ranking_model(attempt.serving)
        read = read_training_source(
            attempt.context.segments, attempt.run.app_id, recipe, products_suffice=products_suffice
        )
        attempt.report("keep a copy", 0.8)
        source = attempt.checkpoints.put_source(read)
        # Again after the copy: an erasure during the read is in the log of erasures by now.
        attempt.check_erasures(source)
    # Before the plan: a process that the kernel kills for its memory leaves no message.
    check_memory(recipe, DataSize.from_interactions(source.data, len(source.texts)), attempt.memory_mb)
    return source


def load_plan(
    attempt: RunAttempt, recipe: Recipe, source: TrainingSource, split: Callable[[], TrainingSplit]
) -> TuningPlan:
    """Return the plan of a run, made on validation data unless an earlier attempt made it."""
    stored = attempt.checkpoints.get("plan")
    if stored is not None:
        return plan_from_dict(stored)
    if not len(source.data):
        return plan_without_interactions(recipe)
    on_step = attempt.build_step_reporter(2 * len(recipe.parts) + 2)
    on_step("split")
    # Through JSON and back: this attempt goes on with exactly what a later one would read.
    made = plan_to_dict(plan_training(recipe, source.data, split(), on_step))
    attempt.checkpoints.put("plan", made)
    return plan_from_dict(made)


def load_report(
    attempt: RunAttempt,
    recipe: Recipe,
    source: TrainingSource,
    split: Callable[[], TrainingSplit],
    plan: TuningPlan,
) -> EvaluationReport:
    """Return the report of a run, measured on test data unless an earlier attempt measured it."""
    stored = attempt.checkpoints.get("report")
    if stored is not None:
        return EvaluationReport.model_validate(stored)
    if not len(source.data):
        return report_without_interactions(recipe)
    on_step = attempt.build_step_reporter(len(plan.recipe.parts) + 5)
    on_step("split")
    # The only look at the test: components dropped here were chosen before it (decision 12).
    report = evaluate_plan(plan, split().test, serving=attempt.serving, on_step=on_step)
    settled = apply_confirmation(plan, report).recipe
    for section, part in recipe.list_rerankers():
        learned = learn_and_store_reranker(attempt, settled, source, section, part)
        report = add_reranker_outcome(report, section, learned.facts)
    attempt.checkpoints.put("report", report.to_dict())
    return report


def learn_and_store_reranker(
    attempt: RunAttempt, recipe: Recipe, source: TrainingSource, section: str, part: RerankerRecipe
) -> LearnedReranker:
    """Learn a re-ranker and store it for the snapshot, so that all attempts write the same one."""
    endpoint, extra = RERANKERS[section]
    attempt.report("read the log of answers", 0.9)
    artifacts = attempt.context.artifacts
    log = ListLog(ServedLogStore(artifacts), OutcomeStore(artifacts), attempt.context.salt)
    run = attempt.run
    lists = log.read(run.app_id, run.engine_id, endpoint, part.days, part.lists, source.data)
    learned = learn_reranker(recipe, part, source.data, lists, lambda what: attempt.report(what, 0.95))
    attempt.checkpoints.put_state(extra, learned.save())
    return learned


def train_and_write_snapshot(
    attempt: RunAttempt, recipe: Recipe, source: TrainingSource, report: EvaluationReport
) -> Path:
    """Train a settled recipe on all data and write the snapshot; return its local folder."""
    folder = attempt.folder
    if _is_complete(folder, source):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    engine = train_engine(recipe, source.data, attempt.build_step_reporter(len(recipe.parts) + 2))
    extras = _build_extras(attempt, engine, source, report)
    attempt.report("write snapshot", 0.95)
    origin = SnapshotOrigin(
        source.offsets, source.embedder, attempt.context.release, source.erasures, attempt.run.code
    )
    # the creation time of the run, so that all attempts write the same bytes
    write_model_snapshot(engine, folder, written_at_ms=attempt.run.created_at, origin=origin, extras=extras)
    return folder


def publish(
    attempt: RunAttempt, source: TrainingSource, report: EvaluationReport, folder: Path
) -> Publication:
    """Publish report and snapshot, and delete old versions.

    Errors:
        TrainingDataOutdated: users were erased since the data was read; the version is deleted again
    """
    run = attempt.run
    snapshots = SnapshotStore(attempt.context.artifacts)
    version = Snapshot.open(folder, verify=False).version
    # before the snapshot, so that each visible version has a report
    ReportStore(attempt.context.artifacts).put(
        run.app_id, run.engine_id, version, report.model_copy(update={"run_id": run.run_id})
    )
    version = snapshots.publish(run.app_id, run.engine_id, folder, attempt.report)
    # After the publication: a failure here leaves old versions, not no version.
    removed = _delete_old_versions(attempt, snapshots, version)
    # Last: between the training and this line people may have been erased, and the version has to go again.
    attempt.check_erasures(source, version)
    return Publication(version, removed)


def describe_source(source: TrainingSource) -> dict[str, Any]:
    """Return the facts of the data for the run record."""
    facts: dict[str, Any] = {**count_data(source.data), "products": source.products}
    return {**facts, "damaged": list(source.damaged)} if source.damaged else facts


def describe_plan(plan: TuningPlan) -> dict[str, Any]:
    """Return the facts of a plan for the run record."""
    return {"protocol": plan.protocol, "ndcg": round(plan.figure, 5), "weights": plan.recipe.blend.weights}


def describe_report(report: EvaluationReport) -> dict[str, Any]:
    """Return the facts of a report for the run record."""
    facts = {
        "readers": report.users,
        "verdict": report.verdict.sentence if report.verdict else "",
    }
    return {**facts, "dropped": sorted(report.dropped)} if report.dropped else facts


def describe_snapshot(folder: Path) -> dict[str, Any]:
    """Return the facts of a written snapshot for the run record."""
    snapshot = Snapshot.open(folder)
    return {"version": snapshot.version, "bytes": snapshot.size}


def _serves_ranking_model(serving: Mapping[str, Any] | None) -> bool:
    """Return true if the serving version has a ranking model; a version without one must not replace it."""
    recipe = (serving or {}).get("recipe") or {}
    return bool(recipe.get("blend", {}).get("weights"))


def _build_extras(
    attempt: RunAttempt, engine: TrainedEngine, source: TrainingSource, report: EvaluationReport
) -> Mapping[str, ModelState]:
    recipe = engine.recipe
    texts = source.texts
    extras: dict[str, ModelState] = {}
    if recipe.completions is not None and texts:
        attempt.report("index completions", 0.85)
        extras.update(build_completions_index(recipe.completions, texts, source.data))
    if recipe.search is not None and texts:
        attempt.report("index products", 0.9)
        extras.update(build_search_index(recipe.search, texts))
    if recipe.content is not None and texts:
        attempt.report("learn from what products are like", 0.93)
        learners = {name: part.learner for name, part in recipe.parts.items()}
        extras.update(
            build_content_weights(recipe.content, texts, source.data, learners, engine.blend, recipe.seed)
        )
    for section, part in recipe.list_rerankers():
        if getattr(report, section).get("kept"):
            _, extra = RERANKERS[section]
            state = attempt.checkpoints.get_state(extra)
            if state is None:  # the checkpoint is damaged: learn again
                state = learn_and_store_reranker(attempt, recipe, source, section, part).save()
            if state.arrays:
                extras[extra] = state
    return extras


def _is_complete(folder: Path, source: TrainingSource) -> bool:
    """Return whether an earlier attempt wrote the whole snapshot of this data."""
    if not (folder / MANIFEST).exists():
        return False
    try:
        facts = Snapshot.open(folder).manifest.facts
    except Fault:
        return False
    # Another machine may have read the data anew since, after an erasure.
    return bool(facts.get("erasures") == source.erasures and facts.get("offsets") == dict(source.offsets))


def _delete_old_versions(attempt: RunAttempt, snapshots: SnapshotStore, version: str) -> list[str]:
    """Delete incomplete versions, and versions that are neither new nor recently promoted."""
    run = attempt.run
    deleted = snapshots.tidy(
        run.app_id,
        run.engine_id,
        keep={version, *attempt.in_use},
        newest=KEPT_VERSIONS,
        older_than_ms=run.created_at - DAY_MS,
    )
    for old in deleted:
        ReportStore(attempt.context.artifacts).delete(run.app_id, run.engine_id, old)
    return deleted
