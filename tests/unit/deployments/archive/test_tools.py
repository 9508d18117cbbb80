from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import Invalid
from deployments.archive.tools import (
    ASK_ARCHIVE,
    GET_ARCHIVE_ARTICLE,
    TOOLS,
    ToolDeprecation,
    build_tools,
    list_notices,
)

RELEASES = (Path(__file__).parents[3] / "contract").glob("release-*")


def test_tools_have_the_arguments_of_the_specification() -> None:
    arguments = {
        tool.name: {argument.name: (argument.type, argument.required) for argument in tool.arguments}
        for tool in TOOLS
    }
    assert arguments == {
        "ask_archive": {
            "question": ("string", True), "context": ("string", False), "skill_used": ("string", False),
        },
        "get_archive_article": {
            "product_id": ("string", True), "offset": ("integer", True), "skill_used": ("string", False),
        },
        "check_citations": {"citations": ("array", True), "skill_used": ("string", False)},
    }  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_descriptions_hold_what_clients_insist_on(tool: Any) -> None:
    description = tool.to_dict()
    assert description["inputSchema"]["type"] == description["outputSchema"]["type"] == "object"
    assert isinstance(description["inputSchema"]["required"], list)
    assert "additionalProperties" not in description["inputSchema"]
    assert all(
        argument["type"] in ("string", "integer", "array") and argument["description"]
        for argument in description["inputSchema"]["properties"].values()
    )
    assert description["annotations"]["readOnlyHint"] is True
    assert None not in _values(description)


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


def test_a_deprecated_argument_is_announced_in_its_tool_and_in_its_schema() -> None:
    notice = ToolDeprecation(date(2026, 3, 1), date(2026, 3, 31), "purpose")
    question, context, skill = ASK_ARCHIVE.arguments
    tool = replace(ASK_ARCHIVE, arguments=(question, replace(context, deprecation=notice), skill))
    sentence = "Deprecated since 2026-03-01; it will be removed on 2026-03-31. Use purpose instead."
    assert tool.to_dict()["inputSchema"]["properties"]["context"]["description"].endswith(sentence)
    assert tool.to_dict()["description"].endswith(f"The argument context of ask_archive: {sentence}")
    assert tool.parse_arguments({"question": "q", "context": "c"})["context"] == "c"


def test_nothing_is_deprecated_at_present() -> None:
    assert list_notices(TOOLS) == []


def _shrunk(before: Any, after: Any, place: str) -> list[str]:
    """List what a release has and a later one lacks or refuses; texts for people may change."""
    if isinstance(before, dict):
        if not isinstance(after, dict):
            return [f"{place} is no object any more"]
        lost = [f"{place}.{name} is gone" for name in before if name not in after]
        parts = ((name, value) for name, value in before.items() if name in after)
        return [
            *lost,
            *(line for name, value in parts for line in _shrunk(value, after[name], f"{place}.{name}")),
        ]
    if isinstance(before, list):
        named = sorted(before) == sorted(after) if "inputSchema" in place else set(before) <= set(after)
        return [] if named else [f"{place}: {before} became {after}"]
    return [] if before == after else [f"{place}: {before!r} became {after!r}"]


@pytest.mark.parametrize("folder", sorted(RELEASES), ids=lambda folder: folder.name)
def test_the_tools_of_a_release_have_only_gained(folder: Path) -> None:
    """`required` of a request may neither grow nor shrink, that of a result may grow."""
    released = {tool["name"]: tool for tool in json.loads((folder / "tools.json").read_text("utf-8"))}
    present = {tool.name: tool.to_dict() for tool in TOOLS}
    assert _shrunk(released, present, "tools") == []


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (("ask_archive",), None),
        (("ask_archive", "inputSchema", "properties", "context"), None),
        (("ask_archive", "inputSchema", "required"), ["question", "context"]),
        (("get_archive_article", "inputSchema", "properties", "offset", "type"), "string"),
        (("get_archive_article", "outputSchema", "required"), ["product_id"]),
    ],
)
def test_a_lost_name_or_a_new_demand_is_reported(place: tuple[str, ...], change: Any) -> None:
    released: dict[str, Any] = {tool.name: tool.to_dict() for tool in TOOLS}
    changed = inner = json.loads(json.dumps(released))
    for name in place[:-1]:
        inner = inner[name]
    if change is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = change
    assert len(_shrunk(released, changed, "tools")) == 1


def test_the_subjects_of_an_archive_stand_in_its_tools_description() -> None:
    ask, get, _ = build_tools("recipes and kitchens")
    assert ask.description.startswith("Searches the news archive (recipes and kitchens) for a question")
    assert "science" not in ask.description
    assert build_tools("")[0].description.startswith("Searches the news archive for a question")
    assert get is GET_ARCHIVE_ARTICLE


def _values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _values(inner)]
    if isinstance(value, list | tuple):
        return [leaf for inner in value for leaf in _values(inner)]
    return [value]
