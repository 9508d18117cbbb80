"""The body of autocomplete becomes a query as it was meant."""

from __future__ import annotations

from typing import Any

import pytest

from actors.recommender.messages import UserQuery
from deployments.api.wire.autocomplete import MOST_TYPED, Autocomplete, to_completion_query


def read(**body: Any) -> UserQuery:
    pages = body.pop("pages", False)
    return to_completion_query(
        Autocomplete.model_validate({"q": "tro", **body}),
        app_id="a",
        user_id="",
        primary_language="NL",
        now_ms=0,
        pages=pages,
    )


@pytest.mark.parametrize("typed", ["trowel ", "trowel  ", " trowel", "", " ", "\t"])
def test_blanks_are_kept_as_they_were_typed(typed: str) -> None:
    assert read(q=typed).typed == typed


def test_what_nobody_can_have_typed_is_cut() -> None:
    assert len(read(q="a" * 60_000).typed) == MOST_TYPED


def test_without_a_language_the_environments_default_applies_and_others_match() -> None:
    assert (read().language, read().only_language) == ("nl", False)
    assert (read(language="DE").language, read(language="DE").only_language) == ("de", True)


def test_omitted_fields_have_the_defaults_of_the_specification() -> None:
    query = read()
    assert (query.completion_fields, query.min_users, query.rows, query.start, query.dedupe) == (
        ("title",), 5, 5, 0, True,
    )  # fmt: skip
    assert query.fields == ()


@pytest.mark.parametrize("start", [0, 3, "3", -1, None])
def test_a_start_is_taken_and_changes_nothing(start: Any) -> None:
    assert read(start=start) == read()


@pytest.mark.parametrize(
    ("start", "offset"),
    [
        (0, 0), (3, 3), ("3", 3), (" 7 ", 7), (-1, 0), (1.5, 0), (True, 0), (None, 0), ([], 0), ("x", 0), (10**9, 0),
        ("٣", 0),
    ],
)  # fmt: skip
def test_with_the_switch_a_start_is_an_offset(start: Any, offset: int) -> None:
    assert read(start=start, pages=True).start == offset


def test_a_field_named_twice_is_completed_once() -> None:
    assert read(completion_fields=["title", "brand", "title"]).completion_fields == ("title", "brand")
