"""No pair of tiers and article leaks through the ask endpoints; a drill has a hundred thousand pairs."""

from __future__ import annotations

from tests.fakes.locked_pairs import TIERS, compare_pairs


async def test_two_thousand_pairs_of_tiers_and_article_leak_nothing() -> None:
    count = await compare_pairs(2_000 // len(TIERS))
    assert count.leaks == []
    assert count.pairs >= 2_000
    assert count.shown > 200
    assert count.quoted > 20, "answers quote locked articles for those who may read them"
