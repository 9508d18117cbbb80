"""The table of all use cases of the administration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from deployments.operations import (
    apps,
    archive_clients,
    audit,
    catalog,
    credentials,
    engines,
    erasures,
    evaluations,
    experiments,
    import_preview,
    imports,
    invitations,
    keys,
    measurements,
    overview,
    people,
    promotions,
    quarantine,
    questions,
    recipes,
    rule_history,
    rule_preview,
    rules,
    runs,
    schedules,
    search_activity,
    snapshot_lists,
    snapshots,
    tokens,
    tryout,
    users,
)
from deployments.operations.operation import Operation
from deployments.operations.services import AdminServices

AdminOperation = Operation[AdminServices, Any]

_AREAS: tuple[tuple[AdminOperation, ...], ...] = (
    catalog.OPERATIONS,
    users.OPERATIONS,
    erasures.OPERATIONS,
    tryout.OPERATIONS,
    imports.OPERATIONS,
    import_preview.OPERATIONS,
    quarantine.OPERATIONS,
    apps.OPERATIONS,
    keys.OPERATIONS,
    people.OPERATIONS,
    invitations.OPERATIONS,
    tokens.OPERATIONS,
    audit.OPERATIONS,
    credentials.OPERATIONS,
    overview.OPERATIONS,
    engines.OPERATIONS,
    recipes.OPERATIONS,
    runs.OPERATIONS,
    schedules.OPERATIONS,
    snapshots.OPERATIONS,
    snapshot_lists.OPERATIONS,
    promotions.OPERATIONS,
    evaluations.OPERATIONS,
    measurements.OPERATIONS,
    rules.OPERATIONS,
    rule_history.OPERATIONS,
    rule_preview.OPERATIONS,
    experiments.OPERATIONS,
    search_activity.OPERATIONS,
    questions.OPERATIONS,
    archive_clients.OPERATIONS,
)
"One tuple per area; add the `OPERATIONS` of a file here."


def build_table(areas: Iterable[Iterable[AdminOperation]] = _AREAS) -> Mapping[str, AdminOperation]:
    """Return name -> operation.

    Errors:
        ValueError: two operations have one name, or one method and path
    """
    table: dict[str, AdminOperation] = {}
    places: set[tuple[str, str]] = set()
    for operation in chain.from_iterable(areas):
        place = (operation.method, operation.path)
        if operation.name in table or place in places:
            raise ValueError(f"operation {operation.name} is defined twice")
        missing = set(operation.path_fields) - set(operation.arguments.model_fields)
        if missing:
            raise ValueError(f"{operation.name}: the path names {sorted(missing)}, the arguments do not")
        table[operation.name] = operation
        places.add(place)
    return table


OPERATIONS = build_table()
