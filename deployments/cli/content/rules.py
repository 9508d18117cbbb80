"""`kiosk rules`: the stored boost rules of an engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cluster.errors import Invalid, Malformed
from cluster.ids import DEFAULT_ENGINE
from cluster.records.boost_rule import BoostRule
from cluster.records.validation.json_limits import load_json
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.operations.content.rules import (
    DeletedRules,
    StoredRuleList,
    StoredRulesChange,
    parse_rules,
)

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
    listed: StoredRuleList = Installation().perform("rules.list", app_id=name, engine_id=engine)
    if as_json:
        screen.print_json(listed.to_dict())
        return
    table = screen.build_table("engine", "rule", "priority", "does", "when")
    for rule in listed.rules:
        table.add_row(
            rule.engine_id, rule.name, str(rule.priority), _describe_effect(rule), _describe_conditions(rule)
        )
    screen.out().print(table if listed.rules else "There are no rules; `kiosk rules put` stores some.")


@app.command("put", epilog=PUT_EPILOG)
def put_rules(
    name: Name,
    file: Annotated[str, typer.Argument(help="JSON file; - for standard input.")],
    engine: Annotated[str, typer.Option(help="The engine of rules that name none.")] = DEFAULT_ENGINE,
    as_json: AsJson = False,
) -> None:
    """Store rules, all or none; one with the same name is replaced. In force within a second or two."""
    items = _items(file)
    parse_rules(items, engine)  # what is wrong with a file is reported before anything is opened
    change: StoredRulesChange = Installation().perform(
        "rules.put", app_id=name, engine_id=engine, rules=items
    )
    if as_json:
        screen.print_json(change.to_dict())
        return
    rules = change.rules
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
    deleted: DeletedRules = Installation().perform("rules.delete", app_id=name, engine_id=engine, names=rules)
    if as_json:
        screen.print_json(deleted.to_dict())
        return
    count = deleted.count
    screen.out().print(f"{count} rule{'s' * (count != 1)} of {name} deleted.")


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
