"""Index n-grams of characters, to find the texts that share enough of them with the typed text.

A typo destroys about n of the n-grams of the typed text, so a near text shares the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.folded_texts import FoldedTexts
from actors.retrieval.autocomplete.prefix_index import Allowed
from actors.retrieval.prefix_edit_distance import CharCodes
from actors.vectors.types import Floats, Rows

SHARED_BY_CHANCE = 0.05
"N-grams of a typed text that each character of any other text has by chance; measured on film titles."

Worth = Callable[[Rows], Floats]
"""Orders texts that share equally many n-grams: int64 [k] -> float64 [k], larger is better."""


@dataclass(frozen=True, slots=True)
class NgramIndex:
    """The texts that have each n-gram.

    Shapes:
        keys: uint64 [g], ascending; starts: int64 [g + 1]; texts: int32 [m], ascending within a gram
    """

    size: int
    keys: npt.NDArray[np.uint64]
    starts: Rows
    texts: npt.NDArray[np.int32]

    @classmethod
    def of(cls, texts: FoldedTexts, size: int) -> NgramIndex:
        """Index the n-grams of texts.

        Cost:
            1,000,000 titles, triples: 6 s
        """
        # Shape [t]: the text of each character.
        owner = np.repeat(np.arange(len(texts), dtype=np.int32), np.diff(texts.starts))
        keys = ngram_keys(texts.codes[: texts.size], size)
        whole = np.flatnonzero(keys)
        keys = keys[whole]
        owner = owner[whole]
        # Stable, so the texts of an n-gram stay ascending, as `searchsorted` needs.
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        owner = owner[order]
        fresh = np.ones(len(keys), np.bool_)
        fresh[1:] = (keys[1:] != keys[:-1]) | (owner[1:] != owner[:-1])
        keys = keys[fresh]
        owner = owner[fresh]
        first = np.ones(len(keys), np.bool_)
        first[1:] = keys[1:] != keys[:-1]
        starts = np.append(np.flatnonzero(first), len(keys)).astype(np.int64)
        return cls(size, keys[first], starts, owner)

    def nearest_texts(
        self, typed: CharCodes, edits: int, among: int, limit: int, worth: Worth, allowed: Allowed | None
    ) -> Rows:
        """Return those of `among` texts that share most of the rarest n-grams of the typed text.

        Shapes:
            typed: uint16 [c], with the blank before its first word
            returns: int64 [m], at most `limit`
        Cost:
            100,000 titles: 0.3 ms
        """
        keys = np.unique(ngram_keys(typed, self.size))
        keys = keys[keys != 0]
        places = np.searchsorted(self.keys, keys)
        ngrams = places[(places < len(self.keys))]
        ngrams = ngrams[self.keys[ngrams] == keys[places < len(self.keys)]]
        if not len(ngrams):
            return np.zeros(0, np.int64)
        lengths = self.starts[ngrams + 1] - self.starts[ngrams]
        # Typos destroy about `size * edits` n-grams, so six are left that a near text shares.
        rarest = ngrams[np.argsort(lengths, kind="stable")][: self.size * edits + 6]
        # one byte a text: there are less than 256 n-grams, and less memory is faster
        counts = np.zeros(among, np.uint8)
        for gram in rarest.tolist():
            counts[self.texts[self.starts[gram] : self.starts[gram + 1]]] += np.uint8(1)
        # two swapped characters are in one n-gram more than one character is
        least = max(len(rarest) - (self.size + 1) * edits, 1)
        texts = _most_shared(counts, least, limit, allowed)
        if len(texts) > limit:
            order = np.argpartition(-(counts[texts] + worth(texts)), limit)
            texts = texts[order[:limit]]
        return texts

    def find_within_edits(self, typed: CharCodes, edits: int, among: int) -> Rows:
        """Return all of `among` texts that can be within some edits, those that share most pairs first.

        An edit destroys at most two pairs of the typed text: of the three around a swap, one is there in reverse. So a
        text that shares fewer than `c - 1 - 2 * edits` pairs, in either direction, is farther away. Only for pairs.

        Shapes:
            typed: uint16 [c]; the blank before the first word is no part of it, for an ideograph has none
            returns: int64 [m]
        """
        # Both directions of a pair count as one, so that a swap destroys fewer of them.
        pairs = np.sort(np.stack((typed[:-1], typed[1:])), axis=0).astype(np.uint64)
        keys, times = np.unique(pairs[0] << np.uint64(16) | pairs[1], return_counts=True)
        counts = np.zeros(among, np.uint8)
        for key, count in zip(keys.tolist(), times.tolist(), strict=True):
            has_pair = np.zeros(among, np.bool_)
            has_pair[self._texts_of(key)] = True
            has_pair[self._texts_of(key >> 16 | (key & 0xFFFF) << 16)] = True
            counts += np.uint8(count) * has_pair
        texts = np.flatnonzero(counts >= max(len(typed) - 1 - 2 * edits, 0))
        return texts[np.argsort(-counts[texts].astype(np.int16), kind="stable")]

    def _texts_of(self, key: int) -> npt.NDArray[np.int32]:
        at = int(np.searchsorted(self.keys, np.uint64(key)))
        if at == len(self.keys) or int(self.keys[at]) != key:
            return self.texts[:0]
        return self.texts[self.starts[at] : self.starts[at + 1]]


def ngram_keys(codes: CharCodes, size: int) -> npt.NDArray[np.uint64]:
    """Pack the n-gram at each character into one number; 0 where a text ends inside it.

    Shapes:
        codes: uint16 [c]
        returns: uint64 [c]
    """
    count = len(codes)
    key: npt.NDArray[np.uint64] = np.zeros(count, np.uint64)
    whole = np.ones(count, np.bool_)
    for at in range(size):
        shifted = np.zeros(count, np.uint16)
        shifted[: count - at] = codes[at:]
        whole &= shifted != 0
        key = (key << np.uint64(16)) | shifted
    key[~whole] = 0
    return key


def _most_shared(counts: npt.NDArray[np.uint8], least: int, limit: int, allowed: Allowed | None) -> Rows:
    """Return `limit` or more allowed texts with the highest counts, or all whose count is at least `least`."""
    texts: Rows = np.zeros(0, np.int64)
    seen = 0
    for count in range(int(counts.max(initial=0)), least - 1, -1):
        enough = counts >= count
        size = int(np.count_nonzero(enough))
        # a filter is asked again only for twice as many texts, so that all its calls cost as much as two
        if count > least and size < max(limit, 2 * seen):
            continue
        texts = np.flatnonzero(enough)
        seen = size
        if allowed is not None:
            texts = texts[allowed(texts)]
        if len(texts) >= limit:
            break
    return texts
