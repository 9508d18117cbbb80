"""People whose pages run the released `kiosk.js`, over HTTP and Redis: the report equals the journal to the count."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.store.connect import open_stores
from tests.fakes.simulated_pages import NODE, open_simulated_pages
from tests.fakes.simulated_shop import CREDIT_NOTHING, check_report

pytestmark = [
    pytest.mark.redis,
    pytest.mark.skipif(NODE is None, reason="node, which runs kiosk.js, is not on PATH"),
]


async def test_the_report_of_pages_equals_the_journal_whatever_the_network_loses(
    redis_url: str, tmp_path: Path
) -> None:
    async with (
        open_stores(redis_url, hot_s=5.0, slow_s=10.0) as stores,
        open_simulated_pages(tmp_path, 3, stores) as shop,
    ):
        for _ in range(2):
            await shop.run(60, people=20)
            await shop.settle()
        report, journal = shop.report(), shop.journal
    check_report(report, journal)
    assert report.verdicts == journal.verdicts
    assert min(journal.verdicts[name] for name in CREDIT_NOTHING) > 0
    assert min(shop.faults[name] for name in ("lost", "unreachable")) > 0
    assert journal.verdicts["repeated"] > 20
