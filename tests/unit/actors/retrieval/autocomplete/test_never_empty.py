"""A text within the allowed typos is found, whichever characters they are in."""

from __future__ import annotations

import random
import string

import numpy as np
import pytest

from actors.language.folding import fold_typed
from actors.retrieval.autocomplete.lookup import CompletionIndex
from actors.retrieval.prefix_edit_distance import EditPattern, char_codes, max_edits

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


@pytest.fixture(scope="module")
def large() -> tuple[list[str], CompletionIndex]:
    """Return more titles than are compared at a time, of words that share most of their characters."""
    rng = random.Random("large")
    words = ["".join(rng.choices("abcdeiorst", k=rng.randint(2, 6))) for _ in range(2_000)]
    titles = sorted({" ".join(rng.choices(words, k=rng.randint(2, 4))) for _ in range(24_000)})
    return titles, CompletionIndex.of(titles, np.ones(len(titles)))


def test_a_large_catalog_leaves_no_answer_empty(large: tuple[list[str], CompletionIndex]) -> None:
    titles, index = large
    rng = random.Random(1)
    for title in rng.sample(titles, 150):
        beginning = title[: rng.randint(min(5, len(title)), len(title))].rstrip()
        allowed = min(max_edits(len(beginning) - 2), len(range(0, len(beginning), 3)))
        typed = fold_typed(_mistyped(beginning, allowed, rng))
        assert len(index.look_up(typed, 10).texts), (typed, title)


def test_a_query_returns_the_only_allowed_text_of_many(large: tuple[list[str], CompletionIndex]) -> None:
    """A filter leaves a single text, which shares fewer pairs than thousands of others."""
    titles, index = large
    rng = random.Random(2)
    for _ in range(40):
        text = rng.randrange(len(titles))
        beginning = titles[text][:12].rstrip()
        allowed = min(max_edits(len(beginning) - 2), len(range(0, len(beginning), 3)))
        typed = fold_typed(_mistyped(beginning, allowed, rng))
        only = index.look_up(typed, 10, allowed=lambda texts, text=text: texts == text).texts  # type: ignore[misc]
        assert only.tolist() == [text], (typed, titles[text])


def test_texts_that_share_too_few_pairs_are_farther_away(large: tuple[list[str], CompletionIndex]) -> None:
    titles, index = large
    rng = random.Random(3)
    for title in rng.sample(titles, 10):
        typed = fold_typed(_mistyped(title[:9].rstrip(), 2, rng))
        pattern = EditPattern(char_codes(typed))
        places = index.places.astype(np.int64)
        edits = pattern.compare(index.texts.codes, places, 2).edits
        near = np.unique(index.texts.owners(places[edits <= 2]))
        kept = index.pairs.find_within_edits(char_codes(typed), 2, len(titles))
        assert np.isin(near, kept).all(), typed
        assert len(kept) < len(titles)


def test_a_page_of_exact_prefixes_leaves_places_for_a_frequent_word() -> None:
    titles = [f"Camarad{ending}" for ending in "abcdefghijkl"] + [f"Camera {at}" for at in range(30)]
    index = CompletionIndex.of(titles, np.ones(len(titles)))
    shown = [titles[at] for at in index.look_up("camara", 20, page=10).texts[:10]]
    assert sum(title.startswith("Camarad") for title in shown) == 7
    assert sum(title.startswith("Camera ") for title in shown) == 3
    # a word of the catalog is no misspelling, and a rare word is no correction
    titles.append("Camara")
    index = CompletionIndex.of(titles, np.ones(len(titles)))
    assert not any(titles[at].startswith("Camera") for at in index.look_up("camara", 20, page=10).texts[:10])


def test_a_whole_word_precedes_the_beginning_of_another() -> None:
    titles = ["Paris (1926)", "Party (1994)", "Paper Moon (1973)"]
    index = CompletionIndex.of(titles, np.ones(3))
    assert titles[index.look_up("papr", 3).texts[0]] == "Paper Moon (1973)"


def test_one_swap_in_a_short_word_is_forgiven() -> None:
    titles = ["Dirty Work", "Night", "Knife"]
    index = CompletionIndex.of(titles, np.ones(3))
    assert [titles[at] for at in index.look_up("drity", 5).texts] == ["Dirty Work"]
    assert [titles[at] for at in index.look_up("kinfe", 5).texts] == ["Knife"]
