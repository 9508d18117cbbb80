"""Evaluations and sweeps: which recipe to measure, the reports, and runs that measure and publish nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.errors import HouseError, Invalid
from cluster.records.run import Run
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.evaluation.logged_report import list_figures, summarize
from jobs.refresh.evaluation.reports import ReportStore, protocol_note
from jobs.refresh.recipe import Recipe, load_recipe_file
from jobs.refresh.runs import sweep
from jobs.refresh.runs.logged_evaluation import LoggedTarget, LogPeriod, LogServices, evaluate_log
from jobs.refresh.runs.stages import PROTOCOLS as ALL_PROTOCOLS
from jobs.refresh.runs.training import Stage, Training
from jobs.refresh.runs.version_comparison import evaluate_recipe, load_recipe
from jobs.refresh.tuning.evidence import StepCallback

PROTOCOLS = ("by_time", "leave_last_out")
"Those of an evaluation that names none."
KEPT_REPORTS = 50
"Newest reports of evaluations and sweeps of an engine that are kept."


@dataclass(frozen=True, slots=True)
class EvaluationTarget:
    """What an evaluation measures."""

    recipe: Recipe
    serving: dict[str, Any] | None
    "The serving version and its recipe to compare with; None: nothing serves, or it is what is measured."
    is_fallback: bool = False
    "Nothing was named and nothing serves, so this is the default recipe."


def select_target(
    artifacts: ArtifactStore, app_id: str, engine_id: str, now: str, recipe: Recipe | None, snapshot: str
) -> EvaluationTarget:
    """Return the recipe to measure: the given one, that of a version, or that of the serving version `now`.

    Errors:
        NotFound: the version does not exist
        Fault: the manifest of a version is damaged
    """
    snapshots = SnapshotStore(artifacts)
    if recipe is None and (snapshot or now) in ("", now):
        if not now:
            return EvaluationTarget(load_recipe_file("default"), None, is_fallback=True)
        return EvaluationTarget(load_recipe(snapshots, app_id, engine_id, now), None)
    chosen = recipe or load_recipe(snapshots, app_id, engine_id, snapshot)
    if not now:
        return EvaluationTarget(chosen, None)
    facts = snapshots.manifest(app_id, engine_id, now).facts
    return EvaluationTarget(chosen, {"version": now, "recipe": facts["recipe"]})


def check_protocols(protocols: Sequence[str]) -> tuple[str, ...]:
    """Return the protocols of an evaluation; without any, the usual two.

    Errors:
        Invalid: one does not exist
    """
    if unknown := [word for word in protocols if word not in ALL_PROTOCOLS]:
        raise Invalid(f"there is no protocol {unknown[0]!r}; choose from {', '.join(ALL_PROTOCOLS)}")
    return tuple(protocols) or PROTOCOLS


def evaluate_protocols(
    data: Interactions,
    recipe: Recipe,
    serving: dict[str, Any] | None,
    protocols: Sequence[str],
    users: int,
    on_step: StepCallback,
) -> list[dict[str, Any]]:
    """Return a report for each protocol; one that does not fit the data has only `protocol` and `error`."""
    reports: list[dict[str, Any]] = []
    for protocol in protocols:
        try:
            report = evaluate_recipe(data, recipe, protocol, serving=serving, users=users, on_step=on_step)
            note = protocol_note(protocol, data)
            reports.append({**report, "note": note} if note else report)
        except HouseError as error:
            reports.append({"protocol": protocol, "error": error.message})
    return reports


class Measurement(Training):
    """The stages of a run that evaluates a recipe or sweeps its fields; its report is under the name of the run."""

    def stages(self) -> Iterator[tuple[str, Stage]]:
        """Yield the stages in order, with their names."""
        if "logged" in self._run.options:
            yield "evaluate", self._judge
            return
        yield "dataset", self._dataset
        yield "evaluate", self._sweep if self._run.kind == "sweep" else self._measure

    def outcome(self) -> dict[str, Any]:
        """Return the fields of the run record at the end."""
        return {
            "figures": self._figures, "split": dict(self._split_facts), "verdict": self._verdict, "error": "",
        }  # fmt: skip

    def _measure(self) -> dict[str, Any]:
        options = self._run.options
        serving = self._serving if options["compare"] else None
        protocols, on_step = options["protocols"], self._step_counter(20 * len(options["protocols"]))
        reports = evaluate_protocols(
            self._source.data, self._recipe, None if serving is None else dict(serving), protocols,
            options["readers"], on_step,
        )  # fmt: skip
        whole = [report for report in reports if "error" not in report]
        if not whole:
            raise Invalid(reports[0]["error"])
        self._figures, self._split_facts = dict(whole[0]["figures"]), dict(whole[0]["split"])
        self._keep_report({"reports": reports})
        return {"protocols": [report["protocol"] for report in whole]}

    def _judge(self) -> dict[str, Any]:
        """Evaluate by the log of answers."""
        run, bench, given = self._run, self._bench, self._run.options["logged"]
        target = LoggedTarget(
            self._recipe if given["is_recipe"] else None, given["engine_id"], given["version"]
        )
        period = LogPeriod(given["since_ms"], given["until_ms"], given["most"])
        services = LogServices(bench.artifacts, bench.segments, bench.salt)
        report = evaluate_log(
            services, run.app_id, run.engine_id, given["serving"], target, period, self._step_counter(60)
        )
        self._figures, self._verdict = list_figures(report), summarize(report)
        self._keep_report({"reports": [report]})
        return {"lists": report["lists"]}

    def _sweep(self) -> dict[str, Any]:
        run, bench = self._run, self._bench
        variants = sweep.build_variants(self._recipe, run.options["sweep"])
        name, checkpoints = sweep.open_sweep(
            bench.artifacts, bench.segments, run.app_id, variants, lambda: self._source
        )
        results: list[tuple[sweep.SweepVariant, dict[str, Any]]] = []

        def show(variant: sweep.SweepVariant, report: dict[str, Any]) -> None:
            results.append((variant, report))
            self._say(f"{len(results)} of {len(variants)} examined", len(results) / len(variants))

        sweep.run_sweep(variants, checkpoints, show)
        table = sweep.finish_sweep(
            bench.artifacts,
            run.app_id,
            name,
            checkpoints,
            results,
            f"{self._recipe.name} on {run.app_id}/{run.engine_id}",
        )[0]
        if all(row["error"] for row in table):
            raise Invalid(table[0]["error"])
        self._figures = {key: table[0][key] for key in sweep.METRICS if key in table[0]}
        self._split_facts = next(
            (dict(report["split"]) for _, report in results if "split" in report), dict[str, Any]()
        )
        summary = sweep.compare_rows(table)
        self._keep_report({"sweep": name, "rows": table, "summary": summary, "split": self._split_facts})
        return {"variants": len(table)}

    def _keep_report(self, report: dict[str, Any]) -> None:
        run, reports = self._run, ReportStore(self._bench.artifacts)
        reports.put(
            run.app_id, run.engine_id, run.run_id, {**report, "kind": run.kind, "recipe": self._recipe.name}
        )
        reports.delete_old_runs(run.app_id, run.engine_id, KEPT_REPORTS)

    _figures: dict[str, float]
    _split_facts: Mapping[str, Any] = MappingProxyType({})
    _verdict = ""


def build_work(run: Run, *args: Any) -> Training:
    """Return the stages of a run of any kind."""
    return (Training if run.kind == "training" else Measurement)(run, *args)
