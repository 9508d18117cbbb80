"""What a training would do, without doing it: rows, memory, time, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.refresh.recipe import Recipe
from jobs.refresh.running.estimate import Cost, Size, estimate, peak
from jobs.refresh.running.source import Source
from jobs.refresh.running.stages import data_facts

_READ_S, _SPLIT_S, _EXAMINE_S, _PUBLISH_S = 4e-6, 8e-6, 6e-6, 2e-6
"Seconds an event on one modest core, beside what the parts take."


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """An estimate."""

    facts: dict[str, Any]
    costs: list[Cost]
    memory: int
    "Bytes at the peak."
    seconds: float
    memory_allowed: int

    @property
    def fits(self) -> bool:
        """Would it be allowed to start?"""
        return self.memory <= self.memory_allowed

    def told(self) -> dict[str, Any]:
        """Write it as JSON."""
        return {
            **self.facts,
            "memory_mb": self.memory >> 20,
            "memory_allowed_mb": self.memory_allowed >> 20,
            "fits": self.fits,
            "seconds": round(self.seconds, 1),
            "parts": [
                {
                    "part": cost.part,
                    "memory_mb": cost.memory >> 20,
                    "seconds": round(cost.seconds, 1),
                    "trainings": cost.trainings,
                }
                for cost in self.costs
            ],
        }


def rehearse(recipe: Recipe, source: Source, free_memory_mb: int | None = None) -> Rehearsal:
    """Estimate a training."""
    size = Size.of(source.data, len(source.texts))
    costs = estimate(recipe, size)
    allowed = recipe.limits.memory_mb
    if free_memory_mb is not None:
        allowed = min(allowed, free_memory_mb)
    once_more = sum(
        cost.seconds / max(cost.trainings, 1) for cost in costs if cost.is_ranked
    )  # to be examined with
    seconds = sum(cost.seconds for cost in costs) + once_more
    seconds += size.events * (_READ_S + _SPLIT_S + _EXAMINE_S + _PUBLISH_S)
    return Rehearsal(data_facts(source.data), costs, peak(costs, size), seconds, allowed << 20)
