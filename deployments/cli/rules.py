"""`kiosk rules`: the stored boost rules of an engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.admin.key_admin import KeyAdmin
from cluster.errors import Invalid, Malformed, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.query.language.boost_rules import compile_rule
from cluster.records.boost_rule import MOST_RULES, BoostRule
from cluster.records.validation.boost_rules import read_rules, rule_fault
from cluster.records.validation.json_limits import load_json
from cluster.store.connect import OpenStores
from deployments.cli import screen
from deployments.cli.installation import Installation

app = typer.Typer(help="Stored boost rules: raise, pin, bury or remove products.", no_args_is_help=True)

PUT_EPILOG = """
[bold]Examples[/]

  kiosk rules put development rules.json
  kiosk rules put development -                 read standard input

The file holds one rule, an array of rules, or an object with "rules". A rule:

  {"name": "knives first", "boost_fq": "brand:Birk", "position": [1, 4], "api_names": ["user_to_trending"]}
  {"name": "no tea", "boost": \\[{"field": "categories", "query": "Tea", "action": "remove"}]}
  {"name": "for guests", "boost_fq": "tags:gift", "boosting_tags": ["guest"], "context": {"channel": ["app"]}}
"""
DELETE_EPILOG = """
[bold]Example[/]

  kiosk rules delete development "knives first"
"""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Engine = Annotated[str, typer.Option(help="The engine.")]
Name = Annotated[str, typer.Argument(metavar="APP", help="The app.")]


@app.command("list")
def list_rules(name: Name, engine: Engine = "", as_json: AsJson = False) -> None:
    """List the rules of an app, all engines or one."""

    async def read(keeping: KeyAdmin, stores: OpenStores) -> list[BoostRule]:
        await _check_app(keeping, name)
        return await stores.boost_rules.all(name)

    found = [rule for rule in Installation().administer(read) if engine in ("", rule.engine_id)]
    if as_json:
        screen.print_json({"app_id": name, "rules": [_rule_to_dict(rule) for rule in found]})
        return
    table = screen.build_table("engine", "rule", "priority", "does", "when")
    for rule in found:
        table.add_row(
            rule.engine_id, rule.name, str(rule.priority), _describe_effect(rule), _describe_conditions(rule)
        )
    screen.out().print(table if found else "There are no rules; `kiosk rules put` stores some.")


@app.command("put", epilog=PUT_EPILOG)
def put_rules(
    name: Name,
    file: Annotated[str, typer.Argument(help="JSON file; - for standard input.")],
    engine: Annotated[str, typer.Option(help="The engine of rules that name none.")] = DEFAULT_ENGINE,
    as_json: AsJson = False,
) -> None:
    """Store rules, all or none; one with the same name is replaced. In force within a second or two."""
    rules = parse_rules(_items(file), engine)

    async def store(keeping: KeyAdmin, stores: OpenStores) -> None:
        await _check_app(keeping, name)
        kept = {(rule.engine_id, rule.name) for rule in await stores.boost_rules.all(name)}
        kept |= {(rule.engine_id, rule.name) for rule in rules}
        for engine_id in {rule.engine_id for rule in rules}:
            count = sum(one == engine_id for one, _ in kept)
            if count > MOST_RULES:
                raise Invalid(
                    f"engine {engine_id} would have {count} rules and may have {MOST_RULES}; delete some first"
                )
        await stores.boost_rules.put(name, rules)

    Installation().administer(store)
    if as_json:
        screen.print_json({"app_id": name, "stored": [_rule_to_dict(rule) for rule in rules]})
        return
    names = ", ".join(rule.name for rule in rules)
    screen.out().print(f"{len(rules)} rule{'s' * (len(rules) != 1)} of {name} stored: {names}")


@app.command("delete", epilog=DELETE_EPILOG)
def delete_rules(
    name: Name,
    rules: Annotated[list[str], typer.Argument(help="Names of the rules.")],
    engine: Engine = DEFAULT_ENGINE,
    as_json: AsJson = False,
) -> None:
    """Delete rules; when one of them is unknown nothing is deleted."""

    async def drop(keeping: KeyAdmin, stores: OpenStores) -> int:
        await _check_app(keeping, name)
        known = {rule.name for rule in await stores.boost_rules.all(name) if rule.engine_id == engine}
        unknown = [rule for rule in rules if rule not in known]
        if unknown:
            raise NotFound(
                f"engine {engine} of {name} has no rule {unknown[0]!r}; see `kiosk rules list {name}`"
            )
        return await stores.boost_rules.remove(name, engine, rules)

    count = Installation().administer(drop)
    if as_json:
        screen.print_json({"app_id": name, "engine_id": engine, "deleted": count})
        return
    screen.out().print(f"{count} rule{'s' * (count != 1)} of {name} deleted.")


def parse_rules(items: list[Any], engine: str) -> list[BoostRule]:
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


def _items(file: str) -> list[Any]:
    try:
        found = load_json(_text_of(file), refuse_duplicates=True)
    except Malformed as error:
        reason = error.facts["detail"][0]["msg"]
        raise Invalid(f"{file} is not what JSON should be: {reason}") from error
    if isinstance(found, dict):
        found = found["rules"] if "rules" in found and "name" not in found else [found]
    if not isinstance(found, list) or not found:
        raise Invalid('there are no rules in the file: one rule, an array of rules, or {"rules": [...]}')
    return found


def _text_of(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Invalid(f"{file} can't be read: {error.strerror}") from error


async def _check_app(keeping: KeyAdmin, name: str) -> None:
    if all(one.app_id != name for one in await keeping.apps()):
        raise NotFound(f"there is no app named {name}; see `kiosk apps list`")


def _rule_to_dict(rule: BoostRule) -> dict[str, Any]:
    return rule.model_dump(exclude_defaults=True) | {"name": rule.name, "engine_id": rule.engine_id}


def _describe_effect(rule: BoostRule) -> str:
    places = f" at {', '.join(map(str, rule.position))}" if rule.position else ""
    if rule.boost_fq is not None:
        return f"pin {rule.boost_fq}{places}"
    words = [
        f"{one.action} {one.field} {one.option} {one.query}"
        + (f" at {one.pin_position}" if one.pin_position else "")
        for one in rule.boost
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
        "filter": [one.query for one in rule.filter_query],
        "search": list(rule.search_texts),
        "tag": rule.boosting_tags,
    }
    return "; ".join(f"{word} {', '.join(values)}" for word, values in shown.items() if values) or "always"
