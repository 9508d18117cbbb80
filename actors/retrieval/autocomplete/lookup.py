"""THE LOOK-UP: exact beginnings, then near ones, then words in any order; one order of all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.folded_texts import FoldedTexts
from actors.retrieval.autocomplete.grams import NgramIndex
from actors.retrieval.autocomplete.moved_articles import restore_article
from actors.retrieval.autocomplete.prefixes import Allowed, PrefixIndex, popularity_ranks
from actors.retrieval.autocomplete.word_index import WordIndex
from actors.retrieval.edit_distance import LONGEST, EditPattern, char_codes, max_edits
from actors.vectors.types import Floats, Mask, Rows

_PULL = 0.8
"What being the most popular text is worth, in typos."
_FIRST_LETTER = 0.4
"What a typo in the first letter costs more."
_INSIDE = 0.15
"What it costs to be found at a later word."
_SHUFFLED = 0.5
"What it costs to be found by words alone."
_LONGER = 1e-4
"What every character of a text costs."
_AHEAD = 4
"So many times the wanted exact beginnings are looked at, the most popular ones."
_COMPARED = 700
_NUMBER = re.compile(r"\d+")
_LONG = 8
"Among so many characters typos may spoil each other, which counts as one more."
_SURE = 8
"A typo in so many characters leaves no doubt that they were typed in this order."
_PLAIN = 12
"So much that begins a text exactly was not typed by mistake."
_FEW = 2
"More typos are looked for when nothing is found with so many."


@dataclass(frozen=True, slots=True)
class CompletionMatches:
    """Texts that could be meant, best first.

    Shapes:
        texts: int64 [m]; edits: int64 [m]; cost: float64 [m]; place: int64 [m], where in the characters the likeness
        begins, -1 when the text was found by its words; cut: int64 [m], how many characters of it were typed
    """

    texts: Rows
    edits: Rows
    cost: Floats
    place: Rows
    cut: Rows

    def pick(self, which: Rows) -> CompletionMatches:
        """Take some of them.

        Shapes:
            which: int64 [k], positions
        """
        return CompletionMatches(
            self.texts[which], self.edits[which], self.cost[which], self.place[which], self.cut[which]
        )


@dataclass(frozen=True, slots=True)
class CompletionIndex:
    """Everything one field's completions need.

    Shapes:
        places: int32 [w], where words begin, ascending; place_starts: int64 [n + 1], the words of each text;
        pull: float32 [n], logarithm of the popularity, 0 to 1
    """

    texts: FoldedTexts
    prefixes: PrefixIndex
    pairs: NgramIndex
    triples: NgramIndex
    words: WordIndex
    places: Rows
    place_starts: Rows
    pull: npt.NDArray[np.float32]

    @classmethod
    def of(cls, texts: Sequence[str], popularity: Floats) -> CompletionIndex:
        """Build the index of the texts of one field, given as uploaded.

        Shapes:
            popularity: float64 [n], 0 or more
        """
        folded = FoldedTexts.of([restore_article(text) for text in texts])
        places = folded.word_starts()
        pull = np.log1p(np.maximum(popularity, 0.0))
        largest = float(pull.max(initial=0.0))
        return cls(
            texts=folded,
            prefixes=PrefixIndex.of(folded, popularity_ranks(popularity, np.diff(folded.starts))),
            pairs=NgramIndex.of(folded, 2),
            triples=NgramIndex.of(folded, 3),
            words=WordIndex.of(folded),
            places=places.astype(np.int32 if folded.size < 2**31 else np.int64),
            place_starts=np.searchsorted(places, folded.starts).astype(np.int64),
            pull=(pull / largest if largest else pull).astype(np.float32),
        )

    def look_up(
        self, typed: str, wanted: int, page: int = 0, allowed: Allowed | None = None
    ) -> CompletionMatches:
        """Find texts for what was typed (folded, see `folding.typed_so_far`).

        With `page` exact beginnings typos are not looked for; 0: only with as many as are wanted.

        Cost:
            see benchmarks/completions.py
        """
        pattern = char_codes(typed)
        first, last = self.prefixes.find_range(pattern, self.texts.codes)
        exact = self._exact(first, last, len(pattern), wanted, allowed)
        most = max_edits(len(typed.strip()))
        if len(exact.texts) >= (page or wanted) or not most:
            return exact
        if len(exact.texts):
            if len(typed) >= _PLAIN:
                return exact
            # what begins exactly so is meant; a single typo away may be, too
            most = 1
        near = self._with_numbers(self._near(typed, min(most, _FEW), allowed), typed)
        spoilt = int(len(typed) >= _LONG)
        found = _merge_matches(exact, near, wanted)
        if most + spoilt > _FEW and self._is_doubtful(found, wanted):
            near = self._with_numbers(self._near(typed, most + spoilt, allowed), typed)
            found = _merge_matches(found, near, wanted)
        if " " in typed.strip() and (not len(found.texts) or found.edits.min() > max(1, len(typed) // _SURE)):
            shuffled = self._with_numbers(self._by_words(typed, most, wanted, allowed), typed)
            found = _merge_matches(found, shuffled, wanted)
        return found

    def _is_doubtful(self, found: CompletionMatches, wanted: int) -> bool:
        """Is nothing found, or are a few texts found far away and none by its beginning?"""
        if not len(found.texts):
            return True
        begins = found.place == self.texts.starts[found.texts] + 1
        return len(found.texts) < wanted and int(found.edits.min()) >= _FEW and not bool(begins.any())

    def _with_numbers(self, found: CompletionMatches, typed: str) -> CompletionMatches:
        """Keep texts that have the numbers typed as they were typed: 7 is no typo of 8."""
        numbers = _NUMBER.findall(typed)
        if not numbers:
            return found
        growing = numbers[-1] if typed.endswith(numbers[-1]) else ""
        kept = []
        for at, text in enumerate(found.texts.tolist()):
            having = set(_NUMBER.findall(self.texts.folded(text)))
            missing = set(numbers) - having
            if not missing or (missing == {growing} and any(number.startswith(growing) for number in having)):
                kept.append(at)
        return found.pick(np.array(kept, np.int64))

    def _exact(
        self, first: int, last: int, length: int, wanted: int, allowed: Allowed | None
    ) -> CompletionMatches:
        texts, places = self.prefixes.top(first, last, _AHEAD * wanted, allowed)
        cost = _INSIDE * (places != self.texts.starts[texts] + 1) - self._merit(texts)
        best = np.lexsort((texts, cost))[:wanted]
        zeros = np.zeros(len(best), np.int64)
        return CompletionMatches(texts[best], zeros, cost[best], places[best], zeros + length)

    def _merit(self, texts: Rows) -> Floats:
        """Say what texts are worth whatever was typed: popularity, and of equals the one of which most was typed."""
        starts = self.texts.starts
        merit: Floats = _PULL * self.pull[texts].astype(np.float64) - _LONGER * (
            starts[texts + 1] - starts[texts]
        )
        return merit

    def _near(self, typed: str, most: int, allowed: Allowed | None) -> CompletionMatches:
        """Compare what was typed with the texts that share most with it."""
        marked = char_codes(" " + typed)
        grams = self.triples if most <= 2 and len(marked) - 2 > 3 * most else self.pairs
        shared, counts = grams.count_shared(marked, most, len(self.texts), allowed)
        if len(shared) > _COMPARED:
            # of equally alike texts the more popular ones are compared
            worth = counts + 0.5 * self.pull[shared]
            shared = shared[np.argpartition(-worth, _COMPARED)[:_COMPARED]]
        pattern = char_codes(typed)
        owner, places = self._places(shared, len(pattern), most)
        found = EditPattern(pattern).compare(self.texts.codes, places, most)
        kept = np.flatnonzero(found.edits <= most)
        texts, places = shared[owner[kept]], places[kept]
        edits, cut = found.edits[kept], found.cut[kept]
        cost = edits - self._merit(texts)
        cost = cost + _FIRST_LETTER * (self.texts.codes[places] != pattern[0])
        cost = cost + _INSIDE * (places != self.texts.starts[texts] + 1)
        order = np.lexsort((cost, texts))
        best = order[_first_of_each(texts[order])]
        return CompletionMatches(texts[best], edits[best], cost[best], places[best], cut[best])

    def _places(self, texts: Rows, length: int, most: int) -> tuple[Rows, Rows]:
        """Find where texts may begin to be what was typed: at words that enough characters follow.

        Shapes:
            returns: int64 [m] each, positions in `texts`, and places
        """
        first = self.place_starts[texts]
        lengths = self.place_starts[texts + 1] - first
        owner = np.repeat(np.arange(len(texts)), lengths)
        offsets = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = self.places[first[owner] + offsets].astype(np.int64)
        # a text ends with a blank and a zero
        likely = self.texts.starts[texts + 1][owner] - 1 - places >= min(length, LONGEST) - most
        return owner[likely], places[likely]

    def _by_words(self, typed: str, most: int, wanted: int, allowed: Allowed | None) -> CompletionMatches:
        texts, edits = self.words.texts_with(typed, allowed)
        kept = np.flatnonzero(edits <= most)
        texts, edits = texts[kept], edits[kept]
        cost = edits + _SHUFFLED - self._merit(texts)
        if len(texts) > 4 * wanted:
            best = np.argpartition(cost, 4 * wanted)[: 4 * wanted]
            texts, edits, cost = texts[best], edits[best], cost[best]
        nowhere = np.full(len(texts), -1, np.int64)
        return CompletionMatches(texts, edits.astype(np.int64), cost, nowhere, np.zeros(len(texts), np.int64))


def _merge_matches(one: CompletionMatches, other: CompletionMatches, wanted: int) -> CompletionMatches:
    """Put two lists into one order; a text in both counts where it is cheaper."""
    texts = np.concatenate((one.texts, other.texts))
    cost = np.concatenate((one.cost, other.cost))
    order = np.lexsort((cost, texts))
    best = order[_first_of_each(texts[order])]
    best = best[np.lexsort((texts[best], cost[best]))][:wanted]
    return CompletionMatches(
        texts[best],
        np.concatenate((one.edits, other.edits))[best],
        cost[best],
        np.concatenate((one.place, other.place))[best],
        np.concatenate((one.cut, other.cut))[best],
    )


def _first_of_each(ordered: Rows) -> Mask:
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return first
