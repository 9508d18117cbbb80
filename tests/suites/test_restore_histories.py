"""Five histories of an installation: each is backed up in the middle of its life, restored and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.restore_histories import open_histories

pytestmark = [
    pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("allow_world"),
]  # fmt: skip
HISTORIES = 5


async def test_every_record_and_answer_is_there_again_after_any_history(tmp_path: Path) -> None:
    async with open_histories(tmp_path, seed=1) as history:
        for _ in range(HISTORIES):
            await history.run()
        figures = history.figures
        print(f"\n{figures.to_text()}")
        assert figures.histories == HISTORIES
        assert figures.answers > 0
        assert figures.moved <= 1
        assert figures.during > 0
