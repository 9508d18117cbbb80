"""Every page of the console over Redis with something on it: it is answered, and a browser loads little with it."""

from __future__ import annotations

import math

import pytest

from deployments.console.pages.table import PAGES
from tests.benchmarks.console_data import PageDataSizes
from tests.benchmarks.console_pages import NOT_WALKED, list_cases, walk_in_process

SOME = PageDataSizes(
    products=300, interactions=1_000, users=300, rules=120, queries=300, calls=300, exposures=200, audit_rows=60,
    bank=120, runs=3, people=3, refused=3,
)  # fmt: skip


def test_the_benchmark_forgets_no_page() -> None:
    shown = {page.path for page in PAGES if "GET" in page.methods}
    assert {case.pattern.partition("?")[0] for case in list_cases({})} == shown - set(NOT_WALKED)


@pytest.mark.redis
async def test_each_page_with_data_is_answered_and_small() -> None:
    lines = await walk_in_process(SOME, rounds=1, engine=True)
    assert [(line.name, line.reason) for line in lines if math.isnan(line.value)] == []
    sizes = [line for line in lines if line.unit == "KB"]
    assert len(sizes) > 35
    assert [(line.name, line.value) for line in sizes if not line.kept] == []
