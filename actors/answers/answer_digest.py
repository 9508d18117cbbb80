"""The digest by which equal questions over equal passages reuse an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from actors.answers.extractive.answer_composer import RULES_VERSION
from actors.archive.messages import Snippet


def compute_digest(
    question_text: str,
    language: str,
    snippets: Sequence[Snippet],
    writer: str,
    access: Sequence[str] = (),
) -> str:
    """Return a digest of everything an answer depends on.

    `writer` is the name of the language model, or empty. `access` has the accesses of locked articles among the
    passages, so that an answer from open articles and an entitled one are never each other's memory.
    """
    made_of: list[Any] = [
        RULES_VERSION,
        # Case and blanks do not change what is asked.
        " ".join(question_text.casefold().split()),
        language,
        writer,
        [[snippet.product_id, snippet.position, snippet.text] for snippet in snippets],
        *access,
    ]
    return hashlib.sha256(orjson.dumps(made_of)).hexdigest()
