"""100,000 simulated sessions through the REST interface: the report equals the journal of the truth to the count.

Each of ten worlds has 10,000 sessions, so that its days stay within those that the log of answers keeps. Among them are
interactions with ids that are forged, of another person, of a later answer, late, or sent ten times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments.operations.insight.outcomes import load_report
from tests.fakes.simulated_shop import APP, DAY_MS, ROWS, open_simulated_shop

SESSIONS, PEOPLE, BETWEEN = 10_000, 2_500, 500
"Sessions and people of a world, and sessions between two rounds of the intake."
CREDIT_NOTHING = ("unknown", "foreign", "future", "late")


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(10))
async def test_a_report_of_10_000_sessions_equals_the_journal(tmp_path: Path, seed: int) -> None:
    shop = await open_simulated_shop(tmp_path, seed)
    for _ in range(SESSIONS // BETWEEN):
        await shop.run(BETWEEN, people=PEOPLE)
        await shop.settle()
    journal, now_ms = shop.journal, shop.clock.now_ms()
    report = load_report(shop.artifacts, APP, "engine", now_ms - 90 * DAY_MS, now_ms + 1)
    assert report.total.lists == journal.lists.total()
    assert report.total.places == ROWS * report.total.lists
    assert report.total.people == len(journal.people)
    for group in report.groups:
        clicks = [
            count
            for (kind, engine, _), count in journal.credits.items()
            if (kind, engine) == ("click", group.group)
        ]
        assert (group.lists, group.clicks) == (journal.lists[group.group], sum(clicks))
        assert round(group.revenue.value * 100) == journal.revenue[group.group]
    assert {name: report.verdicts[name] for name in CREDIT_NOTHING} == {
        name: journal.verdicts[name] for name in CREDIT_NOTHING
    }
    print(f"\nseed {seed}: {report.total.lists:,} lists, {report.total.clicks:,} clicks, {report.verdicts}")
