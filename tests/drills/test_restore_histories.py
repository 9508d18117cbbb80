"""Two hundred histories of installations, each backed up in the middle of its life, restored and compared.

The tests have five of them (`tests/suites/test_restore_histories.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.restore_histories import open_histories

pytestmark = [pytest.mark.redis, pytest.mark.timeout(1800), pytest.mark.usefixtures("allow_world")]
HISTORIES, PIECES = 200, 20
MOST_MOVED = 2
"Of the twenty apps of a piece."


@pytest.mark.parametrize("piece", range(PIECES))
async def test_any_history_can_be_backed_up_and_restored(tmp_path: Path, piece: int) -> None:
    async with open_histories(tmp_path, seed=100 + piece) as history:
        for _ in range(HISTORIES // PIECES):
            await history.run()
        print(f"\n{history.figures.to_text()}")
        assert history.figures.histories == HISTORIES // PIECES
        assert history.figures.moved <= MOST_MOVED
