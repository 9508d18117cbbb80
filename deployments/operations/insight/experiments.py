"""Use cases of experiments: make them, lead them through their lives, and read what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from actors.experiments.lifecycle import ExperimentLifecycle, experiment_to_dict
from actors.experiments.messages import ExperimentUpdate
from actors.experiments.report import ExperimentReport, load_report, validate_snapshots
from actors.experiments.sample_size import SampleSize, estimate_sample_size
from cluster.errors import Invalid
from cluster.records.experiment import Experiment
from cluster.records.times import LATEST_MS
from deployments.operations.frame.app_access import require_app
from deployments.operations.frame.operation import Arguments, OfApp, Operation
from deployments.operations.frame.sample_results import PERFORMED
from deployments.operations.frame.services import AdminServices

Real = Annotated[float, Field(allow_inf_nan=False)]
_MOST_DRAFTS = 1_000


class CreateExperiments(OfApp):
    """Drafts of experiments."""

    experiments: Annotated[list[Any], Field(min_length=1, max_length=_MOST_DRAFTS)]


class OfExperiment(OfApp):
    """One experiment of an app."""

    experiment: str = Field(description="Id or slug of the experiment.")


_Moment = Annotated[int, Field(ge=0, le=LATEST_MS)]


class ScheduleExperiment(OfExperiment):
    """When an experiment runs."""

    starts_at: _Moment
    ends_at: _Moment | None = None
    "Milliseconds since 1970."


class EditExperiment(OfExperiment):
    """Changes of an experiment; what is absent stays as it is. The experiment itself checks the values."""

    name: str | None = None
    traffic: float | None = None
    weights: Annotated[dict[str, float], Field(max_length=50)] = Field(default_factory=dict)
    "Variant (id, slug or name) -> its weight; a variant with weight 0 gets no new users."
    ends_at: _Moment | None = None
    "Milliseconds since 1970."
    goal: Annotated[tuple[str, ...], Field(max_length=50)] | None = None
    layer: str | None = None
    slice: tuple[float, float] | None = None
    reports_exposure: bool | None = Field(
        None, description="Whether your own code reports who met a variant, so variants may serve the same."
    )


class PlanExperiment(Arguments):
    """What an experiment is to find; `app_id` only decides who may ask."""

    app_id: str
    rate: Annotated[Real, Field(gt=0, lt=1, description="Share of the people who convert today.")]
    relative_lift: Annotated[
        Real,
        Field(
            ge=-0.99, le=10,
            description="The smallest change that matters, relative to that share: 0.1 is a tenth more.",
        ),
    ]  # fmt: skip
    variants: Annotated[int, Field(ge=2, le=50, description="Variants with the control.")] = 2
    power: Annotated[
        Real, Field(ge=0.5, le=0.99, description="Probability to find the change if it is there.")
    ] = 0.8
    people_per_day: Annotated[Real, Field(ge=0, description="People who take part; 0: unknown.")] = 0.0


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
        """Return the experiment as JSON."""
        return experiment_to_dict(self.experiment, self.now_ms)


@dataclass(frozen=True, slots=True)
class ExperimentList:
    """Experiments of an app, the oldest first."""

    experiments: tuple[Experiment, ...]
    now_ms: int

    def to_dict(self) -> dict[str, Any]:
        """Return the experiments as JSON."""
        return {
            "experiments": [experiment_to_dict(experiment, self.now_ms) for experiment in self.experiments]
        }


async def list_experiments(services: AdminServices, given: OfApp) -> ExperimentList:
    """Return the experiments of an app.

    Errors:
        NotFound: no such app
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentList(tuple(await lifecycle.list_experiments(given.app_id)), services.now_ms())


async def create_experiments(services: AdminServices, given: CreateExperiments) -> ExperimentList:
    """Make experiments from drafts, all or none.

    Errors:
        Invalid: a draft makes no sense; Conflict: a slug is taken; NotFound: no such app
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentList(tuple(await lifecycle.create(given.app_id, given.experiments)), services.now_ms())


async def get_experiment(services: AdminServices, given: OfExperiment) -> ExperimentDetails:
    """Return one experiment.

    Errors:
        NotFound: no such app or experiment
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentDetails(await lifecycle.get(given.app_id, given.experiment), services.now_ms())


async def start_experiment(services: AdminServices, given: OfExperiment) -> ExperimentDetails:
    """Start an experiment now, also one that was paused.

    Errors:
        NotFound: no such app, experiment, engine, rule or snapshot
        Invalid: its status does not allow it; Conflict: another one has its part of the layer
    """
    lifecycle = await _open_lifecycle(services, given)
    experiment = await lifecycle.get(given.app_id, given.experiment)
    _validate_snapshots(services, experiment)
    return ExperimentDetails(await lifecycle.start(given.app_id, given.experiment), services.now_ms())


async def schedule_experiment(services: AdminServices, given: ScheduleExperiment) -> ExperimentDetails:
    """Let an experiment run from a moment on, perhaps until another.

    Errors:
        as `start_experiment`; Invalid: the times lie in the past or in the wrong order
    """
    lifecycle = await _open_lifecycle(services, given)
    _validate_snapshots(services, await lifecycle.get(given.app_id, given.experiment))
    scheduled = await lifecycle.schedule(given.app_id, given.experiment, given.starts_at, given.ends_at)
    return ExperimentDetails(scheduled, services.now_ms())


async def edit_experiment(services: AdminServices, given: EditExperiment) -> ExperimentDetails:
    """Change an experiment in its current status.

    Errors:
        NotFound: no such app, experiment or variant; Invalid: its status does not allow the change
    """
    update = ExperimentUpdate(
        name=given.name, traffic=given.traffic, weights=given.weights, ends_at=given.ends_at, goal=given.goal,
        layer=given.layer, slice=given.slice, reports_exposure=given.reports_exposure,
    )  # fmt: skip
    if update == ExperimentUpdate():
        raise Invalid("name at least one thing that is to be changed")
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentDetails(await lifecycle.edit(given.app_id, given.experiment, update), services.now_ms())


async def pause_experiment(services: AdminServices, given: OfExperiment) -> ExperimentDetails:
    """Pause an experiment; users keep their variants until it continues.

    Errors:
        NotFound: no such app or experiment; Invalid: it is not active
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentDetails(await lifecycle.pause(given.app_id, given.experiment), services.now_ms())


async def complete_experiment(services: AdminServices, given: OfExperiment) -> ExperimentDetails:
    """End an experiment for good.

    Errors:
        NotFound: no such app or experiment; Invalid: it is not active
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentDetails(await lifecycle.complete(given.app_id, given.experiment), services.now_ms())


async def archive_experiment(services: AdminServices, given: OfExperiment) -> ExperimentDetails:
    """Put an experiment away that is over or never began.

    Errors:
        NotFound: no such app or experiment; Invalid: it runs
    """
    lifecycle = await _open_lifecycle(services, given)
    return ExperimentDetails(await lifecycle.archive(given.app_id, given.experiment), services.now_ms())


async def report_experiment(services: AdminServices, given: OfExperiment) -> ExperimentReport:
    """Return what came of an experiment: conversions, the split, latency and errors. No person is named.

    Errors:
        NotFound: no such app or experiment; Fault: compacted interactions are damaged
    Cost:
        reads and counts in another thread, once in 30 seconds
    """
    lifecycle = await _open_lifecycle(services, given)
    experiment = await lifecycle.get(given.app_id, given.experiment)
    report: ExperimentReport = await services.cache.get(
        ("experiments.report", given.app_id, experiment.model_dump_json()),
        lambda: load_report(services.stores, services.artifacts, experiment),
    )
    return report


async def plan_experiment(services: AdminServices, given: PlanExperiment) -> SampleSize:
    """Return how many people an experiment needs.

    Errors:
        Invalid: there is no difference to find, or a rate above 1
    """
    if given.relative_lift == 0:
        raise Invalid("relative_lift is 0; name the smallest change that matters")
    if given.rate * (1 + given.relative_lift) >= 1:
        raise Invalid("the changed rate would be 1 or more; choose a smaller relative_lift")
    return estimate_sample_size(
        given.rate, given.relative_lift, variants=given.variants, power=given.power,
        people_per_day=given.people_per_day,
    )  # fmt: skip


async def _open_lifecycle(services: AdminServices, given: OfApp) -> ExperimentLifecycle:
    await require_app(services.stores, given.app_id)
    return ExperimentLifecycle(services.stores, services.clock)


def _validate_snapshots(services: AdminServices, experiment: Experiment) -> None:
    if any(variant.snapshot for variant in experiment.variants):
        validate_snapshots(experiment, services.artifacts)


async def _read_experiment(services: AdminServices, given: OfExperiment) -> Any:
    return (await get_experiment(services, given)).to_dict()


_ALL = "/apps/{app_id}/experiments"
_EXPERIMENT = _ALL + "/{experiment}"
_EXAMPLE = {"app_id": "bookshop", "experiment": "paywall"}


def _step(verb: str, summary: str, call: Any) -> Operation[AdminServices, Any]:
    return Operation(
        f"experiments.{verb}", summary, "editor", "POST", f"{_EXPERIMENT}/{verb}", OfExperiment, call,
        read_before=_read_experiment, example=_EXAMPLE, example_result=PERFORMED[f"experiments.{verb}"],
    )  # fmt: skip


OPERATIONS: tuple[Operation[AdminServices, Any], ...] = (
    Operation(
        "experiments.list", "List the experiments of an app.", "viewer", "GET", _ALL, OfApp, list_experiments,
        example={"app_id": "bookshop"}, example_result=PERFORMED["experiments.list"],
    ),
    Operation(
        "experiments.create", "Make experiments as drafts, all or none.", "editor", "POST", _ALL, CreateExperiments,
        create_experiments,
        example={
            "app_id": "bookshop",
            "experiments": [
                {"name": "Paywall", "reports_exposure": True, "variants": [{"name": "three"}, {"name": "five"}]}
            ],
        },
        example_result=PERFORMED["experiments.create"],
    ),
    Operation(
        "experiments.get", "Read one experiment.", "viewer", "GET", _EXPERIMENT, OfExperiment, get_experiment,
        example=_EXAMPLE, example_result=PERFORMED["experiments.get"],
    ),
    Operation(
        "experiments.edit", "Change an experiment in its current status.", "editor", "PATCH", _EXPERIMENT,
        EditExperiment, edit_experiment, read_before=_read_experiment, example={**_EXAMPLE, "traffic": 0.8},
        example_result=PERFORMED["experiments.edit"],
    ),
    _step("start", "Start an experiment now, also one that was paused.", start_experiment),
    Operation(
        "experiments.schedule", "Let an experiment run from a moment on.", "editor", "POST", f"{_EXPERIMENT}/schedule",
        ScheduleExperiment, schedule_experiment, read_before=_read_experiment,
        example={**_EXAMPLE, "starts_at": 1_796_108_400_000},
        example_result=PERFORMED["experiments.schedule"],
    ),
    _step("pause", "Pause an experiment; users keep their variants.", pause_experiment),
    _step("complete", "End an experiment for good.", complete_experiment),
    _step("archive", "Put an experiment away that is over or never began.", archive_experiment),
    Operation(
        "experiments.report", "Read what came of an experiment.", "viewer", "GET", f"{_EXPERIMENT}/report",
        OfExperiment, report_experiment, example=_EXAMPLE,
        example_result=PERFORMED["experiments.report"],
    ),
    Operation(
        "experiments.plan", "Estimate how many people an experiment needs.", "viewer", "GET",
        "/apps/{app_id}/experiment-plan", PlanExperiment, plan_experiment,
        example={"app_id": "bookshop", "rate": 0.04, "relative_lift": 0.1},
        example_result={"per_variant": 92_044, "fixed_per_variant": 39_473, "total": 184_088, "days": None},
    ),
)  # fmt: skip
