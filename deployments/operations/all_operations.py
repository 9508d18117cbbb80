"""The table of all use cases of the administration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from deployments.operations.access import (
    account_security,
    apps,
    archive_clients,
    archive_terms,
    archives,
    audit_log,
    invitations,
    keys,
    me,
    people,
    personal_tokens,
    tiers,
    user_token_revocation,
)
from deployments.operations.content import (
    catalog,
    erasures,
    feeds,
    import_preview,
    imports,
    quarantine,
    questions,
    rule_history,
    rule_preview,
    rules,
    users,
)
from deployments.operations.framework.operation import Operation, list_operations
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight import (
    evaluation_runs,
    experiment_plan,
    experiments,
    interleaving,
    outcomes,
    overview,
    replays,
    search_activity,
    tryout,
)
from deployments.operations.insight.archive import question_experiments, readership
from deployments.operations.models import (
    engines,
    evaluations,
    promotions,
    recipes,
    runs,
    schedules,
    snapshot_comparison,
    snapshot_trials,
    snapshots,
)

AdminOperation = Operation[AdminServices, Any]

_MODULES: tuple[ModuleType, ...] = (
    catalog,
    users,
    user_token_revocation,
    erasures,
    tryout,
    imports,
    import_preview,
    feeds,
    quarantine,
    apps,
    keys,
    people,
    tiers,
    invitations,
    personal_tokens,
    audit_log,
    me,
    account_security,
    overview,
    engines,
    recipes,
    runs,
    schedules,
    snapshots,
    snapshot_comparison,
    promotions,
    snapshot_trials,
    evaluations,
    evaluation_runs,
    rules,
    rule_history,
    rule_preview,
    experiments,
    experiment_plan,
    interleaving,
    question_experiments,
    search_activity,
    outcomes,
    replays,
    questions,
    readership,
    archive_clients,
    archive_terms,
    archives,
)
"Add a file with operations here."


def build_table(operations: Iterable[AdminOperation]) -> Mapping[str, AdminOperation]:
    """Return name -> operation.

    Errors:
        ValueError: two operations have one name, or one method and path
    """
    table: dict[str, AdminOperation] = {}
    places: set[tuple[str, str]] = set()
    for operation in operations:
        place = (operation.method, operation.path)
        if operation.name in table or place in places:
            raise ValueError(f"operation {operation.name} is defined twice")
        missing = set(operation.path_fields) - set(operation.arguments.model_fields)
        if missing:
            raise ValueError(f"{operation.name}: the path names {sorted(missing)}, the arguments do not")
        table[operation.name] = operation
        places.add(place)
    return table


OPERATIONS = build_table(list_operations(*_MODULES))
