"""Old-era answers are equal, byte for byte, to those of the release before both eras were served."""

from __future__ import annotations

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
        assert await old_answers.ask(corner, line["request"]) == line["answer"], line["request"]
