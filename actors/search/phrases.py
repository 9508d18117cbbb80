"""Products with a phrase: words that follow each other in one of their texts, as in `full_text:"red trowel"`.

The index knows which products have all words, but not the positions of the words, so phrases are checked in
the best products only. First their stored JSON is searched for words that may be the phrase. Only if they may
be, the record is parsed and decided.

A phrase matches words as they are written, apart from case and width, as filters on text fields do. A single word of
`full_text` also matches without its accents and by its stem, as the index does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from actors.recommender.state.catalog import Catalog
from actors.vectors.types import Mask, Rows
from cluster.query.language.text_analysis import fold, split_words

MOST_READ: Final = 5_000
"Products with all words of a phrase, the best first, that are read."
MOST_LOOKS: Final = 9_600
"Products that are read for all phrases of one query together; each phrase has an equal share."
MOST_LETTERS: Final = 4_000_000
"Characters of products that are read for all phrases of one query; each phrase has an equal share, too."
TAKEN_APART: Final = 8
"Characters read that cost as much as one that is parsed."

_SKIPPED: Final = frozenset({"product_id", "product_group_id", "url", "cover_image", "images"})
_BETWEEN = re.compile(r"(?:\\[bfnrt]|\\u00[01][0-9a-f]|[\W_])*")
"Characters that may separate two words in JSON; parsing decides the rest."
_MOST_PLACES: Final = 64
"Occurrences of the first word that are tried before the record is parsed."


class PhraseMatcher:
    """Matches the phrases of one query.

    Cost:
        2 us for each product that is read, 10 us for each that has the phrase: 50 ms at most for short texts
    """

    def __init__(self, catalog: Catalog, count: int) -> None:
        self._catalog = catalog
        self._looks = min(MOST_READ, MOST_LOOKS // max(count, 1))
        self._letters = MOST_LETTERS // max(count, 1)
        self._read: dict[int, str] = {}
        self.looks = 0
        "Products read so far, counted once for each phrase."
        self.letters = 0
        "Characters read so far; parsed ones count `TAKEN_APART` times."

    def match_rows(self, ranked: Rows, phrase: str, count: int) -> Mask:
        """Mark the products with a phrase, among those with all its words, until the phrase's share is used up.

        Shapes:
            ranked: int64 [k]; returns: bool [count]
        """
        matched = np.zeros(count, np.bool_)
        words = split_words(phrase)
        if len(words) < 2:
            matched[ranked] = True
            return matched
        # Blanks around it, so that "red" does not match in "tired".
        phrase_text = f" {' '.join(words)} "
        before = self.letters
        for row in ranked[: self._looks].tolist():
            if self.letters - before > self._letters:
                break
            self.looks += 1
            raw = self._raw(row)
            if _may_have_phrase(raw, words):
                self.letters += TAKEN_APART * len(raw)
                texts = _texts_of(self._catalog.record(row))
                matched[row] = any(phrase_text in f" {' '.join(split_words(text))} " for text in texts)
        return matched

    def _raw(self, row: int) -> str:
        raw = self._read.get(row)
        if raw is None:
            raw = self._read[row] = fold(self._catalog.columns.record_json(row))
            self.letters += len(raw)
        return raw


def _may_have_phrase(raw: str, words: Sequence[str]) -> bool:
    """Return whether words follow each other in JSON, in one text or across texts."""
    at = raw.find(words[0])
    # A text may repeat the first word thousands of times: beyond the bound, parsing decides.
    for _ in range(_MOST_PLACES):
        if at < 0:
            return False
        end = at + len(words[0])
        for word in words[1:]:
            between = _BETWEEN.match(raw, end)
            end = end if between is None else between.end()
            if not raw.startswith(word, end):
                break
            end += len(word)
        else:
            return True
        at = raw.find(words[0], at + 1)
    return at >= 0


def _texts_of(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        if name in _SKIPPED:
            continue
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                yield item
            elif isinstance(item, list):
                waiting.extend(item)
            elif isinstance(item, dict):
                waiting.extend(item.values())
