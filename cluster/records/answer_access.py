"""Entitled answers: what a question of a token's user gets from locked articles, beside the answer for everybody.

    question             open articles alone                 everybody, and every list, report and memory
    question~user        articles of the token's tiers       its asker, with a token that opens all it was made from

Both are separate questions of the queue. Nothing that knows only the first can show anything of a locked article.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from cluster.access_tier import may_read
from cluster.records.question import ACCESS_MARK, Question, entitled_id


def build_entitled_question(
    question: Question, tiers: frozenset[str], only: tuple[str, ...] | None
) -> Question:
    """Return the question whose answer may rest on the articles of some tiers; `only` as its filter selects them."""
    return question.model_copy(
        update={
            "question_id": entitled_id(question.question_id, question.user_id),
            "open_question_id": question.question_id,
            "tiers": tuple(sorted(tiers)),
            "only": only,
            "logged": False,
            "lives_as_logged": question.logged,
            "is_counted_late": False,
        }
    )


def mark_access(shown: bytes, access: Sequence[str]) -> bytes:
    """Add the accesses that an answer rests on to the end of its public record."""
    return shown[:-1] + ACCESS_MARK + orjson.dumps(access) + b"}"


def open_entitled(shown: bytes, tiers: frozenset[str]) -> bytes | None:
    """Return the public record of an entitled answer without its mark; None if these tiers do not open it.

    A record without the mark is of an earlier release, which took it for a question of its own.
    """
    before, mark, rest = shown.rpartition(ACCESS_MARK)
    access, bracket, end = rest.partition(b"]")
    if not mark or not bracket:
        return None
    return before + end if opens(orjson.loads(access + bracket), tiers) else None


def opens(access: Sequence[str], tiers: frozenset[str]) -> bool:
    """Return whether tiers open an answer that rests on articles of some accesses."""
    return all(may_read(name, tiers) for name in access)
