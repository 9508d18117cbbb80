"""Use cases of interleaving: let two sides fill the same lists, and read which one people prefer.

`experiments.pause`, `experiments.complete` and `experiments.edit` stop and change an interleaving like any experiment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from actors.experiments.interleaving import ALPHA
from actors.experiments.interleaving_report import InterleavingReport, load_interleaving_report
from actors.experiments.lifecycle import ExperimentLifecycle
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.records.engine import Engine, Promotion
from cluster.records.experiment import Experiment
from cluster.records.field_types.units import Share
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.experiments import ExperimentStep, OfExperiment, read_report
from deployments.operations.models.engines import find_engine
from deployments.operations.models.snapshots import Version, find_version

GOAL = ("click", "product_detail_page_view")


class InterleaveSides(OfApp):
    """The two sides of an interleaving; the first one is what an engine serves now."""

    name: str = Field(min_length=1, max_length=200, description="Name of the experiment.")
    engine_id: str = Field(default=DEFAULT_ENGINE, description="Engine whose lists are interleaved.")
    snapshot: Version | None = Field(
        default=None, description="The second side ranks with this version, or the only one that begins so."
    )
    rival_engine: str | None = Field(default=None, description="The second side is this engine.")
    rule: str | None = Field(default=None, description="The second side has this stored rule; give it a tag.")
    traffic: Share = Field(default=1.0, description="Share of the users who take part, 0 to 1.")
    goal: Annotated[tuple[str, ...], Field(min_length=1, max_length=50)] = Field(
        default=GOAL, description="Types of interactions that credit the side of a product."
    )

    promote_when_better: bool = Field(
        default=False, description="Promote the snapshot of the second side once users certainly prefer it."
    )

    def check_sides(self) -> None:
        """Refuse sides that are the same, and promotions of anything but a snapshot of the engine.

        Errors:
            Invalid: nothing makes the second side another one, or it can't be promoted
        """
        if not (self.snapshot or self.rival_engine or self.rule):
            raise Invalid("name a snapshot, an engine or a rule of the second side")
        if self.promote_when_better and (not self.snapshot or self.rival_engine or self.rule):
            raise Invalid(
                "only a snapshot of the same engine can be promoted; name it, and no engine or rule"
            )


@dataclass(frozen=True, slots=True)
class InterleavingView:
    """What came of an interleaving, at a time."""

    report: InterleavingReport
    now_ms: int
    promotion: Promotion | None = None
    "What it promoted by itself."

    @property
    def verdict(self) -> str:
        """Return the decision as a sentence."""
        report = self.report
        share = self.report.result.share
        if report.better:
            side = report.experiment.variant(report.better)
            name = report.better if side is None else side.name
            return f"Users prefer the side {report.better} ({name})."
        reach = f"between {share.low:.1%} and {share.high:.1%}"
        return f"Open: the second side wins {share.value:.1%} of the days, with certainty {reach}."

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        promotion = self.promotion
        return {
            **self.report.to_dict(),
            "status": self.report.experiment.status_at(self.now_ms),
            "promote_when_better": self.report.experiment.promote_when_better,
            "promoted_at": None if promotion is None else iso_ms(promotion.at_ms),
        }

    def to_lines(self) -> ResultLines:
        """Return what the command line prints."""
        report = self.report
        result = self.report.result
        first, second = report.experiment.variants
        rows = [
            (first.slug, first.name, f"{result.first_clicks:,}", f"{result.first_wins:,}"),
            (second.slug, second.name, f"{result.second_clicks:,}", f"{result.second_wins:,}"),
        ]
        return (
            f"{report.experiment.name}, {report.experiment.status_at(self.now_ms)}: "
            f"{report.lists:,} lists of {report.requests:,} requests, {report.people:,} users",
            ResultTable(("side", "serves", "clicks", "days won"), rows, ids=("serves",)),
            f"{result.ties:,} days without a winner. The interval holds at all looks together, "
            f"with an error of {ALPHA:.0%}.",
            self.verdict,
            *self._promotion_lines(),
        )

    def _promotion_lines(self) -> ResultLines:
        experiment = self.report.experiment
        second = experiment.variants[1]
        if self.promotion is not None:
            return (f"It promoted {second.snapshot} at {iso_ms(self.promotion.at_ms)[:16]} UTC.",)
        is_open = experiment.promote_when_better and experiment.status_at(self.now_ms) == "Active"
        return (f"It promotes {second.snapshot} once users certainly prefer it.",) if is_open else ()


@operation(
    "experiments.interleave",
    "POST",
    "/apps/{app_id}/interleavings",
    "editor",
    check=InterleaveSides.check_sides,
)
async def interleave_sides(services: AdminServices, given: InterleaveSides) -> ExperimentStep:
    """Start to fill lists from two sides by turns: what an engine serves now, and a snapshot, an engine or a rule.

    Errors:
        NotFound: no such app, engine, snapshot or rule
        Invalid: the sides are the same, or the app keeps no served log with users, or promotes nothing by itself
        Conflict: the engine is interleaved already, or the name is taken
    """
    given.check_sides()
    await require_app(services.stores, given.app_id)
    app = (await services.stores.access.read_all()).apps[given.app_id]
    if app.settings.served_log != "on":
        raise Invalid(
            f"the served log of {given.app_id} is {app.settings.served_log}; wins are counted by user, so it must be on"
        )
    if given.promote_when_better and not app.is_automatic:
        raise Invalid(
            f"--promote-when-better needs the environment production and automatic_models=true of {given.app_id}; "
            f"now: {app.environment} and {str(app.settings.automatic_models).lower()}"
        )
    engine = await find_engine(services.stores, given.app_id, given.engine_id)
    rival = engine
    if given.rival_engine is not None:
        rival = await find_engine(services.stores, given.app_id, given.rival_engine)
    rules = {rule.name for rule in await services.stores.boost_rules.all(given.app_id)}
    if given.rule is not None and given.rule not in rules:
        raise NotFound(f"app {given.app_id} has no stored rule {given.rule!r}")
    lifecycle = ExperimentLifecycle(services.stores, services.clock)
    for other in await lifecycle.list_experiments(given.app_id):
        is_running = other.status_at(services.now_ms()) == "Active"
        if is_running and other.method == "interleave" and given.engine_id in other.engines:
            raise Conflict(f"{other.slug} interleaves the engine {given.engine_id}; complete it first")
    (made,) = await lifecycle.create(
        given.app_id, [await asyncio.to_thread(_build_draft, services.artifacts, given, engine, rival)]
    )
    return ExperimentStep(await lifecycle.start(given.app_id, made.experiment_id), services.now_ms())


def _build_draft(
    artifacts: ArtifactStore | None, given: InterleaveSides, engine: Engine, rival: Engine
) -> dict[str, Any]:
    """Return the draft of the experiment; both sides keep their versions if another one is promoted."""
    version = rival.snapshot
    if given.snapshot is not None:
        version = given.snapshot
        if artifacts is not None:
            version = find_version(artifacts, given.app_id, rival.engine_id, given.snapshot)
    second = {
        "name": " ".join(filter(None, (given.rival_engine, given.snapshot and version, given.rule))),
        "slug": "second",
        "engine_id": given.rival_engine or "",
        "snapshot": version,
        "boost_rule": given.rule or "",
        "weight": 0.0,  # a replica of an earlier release would split people by weights: all get the first side
    }
    first = {"name": f"now {engine.snapshot}".strip(), "slug": "first", "snapshot": engine.snapshot}
    return {
        "name": given.name,
        "method": "interleave",
        "variants": [first, second],
        "engines": [given.engine_id],
        "traffic": given.traffic,
        "goal": list(given.goal),
        "promote_when_better": given.promote_when_better,
    }


@operation("experiments.interleaving", "GET", "/apps/{app_id}/interleavings/{experiment}")
async def report_interleaving(services: AdminServices, given: OfExperiment) -> InterleavingView:
    """Report which side of an interleaving people prefer. No person is named.

    Errors:
        NotFound: no such app or experiment; Invalid: the experiment splits its users
    Cost:
        reads and counts in another thread, once in 30 seconds
    """
    stores = services.stores
    artifacts = services.artifacts
    now_ms = services.now_ms()
    report = await read_report(
        services,
        given,
        "interleave",
        lambda experiment: load_interleaving_report(stores, artifacts, experiment, now_ms),
    )
    return InterleavingView(report, services.now_ms(), await _find_promotion(services, report.experiment))


async def _find_promotion(services: AdminServices, experiment: Experiment) -> Promotion | None:
    if not experiment.promote_when_better:
        return None
    history = await services.stores.promotions.history(experiment.app_id, experiment.engines[0])
    for entry in history:
        if entry.evidence.get("experiment_id") == experiment.experiment_id:
            return entry
    return None
