"""The navigation marks the line that a page belongs to."""

from __future__ import annotations

import pytest

from deployments.console.navigation import build_layout
from deployments.console.pages.all_pages import NAVIGATION
from deployments.operations.framework.principal import Principal

ADA = Principal("ada", "1", "console", is_administrator=True)


@pytest.mark.parametrize(
    ("path", "app_id", "expected"),
    [
        ("/console/", "", ["overview.nav"]),
        ("/console/apps", "", ["access.apps_nav"]),
        ("/console/audit", "", ["audit.nav"]),
        ("/console/apps/shop/audit", "shop", ["audit.app_nav"]),
        ("/console/apps/shop/access", "shop", ["access.nav"]),
        ("/console/apps/shop/questions", "shop", ["search.nav"]),
        ("/console/apps/shop/question-bank", "shop", ["search.bank"]),
        ("/console/apps/shop/quarantine/entry", "shop", ["imports.nav"]),
        ("/console/apps/shop/models/trainings/new", "shop", ["models.nav"]),
        ("/console/apps/shop/nowhere", "shop", []),
    ],
)
def test_one_line_is_open(path: str, app_id: str, expected: list[str]) -> None:
    layout = build_layout(NAVIGATION, ADA, ["shop"], path, app_id)
    lines = [*layout["lines"], *layout["app_lines"]]
    assert [line["text"] for line in lines if line["is_open"]] == expected
