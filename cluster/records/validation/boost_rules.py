"""Read boost rules as an administrator wrote them, with one message for each invalid rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cluster.errors import Invalid
from cluster.records.boost_rule import BoostRule
from cluster.records.validation.error_messages import explain_error

_RULES: TypeAdapter[list[BoostRule]] = TypeAdapter(list[BoostRule])


def read_rules(items: Sequence[Any]) -> list[BoostRule]:
    """Read rules as an administrator wrote them.

    Errors:
        Invalid: fact `messages`, one sentence per bad rule (`rules.<index>.<path> is invalid. <what to change>`)
    """
    rules: list[BoostRule] = []
    messages: list[str] = []
    names: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        try:
            (rule,) = _RULES.validate_python([item])
        except ValidationError as failure:
            path, text = explain_error(failure.errors(include_url=False)[0], tagged=False)
            messages.append(rule_fault(index, path, text))
            continue
        if (rule.engine_id, rule.name) in names:
            messages.append(rule_fault(index, ["name"], "Another rule of this file has the same name."))
        names.add((rule.engine_id, rule.name))
        rules.append(rule)
    if messages:
        raise Invalid(
            messages[0] if len(messages) == 1 else f"{messages[0]} (and {len(messages) - 1} more)",
            messages=messages,
        )
    return rules


def rule_fault(index: int, path: Sequence[str | int], text: str) -> str:
    """Return the message for an invalid rule."""
    return f"{'.'.join(['rules', str(index), *map(str, path)])} is invalid. {text}"
