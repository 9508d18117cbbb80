"""The marked commands, programs and answers of README and docs/ do what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.example_player import ExamplePlayer
from tests.contract.page_player import (
    PagePlayer,
    marked_pages,
    parse_commands,
    read_blocks,
    read_pages_before,
)
from tests.house.tree import ROOT


@pytest.mark.parametrize("page", marked_pages(), ids=lambda page: str(page.relative_to(ROOT)))
async def test_every_marked_block_gives_the_documented_answer(page: Path) -> None:
    player = await ExamplePlayer.open()
    try:
        plays = PagePlayer(player)
        for earlier in read_pages_before(page):
            await plays.play(earlier)
        assert await plays.play(page) == len(read_blocks(page))
    finally:
        await player.close()


def test_commands_are_parsed_with_their_status_and_what_they_keep() -> None:
    first, second, third = parse_commands(
        "curl -s a \\\n  -d '{}'\n# 422\ncurl -s b\nID=$(curl -s c | jq -r .data.id)\n"
    )
    assert (first.text.split(), first.status) == (["curl", "-s", "a", "-d", "'{}'"], 200)
    assert (second.text, second.status) == ("curl -s b", 422)
    assert (third.text, third.keep, third.path) == ("curl -s c", "ID", "data.id")
    with pytest.raises(AssertionError, match="no curl command"):
        list(parse_commands("jq . file"))
