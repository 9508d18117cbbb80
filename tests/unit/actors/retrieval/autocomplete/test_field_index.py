"""Texts of one field while they change: what is built beside, what is fresh, and that every text is right at once."""

from __future__ import annotations

import numpy as np
import pytest

from actors.retrieval.autocomplete.field_index import FieldIndex
from actors.retrieval.autocomplete.text_index import RowTextIndex

MANY = 24_000


def noted(field: FieldIndex, row: int, title: str | None) -> None:
    field.record(row, None if title is None else {"title": title})


def texts(field: FieldIndex, typed: str, now_ms: int = 0) -> list[str]:
    """Return the texts that begin as typed; those with typos are another test's."""
    hits = field.look_up(typed, 20, 5, np.ones(2 * MANY, np.bool_), now_ms, lambda: np.zeros(2 * MANY))
    return [hit.text for hit in hits if not hit.edits]


def built(field: FieldIndex) -> RowTextIndex:
    return field.plan_rebuild(np.zeros(2 * MANY))()


@pytest.fixture
def field() -> FieldIndex:
    field = FieldIndex("title")
    for row in range(MANY):
        noted(field, row, f"ware {row:05}")
    field.adopt(built(field))
    assert field.changed_count == 0
    return field


def test_many_changes_are_indexed_beside_a_large_segment_and_not_into_it(field: FieldIndex) -> None:
    main = field._main
    for row in range(MANY - 500, MANY + 600):
        noted(field, row, f"novelty {row:05}")
    assert field.needs_rebuild
    work = field.plan_rebuild(np.zeros(2 * MANY))
    noted(field, MANY, "curiosity")
    noted(field, MANY + 1, None)
    noted(field, MANY - 1, f"ware {MANY - 1:05}")
    field.adopt(work())
    assert not field.needs_rebuild
    assert field._main is main
    assert field.changed_count == 1
    assert texts(field, f"novelty {MANY + 5:05}") == [f"novelty {MANY + 5:05}"]
    assert texts(field, f"novelty {MANY:05}") == []
    assert texts(field, f"novelty {MANY + 1:05}") == []
    assert texts(field, f"ware {MANY - 1:05}") == [f"ware {MANY - 1:05}"]
    assert texts(field, f"ware {MANY - 2:05}") == []
    assert texts(field, "curio") == ["curiosity"]
    # once much is old everything is built anew
    for row in range(3_000):
        noted(field, row, f"relic {row:05}")
    field.adopt(built(field))
    assert field._main is not main
    assert (field.changed_count, len(field)) == (0, MANY + 599)
    for text in ("relic 00007", "curiosity", f"novelty {MANY + 5:05}", "ware 10000"):
        assert texts(field, text) == [text]
    assert texts(field, "ware 00007") == []


def test_a_text_of_many_rows_matches_once_with_all_of_them(field: FieldIndex) -> None:
    noted(field, MANY, "ware 00007")
    hits = field.look_up("ware 00007", 5, 5, np.ones(2 * MANY, np.bool_), 0, lambda: np.zeros(2 * MANY))
    assert [(hit.text, sorted(hit.rows)) for hit in hits] == [("ware 00007", [7, MANY])]


def test_while_very_many_change_the_small_index_waits_but_nothing_old_is_shown(field: FieldIndex) -> None:
    for row in range(MANY, MANY + 500):
        noted(field, row, f"novelty {row:05}")
    assert texts(field, f"novelty {MANY:05}", now_ms=10_000) == [f"novelty {MANY:05}"]
    noted(field, MANY, "curiosity")
    assert texts(field, f"novelty {MANY:05}", now_ms=10_001) == []
    assert texts(field, "curio", now_ms=10_600) == ["curiosity"]


def test_rows_that_are_not_admitted_hide_a_text_only_where_all_of_it_are(field: FieldIndex) -> None:
    noted(field, 8, "ware 00007")
    field.adopt(built(field))
    rows = np.ones(2 * MANY, np.bool_)
    rows[7] = False
    hits = field.look_up("ware 00007", 5, 5, rows, 0, lambda: np.zeros(2 * MANY))
    assert [hit.rows for hit in hits if not hit.edits] == [(8,)]
    rows[8] = False
    hits = field.look_up("ware 00007", 5, 5, rows, 0, lambda: np.zeros(2 * MANY))
    assert all(hit.edits for hit in hits)
