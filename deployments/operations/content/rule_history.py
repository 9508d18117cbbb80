"""Changes of stored boost rules: written together with the rule, listed, undone and restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.boost_rule import MOST_RULES, BoostRule, RuleChange, RuleVersion
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.services import AdminServices

MOST_VERSIONS_READ = 2_000


class ListRuleVersions(OfApp):
    """Which changes of rules to list."""

    engine_id: str = Field(default="", description="Only changes in this engine; empty: all engines.")
    name: str = Field(default="", description="Only changes of the rule of this name.")
    limit: int = Field(default=100, ge=1, le=1000, description="Most changes of the list.")


class OfRuleVersion(OfApp):
    """One change of a rule."""

    version_id: str = Field(description="Id of the change, from `rules.history`.")


@dataclass(frozen=True, slots=True)
class RuleHistory:
    """Changes of rules, the newest first."""

    versions: tuple[RuleVersion, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"versions": [version_to_dict(version) for version in self.versions]}


@operation("rules.history", "GET", "/apps/{app_id}/rule-versions")
async def list_versions(services: AdminServices, given: ListRuleVersions) -> RuleHistory:
    """List the changes of rules, the newest first.

    Errors:
        NotFound: no such app
    """
    await require_app(services.stores, given.app_id)
    versions = await services.stores.rule_versions.newest(given.app_id, count=MOST_VERSIONS_READ)
    chosen = [
        version
        for version in versions
        if given.engine_id in ("", version.engine_id) and given.name in ("", version.name)
    ]
    return RuleHistory(tuple(chosen[: given.limit]))


@operation("rules.undo", "POST", "/apps/{app_id}/rule-versions/{version_id}/undo", "editor")
async def undo_change(services: AdminServices, given: OfRuleVersion) -> RuleHistory:
    """Put a rule back to what it was before a change.

    Refused if somebody changed it since.

    Errors:
        NotFound: no such app or change; Conflict: the rule was changed since
    """
    version = await _get_version(services, given)
    stored = await rules_of_engine(services, given.app_id, version.engine_id)
    if stored.get(version.name) != version.after:
        raise Conflict(f"{version.name} was changed since; restore one of its versions instead")
    return await _put_back(services, given.app_id, version, version.before, "undo")


@operation("rules.restore", "POST", "/apps/{app_id}/rule-versions/{version_id}/restore", "editor")
async def restore_version(services: AdminServices, given: OfRuleVersion) -> RuleHistory:
    """Put a rule back to what a change made of it.

    Whatever happened since.

    Errors:
        NotFound: no such app or change
    """
    version = await _get_version(services, given)
    return await _put_back(services, given.app_id, version, version.after, "restore")


def rule_to_dict(rule: BoostRule) -> dict[str, Any]:
    """Return a rule as JSON, without what is left at its default."""
    return rule.model_dump(exclude_defaults=True) | {"name": rule.name, "engine_id": rule.engine_id}


def version_to_dict(version: RuleVersion) -> dict[str, Any]:
    """Return a change as JSON."""
    return {
        "version_id": version.version_id,
        "at": iso_ms(version.at),
        "username": version.username,
        "change": version.change,
        "engine_id": version.engine_id,
        "name": version.name,
        "before": None if version.before is None else rule_to_dict(version.before),
        "after": None if version.after is None else rule_to_dict(version.after),
    }


async def store_rules(
    services: AdminServices, app_id: str, rules: Sequence[BoostRule], change: RuleChange
) -> tuple[RuleVersion, ...]:
    """Store rules with a version of each that differs from the stored one, and return these versions.

    Errors:
        Invalid: an engine would have too many rules
    """
    stored = {(rule.engine_id, rule.name): rule for rule in await services.stores.boost_rules.all(app_id)}
    names = stored.keys() | {(rule.engine_id, rule.name) for rule in rules}
    for engine_id in {rule.engine_id for rule in rules}:
        count = sum(stored_engine_id == engine_id for stored_engine_id, _ in names)
        if count > MOST_RULES:
            raise Invalid(
                f"engine {engine_id} would have {count} rules and may have {MOST_RULES}; delete some first"
            )
    versions = _build_versions(
        services,
        [(before, rule) for rule in rules if (before := stored.get((rule.engine_id, rule.name))) != rule],
        change,
    )
    await services.stores.boost_rules.put(app_id, rules, versions)
    return versions


async def remove_rules(
    services: AdminServices,
    app_id: str,
    engine_id: str,
    rules: Sequence[BoostRule],
    change: RuleChange = "delete",
) -> int:
    """Remove rules of an engine with a version of each, and return how many there were."""
    versions = _build_versions(services, [(rule, None) for rule in rules], change)
    names = [rule.name for rule in rules]
    return await services.stores.boost_rules.remove(app_id, engine_id, names, versions)


def _build_versions(
    services: AdminServices,
    changed: Sequence[tuple[BoostRule | None, BoostRule | None]],
    change: RuleChange,
) -> tuple[RuleVersion, ...]:
    versions = []
    for before, after in changed:
        rule = after or before
        assert rule is not None
        versions.append(
            RuleVersion(
                at=services.now_ms(),
                username=services.principal.username,
                change=change,
                engine_id=rule.engine_id,
                name=rule.name,
                before=before,
                after=after,
            )
        )
    return tuple(versions)


async def _put_back(
    services: AdminServices, app_id: str, version: RuleVersion, rule: BoostRule | None, change: RuleChange
) -> RuleHistory:
    if rule is not None:
        return RuleHistory(await store_rules(services, app_id, [rule], change))
    stored = (await rules_of_engine(services, app_id, version.engine_id)).get(version.name)
    if stored is None:
        return RuleHistory(())
    await remove_rules(services, app_id, version.engine_id, [stored], change)
    return RuleHistory(_build_versions(services, [(stored, None)], change))


async def _get_version(services: AdminServices, given: OfRuleVersion) -> RuleVersion:
    await require_app(services.stores, given.app_id)
    version = await services.stores.rule_versions.get(given.app_id, given.version_id)
    if version is None:
        raise NotFound(f"the rules of {given.app_id} have no version {given.version_id!r}")
    return version


async def rules_of_engine(services: AdminServices, app_id: str, engine_id: str) -> dict[str, BoostRule]:
    """Return the stored rules of an engine by name."""
    rules = await services.stores.boost_rules.all(app_id)
    return {rule.name: rule for rule in rules if rule.engine_id == engine_id}
