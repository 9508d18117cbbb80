"""Estimates of a training without running it: rows, memory and time of each component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from cluster.store.ports.changes import ChangeLog
from jobs.refresh.data.event_account import EventAccount
from jobs.refresh.recipe import Recipe
from jobs.refresh.runs.estimate import DataSize, TrainingCost, estimate_costs, estimate_peak_memory
from jobs.refresh.runs.stages import count_data
from jobs.refresh.runs.training_source import TrainingSource

_READ_S, _SPLIT_S, _EXAMINE_S, _PUBLISH_S = 4e-6, 8e-6, 6e-6, 2e-6
"Seconds per event on one core, in addition to the time of the components."


@dataclass(frozen=True, slots=True)
class DryRunEstimate:
    """The estimate of one training."""

    facts: dict[str, Any]
    costs: list[TrainingCost]
    memory: int
    "Peak memory in bytes."
    seconds: float
    memory_allowed: int
    account: EventAccount | None = None

    @property
    def fits(self) -> bool:
        """Return true if the memory limits allow the training."""
        return self.memory <= self.memory_allowed

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON."""
        return {
            **self.facts,
            **({} if self.account is None else {"interactions": self.account.to_dict()}),
            "memory_mb": self.memory >> 20,
            "memory_allowed_mb": self.memory_allowed >> 20,
            "fits": self.fits,
            "seconds": round(self.seconds, 1),
            "parts": [_cost_to_dict(cost) for cost in self.costs if cost.is_ranked],
            "extras": [_cost_to_dict(cost) for cost in self.costs if not cost.is_ranked],
        }


def _cost_to_dict(cost: TrainingCost) -> dict[str, Any]:
    return {
        "part": cost.part,
        "memory_mb": cost.memory >> 20,
        "seconds": round(cost.seconds, 1),
        "trainings": cost.trainings,
    }


def estimate_training(
    recipe: Recipe, source: TrainingSource, free_memory_mb: int | None = None
) -> DryRunEstimate:
    """Return the estimate of a training."""
    size = DataSize.from_interactions(source.data, len(source.texts))
    costs = estimate_costs(recipe, size)
    allowed = recipe.limits.memory_mb
    if free_memory_mb is not None:
        allowed = min(allowed, free_memory_mb)
    once_more = sum(
        cost.seconds / max(cost.trainings, 1) for cost in costs if cost.is_ranked
    )  # users in the evaluation
    seconds = sum(cost.seconds for cost in costs) + once_more
    seconds += size.events * (_READ_S + _SPLIT_S + _EXAMINE_S + _PUBLISH_S)
    return DryRunEstimate(
        count_data(source.data),
        costs,
        estimate_peak_memory(costs, size),
        seconds,
        allowed << 20,
        source.account,
    )


async def count_uncompacted_interactions(changes: ChangeLog, app_id: str, after: str) -> int:
    """Return the number of accepted interactions after an offset of the change log.

    Errors:
        Unavailable: the store does not answer
    """
    count = 0
    while page := await changes.read(app_id, {"interaction": after}, count=1_000, block_ms=0):
        count += sum(len(orjson.loads(change.payload)) for change in page if change.op == "put")
        after = page[-1].offset
    return count
