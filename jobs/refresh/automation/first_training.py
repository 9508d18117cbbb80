"""Decide whether the data of an app pay for a first training, and with which recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs.refresh.runs.estimate import DryRunEstimate

LEAST_EVENTS: Final = 1_000
LEAST_PEOPLE: Final = 100
"People with two events or more: others have nothing that a test could hold out."
LEAST_PRODUCTS: Final = 50
"A catalog of fewer products fits on one page."
LONGEST_S: Final = 3_600.0
"A nightly training that takes longer would compete with the requests of the morning."
RECIPES: Final = ("default", "fast")
"Recipes of a first training, the best first."


def has_enough_data(events: int, people: int, products: int) -> bool:
    """Return whether a training could learn more than live counts know."""
    return events >= LEAST_EVENTS and people >= LEAST_PEOPLE and products >= LEAST_PRODUCTS


def choose_first_recipe(estimates: Mapping[str, DryRunEstimate]) -> str | None:
    """Return the best recipe whose training fits into memory and into an hour; None if there is none."""
    for name in RECIPES:
        if estimates[name].fits and estimates[name].seconds <= LONGEST_S:
            return name
    return None
