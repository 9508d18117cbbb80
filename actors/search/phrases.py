"""Which products hold a phrase: words that follow each other in one of their texts.

The index knows which products have all words, not where they stand, so the best of them are read. First their JSON
as it is kept, for anything that could be the phrase; what could be is then taken apart and decided.

Source: reference 6.3, `full_text:"red trowel"`
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from actors.recommender.state.catalog import Catalog
from actors.vectors.types import Mask, Rows
from cluster.query.language.words import fold, split_words

MOST_READ: Final = 5_000
"Products with all words of a phrase, the best first, that are read."
MOST_LOOKS: Final = 9_600
"Products read for all phrases of one query, whether or not the same; each phrase has an equal share."
MOST_LETTERS: Final = 4_000_000
"Characters of products that are read for all phrases of one query; each phrase has an equal share, too."
TAKEN_APART: Final = 8
"A character that is taken apart is as much work as so many that are read."

_SKIPPED: Final = frozenset({"product_id", "product_group_id", "url", "cover_image", "images"})
_BETWEEN = re.compile(r"(?:\\[bfnrt]|\\u00[01][0-9a-f]|[\W_])*")
"What may stand between two words of a text in JSON; what is more than a text has is found out later."
_MOST_PLACES: Final = 64
"Where the first word stands more often, nothing is gained by looking first."


class PhraseMatcher:
    """Decides the phrases of one query.

    Cost:
        2 us for each product that is read, 10 us for each that holds the phrase: 50 ms at most for short texts
    """

    def __init__(self, catalog: Catalog, count: int) -> None:
        self._catalog = catalog
        self._looks = min(MOST_READ, MOST_LOOKS // max(count, 1))
        self._letters = MOST_LETTERS // max(count, 1)
        self._read: dict[int, str] = {}
        self.looks = 0
        "Products read so far, counted anew for each phrase."
        self.letters = 0
        "Characters read so far; those taken apart as often as they count."

    def match_rows(self, ranked: Rows, phrase: str, count: int) -> Mask:
        """Mark the products that hold a phrase, among those with all its words, best first; the share ends the search.

        Shapes:
            ranked: int64 [k]; returns: bool [count]
        """
        found = np.zeros(count, np.bool_)
        words = split_words(phrase)
        if len(words) < 2:
            found[ranked] = True
            return found
        sought, before = f" {' '.join(words)} ", self.letters
        for row in ranked[: self._looks].tolist():
            if self.letters - before > self._letters:
                break
            self.looks += 1
            raw = self._raw(row)
            if _could_hold(raw, words):
                self.letters += TAKEN_APART * len(raw)
                texts = _texts_of(self._catalog.record(row))
                found[row] = any(sought in f" {' '.join(split_words(text))} " for text in texts)
        return found

    def _raw(self, row: int) -> str:
        raw = self._read.get(row)
        if raw is None:
            raw = self._read[row] = fold(self._catalog.columns.record_json(row))
            self.letters += len(raw)
        return raw


def _could_hold(raw: str, words: Sequence[str]) -> bool:
    """Tell whether words follow each other in JSON, boundaries aside."""
    at = raw.find(words[0])
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
