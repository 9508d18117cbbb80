"""The words of all products, and which of them a misspelled or unfinished word may be.

main    all words, indexed by another thread
fresh   words that came since, in a small index
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Final

import numpy as np

from actors.language.folding import fold_text
from actors.retrieval.autocomplete.folded_texts import FoldedTexts
from actors.retrieval.autocomplete.ngram_index import NgramIndex, ngram_keys
from actors.retrieval.autocomplete.prefix_index import PrefixIndex, popularity_ranks
from actors.retrieval.prefix_edit_distance import EditPattern, char_codes, max_edits
from actors.vectors.types import Floats, Rows

# Characters of the pieces by which similar words are found: short words share few longer ones.
_PAIR: Final = 2
# Candidates whose edit distance is computed: those that share the most pairs.
_COMPARED: Final = 400
_EDITS: Final = 3
_FIRST_LETTER: Final = 0.35
"Additional cost of a wrong first letter, in typos: users rarely miss it."
_OFTEN: Final = 0.3
"Typos that a word may have more if it is ten times as frequent."
_LONGEST: Final = 40
MOST_WORDS: Final = 400_000
"Words of a vocabulary: uploads bring new words without end."
_WORDS_LEFT: Final = MOST_WORDS * 3 // 4
"Words that are left at most after some are dropped, so that few uploads drop any."
# New words from which on the main index is built again, and `_SHARE` of them for large vocabularies.
_LITTLE: Final = 500
_SHARE: Final = 0.02


@dataclass(frozen=True, slots=True)
class SpellSuggestion:
    """A correction; the lower its cost, the likelier it is."""

    word: str
    edits: int
    cost: float
    count: int


@dataclass(frozen=True, slots=True)
class SpellDictionary:
    """Folded words, and how often products have them.

    Shapes:
        counts: float64 [v]
    """

    texts: FoldedTexts
    pairs: NgramIndex
    prefixes: PrefixIndex
    counts: Floats

    @classmethod
    def of(cls, words: Mapping[str, int]) -> SpellDictionary:
        """Index words.

        Cost:
            100,000 words: 0.7 s
        """
        counted: Counter[str] = Counter()
        for word, count in words.items():
            # Numbers are no typos of each other: 2019 must not become 2018.
            if 2 <= len(word) <= _LONGEST and not word.isdigit():
                counted[fold_text(word)] += count
        kept = [word for word in counted if len(word) >= 2 and " " not in word]
        counts = np.array([counted[word] for word in kept], np.float64)
        texts = FoldedTexts.of(kept)
        return cls(
            texts, NgramIndex.of(texts, _PAIR), PrefixIndex.of(texts, popularity_ranks(counts)), counts
        )

    def __len__(self) -> int:
        return len(self.texts)

    def suggest(self, word: str, limit: int) -> list[SpellSuggestion]:
        """Find words a few typos away, the likeliest first.

        Cost:
            100,000 words: 0.5 ms
        """
        most = min(max_edits(len(word)), _EDITS)
        if not most or not len(self):
            return []
        candidates = self._find_candidates(word, most)
        if not len(candidates):
            return []
        distances = EditPattern(char_codes(word + " ")).compare(
            self.texts.codes, self.texts.starts[candidates] + 1, most
        )
        close = np.flatnonzero((distances.edits <= most) & (distances.edits > 0))
        return sorted(
            (self._suggestion(word, int(candidates[at]), int(distances.edits[at])) for at in close.tolist()),
            key=lambda near: (near.cost, near.word),
        )[:limit]

    def complete(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Find words with a prefix, the most frequent first, and how often they occur.

        Cost:
            50 us
        """
        if not len(self):
            return []
        first, last = self.prefixes.find_range(char_codes(prefix), self.texts.codes)
        texts, _ = self.prefixes.top(first, last, limit, None)
        words = ((self.texts.folded(text), int(self.counts[text])) for text in texts.tolist())
        return [(word, count) for word, count in words if word.startswith(prefix)]

    def _find_candidates(self, word: str, edits: int) -> Rows:
        """Find the words that share enough pairs of characters to be at most so many typos away."""
        # The blanks make the first and the last letter pairs of their own.
        keys = np.unique(ngram_keys(char_codes(f" {word} "), _PAIR))
        places = np.searchsorted(self.pairs.keys, keys)
        places[places == len(self.pairs.keys)] = 0
        pairs = places[(self.pairs.keys[places] == keys) & (keys != 0)]
        if not len(pairs):
            return np.zeros(0, np.int64)
        starts = self.pairs.starts
        # Frequent pairs have long lists and tell little; some more than can be lost by typos are enough.
        rarest = pairs[np.argsort(starts[pairs + 1] - starts[pairs], kind="stable")][: _PAIR * edits + 6]
        lists = [self.pairs.texts[starts[pair] : starts[pair + 1]] for pair in rarest.tolist()]
        counts = np.bincount(np.concatenate(lists), minlength=len(self))
        # A typo changes about two pairs, so a word within `edits` shares all but 2 * edits of them.
        candidates: Rows = np.flatnonzero(counts >= max(len(lists) - _PAIR * edits, 1))
        if len(candidates) > _COMPARED:
            candidates = candidates[np.argpartition(-counts[candidates], _COMPARED)[:_COMPARED]]
        return candidates

    def _suggestion(self, word: str, text: int, edits: int) -> SpellSuggestion:
        folded = self.texts.folded(text)
        count = int(self.counts[text])
        first = _FIRST_LETTER if folded[:1] != word[:1] else 0.0
        # cost = typos + wrong first letter - 0.3 log10(frequency)
        return SpellSuggestion(folded, edits, edits + first - _OFTEN * math.log10(count + 1), count)


@dataclass(frozen=True, slots=True)
class DictionaryBuild:
    """A dictionary and how many words it was built from."""

    spelling: SpellDictionary
    count: int


class ProductVocabulary:
    """Counts the words of products and suggests among them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        "In order of arrival, so that words the main index lacks are at the end."
        self._indexed = 0
        "Words of the main index."
        self._main = SpellDictionary.of({})
        self._fresh: tuple[int, SpellDictionary] = (0, self._main)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, words: Iterable[str]) -> None:
        """Count the words of a product, those of at most 40 characters; they stay if the product is removed."""
        self._counts.update(word for word in words if len(word) <= _LONGEST)
        if len(self._counts) > MOST_WORDS:
            self._drop_rare_words()

    def load_counts(self, counts: Mapping[str, int]) -> None:
        """Add the words of a snapshot with their counts."""
        self._counts.update(counts)

    def suggest(self, word: str, limit: int) -> list[SpellSuggestion]:
        """Find words a few typos away, the likeliest first."""
        best: dict[str, SpellSuggestion] = {}
        for spelling in (self._main, self._index_new_words()):
            for near in spelling.suggest(word, limit):
                if near.word not in best or near.cost < best[near.word].cost:
                    best[near.word] = near
        return sorted(best.values(), key=lambda near: (near.cost, near.word))[:limit]

    def complete(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Find words with a prefix, the most frequent first."""
        counts: dict[str, int] = {}
        for spelling in (self._main, self._index_new_words()):
            for word, count in spelling.complete(prefix, limit):
                counts[word] = max(count, counts.get(word, 0))
        return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:limit]

    @property
    def needs_rebuild(self) -> bool:
        """Return whether the main index should be built again because of new words."""
        return len(self._counts) - self._indexed > max(_LITTLE, _SHARE * len(self._counts))

    def plan_rebuild(self) -> Callable[[], DictionaryBuild]:
        """Return a function that builds the main index again in another thread."""
        counts = dict(self._counts)
        return lambda: DictionaryBuild(SpellDictionary.of(counts), len(counts))

    def adopt(self, built: DictionaryBuild) -> None:
        """Serve a main index that was built."""
        self._main = built.spelling
        self._indexed = min(built.count, len(self._counts))
        # No count is -1, so the small index is built anew at the next question.
        self._fresh = (-1, self._main)

    def _index_new_words(self) -> SpellDictionary:
        """Index the words that the main index lacks; if they are many, the newest of them."""
        count = len(self._counts)
        if self._fresh[0] != count:
            few = islice(reversed(self._counts), min(count - self._indexed, 2 * _LITTLE))
            self._fresh = (count, SpellDictionary.of({word: self._counts[word] for word in few}))
        return self._fresh[1]

    def _drop_rare_words(self) -> None:
        """Keep the most frequent words, and none that occurred once: most of those are numbers and typos."""
        counts = np.fromiter(self._counts.values(), np.int64)
        kept = np.zeros(len(counts), np.bool_)
        # Many more may occur twice: a product that is uploaded again counts its words again.
        kept[np.argsort(-counts, kind="stable")[:_WORDS_LEFT]] = True
        self._counts = Counter(dict(compress(self._counts.items(), kept & (counts > 1))))
        self._indexed = 0


class JoinedVocabulary:
    """Suggests among the words of several vocabularies: those of open products, and of the tiers of a user."""

    def __init__(self, parts: Sequence[ProductVocabulary]) -> None:
        self._parts = parts

    def suggest(self, word: str, limit: int) -> list[SpellSuggestion]:
        """Find words a few typos away, the likeliest first."""
        best: dict[str, SpellSuggestion] = {}
        for near in chain.from_iterable(part.suggest(word, limit) for part in self._parts):
            if near.word not in best or near.cost < best[near.word].cost:
                best[near.word] = near
        return sorted(best.values(), key=lambda near: (near.cost, near.word))[:limit]

    def complete(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Find words with a prefix, the most frequent first."""
        counts: Counter[str] = Counter()
        for word, count in chain.from_iterable(part.complete(prefix, limit) for part in self._parts):
            counts[word] += count
        return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:limit]
