"""Use cases of recipes and learners, and the recipe that an order names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from actors.models.loading.allowed_learners import ALLOWED
from cluster.errors import NotFound
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import PlainResult
from deployments.operations.framework.services import AdminServices
from deployments.operations.models.engines import check_app

if TYPE_CHECKING:
    from jobs.refresh.recipe import Recipe

# Training code is imported where it is used: an API replica that shows no models does not hold it.


@operation("recipes.list", "GET", "/apps/{app_id}/recipes")
async def list_recipes(services: AdminServices, given: OfApp) -> PlainResult:
    """List the built-in recipes and the learner classes that may run here."""
    await check_app(services, given.app_id)
    recipes = await asyncio.to_thread(_load_presets)
    return PlainResult({"recipes": recipes, "learners": list(ALLOWED.names())})


@operation("learners.list", "GET", "/learners")
async def list_learners(services: AdminServices, given: Arguments) -> dict[str, Any]:
    """List the learner classes that may run in this installation."""
    return {"learners": list(await asyncio.to_thread(ALLOWED.names))}


async def choose_recipe(given: str | Mapping[str, Any], changes: str | Mapping[str, Any]) -> Recipe:
    """Return a built-in recipe by its name, or the one of the given fields, with changed fields.

    Changes are values by the paths of fields, or a text with a line FIELD=VALUE for each. Files are no recipes here:
    the caller of a server must not read them.

    Errors:
        NotFound: there is no built-in recipe of that name
        Invalid: a field does not exist, a value is not allowed, or a learner class is not
    """
    recipe = await asyncio.to_thread(_choose_recipe, given, changes)
    ALLOWED.check_recipe(recipe.model_dump(mode="json"))
    return recipe


def _choose_recipe(given: str | Mapping[str, Any], changes: str | Mapping[str, Any]) -> Recipe:
    from jobs.refresh.recipe import PRESETS, load_recipe_file, parse_recipe
    from jobs.refresh.runs.measurements.sweep import parse_assignments

    if isinstance(changes, str):
        changes = parse_assignments([line.strip() for line in changes.splitlines() if line.strip()])

    if isinstance(given, str):
        if given not in PRESETS:
            raise NotFound(f"there is no recipe {given[:80]!r}; choose from {', '.join(PRESETS)}")
        chosen = load_recipe_file(given)
    else:
        chosen = parse_recipe(given)
    return chosen.with_changes(changes) if changes else chosen


def _load_presets() -> list[dict[str, Any]]:
    from jobs.refresh.recipe import PRESETS, load_recipe_file

    return [load_recipe_file(name).model_dump(mode="json") for name in PRESETS]
