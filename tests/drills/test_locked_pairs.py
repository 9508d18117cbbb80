"""A hundred thousand pairs of tiers and article: the ask endpoints show nothing of a locked article."""

from __future__ import annotations

import pytest

from tests.fakes.locked_pairs import TIERS, compare_pairs

pytestmark = [pytest.mark.drill, pytest.mark.timeout(1800)]


async def test_a_hundred_thousand_pairs_leak_nothing() -> None:
    count = await compare_pairs(100_000 // len(TIERS))
    assert count.leaks == []
    assert count.pairs >= 100_000
    assert count.shown > 200
    assert count.quoted > 20, "answers quote locked articles for those who may read them"
