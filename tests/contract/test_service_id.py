"""What the documentation promises of `service_id`: reports credit an interaction to the list that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from deployments.operations.insight.outcomes import load_report
from tests.fakes.simulated_shop import APP, DAY_MS, open_simulated_shop
from tests.house.tree import ROOT

SENTENCES = {
    "docs/api.md": "`kiosk report outcomes` then says what each list led to",
    "docs/guides/browser.md": "[Reports](outcomes.md) credit the interaction to that list.",
    "docs/getting-started.md": "reports credit them to this list.",
    "docs/tutorials/web-developer.md": "`kiosk report outcomes` credits the click to it.",
    "cluster/records/validation/descriptions.toml": "reports credit the interaction to that list.",
}


@pytest.mark.parametrize("path", SENTENCES)
async def test_a_report_credits_the_list_that_an_interaction_names(tmp_path: Path, path: str) -> None:
    assert SENTENCES[path] in (ROOT / path).read_text("utf-8")
    shop = await open_simulated_shop(tmp_path, 8)
    shop.engines.interests["a:v0"] = 0
    lists = {}
    while len(lists) < 2:
        shown = await shop.ask("v0")
        lists[shown.engine] = shown
    shop.clock.pass_ms(5_000)
    first = next(iter(lists.values()))
    event = {
        "type": "click",
        "anonymous_id": "v0",
        "product_ids": [first.products[2]],
        "service_id": first.service_id,
    }
    await shop.post("interactions", {"data": [event]})
    await shop.settle()
    now_ms = shop.clock.now_ms()
    report = load_report(shop.artifacts, APP, "engine", now_ms - DAY_MS, now_ms)
    assert {group.group: group.clicks for group in report.groups} == {
        engine: int(engine == first.engine) for engine in lists
    }
