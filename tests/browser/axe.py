"""Finds accessibility faults of an open page with the vendored axe-core; see `SOURCE.md`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("axe.min.js")
SERIOUS = ("serious", "critical")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@functools.cache
def _source() -> str:
    return FILE.read_text("utf-8")


async def find_faults(page: Any) -> list[str]:
    """Return serious and critical faults of a page: rule, place and what is wrong.

    The script comes through the driver, so a strict content security policy does not stop it.
    """
    # Elements that appear are half transparent for a moment, which would count as a lack of contrast.
    await page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished.catch(() => {})))")
    await page.evaluate(_source())
    report = await page.evaluate(
        "(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})",
        TAGS,
    )
    return [
        f"{fault['id']} ({fault['impact']}): {node['target']} {node['failureSummary']}"
        for fault in report["violations"]
        if fault["impact"] in SERIOUS
        for node in fault["nodes"]
    ]
