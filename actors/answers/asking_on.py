"""From one question to the next: what a follow-up means, and what else could be asked of the passages."""

from __future__ import annotations

from collections.abc import Sequence

from actors.answers.messages import Snippet


def follow_up(question: str, parents: Sequence[str]) -> str:
    """Make a follow-up understandable without the questions before it; `parents` oldest first."""
    return f"{question} {parents[-1]}" if parents and len(question.split()) < 5 else question


def related(question: str, snippets: Sequence[Snippet]) -> tuple[str, ...]:
    """Say what else could be asked that these passages answer."""
    del question, snippets
    return ()
