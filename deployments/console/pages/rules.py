"""Pages of stored rules: list with conflicts, editor with preview, history with undo."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from starlette.responses import Response

from cluster.clock import iso_ms
from cluster.errors import Invalid, KioskError, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.records.boost_rule import ApiName, BoostRule, Option, ProductBoost
from cluster.word_lists import words_from_text
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest
from deployments.operations.content.rule_history import rule_to_dict
from deployments.operations.content.rules import sort_rules

LIST = "/apps/{app_id}/rules"
EDITOR = "/apps/{app_id}/rules/edit"
HISTORY = "/apps/{app_id}/rules/history"
_FORM_FIELDS = words_from_text(
    "name engine_id enabled priority query queries query_option api_names anchor_products boosting_tags "
    "boost boost_fq position starts_at ends_at"
)
"Fields of a rule that the form has inputs for; the others stand in `more`."
_LONGEST_QUERY = 1_000
LISTED = 50
"Rules on one page."
_DONE = {"undo": "rules.undo_done", "restore": "rules.restore_done"}
ACTIONS = ("pin", "bury", "remove")
OPTIONS: tuple[str, ...] = get_args(Option)
ENDPOINTS: tuple[str, ...] = get_args(ApiName)


async def list_rules(request: ConsoleRequest) -> Response:
    """Show the rules of every engine in the order in which they win places, and what is wrong with them."""
    listed, report = await asyncio.gather(
        request.perform("rules.list"),
        request.perform("rules.conflicts"),
    )
    now_ms = request.services.clock.now_ms()
    # Sorting is stable, so the rules of an engine keep the order in which they win places.
    ranked = sorted(sort_rules(listed.rules), key=lambda rule: rule.engine_id)
    text = request.query.get("start", "0")
    # `isdecimal`, because `isdigit` accepts characters as "²" that `int` refuses; the length bounds the
    # number.
    start = int(text) if text.isdecimal() and len(text) < 9 else 0
    engines: dict[str, list[Any]] = {}
    for at, rule in enumerate(ranked[start : start + LISTED], start):
        is_first = at == 0 or ranked[at - 1].engine_id != rule.engine_id
        is_last = at == len(ranked) - 1 or ranked[at + 1].engine_id != rule.engine_id
        row = (rule, describe_state(rule, now_ms), is_first, is_last)
        engines.setdefault(rule.engine_id, []).append(row)
    return request.page(
        "rules/list.html",
        engines=engines,
        report=report,
        describe=describe_rule,
        start=start,
        rows=LISTED,
        total=len(ranked),
    )


async def show_editor(request: ConsoleRequest) -> Response:
    """Show the form of a rule, empty or filled.

    Errors:
        NotFound: no such rule
    """
    engine_id = request.query.get("engine", DEFAULT_ENGINE)
    name = request.query.get("name", "")
    rule: BoostRule | None = None
    if name:
        listed = await request.perform("rules.list", engine_id=engine_id)
        rule = next((listed_rule for listed_rule in listed.rules if listed_rule.name == name), None)
        if rule is None:
            raise NotFound(f"engine {engine_id} has no rule {name!r}")
    return request.page(
        "rules/editor.html",
        rule=rule,
        engines=await _list_engines(request, engine_id),
        values=_values_again(request) or _first_values(request, rule, engine_id),
        options=OPTIONS,
        actions=ACTIONS,
        endpoints=ENDPOINTS,
        chosen_endpoints=request.form_lists.get("api_names", rule.api_names if rule else []),
    )


async def _list_engines(request: ConsoleRequest, engine_id: str) -> list[str]:
    listed = await request.perform("engines.list")
    return sorted({engine_id, *(view.engine.engine_id for view in listed.engines)})


def _first_values(request: ConsoleRequest, rule: BoostRule | None, engine_id: str) -> dict[str, Any]:
    """Return the values of the inputs; a new rule may be for a search that the address names."""
    values = form_values(rule, engine_id)
    text = request.query.get("queries", "")[:_LONGEST_QUERY]
    return values if rule is not None or not text else {**values, "queries": text, "query_option": "is"}


def _values_again(request: ConsoleRequest) -> dict[str, Any] | None:
    """Return the values of a form that was refused, whose products have no inputs of their own."""
    if not request.form:
        return None
    positions = request.form_lists.get("pick_position", [])
    picks = [
        {"product_id": product_id, "position": position}
        for product_id, position in zip(request.form_lists.get("pick", []), positions, strict=False)
    ]
    return {**form_values(None, DEFAULT_ENGINE), "picks": picks}


async def find_products(request: ConsoleRequest) -> Response:
    """Show products of a search, to choose some for a rule."""
    q = request.query.get("q", "").strip()
    products = list[Any]()
    message = ""
    if q:
        try:
            page = await request.perform("catalog.search", q=q[:1_000], limit=8)
            products = page["products"]
        except KioskError as error:
            message = error.message
    return request.fragment("rules/products.html", products=products, message=message)


async def save_rule(request: ConsoleRequest) -> Response:
    """Store the rule of the form."""
    rule = rule_from_form(request.form, request.form_lists)
    await request.perform("rules.put", rules=[rule])
    return request.redirect(LIST, "rules.saved", name=rule.get("name", ""))


async def preview_rule(request: ConsoleRequest) -> Response:
    """Show what the rule of the form would change; mistakes in it appear in the same place."""
    try:
        rule = rule_from_form(request.form, request.form_lists)
        preview = await request.perform(
            "rules.preview",
            engine_id=rule["engine_id"],
            rule=rule,
            queries=_lines(request.form.get("try_queries", ""))[:6],
            users=_lines(request.form.get("try_users", ""))[:6],
            products=_lines(request.form.get("try_products", ""))[:6],
        )
    except KioskError as error:
        return request.fragment("rules/preview.html", preview=None, message=error.message)
    return request.fragment("rules/preview.html", preview=preview, message="")


async def delete_rule(request: ConsoleRequest) -> Response:
    """Delete a rule."""
    name = request.form.get("name", "")
    await request.perform("rules.delete", engine_id=request.form.get("engine_id", ""), names=[name])
    return request.redirect(LIST, "rules.deleted", name=name)


async def move_rule(request: ConsoleRequest) -> Response:
    """Let a rule change places with the one before or after it.

    Errors:
        NotFound: no such rule
    """
    engine_id = request.form.get("engine_id", "")
    name = request.form.get("name", "")
    listed = await request.perform("rules.list", engine_id=engine_id)
    names = [rule.name for rule in sort_rules(listed.rules)]
    if name not in names:
        raise NotFound(f"engine {engine_id} has no rule {name!r}")
    at = names.index(name)
    to = at - 1 if request.form.get("direction") == "up" else at + 1
    if 0 <= to < len(names):
        names.insert(to, names.pop(at))
        await request.perform("rules.order", engine_id=engine_id, names=names)
    return request.redirect(LIST, "rules.moved", name=name)


async def show_history(request: ConsoleRequest) -> Response:
    """Show who changed which rule."""
    name = request.query.get("name", "")
    history = await request.perform("rules.history", name=name, limit=50)
    return request.page("rules/history.html", versions=history.versions, name=name, describe=describe_rule)


async def undo_change(request: ConsoleRequest) -> Response:
    """Put a rule back to what it was before a change, or to what a change made of it."""
    verb = "restore" if request.form.get("verb") == "restore" else "undo"
    await request.perform(f"rules.{verb}", version_id=request.form.get("version_id", ""))
    return request.redirect(LIST, _DONE[verb])


def rule_from_form(form: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the rule that a form describes; fields without an input come from the JSON in `more`.

    Errors:
        Invalid: a number or the JSON can't be read
    """
    rule = _read_more(form.get("more", ""))
    rule["name"] = form.get("name", "").strip()
    rule["engine_id"] = form.get("engine_id", "").strip() or DEFAULT_ENGINE
    rule["enabled"] = "enabled" in form
    rule["priority"] = _number(form.get("priority", "") or "0", "priority")
    texts = _lines(form.get("queries", ""))
    if texts:
        rule["queries"] = texts
        rule["query_option"] = form.get("query_option", "contains")
    for name, values in (
        ("api_names", list(lists.get("api_names", ()))),
        ("anchor_products", _lines(form.get("anchor_products", ""))),
        ("boosting_tags", _lines(form.get("boosting_tags", ""))),
        ("position", [_number(position, "position") for position in _split(form.get("position", ""))]),
    ):
        if values:
            rule[name] = values
    if form.get("boost_fq", "").strip():
        rule["boost_fq"] = form["boost_fq"].strip()
    boosts = _read_picks(lists)
    if form.get("field", "").strip():
        boosts += [
            {
                "field": form["field"].strip(),
                "option": form.get("option", "is"),
                "query": form.get("text", ""),
                "action": form.get("action", "pin"),
            }
        ]
    if boosts:
        rule["boost"] = boosts
    for name in ("starts_at", "ends_at"):
        if form.get(name, "").strip():
            rule[name] = form[name].strip()
    return rule


def _read_picks(lists: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return the chosen products, each pinned to its position."""
    return [
        {"field": "product_id", "query": product_id, "pin_position": _number(position, "position")}
        for product_id, position in zip(lists.get("pick", ()), lists.get("pick_position", ()), strict=False)
        if product_id
    ]


def _is_pick(boost: ProductBoost) -> bool:
    """Return whether the form shows a boost as a product at a position."""
    return (boost.field, boost.option) == ("product_id", "is") and boost.pin_position is not None


def form_values(rule: BoostRule | None, engine_id: str) -> dict[str, Any]:
    """Return the values of the inputs for a rule, or for a new one."""
    if rule is None:
        return {
            "name": "",
            "engine_id": engine_id,
            "enabled": True,
            "priority": 0,
            "queries": "",
            "query_option": "contains",
            "anchor_products": "",
            "boosting_tags": "",
            "boost_fq": "",
            "field": "",
            "option": "is",
            "text": "",
            "action": "pin",
            "position": "",
            "starts_at": "",
            "ends_at": "",
            "more": "",
            "picks": [],
        }
    rest = [effect for effect in rule.boost if not _is_pick(effect)]
    # The inputs hold one effect without a place; anything else is edited as JSON, or saving would lose it.
    boost = rest[0] if len(rest) == 1 and rest[0].pin_position is None else None
    has_inputs = boost is not None or not rest
    picks = [effect for effect in rule.boost if _is_pick(effect)] if has_inputs else []
    shown = _FORM_FIELDS if has_inputs else tuple(name for name in _FORM_FIELDS if name != "boost")
    more = {name: value for name, value in rule_to_dict(rule).items() if name not in shown}
    return {
        "name": rule.name,
        "engine_id": rule.engine_id,
        "enabled": rule.enabled,
        "priority": rule.priority,
        "queries": "\n".join(rule.search_texts),
        "query_option": rule.query_option,
        "anchor_products": "\n".join(rule.anchor_products),
        "boosting_tags": "\n".join(rule.boosting_tags),
        "boost_fq": rule.boost_fq or "",
        "field": boost.field if boost else "",
        "option": boost.option if boost else "is",
        "text": boost.query if boost else "",
        "action": boost.action if boost else "pin",
        "position": ", ".join(map(str, rule.position)),
        "starts_at": _local_text(rule.starts_at),
        "ends_at": _local_text(rule.ends_at),
        "picks": [{"product_id": effect.query, "position": effect.pin_position} for effect in picks],
        "more": json.dumps(more, ensure_ascii=False, indent=2) if more else "",
    }


def describe_state(rule: BoostRule, now_ms: int) -> str:
    """Return `off`, `waiting`, `over` or `on`."""
    if not rule.enabled:
        return "off"
    if rule.ends_at is not None and rule.ends_at <= now_ms:
        return "over"
    return "on" if rule.is_in_force(now_ms) else "waiting"


def describe_rule(rule: BoostRule) -> dict[str, str]:
    """Return the effect and the conditions of a rule in short texts."""
    places = f" @ {', '.join(map(str, rule.position))}" if rule.position else ""
    if rule.boost_fq is not None:
        effect = f"pin {rule.boost_fq}{places}"
    else:
        effect = (
            "; ".join(
                f"pin {entry.query} @ {entry.pin_position}"
                if _is_pick(entry)
                else f"{entry.action} {entry.field} {entry.option} {entry.query}"
                for entry in rule.boost
            )
            + places
        )
    conditions: dict[str, Sequence[str]] = {
        "search": rule.search_texts,
        "endpoint": rule.api_names,
        "anchor": rule.anchor_products,
        "module": rule.module_names,
        "context": list(rule.context),
        "tag": rule.boosting_tags,
        "filter": [condition.query for condition in rule.filter_query],
    }
    parts = [f"{word} {', '.join(values[:4])}" for word, values in conditions.items() if values]
    return {"effect": effect or "asset", "when": "; ".join(parts)}


def _read_more(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        more = json.loads(text)
    except (ValueError, RecursionError):
        raise Invalid("more is not what JSON should be") from None
    if not isinstance(more, dict):
        raise Invalid("more has to be a JSON object")
    return more


def _number(text: str, name: str) -> int:
    try:
        # Cut first: the conversion of a long text takes time that grows with its square.
        return int(text.strip()[:20])
    except ValueError:
        raise Invalid(f"{name}: {text.strip()[:40]!r} is no whole number") from None


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _split(text: str) -> list[str]:
    return [part for part in text.replace(",", " ").split() if part]


def _local_text(at_ms: int | None) -> str:
    return "" if at_ms is None else iso_ms(at_ms)[:16]


PAGES = (
    Page(LIST, list_rules),
    Page(EDITOR, show_editor, role="editor"),
    FormPage(EDITOR, save_rule, role="editor"),
    Page("/apps/{app_id}/rules/products", find_products, role="editor", example="-"),
    FormPage("/apps/{app_id}/rules/preview", preview_rule, role="analyst"),
    FormPage("/apps/{app_id}/rules/delete", delete_rule, role="editor", shown_on=LIST),
    FormPage("/apps/{app_id}/rules/move", move_rule, role="editor", shown_on=LIST),
    Page(HISTORY, show_history),
    FormPage(HISTORY, undo_change, role="editor"),
)
NAVIGATION = (NavigationEntry("rules.nav", LIST, icon="rule"),)
