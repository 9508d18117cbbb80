"""A thousand random lists of a lived-in day, ranked again: at least 99.9 % are equal, and all others have a reason."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from actors.serving.replay.answer_replay import REPLAYED_ENDPOINTS
from tests.fakes.lived_in_shop import live_a_day, open_lived_in_shop
from tests.suites.test_replay import check_answers, replay_all

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1_800)]


@pytest.mark.usefixtures("allow_world")
async def test_a_thousand_lists_of_a_day_are_ranked_again_as_they_were(tmp_path: Path) -> None:
    async with open_lived_in_shop(tmp_path, seed=23) as shop:
        rows = [row for row in await live_a_day(shop, 600) if row["endpoint"] in REPLAYED_ENDPOINTS]
        sample = Random(1).sample(rows, 1_000)
        check_answers(await replay_all(shop, sample), 0.999)
