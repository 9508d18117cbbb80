"""The look-up of completions: exact prefixes, then near ones, then words in any order, in one order by cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.folded_texts import FoldedTexts, restore_article
from actors.retrieval.autocomplete.ngram_index import SHARED_BY_CHANCE, NgramIndex
from actors.retrieval.autocomplete.prefix_index import Allowed, PrefixIndex, popularity_ranks
from actors.retrieval.autocomplete.word_index import WordIndex
from actors.retrieval.prefix_edit_distance import (
    BLANK,
    LONGEST,
    CharCodes,
    EditPattern,
    char_codes,
    max_edits,
)
from actors.vectors.types import Floats, Mask, Rows

LONGEST_TEXT = 300
"Characters of a text that are indexed: each costs about 50 bytes."
BYTES_A_CHARACTER = 45
_PULL = 0.8
"Typos that the most popular text may have more."
_FIRST_LETTER = 0.4
"Additional cost of a typo in the first letter, in typos."
_INSIDE = 0.15
"Cost of a match at a later word, in typos."
_SHUFFLED = 0.5
"Cost of a match by words in any order, in typos."
_WHOLE_WORD = 0.1
"Gain of a match that ends with a word, in typos."
_SWAPPED = 0.2
"Gain of a match whose typos only change the order of characters, in typos."
_OTHER_NUMBER = 0.5
"Additional cost of a text without a typed number, in typos."
_LONGER = 1e-4
"Cost of each character of a text, in typos."
_AHEAD = 4
"Exact prefixes that are ranked, as a multiple of the requested number."
_COMPARED = 600
"Texts that are compared with the typed one. More found no more of the film titles with years."
_COMPARED_PER_EDIT = 200
_SHORT = 5
"Typed characters up to which n-grams say little: more texts are compared, so that no popular one is missed."
_SCANNED = 8_000
"Texts that are compared at a time where the nearest ones have too many typos, so that no near text is missed."
_CORRECTED = 3
"Places of a page that texts with a corrected word get."
_LEAST_CORRECTED = 4
"Characters of a word from which on it is corrected in spite of a page of exact prefixes."
_LEAST_COST = 1e-9
"Difference of two costs that only decides the order."
_FEW_PREFIXES = 2
"Exact prefixes up to which a word is corrected, in pages."
_NUMBER = re.compile(r"\d+")
_LONG = 8
"Characters from which on typos may overlap, which counts as one more typo."
_SURE = 8
"Characters for each typo from which on words in another order are not looked for."
_PLAIN = 12
"Characters of an exact prefix from which on near texts are not looked for."
_FEW = 2
"Typos that are looked for first; more only if nothing is found."


@dataclass(frozen=True, slots=True)
class CompletionMatches:
    """Matching texts, best first.

    Shapes:
        texts: int64 [m]; edits: int64 [m]; cost: float64 [m]; place: int64 [m], where in the characters the match
        begins, -1 for a match by words; cut: int64 [m], how many characters of the text match
    """

    texts: Rows
    edits: Rows
    cost: Floats
    place: Rows
    cut: Rows

    def pick(self, which: Rows) -> CompletionMatches:
        """Select some matches.

        Shapes:
            which: int64 [k], positions
        """
        return CompletionMatches(
            self.texts[which], self.edits[which], self.cost[which], self.place[which], self.cut[which]
        )


@dataclass(frozen=True, slots=True)
class CompletionIndex:
    """The index of the texts of one field.

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
        """Build the index of the texts of one field, given as uploaded; of each, the first 300 characters count.

        Shapes:
            popularity: float64 [n], 0 or more
        """
        # Cut before folding: an uploaded text may have any length, and each character costs memory.
        folded = FoldedTexts.of([restore_article(text[:LONGEST_TEXT]) for text in texts])
        places = folded.word_starts()
        # Logarithm, then scaled to 1: ten times as popular is worth the same everywhere.
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

    @property
    def nbytes(self) -> int:
        """Return an estimate of the memory in bytes, of which a snapshot maps a part: 45 for each character."""
        return BYTES_A_CHARACTER * self.texts.size

    def look_up(
        self, typed: str, limit: int, page: int = 0, allowed: Allowed | None = None
    ) -> CompletionMatches:
        """Find texts for a typed text, folded by `fold_typed`, best first.

        With at least `page` exact prefixes, or `limit` if `page` is 0, typos are looked for only in a word that is
        rarer than the word it may be a misspelling of. A typed text of at least three characters is answered with a
        text if an allowed one is within `max_edits`.

        Cost:
            see benchmarks/completions.py; nonsense: 10 ms for 36,000 titles
        """
        pattern = char_codes(typed)
        first, last = self.prefixes.find_range(pattern, self.texts.codes)
        exact = self._exact(first, last, len(pattern), limit, allowed)
        most = max_edits(len(typed.strip()))
        if len(exact.texts) >= (page or limit):
            return self._with_corrections(exact, typed, page or limit, limit, last - first, allowed)
        if not most:
            return exact
        if len(exact.texts):
            if len(typed) >= _PLAIN:
                return exact
            # with exact prefixes, only texts a single typo away are likely
            most = 1
        near = self._near(self._few_grams(typed, most), typed, min(most, _FEW), allowed)
        if len(exact.texts) and _NUMBER.search(typed):
            # Beside exact texts, which have the number, another number is no typo.
            near = near.pick(np.flatnonzero(self._have_numbers(near.texts, typed)))
        matches = _merge_matches(exact, self._weigh_numbers(near, typed), limit)
        if self._is_doubtful(matches, limit):
            all_edits = most + int(len(typed) >= _LONG)
            near = self._near(self.pairs, typed, all_edits, allowed)
            if not len(near.texts):
                near = self._scan(typed, most, all_edits, allowed)
            matches = _merge_matches(matches, self._weigh_numbers(near, typed), limit)
        if " " in typed.strip() and (
            not len(matches.texts) or matches.edits.min() > max(1, len(typed) // _SURE)
        ):
            shuffled = self._weigh_numbers(self._by_words(typed, most, limit, allowed), typed)
            matches = _merge_matches(matches, shuffled, limit)
        return matches

    def _with_corrections(
        self,
        exact: CompletionMatches,
        typed: str,
        page: int,
        limit: int,
        prefixes: int,
        allowed: Allowed | None,
    ) -> CompletionMatches:
        """Give the last places of a page of exact prefixes to texts with a more frequent word a single typo away.

        `camara` begins few words, and `camera` is in many texts.
        """
        if not _LEAST_CORRECTED <= len(typed) < _PLAIN or prefixes > _FEW_PREFIXES * page or " " in typed:
            return exact
        if page <= _CORRECTED or self.words.has_word(typed):
            return exact
        word = self.words.find_correction(typed, prefixes)
        if not word:
            return exact
        first, last = self.prefixes.find_range(char_codes(word + " "), self.texts.codes)
        near = self._exact(first, last, len(word), _CORRECTED, allowed)
        # between two exact prefixes that may cost the same; several indexes are merged by cost
        behind = np.arange(len(exact.texts)) >= page - _CORRECTED
        cost = np.full(len(near.texts), exact.cost[page - _CORRECTED - 1] + _LEAST_COST)
        exact = replace(exact, cost=exact.cost + 2 * _LEAST_COST * behind)
        return _merge_matches(exact, replace(near, edits=near.edits + 1, cost=cost), limit)

    def _scan(self, typed: str, most: int, all_edits: int, allowed: Allowed | None) -> CompletionMatches:
        """Compare all texts that can be within `most` typos, those that share most pairs first, until some match."""
        texts = self.pairs.find_within_edits(char_codes(typed)[:LONGEST], most, len(self.texts))
        # Most shared pairs first, and only until one part has a match: later ones are farther away.
        for at in range(0, len(texts), _SCANNED):
            part = texts[at : at + _SCANNED]
            matches = self._compare(part if allowed is None else part[allowed(part)], typed, all_edits)
            if len(matches.texts):
                return matches
        return self._compare(texts[:0], typed, all_edits)

    def _is_doubtful(self, matches: CompletionMatches, limit: int) -> bool:
        """Return whether the lookup found no text, or only few texts with several typos and none from its
        beginning on.
        """
        if not len(matches.texts):
            return True
        begins = matches.place == self.texts.starts[matches.texts] + 1
        return len(matches.texts) < limit and int(matches.edits.min()) >= _FEW and not bool(begins.any())

    def _weigh_numbers(self, matches: CompletionMatches, typed: str) -> CompletionMatches:
        """Put texts without the typed numbers behind those with them: 7 is rarely a typo of 8."""
        if not _NUMBER.search(typed) or not len(matches.texts):
            return matches
        return replace(matches, cost=matches.cost + _OTHER_NUMBER * ~self._have_numbers(matches.texts, typed))

    def _have_numbers(self, texts: Rows, typed: str) -> Mask:
        """Return which texts have the typed numbers; of one that is still typed they have the beginning.

        Shapes:
            texts: int64 [m]; returns: bool [m]
        """
        numbers = _NUMBER.findall(typed)
        growing = numbers[-1] if typed.endswith(numbers[-1]) else ""
        having = np.ones(len(texts), np.bool_)
        for at, text in enumerate(texts.tolist()):
            present = set(_NUMBER.findall(self.texts.folded(text)))
            missing = set(numbers) - present
            having[at] = not missing or (
                missing == {growing} and any(number.startswith(growing) for number in present)
            )
        return having

    def _exact(
        self, first: int, last: int, length: int, limit: int, allowed: Allowed | None
    ) -> CompletionMatches:
        texts, places = self.prefixes.top(first, last, _AHEAD * limit, allowed)
        cost = _INSIDE * (places != self.texts.starts[texts] + 1) - self._merit(texts)
        best = np.lexsort((texts, cost))[:limit]
        zeros = np.zeros(len(best), np.int64)
        return CompletionMatches(texts[best], zeros, cost[best], places[best], zeros + length)

    def _merit(self, texts: Rows) -> Floats:
        """Compute the part of the cost that depends on the text only: popularity, then length."""
        starts = self.texts.starts
        merit: Floats = _PULL * self.pull[texts].astype(np.float64) - _LONGER * (
            starts[texts + 1] - starts[texts]
        )
        return merit

    def _few_grams(self, typed: str, most: int) -> NgramIndex:
        """Return the index that finds texts with few typos fastest: a swap destroys four triples or three pairs."""
        return self.triples if len(typed) - 1 > 4 * min(most, _FEW) else self.pairs

    def _near(self, grams: NgramIndex, typed: str, most: int, allowed: Allowed | None) -> CompletionMatches:
        """Compare the typed text with the texts that share most n-grams with it."""
        compared = _COMPARED if len(typed) <= _SHORT else min(_COMPARED_PER_EDIT * most, _COMPARED)
        marked = char_codes(" " + typed)
        shared = grams.nearest_texts(marked, most, len(self.texts), compared, self._worth, allowed)
        return self._compare(shared, typed, most)

    def _compare(self, shared: Rows, typed: str, most: int) -> CompletionMatches:
        """Match the typed text at the words of some texts, with at most `most` typos.

        Shapes:
            shared: int64 [m], texts
        """
        pattern = char_codes(typed)
        owner, places = self._places(shared, len(pattern), most)
        distances = EditPattern(pattern).compare(self.texts.codes, places, most)
        kept = np.flatnonzero(distances.edits <= most)
        texts = shared[owner[kept]]
        places = places[kept]
        edits = distances.edits[kept]
        cut = distances.cut[kept]
        cost = edits - self._merit(texts)
        cost = cost + _FIRST_LETTER * (self.texts.codes[places] != pattern[0])
        cost = cost + _INSIDE * (places != self.texts.starts[texts] + 1)
        cost = cost - _WHOLE_WORD * (self.texts.codes[places + cut] == BLANK)
        cost = cost - _SWAPPED * self._have_letters(pattern, places)
        # By text, then by cost, so the first of each text is its cheapest match.
        order = np.lexsort((cost, texts))
        best = order[_first_of_each(texts[order])]
        return CompletionMatches(texts[best], edits[best], cost[best], places[best], cut[best])

    def _worth(self, texts: Rows) -> Floats:
        """Order texts that share equally many n-grams: popular ones first, and short ones."""
        lengths = self.texts.starts[texts + 1] - self.texts.starts[texts]
        return 0.5 * self.pull[texts] - SHARED_BY_CHANCE * lengths

    def _have_letters(self, typed: CharCodes, places: Rows) -> Mask:
        """Return where exactly the typed characters stand, in any order.

        Shapes:
            typed: uint16 [c]; places: int64 [m]; returns: bool [m]
        """
        ordered = np.sort(typed[:LONGEST])
        # Shapes: [m, 1] + [c] -> [m, c]; equal sorted characters mean that only their order differs.
        windows = np.sort(self.texts.codes[places[:, None] + np.arange(len(ordered))], axis=1)
        same: Mask = (windows == ordered).all(axis=1)
        return same

    def _places(self, texts: Rows, length: int, most: int) -> tuple[Rows, Rows]:
        """Find the words of texts at which a match may begin: those that enough characters follow.

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

    def _by_words(self, typed: str, most: int, limit: int, allowed: Allowed | None) -> CompletionMatches:
        texts, edits = self.words.find_texts(typed, allowed)
        kept = np.flatnonzero(edits <= most)
        texts = texts[kept]
        edits = edits[kept]
        cost = edits + _SHUFFLED - self._merit(texts)
        if len(texts) > 4 * limit:
            # Bounds what a common word costs: the merge keeps `limit` of them anyway.
            best = np.argpartition(cost, 4 * limit)[: 4 * limit]
            texts = texts[best]
            edits = edits[best]
            cost = cost[best]
        nowhere = np.full(len(texts), -1, np.int64)
        return CompletionMatches(texts, edits.astype(np.int64), cost, nowhere, np.zeros(len(texts), np.int64))


def _merge_matches(first: CompletionMatches, second: CompletionMatches, limit: int) -> CompletionMatches:
    """Merge two lists by cost; a text in both keeps its lower cost."""
    texts = np.concatenate((first.texts, second.texts))
    cost = np.concatenate((first.cost, second.cost))
    order = np.lexsort((cost, texts))
    best = order[_first_of_each(texts[order])]
    best = best[np.lexsort((texts[best], cost[best]))][:limit]
    return CompletionMatches(
        texts[best],
        np.concatenate((first.edits, second.edits))[best],
        cost[best],
        np.concatenate((first.place, second.place))[best],
        np.concatenate((first.cut, second.cut))[best],
    )


def _first_of_each(ordered: Rows) -> Mask:
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return first
