"""Use cases of stored boost rules: list, store, order, delete, and what they contradict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from cluster.errors import Invalid, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.query.language.compiled_rules import CompiledRule, compile_rule
from cluster.records.boost_rule import BoostRule
from cluster.records.validation.boost_rules import read_rules, rule_fault
from deployments.operations.content.rule_conflicts import ConflictReport, check_rules
from deployments.operations.content.rule_history import (
    remove_rules,
    rule_to_dict,
    rules_of_engine,
    store_rules,
)
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, OfEngine, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

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


class OfRules(OfEngine):
    """Names of rules of one engine."""

    names: _Names = Field(description="Names of the rules.")


@dataclass(frozen=True, slots=True)
class StoredRuleList:
    """The rules of an app, by engine and name."""

    app_id: str
    rules: tuple[BoostRule, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"app_id": self.app_id, "rules": [rule_to_dict(rule) for rule in self.rules]}

    def to_lines(self) -> ResultLines:
        """Return a table of the rules."""
        rows = [
            (
                rule.engine_id,
                rule.name,
                str(rule.priority),
                _describe_effect(rule),
                _describe_conditions(rule),
            )
            for rule in self.rules
        ]
        empty = "There are no rules; `kiosk rules put` stores some."
        return (ResultTable(("engine", "rule", "priority", "does", "when"), rows, empty),)


async def _read_named(services: AdminServices, given: OfRules) -> list[dict[str, Any]]:
    stored = await rules_of_engine(services, given.app_id, given.engine_id)
    return [rule_to_dict(stored[name]) for name in given.names if name in stored]


async def _read_replaced(services: AdminServices, given: PutRules) -> list[dict[str, Any]]:
    names = {
        (str(item.get("engine_id", given.engine_id)), item.get("name"))
        for item in given.rules
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }
    rules = await services.stores.boost_rules.all(given.app_id)
    return [rule_to_dict(rule) for rule in rules if (rule.engine_id, rule.name) in names]


_RULES = "/apps/{app_id}/rules"
_ENGINE = "/apps/{app_id}/engines/{engine_id}"


@operation("rules.list", "GET", _RULES)
async def list_rules(services: AdminServices, given: ListRules) -> StoredRuleList:
    """List the stored rules of an app, all engines or one.

    Errors:
        NotFound: no such app
    """
    await require_app(services.stores, given.app_id)
    rules = await services.stores.boost_rules.all(given.app_id)
    return StoredRuleList(
        given.app_id, tuple(rule for rule in rules if given.engine_id in ("", rule.engine_id))
    )


@operation(
    "rules.put",
    "PUT",
    _RULES,
    "editor",
    read_before=_read_replaced,
    check=lambda given: parse_rules(given.rules, given.engine_id),
)
async def put_rules(services: AdminServices, given: PutRules) -> PlainResult:
    """Store rules, all or none; a rule with the same name is replaced.

    Errors:
        Invalid: a rule makes no sense, or an engine would have too many; NotFound: no such app
    """
    rules = await asyncio.to_thread(parse_rules, given.rules, given.engine_id)
    await require_app(services.stores, given.app_id)
    await store_rules(services, given.app_id, rules, "put")
    names = ", ".join(rule.name for rule in rules)
    return PlainResult(
        {"app_id": given.app_id, "stored": [rule_to_dict(rule) for rule in rules]},
        (f"{len(rules)} rule{'s' * (len(rules) != 1)} of {given.app_id} stored: {names}",),
    )


@operation(
    "rules.delete",
    "POST",
    _ENGINE + "/rules/delete",
    "editor",
    read_before=_read_named,
)
async def delete_rules(services: AdminServices, given: OfRules) -> PlainResult:
    """Delete rules of an engine, all or none.

    Errors:
        NotFound: no such app or rule
    """
    await require_app(services.stores, given.app_id)
    stored = await rules_of_engine(services, given.app_id, given.engine_id)
    _require_rules(given, stored)
    count = await remove_rules(
        services, given.app_id, given.engine_id, [stored[name] for name in dict.fromkeys(given.names)]
    )
    return PlainResult(
        {"app_id": given.app_id, "engine_id": given.engine_id, "deleted": count},
        (f"{count} rule{'s' * (count != 1)} of {given.app_id} deleted.",),
    )


@operation(
    "rules.order",
    "PUT",
    _ENGINE + "/rules/order",
    "editor",
    read_before=_read_named,
)
async def order_rules(services: AdminServices, given: OfRules) -> StoredRuleList:
    """Give rules of an engine priorities by their order, the first one the highest.

    The places of the others stay.

    Errors:
        NotFound: no such app or rule; Invalid: a rule is named twice
    """
    await require_app(services.stores, given.app_id)
    stored = await rules_of_engine(services, given.app_id, given.engine_id)
    _require_rules(given, stored)
    if len(set(given.names)) < len(given.names):
        raise Invalid("a rule is named twice in the order")
    ranked = sort_rules(stored.values())
    # Rules that are not named keep their ranks; the named ones exchange theirs.
    named = iter(given.names)
    order = [stored[next(named)] if rule.name in given.names else rule for rule in ranked]
    changed = [
        rule.model_copy(update={"priority": priority})
        for rule, priority in zip(order, range(10 * len(order), 0, -10), strict=True)
        if rule.priority != priority
    ]
    await store_rules(services, given.app_id, changed, "order")
    return await list_rules(services, ListRules(app_id=given.app_id, engine_id=given.engine_id))


@operation("rules.conflicts", "GET", "/apps/{app_id}/rule-conflicts")
async def check_conflicts(services: AdminServices, given: ListRules) -> ConflictReport:
    """List rules that contradict each other, and rules that never apply.

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
        tuple(conflict for report in reports for conflict in report.conflicts),
        tuple(idle for report in reports for idle in report.idle),
    )


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


def _require_rules(given: OfRules, stored: Mapping[str, BoostRule]) -> None:
    for name in given.names:
        if name not in stored:
            app_id = given.app_id
            raise NotFound(
                f"engine {given.engine_id} of {app_id} has no rule {name!r}; see `kiosk rules list {app_id}`"
            )


def _describe_effect(rule: BoostRule) -> str:
    places = f" at {', '.join(map(str, rule.position))}" if rule.position else ""
    if rule.boost_fq is not None:
        return f"pin {rule.boost_fq}{places}"
    words = [
        f"{part.action} {part.field} {part.option} {part.query}"
        + (f" at {part.pin_position}" if part.pin_position else "")
        for part in rule.boost
    ]
    return ("; ".join(words) + places) or "hands out its asset"


def _describe_conditions(rule: BoostRule) -> str:
    if not rule.enabled:
        return "never: switched off"
    shown: dict[str, Sequence[str]] = {
        "endpoint": rule.api_names,
        "anchor": rule.anchor_products,
        "module": rule.module_names,
        "context": list(rule.context),
        "filter": [part.query for part in rule.filter_query],
        "search": list(rule.search_texts),
        "tag": rule.boosting_tags,
    }
    return "; ".join(f"{word} {', '.join(values)}" for word, values in shown.items() if values) or "always"
