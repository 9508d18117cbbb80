"""Use cases of stored boost rules: list, store, order, delete, undo, and what they contradict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from cluster.clock import iso_ms
from cluster.errors import Conflict, Invalid, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.query.language.boost_rules import CompiledRule, compile_rule
from cluster.records.boost_rule import MOST_RULES, BoostRule
from cluster.records.rule_version import RuleChange, RuleVersion
from cluster.records.validation.boost_rules import read_rules, rule_fault
from deployments.operations.app_access import require_app
from deployments.operations.operation import OfApp, OfEngine, Operation
from deployments.operations.rule_conflicts import ConflictReport, check_rules
from deployments.operations.services import AdminServices

MOST_VERSIONS_READ = 2_000
_CHECKED_S = 300.0
"Seconds for which the conflicts of equal rules are kept; a rule whose time window ends is found idle that much later."
_Names = Annotated[list[str], Field(min_length=1, max_length=10_000)]


class ListRules(OfApp):
    """Which rules to list."""

    engine_id: str = Field(default="", description="Only rules of this engine; empty: all engines.")


class PutRules(OfApp):
    """Rules to store."""

    rules: Annotated[list[Any], Field(min_length=1, max_length=10_000)]
    engine_id: str = Field(default=DEFAULT_ENGINE, description="The engine of rules that name none.")


class NamedRules(OfEngine):
    """Names of rules of one engine."""

    names: _Names


class ListRuleVersions(OfApp):
    """Which changes of rules to list."""

    engine_id: str = Field(default="", description="Only changes in this engine; empty: all engines.")
    name: str = Field(default="", description="Only changes of the rule of this name.")
    limit: int = Field(default=100, ge=1, le=1000, description="Most changes of the list.")


class OneRuleVersion(OfApp):
    """One change of a rule."""

    version_id: str = Field(description="Id of the change, from `rules.history`.")


@dataclass(frozen=True, slots=True)
class StoredRuleList:
    """The rules of an app, by engine and name."""

    app_id: str
    rules: tuple[BoostRule, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as JSON."""
        return {"app_id": self.app_id, "rules": [rule_to_dict(rule) for rule in self.rules]}


@dataclass(frozen=True, slots=True)
class StoredRulesChange:
    """The rules that a change stored."""

    app_id: str
    rules: tuple[BoostRule, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as JSON."""
        return {"app_id": self.app_id, "stored": [rule_to_dict(rule) for rule in self.rules]}


@dataclass(frozen=True, slots=True)
class DeletedRules:
    """How many rules were deleted."""

    app_id: str
    engine_id: str
    count: int

    def to_dict(self) -> dict[str, Any]:
        """Return the number as JSON."""
        return {"app_id": self.app_id, "engine_id": self.engine_id, "deleted": self.count}


@dataclass(frozen=True, slots=True)
class RuleHistory:
    """Changes of rules, the newest first."""

    versions: tuple[RuleVersion, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the changes as JSON."""
        return {"versions": [version_to_dict(one) for one in self.versions]}


async def list_rules(services: AdminServices, given: ListRules) -> StoredRuleList:
    """Return the rules of an app, all engines or one.

    Errors:
        NotFound: no such app
    """
    await require_app(services.stores, given.app_id)
    rules = await services.stores.boost_rules.all(given.app_id)
    return StoredRuleList(
        given.app_id, tuple(rule for rule in rules if given.engine_id in ("", rule.engine_id))
    )


async def put_rules(services: AdminServices, given: PutRules) -> StoredRulesChange:
    """Store rules, all or none; one with the same name is replaced.

    Errors:
        Invalid: a rule makes no sense, or an engine would have too many; NotFound: no such app
    """
    rules = parse_rules(given.rules, given.engine_id)
    await require_app(services.stores, given.app_id)
    await _store(services, given.app_id, rules, "put")
    return StoredRulesChange(given.app_id, tuple(rules))


async def delete_rules(services: AdminServices, given: NamedRules) -> DeletedRules:
    """Delete rules of an engine; if one of them does not exist nothing is deleted.

    Errors:
        NotFound: no such app or rule
    """
    await require_app(services.stores, given.app_id)
    stored = await _rules_of_engine(services, given.app_id, given.engine_id)
    _require_rules(given, stored)
    count = await _remove(services, given.app_id, [stored[name] for name in dict.fromkeys(given.names)])
    return DeletedRules(given.app_id, given.engine_id, count)


async def order_rules(services: AdminServices, given: NamedRules) -> StoredRuleList:
    """Give rules new priorities, so that they stand in the given order; the places of the others stay.

    Errors:
        NotFound: no such app or rule; Invalid: a rule is named twice
    """
    await require_app(services.stores, given.app_id)
    stored = await _rules_of_engine(services, given.app_id, given.engine_id)
    _require_rules(given, stored)
    if len(set(given.names)) < len(given.names):
        raise Invalid("a rule is named twice in the order")
    ranked = sort_rules(stored.values())
    named = iter(given.names)
    order = [stored[next(named)] if rule.name in given.names else rule for rule in ranked]
    changed = [
        rule.model_copy(update={"priority": priority})
        for rule, priority in zip(order, range(10 * len(order), 0, -10), strict=True)
        if rule.priority != priority
    ]
    await _store(services, given.app_id, changed, "order")
    return await list_rules(services, ListRules(app_id=given.app_id, engine_id=given.engine_id))


async def check_conflicts(services: AdminServices, given: ListRules) -> ConflictReport:
    """Return which rules contradict each other, and which never apply.

    Errors:
        NotFound: no such app
    Cost:
        500 rules: up to 0.2 s in another thread, once in five minutes while no rule changes
    """
    rules = (await list_rules(services, given)).rules
    key = ("rules.conflicts", given.app_id, tuple(rule.model_dump_json() for rule in rules))
    report: ConflictReport = await services.cache.get(
        key, lambda: asyncio.to_thread(_check, rules, services.now_ms()), keep_s=_CHECKED_S
    )
    return report


def _check(rules: Sequence[BoostRule], now_ms: int) -> ConflictReport:
    by_engine: dict[str, list[CompiledRule]] = {}
    for rule in rules:
        compiled = compile_or_none(rule)
        if compiled is not None:
            by_engine.setdefault(rule.engine_id, []).append(compiled)
    reports = [check_rules(some, now_ms) for some in by_engine.values()]
    return ConflictReport(
        tuple(one for report in reports for one in report.conflicts),
        tuple(one for report in reports for one in report.idle),
    )


async def list_versions(services: AdminServices, given: ListRuleVersions) -> RuleHistory:
    """Return changes of rules, the newest first.

    Errors:
        NotFound: no such app
    """
    await require_app(services.stores, given.app_id)
    versions = await services.stores.rule_versions.newest(given.app_id, count=MOST_VERSIONS_READ)
    chosen = [
        one for one in versions if given.engine_id in ("", one.engine_id) and given.name in ("", one.name)
    ]
    return RuleHistory(tuple(chosen[: given.limit]))


async def undo_change(services: AdminServices, given: OneRuleVersion) -> RuleHistory:
    """Put a rule back to what it was before a change, if nobody changed it since.

    Errors:
        NotFound: no such app or change; Conflict: the rule was changed since
    """
    version = await _get_version(services, given)
    stored = await _rules_of_engine(services, given.app_id, version.engine_id)
    if stored.get(version.name) != version.after:
        raise Conflict(f"{version.name} was changed since; restore one of its versions instead")
    return await _put_back(services, given.app_id, version, version.before, "undo")


async def restore_version(services: AdminServices, given: OneRuleVersion) -> RuleHistory:
    """Put a rule back to what a change made of it, whatever happened since.

    Errors:
        NotFound: no such app or change
    """
    version = await _get_version(services, given)
    return await _put_back(services, given.app_id, version, version.after, "restore")


def parse_rules(items: Sequence[Any], engine: str) -> list[BoostRule]:
    """Read rules and parse their filters; those that name no engine belong to `engine`.

    Errors:
        Invalid: one sentence says what to change
    """
    placed = [{"engine_id": engine, **item} if isinstance(item, dict) else item for item in items]
    rules = read_rules(placed)
    for index, rule in enumerate(rules):
        try:
            compile_rule(rule)
        except Invalid as error:
            raise Invalid(rule_fault(index, error.facts.get("path", ()), error.message)) from error
    return rules


def compile_or_none(rule: BoostRule) -> CompiledRule | None:
    """Return a rule compiled; None: a newer release wrote it, and this one can't parse it."""
    try:
        return compile_rule(rule)
    except Invalid:
        return None


def sort_rules(rules: Any) -> list[BoostRule]:
    """Return rules as they win places: by priority, then by name."""
    return sorted(rules, key=lambda rule: (-rule.priority, rule.name))


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


async def _store(
    services: AdminServices, app_id: str, rules: Sequence[BoostRule], change: RuleChange
) -> tuple[RuleVersion, ...]:
    stored = {(rule.engine_id, rule.name): rule for rule in await services.stores.boost_rules.all(app_id)}
    names = stored.keys() | {(rule.engine_id, rule.name) for rule in rules}
    for engine_id in {rule.engine_id for rule in rules}:
        count = sum(one == engine_id for one, _ in names)
        if count > MOST_RULES:
            raise Invalid(
                f"engine {engine_id} would have {count} rules and may have {MOST_RULES}; delete some first"
            )
    await services.stores.boost_rules.put(app_id, rules)
    changed = [
        (stored.get((rule.engine_id, rule.name)), rule)
        for rule in rules
        if stored.get((rule.engine_id, rule.name)) != rule
    ]
    return await _record(services, app_id, changed, change)


async def _remove(
    services: AdminServices, app_id: str, rules: Sequence[BoostRule], change: RuleChange = "delete"
) -> int:
    count = 0
    for engine_id in {rule.engine_id for rule in rules}:
        names = [rule.name for rule in rules if rule.engine_id == engine_id]
        count += await services.stores.boost_rules.remove(app_id, engine_id, names)
    await _record(services, app_id, [(rule, None) for rule in rules], change)
    return count


async def _record(
    services: AdminServices,
    app_id: str,
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
    await services.stores.rule_versions.append(app_id, versions)
    return tuple(versions)


async def _put_back(
    services: AdminServices, app_id: str, version: RuleVersion, rule: BoostRule | None, change: RuleChange
) -> RuleHistory:
    if rule is not None:
        return RuleHistory(await _store(services, app_id, [rule], change))
    stored = await _rules_of_engine(services, app_id, version.engine_id)
    if version.name in stored:
        await _remove(services, app_id, [stored[version.name]], change)
    return RuleHistory(
        (
            RuleVersion(
                at=services.now_ms(),
                username=services.principal.username,
                change=change,
                engine_id=version.engine_id,
                name=version.name,
                before=stored.get(version.name),
            ),
        )
    )


async def _get_version(services: AdminServices, given: OneRuleVersion) -> RuleVersion:
    await require_app(services.stores, given.app_id)
    version = await services.stores.rule_versions.get(given.app_id, given.version_id)
    if version is None:
        raise NotFound(f"the rules of {given.app_id} have no version {given.version_id!r}")
    return version


async def _rules_of_engine(services: AdminServices, app_id: str, engine_id: str) -> dict[str, BoostRule]:
    rules = await services.stores.boost_rules.all(app_id)
    return {rule.name: rule for rule in rules if rule.engine_id == engine_id}


def _require_rules(given: NamedRules, stored: Mapping[str, BoostRule]) -> None:
    for name in given.names:
        if name not in stored:
            app_id = given.app_id
            raise NotFound(
                f"engine {given.engine_id} of {app_id} has no rule {name!r}; see `kiosk rules list {app_id}`"
            )


async def _read_named(services: AdminServices, given: NamedRules) -> list[dict[str, Any]]:
    stored = await _rules_of_engine(services, given.app_id, given.engine_id)
    return [rule_to_dict(stored[name]) for name in given.names if name in stored]


async def _read_replaced(services: AdminServices, given: PutRules) -> list[dict[str, Any]]:
    names = {
        (str(item.get("engine_id", given.engine_id)), item.get("name"))
        for item in given.rules
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }
    rules = await services.stores.boost_rules.all(given.app_id)
    return [rule_to_dict(rule) for rule in rules if (rule.engine_id, rule.name) in names]


_ENGINE = "/apps/{app_id}/engines/{engine_id}"
_EXAMPLE_RULE = {"name": "knives first", "boost_fq": "brand:Birk", "position": [1, 4]}

OPERATIONS: tuple[Operation[AdminServices, Any], ...] = (
    Operation(
        "rules.list", "List the stored rules of an app, all engines or one.", "viewer", "GET",
        "/apps/{app_id}/rules", ListRules, list_rules, example={"app_id": "bookshop"},
        example_result={"app_id": "bookshop", "rules": [{**_EXAMPLE_RULE, "engine_id": "default"}]},
    ),
    Operation(
        "rules.put", "Store rules, all or none; a rule with the same name is replaced.", "editor", "PUT",
        "/apps/{app_id}/rules", PutRules, put_rules, read_before=_read_replaced,
        example={"app_id": "bookshop", "rules": [_EXAMPLE_RULE]},
        example_result={"app_id": "bookshop", "stored": [{**_EXAMPLE_RULE, "engine_id": "default"}]},
    ),
    Operation(
        "rules.delete", "Delete rules of an engine, all or none.", "editor", "POST",
        _ENGINE + "/rules/delete", NamedRules, delete_rules, read_before=_read_named,
        example={"app_id": "bookshop", "engine_id": "default", "names": ["knives first"]},
        example_result={"app_id": "bookshop", "engine_id": "default", "deleted": 1},
    ),
    Operation(
        "rules.order", "Give rules of an engine priorities by their order, the first one the highest.", "editor", "PUT",
        _ENGINE + "/rules/order", NamedRules, order_rules, read_before=_read_named,
        example={"app_id": "bookshop", "engine_id": "default", "names": ["knives first", "no tea"]},
        example_result={
            "app_id": "bookshop",
            "rules": [{**_EXAMPLE_RULE, "engine_id": "default", "priority": 20}],
        },
    ),
    Operation(
        "rules.conflicts", "List rules that contradict each other, and rules that never apply.", "viewer", "GET",
        "/apps/{app_id}/rule-conflicts", ListRules, check_conflicts, example={"app_id": "bookshop"},
        example_result={"conflicts": [], "idle": []},
    ),
    Operation(
        "rules.history", "List the changes of rules, the newest first.", "viewer", "GET",
        "/apps/{app_id}/rule-versions", ListRuleVersions, list_versions,
        example={"app_id": "bookshop", "name": "knives first"}, example_result={"versions": []},
    ),
    Operation(
        "rules.undo", "Put a rule back to what it was before a change.", "editor", "POST",
        "/apps/{app_id}/rule-versions/{version_id}/undo", OneRuleVersion, undo_change,
        example={"app_id": "bookshop", "version_id": "1772442930250-0"}, example_result={"versions": []},
    ),
    Operation(
        "rules.restore", "Put a rule back to what a change made of it.", "editor", "POST",
        "/apps/{app_id}/rule-versions/{version_id}/restore", OneRuleVersion, restore_version,
        example={"app_id": "bookshop", "version_id": "1772442930250-0"}, example_result={"versions": []},
    ),
)  # fmt: skip
