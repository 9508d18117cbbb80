"""The guide to custom learners names fields and functions that exist."""

from __future__ import annotations

import re
from typing import Any

import pytest

from actors.models import model, user_histories
from jobs.refresh.data import dataset
from tests.house.tree import ROOT

PAGE = (ROOT / "docs" / "guides" / "learners.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("variable", "kind"), [("data", dataset.Interactions), ("histories", user_histories.UserHistories)]
)
def test_every_field_of_the_tables_exists(variable: str, kind: type[Any]) -> None:
    named = set(re.findall(rf"`{variable}\.(\w+)", PAGE))
    assert len(named) >= 5
    assert {name for name in named if name not in dir(kind)} == set()


@pytest.mark.parametrize("name", ["apply_time_decay", "TimeDecay", "UserHistories", "ModelState"])
def test_every_name_of_the_example_exists_and_is_on_the_page(name: str) -> None:
    assert hasattr(user_histories, name) or hasattr(model, name)
    assert re.search(rf"\b{name}\b", PAGE)
