"""What a training would do, without doing it: rows, memory, time, part by part."""

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
"Seconds an event on one modest core, beside what the parts take."


@dataclass(frozen=True, slots=True)
class DryRunEstimate:
    """An estimate."""

    facts: dict[str, Any]
    costs: list[TrainingCost]
    memory: int
    "Bytes at the peak."
    seconds: float
    memory_allowed: int
    account: EventAccount | None = None

    @property
    def fits(self) -> bool:
        """Would it be allowed to start?"""
        return self.memory <= self.memory_allowed

    def to_dict(self) -> dict[str, Any]:
        """Write it as JSON."""
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
    """Estimate a training."""
    size = DataSize.from_interactions(source.data, len(source.texts))
    costs = estimate_costs(recipe, size)
    allowed = recipe.limits.memory_mb
    if free_memory_mb is not None:
        allowed = min(allowed, free_memory_mb)
    once_more = sum(
        cost.seconds / max(cost.trainings, 1) for cost in costs if cost.is_ranked
    )  # to be examined with
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
    """Count the accepted interactions behind an offset of the change log.

    Errors:
        Unavailable: the store is away
    """
    count = 0
    while page := await changes.read(app_id, {"interaction": after}, count=1_000, block_ms=0):
        count += sum(len(orjson.loads(change.payload)) for change in page if change.op == "put")
        after = page[-1].offset
    return count
