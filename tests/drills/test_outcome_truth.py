"""110,000 simulated sessions through the REST interface: the report equals the journal of the truth to the count.

Each of ten worlds has 10,000 sessions, so that its days stay within those that the log of answers keeps. Among them are
interactions with ids that are forged, of another person, of a later answer, late, or sent ten times. In each of ten
more worlds, 1,000 sessions run the released `kiosk.js` in node, over HTTP and Redis, with a network that misbehaves.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.store.connect import open_stores
from tests.fakes.simulated_pages import NODE, open_simulated_pages
from tests.fakes.simulated_shop import SimulatedShop, check_report, open_simulated_shop

SESSIONS, PEOPLE, BETWEEN = 10_000, 2_500, 500
"Sessions and people of a world, and sessions between two rounds of the intake."
PAGE_SESSIONS = 1_000

pytestmark = pytest.mark.timeout(1_800)


@pytest.mark.parametrize("seed", range(10))
async def test_a_report_of_10_000_sessions_equals_the_journal(tmp_path: Path, seed: int) -> None:
    shop = await open_simulated_shop(tmp_path, seed)
    await _run(shop, SESSIONS)
    print(f"\nseed {seed}: {shop.report().sentence}")


@pytest.mark.redis
@pytest.mark.skipif(NODE is None, reason="node, which runs kiosk.js, is not on PATH")
@pytest.mark.parametrize("seed", range(10))
async def test_a_report_of_1_000_sessions_of_pages_equals_the_journal(
    tmp_path: Path, redis_url: str, seed: int
) -> None:
    async with (
        open_stores(redis_url, hot_s=5.0, slow_s=10.0) as stores,
        open_simulated_pages(tmp_path, seed, stores) as shop,
    ):
        await _run(shop, PAGE_SESSIONS)
        assert shop.report().verdicts["repeated"] == shop.journal.verdicts["repeated"]
        print(f"\nseed {seed}: {shop.report().sentence} Requests that failed: {dict(shop.faults)}")


async def _run(shop: SimulatedShop, sessions: int) -> None:
    for _ in range(sessions // BETWEEN):
        await shop.run(BETWEEN, people=PEOPLE)
        await shop.settle()
    check_report(shop.report(), shop.journal)
