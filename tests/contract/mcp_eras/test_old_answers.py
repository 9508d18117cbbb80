"""Old-era answers are equal, byte for byte, to those of the release before both eras were served."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.contract.mcp_eras import old_answers
from tests.fakes.archive import open_archive_corner

RECORDED = old_answers.read()


def test_the_recording_has_all_kinds_of_answers() -> None:
    assert {line["answer"]["status"] for line in RECORDED} == {200, 202, 204, 401, 403, 404, 405}
    assert len(RECORDED) > 240


@pytest.mark.parametrize("times", [1, 2])
async def test_every_recorded_answer_is_equal(times: int) -> None:
    corner = await open_archive_corner()
    for line in RECORDED * times:
        answer = await old_answers.ask(corner, line["request"])
        if answer != line["answer"]:
            # Lists of tools alone may gain: other tools, and members of the form of results.
            assert is_gain(line["answer"], answer), line["request"]


def is_gain(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether two answers are lists of tools, and the later one has every tool of the earlier one."""
    (old, old_tools), (new, new_tools) = map(split_list, (before, after))
    for tool, later in zip(old_tools, new_tools, strict=False):
        kept = tool["outputSchema"]["properties"].items() <= later["outputSchema"]["properties"].items()
        old_rest, new_rest = (
            {**item, "outputSchema": item["outputSchema"]["required"]} for item in (tool, later)
        )
        if not kept or old_rest != new_rest:
            return False
    return bool(old_tools) and old == new and len(new_tools) >= len(old_tools)


def split_list(answer: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an answer without its tools and its length, and the tools."""
    message = json.loads(base64.b64decode(answer["body"]) or b"{}")
    tools = message.get("result", {}).pop("tools", [])
    headers = {name: value for name, value in answer["headers"].items() if name != "content-length"}
    return {**answer, "headers": headers, "body": message}, tools
