"""Lists of suggested questions without repetitions."""

from __future__ import annotations

from deployments.api.resources.ask_suggestions import _deduplicate


def test_a_repeated_question_keeps_its_first_place_and_spelling() -> None:
    texts = ["Who won?", "What is rain?", "WHO WON?", "Why?"]
    assert _deduplicate(texts, 10) == ["Who won?", "What is rain?", "Why?"]
    assert _deduplicate(texts, 2) == ["Who won?", "What is rain?"]
    assert _deduplicate([], 2) == []
