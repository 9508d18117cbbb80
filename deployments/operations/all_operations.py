"""The table of all use cases of the administration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from deployments.operations.access import (
    apps,
    archive_clients,
    credentials,
    invitations,
    keys,
    people,
    tokens,
)
from deployments.operations.content import (
    catalog,
    erasures,
    import_preview,
    imports,
    quarantine,
    questions,
    rule_history,
    rule_preview,
    rules,
    users,
)
from deployments.operations.frame import audit
from deployments.operations.frame.operation import Operation
from deployments.operations.frame.services import AdminServices
from deployments.operations.insight import experiments, measurements, overview, search_activity, tryout
from deployments.operations.models import (
    engines,
    evaluations,
    promotions,
    recipes,
    runs,
    schedules,
    snapshot_lists,
    snapshots,
)

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
