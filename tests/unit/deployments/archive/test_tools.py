from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from cluster.errors import Invalid
from deployments.archive.tools import ASK_ARCHIVE, GET_ARCHIVE_ARTICLE, TOOLS, ToolDeprecation


def test_there_are_the_two_tools_with_the_arguments_of_the_specification() -> None:
    told = {tool.name: {one.name: (one.type, one.required) for one in tool.arguments} for tool in TOOLS}
    assert told == {
        "ask_archive": {
            "question": ("string", True), "context": ("string", False), "skill_used": ("string", False),
        },
        "get_archive_article": {
            "product_id": ("string", True), "offset": ("integer", True), "skill_used": ("string", False),
        },
    }  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_descriptions_hold_what_clients_insist_on(tool: Any) -> None:
    told = tool.to_dict()
    assert told["inputSchema"]["type"] == told["outputSchema"]["type"] == "object"
    assert isinstance(told["inputSchema"]["required"], list)
    assert "additionalProperties" not in told["inputSchema"]
    assert all(
        one["type"] in ("string", "integer") and one["description"]
        for one in told["inputSchema"]["properties"].values()
    )
    assert told["annotations"]["readOnlyHint"] is True
    assert None not in _values(told)


def test_unknown_arguments_are_ignored_and_null_is_absent() -> None:
    given = {"question": "q", "context": None, "toolCallId": "x", "sessionId": None}
    assert ASK_ARCHIVE.parse_arguments(given) == {"question": "q"}


def test_a_whole_number_with_a_point_is_an_integer() -> None:
    assert GET_ARCHIVE_ARTICLE.parse_arguments({"product_id": "a", "offset": 61.0})["offset"] == 61


@pytest.mark.parametrize("offset", [True, "61", 1.5, float("inf"), float("nan"), []])
def test_what_is_no_integer_is_refused_by_name(offset: Any) -> None:
    with pytest.raises(Invalid, match="offset must be an integer"):
        GET_ARCHIVE_ARTICLE.parse_arguments({"product_id": "a", "offset": offset})


def test_a_deprecated_tool_names_its_removal_date_and_works_until_then() -> None:
    notice = ToolDeprecation(date(2026, 3, 1), date(2026, 3, 31), "search_archive")
    tool = replace(ASK_ARCHIVE, deprecation=notice)
    assert tool.to_dict()["description"].endswith(
        "Deprecated since 2026-03-01; it will be removed on 2026-03-31. Use search_archive instead."
    )
    assert tool.parse_arguments({"question": "q"}) == {"question": "q"}


def test_a_deprecation_of_less_than_30_days_can_not_be_written_down() -> None:
    with pytest.raises(ValueError, match="30 days"):
        ToolDeprecation(date(2026, 3, 1), date(2026, 3, 30))


def test_nothing_is_deprecated_at_present() -> None:
    assert [tool.deprecation for tool in TOOLS] == [None, None]


def _values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _values(inner)]
    if isinstance(value, list | tuple):
        return [leaf for inner in value for leaf in _values(inner)]
    return [value]
