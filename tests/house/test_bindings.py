"""Bindings with banned words become fewer: each folder has exactly as many as `old_bindings.json` lists."""

from __future__ import annotations

import ast
import json
from types import SimpleNamespace
from typing import Any

from tests.house.bindings import TABLE, count_old_bindings, old_bindings


def test_no_folder_binds_more_banned_words_than_the_table_lists() -> None:
    listed: dict[str, int] = json.loads(TABLE.read_text("utf-8"))
    grown = {
        folder: f"{count}, listed {listed.get(folder, 0)}"
        for folder, count in count_old_bindings().items()
        if count > listed.get(folder, 0)
    }
    assert grown == {}, "rename the new bindings; `python -m tests.house.bindings FOLDER` prints them"


def test_the_table_lists_no_more_than_a_folder_binds() -> None:
    counts = count_old_bindings()
    listed: dict[str, int] = json.loads(TABLE.read_text("utf-8"))
    shrunk = {
        folder: f"{counts.get(folder, 0)}, listed {count}"
        for folder, count in listed.items()
        if counts.get(folder, 0) < count
    }
    assert shrunk == {}, "lower the number: python -m tests.house.bindings --write"


def test_each_kind_of_binding_is_counted() -> None:
    text = """
import json as reader
def f(told, *held, **wanted):
    found, self.asked = 1, 2
    try: ...
    except ValueError as said: ...
    match 1:
        case int() as known: ...
    return [x for desk in [{"shelf": 1, "rows": 2}]]
"""
    source: Any = SimpleNamespace(tree=ast.parse(text))
    assert sorted(name for _, name in old_bindings(source)) == [
        "asked", "desk", "found", "held", "known", "reader", "said", "shelf", "told", "wanted",
    ]  # fmt: skip
