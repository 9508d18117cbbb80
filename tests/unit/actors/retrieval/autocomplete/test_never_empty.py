"""A text within the allowed typos is found, whichever characters they are in."""

from __future__ import annotations

import random
import string

import numpy as np
import pytest

from actors.language.folding import fold_typed
from actors.retrieval.autocomplete.lookup import CompletionIndex
from actors.retrieval.edit_distance import max_edits

_WORDS = (
    "garden hose steel trowel lamp night summer case galaxy castle freak murray door seventh 2000 1995 8 25"
)
_ALPHABET = string.ascii_lowercase + string.digits + " "


def _titles(rng: random.Random, count: int) -> list[str]:
    words = _WORDS.split()
    return sorted({" ".join(rng.sample(words, rng.randint(2, 4))) for _ in range(count)})


def _mistyped(typed: str, typos: int, rng: random.Random) -> str:
    """Spoil different characters, so that the distance is at most `typos`."""
    characters = list(typed)
    for at in sorted(rng.sample(range(0, len(characters), 3), typos), reverse=True):
        kind = rng.choice(("insert", "delete", "replace", "swap"))
        if kind == "insert":
            characters.insert(at, rng.choice(_ALPHABET))
        elif kind == "delete":
            del characters[at]
        elif kind == "swap" and at + 1 < len(characters):
            characters[at], characters[at + 1] = characters[at + 1], characters[at]
        else:
            characters[at] = rng.choice(_ALPHABET)
    return "".join(characters)


@pytest.mark.parametrize("seed", range(10))
def test_a_text_within_the_allowed_typos_never_leaves_the_answer_empty(seed: int) -> None:
    rng = random.Random(seed)
    titles = _titles(rng, 400)
    index = CompletionIndex.of(titles, np.ones(len(titles)))
    for title in rng.sample(titles, 60):
        beginning = title[: rng.randint(min(5, len(title)), len(title))].rstrip()
        allowed = min(max_edits(len(beginning) - 2), len(range(0, len(beginning), 3)))
        typed = fold_typed(_mistyped(beginning, rng.randint(0, allowed), rng))
        assert len(index.look_up(typed, 10).texts), (typed, title)


def test_one_swap_in_a_short_word_is_forgiven() -> None:
    titles = ["Dirty Work", "Night", "Knife"]
    index = CompletionIndex.of(titles, np.ones(3))
    assert [titles[at] for at in index.look_up("drity", 5).texts] == ["Dirty Work"]
    assert [titles[at] for at in index.look_up("kinfe", 5).texts] == ["Knife"]
