"""Use cases of experiments: make them, lead them through their lives, and read what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field

from actors.experiments.lifecycle import ExperimentLifecycle, experiment_to_dict
from actors.experiments.report import ExperimentReport
from actors.experiments.report_data import load_report, validate_snapshots
from cluster.clock import iso_ms
from cluster.errors import Invalid
from cluster.records.experiment import Experiment, ExperimentUpdate, Method, Variant
from cluster.records.field_types.units import Moment
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

_MOST_DRAFTS = 1_000
_REPORTS: Final[dict[Method, str]] = {
    "split": "splits its users; see `kiosk experiments report`",
    "interleave": "interleaves its variants; see `kiosk experiments interleaving`",
    "question": "compares by questions; see `kiosk experiments questions`",
}
"What an experiment does, and which command reports it."
Report = TypeVar("Report")


class CreateExperiments(OfApp):
    """Drafts of experiments."""

    experiments: Annotated[list[Any], Field(min_length=1, max_length=_MOST_DRAFTS)]


class OfExperiment(OfApp):
    """One experiment of an app."""

    experiment: str = Field(description="Id or slug.")


class ScheduleExperiment(OfExperiment):
    """When an experiment runs."""

    starts_at: Moment = Field(title="Starts at (UTC)", description="Moment from which it runs.")
    ends_at: Moment | None = Field(None, title="Ends at (UTC)", description="Moment at which it ends.")


class EditExperiment(OfExperiment, ExperimentUpdate):
    """Changes of one experiment."""

    def require_changes(self) -> None:
        """Refuse an edit without changes.

        Errors:
            Invalid: nothing is to be changed
        """
        if not self.list_changes():
            raise Invalid("name at least one thing that is to be changed")


@dataclass(frozen=True, slots=True)
class ExperimentDetails:
    """An experiment at a time."""

    experiment: Experiment
    now_ms: int

    @property
    def status(self) -> str:
        """Return the status now."""
        return self.experiment.status_at(self.now_ms)

    def to_dict(self) -> dict[str, Any]:
        return experiment_to_dict(self.experiment, self.now_ms)

    def to_lines(self) -> ResultLines:
        """Return the experiment with its variants."""
        experiment = self.experiment
        begin = iso_ms(experiment.starts_at) if experiment.starts_at else "not set"
        end = iso_ms(experiment.ends_at) if experiment.ends_at is not None else "open"
        rows = [
            (variant.slug, f"{variant.weight:g}", variant.status, _describe_variant(variant))
            for variant in experiment.variants
        ]
        return (
            f"{experiment.name} ({experiment.slug}, {experiment.experiment_id})",
            f"{self.status}, from {begin} to {end}, {experiment.percent_of_users} of the users",
            *([f"Paused by the guardrail {experiment.paused_by}"] if experiment.paused_by else []),
            "",
            ResultTable(("variant", "weight", "status", "does"), rows),
        )


@dataclass(frozen=True, slots=True)
class ExperimentStep(ExperimentDetails):
    """An experiment after a step of its life."""

    def to_lines(self) -> ResultLines:
        return (f"{self.experiment.slug} of {self.experiment.app_id} is {self.status}",)


@dataclass(frozen=True, slots=True)
class ExperimentList:
    """Experiments of an app, the oldest first."""

    experiments: tuple[Experiment, ...]
    now_ms: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "experiments": [experiment_to_dict(experiment, self.now_ms) for experiment in self.experiments]
        }

    def to_lines(self) -> ResultLines:
        """Return a table of the experiments."""
        rows = [
            (
                experiment.slug,
                experiment.status_at(self.now_ms),
                ", ".join(variant.slug for variant in experiment.variants),
                experiment.percent_of_users,
                f"{experiment.layer} {experiment.slice[0]:g} to {experiment.slice[1]:g}"
                if experiment.layer
                else "",
                ", ".join(experiment.goal),
            )
            for experiment in self.experiments
        ]
        empty = "There are no experiments; `kiosk experiments create` makes some."
        return (ResultTable(("experiment", "status", "variants", "users", "layer", "goal"), rows, empty),)


@dataclass(frozen=True, slots=True)
class NewExperiments(ExperimentList):
    """Experiments that were made."""

    def to_lines(self) -> ResultLines:
        """Return how each is started."""
        return tuple(
            f"{made.slug} made, a draft; `kiosk experiments start {made.app_id} {made.slug}` starts it"
            for made in self.experiments
        )


async def _open_lifecycle(services: AdminServices, given: OfApp) -> ExperimentLifecycle:
    await require_app(services.stores, given.app_id)
    return ExperimentLifecycle(services.stores, services.clock)


async def _read_experiment(services: AdminServices, given: OfExperiment) -> ExperimentDetails:
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentDetails(await lifecycle.get(given.app_id, given.experiment), services.now_ms())


def _describe_variant(variant: Variant) -> str:
    parts = {"engine": variant.engine_id, "snapshot": variant.snapshot, "rule": variant.boost_rule}
    return "; ".join(f"{word} {value}" for word, value in parts.items() if value)


_ALL = "/apps/{app_id}/experiments"
_EXPERIMENT = _ALL + "/{experiment}"
_STEP: Any = {"role": "editor", "read_before": _read_experiment}


@operation("experiments.list", "GET", _ALL)
async def list_experiments(services: AdminServices, given: OfApp) -> ExperimentList:
    """List the experiments of an app.

    Errors:
        NotFound: no such app
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentList(tuple(await lifecycle.list_experiments(given.app_id)), services.now_ms())


@operation("experiments.create", "POST", _ALL, "editor")
async def create_experiments(services: AdminServices, given: CreateExperiments) -> NewExperiments:
    """Make experiments as drafts, all or none.

    Errors:
        Invalid: a draft makes no sense; Conflict: a slug is taken; NotFound: no such app
    """
    lifecycle = await _open_lifecycle(services, given)
    return NewExperiments(tuple(await lifecycle.create(given.app_id, given.experiments)), services.now_ms())


@operation("experiments.get", "GET", _EXPERIMENT)
async def get_experiment(services: AdminServices, given: OfExperiment) -> ExperimentDetails:
    """Show one experiment.

    Errors:
        NotFound: no such app or experiment
    """
    return await _read_experiment(services, given)


@operation("experiments.start", "POST", f"{_EXPERIMENT}/start", **_STEP)
async def start_experiment(services: AdminServices, given: OfExperiment) -> ExperimentStep:
    """Start an experiment now, also one that was paused.

    Errors:
        NotFound: no such app, experiment, engine, rule or snapshot
        Invalid: its status does not allow it; Conflict: another one has its part of the layer
    """
    lifecycle = await _open_lifecycle(services, given)
    experiment = await lifecycle.get(given.app_id, given.experiment)
    await asyncio.to_thread(validate_snapshots, experiment, services.artifacts)
    return ExperimentStep(await lifecycle.start(given.app_id, given.experiment), services.now_ms())


@operation(
    "experiments.schedule",
    "POST",
    f"{_EXPERIMENT}/schedule",
    **_STEP,
)
async def schedule_experiment(services: AdminServices, given: ScheduleExperiment) -> ExperimentStep:
    """Let an experiment run from a moment on.

    Errors:
        as `start_experiment`; Invalid: the times lie in the past or in the wrong order
    """
    lifecycle = await _open_lifecycle(services, given)
    experiment = await lifecycle.get(given.app_id, given.experiment)
    await asyncio.to_thread(validate_snapshots, experiment, services.artifacts)
    scheduled = await lifecycle.schedule(given.app_id, given.experiment, given.starts_at, given.ends_at)
    return ExperimentStep(scheduled, services.now_ms())


@operation(
    "experiments.edit",
    "PATCH",
    _EXPERIMENT,
    check=EditExperiment.require_changes,
    **_STEP,
)
async def edit_experiment(services: AdminServices, given: EditExperiment) -> ExperimentDetails:
    """Change an experiment in its current status; users keep the variants that they have.

    Errors:
        NotFound: no such app, experiment or variant; Invalid: its status does not allow the change
    """
    given.require_changes()
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentDetails(await lifecycle.edit(given.app_id, given.experiment, given), services.now_ms())


@operation("experiments.pause", "POST", f"{_EXPERIMENT}/pause", **_STEP)
async def pause_experiment(services: AdminServices, given: OfExperiment) -> ExperimentStep:
    """Pause an experiment; users keep their variants until it continues.

    Errors:
        NotFound: no such app or experiment; Invalid: it is not active
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentStep(await lifecycle.pause(given.app_id, given.experiment), services.now_ms())


@operation("experiments.complete", "POST", f"{_EXPERIMENT}/complete", **_STEP)
async def complete_experiment(services: AdminServices, given: OfExperiment) -> ExperimentStep:
    """End an experiment for good.

    Errors:
        NotFound: no such app or experiment; Invalid: it is not active
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentStep(await lifecycle.complete(given.app_id, given.experiment), services.now_ms())


@operation("experiments.archive", "POST", f"{_EXPERIMENT}/archive", **_STEP)
async def archive_experiment(services: AdminServices, given: OfExperiment) -> ExperimentStep:
    """Put an experiment away that is over or never began.

    Errors:
        NotFound: no such app or experiment; Invalid: it runs
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentStep(await lifecycle.archive(given.app_id, given.experiment), services.now_ms())


@operation("experiments.report", "GET", f"{_EXPERIMENT}/report")
async def report_experiment(services: AdminServices, given: OfExperiment) -> ExperimentReport:
    """Report what came of an experiment: conversions, the split, latency and errors. No person is named.

    Errors:
        NotFound: no such app or experiment; Fault: compacted interactions are damaged
        Invalid: the experiment interleaves its variants, or its unit is the question of an agent
    Cost:
        reads and counts in another thread, once in 30 seconds
    """
    return await read_report(
        services,
        given,
        "split",
        lambda experiment: load_report(services.stores, services.artifacts, experiment),
    )


async def read_report(
    services: AdminServices,
    given: OfExperiment,
    method: Method,
    load: Callable[[Experiment], Awaitable[Report]],
) -> Report:
    """Return the report of an experiment, computed once for all who read it within 30 seconds.

    Errors:
        NotFound: no such app or experiment; Invalid: the experiment has another method
    """
    lifecycle = await _open_lifecycle(services, given)
    experiment = await lifecycle.get(given.app_id, given.experiment)
    if experiment.method != method:
        raise Invalid(f"{experiment.slug} {_REPORTS[experiment.method]}")
    key = ("experiments.report", given.app_id, experiment.model_dump_json())
    report: Report = await services.cache.get(key, lambda: load(experiment))
    return report
