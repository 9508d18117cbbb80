"""Decide whether the data of an app pay for a first training, and with which recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEAST_EVENTS: Final = 1_000
LEAST_PEOPLE: Final = 100
"People with two events or more: others have nothing that a test could hold out."
LEAST_PRODUCTS: Final = 50
"A catalog of fewer products fits on one page."
LONGEST_S: Final = 3_600.0
"A nightly training that takes longer would compete with the requests of the morning."
RECIPES: Final = ("default", "fast")
"Recipes of a first training, the best first."


@dataclass(frozen=True, slots=True)
class DataCounts:
    """What an app has to learn from."""

    events: int
    people: int
    "With two events or more."
    products: int


@dataclass(frozen=True, slots=True)
class RecipeCost:
    """What the training of a recipe would take here."""

    fits: bool
    "Whether its memory is free."
    seconds: float


def has_enough_data(counts: DataCounts) -> bool:
    """Return whether a training could learn more than live counts know."""
    return (
        counts.events >= LEAST_EVENTS and counts.people >= LEAST_PEOPLE and counts.products >= LEAST_PRODUCTS
    )


def choose_first_recipe(costs: Mapping[str, RecipeCost]) -> str | None:
    """Return the best recipe whose training fits into memory and into an hour; None if there is none."""
    for name in RECIPES:
        if costs[name].fits and costs[name].seconds <= LONGEST_S:
            return name
    return None
