"""The plan of an experiment: how many people and days it needs, from figures given or measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from actors.experiments.goal_values import TRAFFIC_DAYS, GoalBaseline, measure_baseline
from actors.experiments.sample_size import SampleSize, estimate_sample_size, estimate_value_size
from cluster.errors import Invalid
from cluster.records.experiment import CONVERSION, GOALS, ExperimentGoal
from cluster.records.interaction import INTERACTION_TYPES
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import Arguments, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

Real = Annotated[float, Field(allow_inf_nan=False)]
_BY_NAME = {goal.name: goal for goal in GOALS}


class PlanExperiment(Arguments):
    """What an experiment is to find. Figures that are not given are those of the last two weeks."""

    app_id: str
    relative_lift: Annotated[
        Real,
        Field(
            ge=-0.99,
            le=10,
            description="The smallest change that matters, relative to the figure of today: 0.1 is a tenth more.",
        ),
    ]
    rate: Annotated[Real, Field(gt=0, lt=1, description="Share of the people who convert today.")] | None = (
        None
    )
    mean: Annotated[Real, Field(gt=0, description="Mean of a value over all people today.")] | None = None
    spread: (
        Annotated[Real, Field(gt=0, description="Standard deviation of that value over people.")] | None
    ) = None
    correlation: Annotated[
        Real, Field(ge=0, lt=1, description="Of that value with the 28 days before; CUPED uses it.")
    ] = 0.0
    goal: str = Field(
        "checkout",
        max_length=63,
        description="What is measured without rate and mean: a type of interaction, or a goal as revenue.",
    )
    variants: Annotated[int, Field(ge=2, le=50, description="Variants with the control.")] = 2
    power: Annotated[
        Real, Field(ge=0.5, le=0.99, description="Probability to find the change if it is there.")
    ] = 0.8
    people_per_day: Annotated[Real, Field(ge=0, description="People who take part; 0: unknown.")] = 0.0

    def require_difference(self) -> None:
        """Refuse figures that leave nothing to find.

        Errors:
            Invalid: there is no difference, a rate above 1, or half of the figures of a value
        """
        if self.relative_lift == 0:
            raise Invalid("relative_lift is 0; name the smallest change that matters")
        if self.rate is not None and self.mean is not None:
            raise Invalid("name rate for people who convert, or mean and spread for a value, not both")
        if (self.mean is None) != (self.spread is None):
            raise Invalid("mean and spread go together; without both they are measured")
        if self.rate is not None and self.rate * (1 + self.relative_lift) >= 1:
            raise Invalid("the changed rate would be 1 or more; choose a smaller relative_lift")


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """People and days that an experiment needs, and the figures behind them."""

    size: SampleSize
    mean: float
    spread: float
    correlation: float
    people_per_day: float
    is_measured: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        assumed = {
            "mean": self.mean,
            "spread": self.spread,
            "correlation": self.correlation,
            "people_per_day": self.people_per_day,
            "measured": self.is_measured,
        }
        return {**self.size.to_dict(), "assumed": assumed}

    def to_lines(self) -> ResultLines:
        """Return the plan as a table, and the figures behind it."""
        size = self.size
        per_variant, total, days = (
            "too many" if number is None else f"{number:,}"
            for number in (size.per_variant, size.total, size.days)
        )
        if not self.people_per_day:
            days = "unknown"
        figures = (
            f"mean {self.mean:.4g}, standard deviation {self.spread:.4g}, correlation {self.correlation:.2g}, "
            f"{self.people_per_day:,.0f} people per day"
        )
        source = f"Measured over the last {TRAFFIC_DAYS} days" if self.is_measured else "Given"
        rows = [(per_variant, total, days, f"{size.fixed_per_variant:,}")]
        return (
            ResultTable(("people per variant", "people", "days", "per variant, read once"), rows),
            f"{source}: {figures}.",
        )


@operation(
    "experiments.plan",
    "GET",
    "/apps/{app_id}/experiment-plan",
    check=PlanExperiment.require_difference,
)
async def plan_experiment(services: AdminServices, given: PlanExperiment) -> ExperimentPlan:
    """Estimate how many people and days an experiment needs.

    Errors:
        Invalid: there is no difference to find, a rate above 1, or nothing was measured; NotFound: no such app
    """
    given.require_difference()
    mean = given.mean
    spread = given.spread
    correlation = given.correlation
    people_per_day = given.people_per_day
    is_measured = given.rate is None and mean is None
    is_rate = given.rate is not None
    if given.rate is not None:
        mean = given.rate
        # The standard deviation of a value that is 1 with this probability and else 0.
        spread = (given.rate * (1 - given.rate)) ** 0.5
        correlation = 0.0
    elif mean is None or spread is None:
        goal = _goal_from_name(given.goal)
        figures = await _measure(services, given.app_id, goal)
        mean = figures.mean
        spread = figures.spread
        is_rate = not goal.value
        # conversions are reported without CUPED
        correlation = 0.0 if is_rate else figures.correlation
        people_per_day = people_per_day or figures.people_per_day
    if is_rate:
        if mean * (1 + given.relative_lift) >= 1:
            raise Invalid("the changed rate would be 1 or more; choose a smaller relative_lift")
        size = estimate_sample_size(
            mean,
            given.relative_lift,
            variants=given.variants,
            power=given.power,
            people_per_day=people_per_day,
        )
    else:
        size = estimate_value_size(
            mean,
            spread,
            given.relative_lift,
            correlation=correlation,
            variants=given.variants,
            power=given.power,
            people_per_day=people_per_day,
        )
    return ExperimentPlan(size, mean, spread, correlation, people_per_day, is_measured)


def _goal_from_name(name: str) -> ExperimentGoal:
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name not in INTERACTION_TYPES:
        raise Invalid(f"there is no goal {name!r}; choose a type of interaction or of {', '.join(_BY_NAME)}")
    return ExperimentGoal.model_construct(
        name=CONVERSION, types=(name,), value="", per=(), where={}, cap=None, better="more"
    )


async def _measure(services: AdminServices, app_id: str, goal: ExperimentGoal) -> GoalBaseline:
    await require_app(services.stores, app_id)
    figures = await measure_baseline(services.stores, services.artifacts, app_id, goal, services.now_ms())
    if not figures.mean or not figures.spread:
        raise Invalid(
            f"{app_id} has no {goal.name} in the last {TRAFFIC_DAYS} days; name rate, or mean and spread"
        )
    return figures
