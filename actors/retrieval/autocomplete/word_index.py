"""The words of all texts: for several typed words in any order, each with its own typos."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.folded_texts import FoldedTexts
from actors.retrieval.autocomplete.ngram_index import SHARED_BY_CHANCE, NgramIndex
from actors.retrieval.autocomplete.prefix_index import Allowed, PrefixIndex, popularity_ranks
from actors.retrieval.prefix_edit_distance import EditPattern, char_codes, max_edits
from actors.vectors.row_selection import distinct_values
from actors.vectors.types import Floats, Rows

# Bounds of a look-up: near words of each typed one, words that are compared, and typed words.
_WORDS_EACH = 48
_COMPARED = 400
_MOST_WORDS = 8


@dataclass(frozen=True, slots=True)
class WordIndex:
    """The distinct words, their prefixes and n-grams, and the texts that have them.

    Shapes:
        starts: int64 [v + 1]; texts: int32 [m], ascending within a word
    """

    vocabulary: FoldedTexts
    prefixes: PrefixIndex
    grams: NgramIndex
    starts: Rows
    texts: npt.NDArray[np.int32]

    @classmethod
    def of(cls, texts: FoldedTexts) -> WordIndex:
        """Index the words of texts; a word is as popular as it is frequent.

        Cost:
            1,000,000 titles: 6 s
        """
        whole = texts.codes[: texts.size].tobytes().decode("utf-16-le")
        word_numbers: dict[str, int] = {}
        numbers: list[int] = []
        owners: list[int] = []
        for owner, text in enumerate(whole.split("\0")[: len(texts)]):
            for word in text.split():
                numbers.append(word_numbers.setdefault(word, len(word_numbers)))
                owners.append(owner)
        # Word and text as one number, so one sort finds distinct pairs.
        pairs = np.array(numbers, np.int64) * max(len(texts), 1) + np.array(owners, np.int64)
        pairs = distinct_values(pairs)
        number, rest = np.divmod(pairs, max(len(texts), 1))
        starts = np.searchsorted(number, np.arange(len(word_numbers) + 1)).astype(np.int64)
        vocabulary = FoldedTexts.of(list(word_numbers))
        rank = popularity_ranks(np.diff(starts))
        return cls(
            vocabulary,
            PrefixIndex.of(vocabulary, rank),
            NgramIndex.of(vocabulary, 2),
            starts,
            rest.astype(np.int32),
        )

    def find_texts(self, typed: str, allowed: Allowed | None) -> tuple[Rows, Floats]:
        """Find the texts that have all typed words, in any order; the cost of a text is the sum of typos.

        Shapes:
            returns: int64 [m], float64 [m]
        """
        words = typed.split()[:_MOST_WORDS]
        open_end = not typed.endswith(" ")
        lists = []
        for at, word in enumerate(words):
            near, edits = self._near(word, whole=not (open_end and at == len(words) - 1))
            if not len(near):
                return np.zeros(0, np.int64), np.zeros(0)
            lists.append((int((self.starts[near + 1] - self.starts[near]).sum()), near, edits))
        texts: Rows = np.zeros(0, np.int64)
        cost: Floats = np.zeros(0)
        # The rarest word first: each further word only removes texts.
        for turn, (_, near, edits) in enumerate(sorted(lists, key=lambda entry: entry[0])):
            holders, costs = self._texts_of_words(near, edits, texts if turn else None)
            if allowed is not None and not turn:
                kept = allowed(holders)
                holders = holders[kept]
                costs = costs[kept]
            if not len(holders):
                return holders, costs
            places = np.searchsorted(texts, holders) if turn else np.arange(len(holders))
            texts = holders
            cost = costs + (cost[places] if turn else 0.0)
        return texts, cost

    def has_word(self, typed: str) -> bool:
        first, last = self.prefixes.find_range(char_codes(typed + " "), self.vocabulary.codes)
        return first < last

    def find_correction(self, typed: str, prefixes: int) -> str:
        """Return the most frequent word a single typo away; empty: none is in more texts than `prefixes`."""
        words, edits = self._near(typed, whole=True)
        words = words[edits == 1]
        counts = self.starts[words + 1] - self.starts[words]
        if not len(words) or counts.max() <= prefixes:
            return ""
        return self.vocabulary.folded(int(words[counts.argmax()]))

    def _near(self, word: str, *, whole: bool) -> tuple[Rows, Rows]:
        """Find the words near a typed word, and their typos."""
        pattern = char_codes(word + " " if whole else word)
        most = min(max_edits(len(word)), 3)
        first, last = self.prefixes.find_range(pattern, self.vocabulary.codes)
        exact, _ = self.prefixes.top(first, last, _WORDS_EACH, None)
        candidates = exact
        # 7 is rarely a typo of 8.
        if most and not word.isdigit():
            marked = char_codes(" " + word)
            shared = self.grams.nearest_texts(
                marked, most, len(self.vocabulary), _COMPARED, self._worth, None
            )
            candidates = np.union1d(exact, shared)
        places = self.vocabulary.starts[candidates] + 1
        distances = EditPattern(pattern).compare(self.vocabulary.codes, places, max(most, 1))
        edits = distances.edits
        kept = np.flatnonzero(edits <= most)
        if len(kept) > _WORDS_EACH:
            kept = kept[np.argsort(edits[kept], kind="stable")[:_WORDS_EACH]]
        return candidates[kept], edits[kept]

    def _worth(self, words: Rows) -> Floats:
        """Prefer short words: a long one shares n-grams by chance."""
        lengths = self.vocabulary.starts[words + 1] - self.vocabulary.starts[words]
        worth: Floats = (-SHARED_BY_CHANCE * lengths).astype(np.float64)
        return worth

    def _texts_of_words(self, words: Rows, edits: Rows, candidates: Rows | None) -> tuple[Rows, Floats]:
        """Find the texts that have one of some words, with the fewest typos."""
        if not len(words):
            return np.zeros(0, np.int64), np.zeros(0)
        lists = [self.texts[self.starts[word] : self.starts[word + 1]] for word in words.tolist()]
        owner = np.concatenate(lists).astype(np.int64)
        cost = np.repeat(edits, [len(texts) for texts in lists])
        if candidates is not None:
            at = np.minimum(np.searchsorted(candidates, owner), len(candidates) - 1)
            inside = candidates[at] == owner
            owner = owner[inside]
            cost = cost[inside]
        # `lexsort` sorts by its last key first, so the first entry of each text has its fewest typos.
        order = np.lexsort((cost, owner))
        owner = owner[order]
        cost = cost[order]
        first = np.ones(len(owner), np.bool_)
        first[1:] = owner[1:] != owner[:-1]
        return owner[first], cost[first].astype(np.float64)
