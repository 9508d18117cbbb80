"""The search index: products by their words, changed one at a time, asked at any time. Plain: no clock, no threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from actors.language.analysis import Analyzers
from actors.retrieval.lexical.bm25 import K1, B, Hits, Matching, Wish, best_first
from actors.retrieval.lexical.index_segments import Merged, Parts
from actors.retrieval.lexical.product_fields import GROUPS, WEIGHTS
from actors.retrieval.lexical.product_terms import Cut, fingerprint, pair_of
from actors.retrieval.lexical.product_terms import cut as cut_product
from actors.retrieval.lexical.query_terms import Word, cut
from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.retrieval.lexical.spell_correction import Corrected, Speller
from actors.retrieval.lexical.spell_dictionary import Vocabulary, Words
from actors.retrieval.lexical.text_query import FIELDS, Names, TextAsk, TextFound
from actors.vectors.types import Mask, Rows, room_for

_LANGUAGES: Final = 4
"Languages a question is understood in: the one asked for and those most products have."
_PHRASE: Final = 0.4
"What neighbours in a title add, beside a word as rare as they are."
_WHOLE_TITLE: Final = 0.5
"What it adds that the question is the whole title, beside the best score."
_OTHER_LANGUAGE: Final = 0.5
"What a product without texts in the language asked for keeps of its score."
_ABOVE_ALL: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was made in another thread."""

    merged: Merged | None
    spelling: Words | None


class SearchIndex:
    """Products by their words. Not safe for several threads at once; `rebuilding` gives work for another one."""

    def __init__(self, seal: int = 128) -> None:
        self._analyzers = Analyzers()
        self._parts = Parts(seal)
        self._vocabulary = Vocabulary()
        self._lengths = np.zeros(0, np.float64)
        self._titles = np.zeros(0, np.uint64)
        self._spoken = np.zeros(0, np.uint64)
        "A bit for every language a product has texts in."
        self._bits: dict[str, int] = {}
        self._languages: Counter[str] = Counter()
        self._length = 0.0
        self._norms: npt.NDArray[np.float64] | None = None

    def __len__(self) -> int:
        """Count products."""
        return self._parts.products

    @property
    def nbytes(self) -> int:
        """Memory held by arrays; words are extra, about 200 bytes each."""
        rows = self._lengths.nbytes + self._titles.nbytes + self._spoken.nbytes
        return self._parts.nbytes + 2 * rows + 200 * len(self._vocabulary)

    # --- changes --------------------------------------------------------------------------------------------

    def put(self, row: int, product: Mapping[str, Any]) -> None:
        """Set a product, old or new; the next question finds it.

        Cost:
            80 us for 100 words; every 128th time 3 ms
        """
        self._forget(row)
        known = cut_product(row, product, self._analyzers)
        self._lengths = room_for(self._lengths, row + 1)
        self._titles = room_for(self._titles, row + 1)
        self._spoken = room_for(self._spoken, row + 1)
        self._lengths[row] = known.length
        self._titles[row] = known.title
        self._spoken[row] = self._speaks(known)
        self._length += known.length
        self._languages.update(known.languages[:1])
        self._vocabulary.add(known.words)
        self._parts.put(known.text)
        self._norms = None

    def remove(self, row: int) -> None:
        """Take a product out; the next question doesn't find it."""
        self._forget(row)
        self._parts.remove(row)
        self._norms = None

    def lay(self, saved: SavedIndex, rows: Rows) -> None:
        """Let an index that was made elsewhere speak for rows whose products are as it has them.

        Shapes:
            rows: int64 [h], by product of that index, -1 for those that are not
        Cost:
            100,000 products: 20 ms, with a vocabulary that has to be taken over 0.1 s more
        """
        codes = np.flatnonzero(rows >= 0)
        taken = rows[codes]
        count = int(taken.max(initial=-1)) + 1
        self._lengths = room_for(self._lengths, count)
        self._titles = room_for(self._titles, count)
        self._spoken = room_for(self._spoken, count)
        self._length += float((saved.lengths[codes] - self._lengths[taken]).sum())
        self._lengths[taken], self._titles[taken] = saved.lengths[codes], saved.titles[codes]
        self._spoken[taken] = self._same_bits(saved, codes)
        own = np.bincount(saved.own[codes], minlength=256).tolist()
        self._languages.update({name: own[at] for at, name in enumerate(saved.languages) if own[at]})
        if not len(self._vocabulary):
            self._vocabulary.take(saved.vocabulary())
        self._parts.lay(saved.part, rows)
        self._norms = None

    @property
    def wants_rebuild(self) -> bool:
        """Did so much change that parts should be merged or words be indexed again?"""
        return self._parts.wants_merging or self._vocabulary.wants_rebuild

    def rebuilding(self, *, every: bool = False) -> Callable[[], Rebuilt]:
        """Give the work of putting the index in order, for another thread; what changes meanwhile is kept."""
        parts = self._parts.merging(every=every) if every or self._parts.wants_merging else None
        words = self._vocabulary.rebuilding() if every or self._vocabulary.wants_rebuild else None
        return lambda: Rebuilt(parts() if parts else None, words() if words else None)

    def adopt(self, rebuilt: Rebuilt) -> None:
        """Let what was put in order serve."""
        if rebuilt.merged is not None:
            self._parts.adopt(rebuilt.merged)
        if rebuilt.spelling is not None:
            self._vocabulary.adopt(rebuilt.spelling)

    # --- questions ------------------------------------------------------------------------------------------

    def find(self, ask: TextAsk, allowed: Mask | None = None) -> TextFound:
        """Find products by words, best first.

        Shapes:
            allowed: bool [n], rows that may be found; rows beyond its end may not
        Cost:
            100,000 products: see tests/benchmarks/search.py
        """
        languages = self._understood(ask.language)
        words = cut(ask.text, self._analyzers, languages)
        if not words or not len(self):
            return TextFound.none(ask.text)
        matching = Matching(self._parts, self._norms_now())
        matching.look_up([group for word in words for group in word.groups])
        factors = _factors(ask.fields)
        anything = partial(matching.hits, every=True, allowed=allowed, factors=factors)
        speller = Speller(self._vocabulary, self._analyzers, languages, matching, anything)
        corrected = speller.correct(ask.text, words)
        used = ask.text
        if ask.correct and corrected.corrections:
            used, words = corrected.text, cut(corrected.text, self._analyzers, languages)
        wishes = _wishes(words, corrected.begun)
        hits = self._hits(ask, matching, wishes, allowed, factors)
        return self._told(ask, matching, words, wishes, hits, corrected, used)

    def having(self, text: str, *, language: str = "", together: bool = False) -> Rows:
        """Find the products that have every word of a text; with `together` as neighbours in their title.

        Shapes:
            returns: int64 [m], ascending
        """
        words = cut(text, self._analyzers, self._understood(language))
        if not words or not len(self):
            return np.zeros(0, np.int64)
        wishes = _wishes(words, {})
        if together:
            wishes += [Wish(pair.group) for pair in _pairs(words)]
        return Matching(self._parts, self._norms_now()).hits(wishes, every=True, allowed=None).rows

    # --- how ------------------------------------------------------------------------------------------------

    def _hits(
        self,
        ask: TextAsk,
        matching: Matching,
        wishes: list[Wish],
        allowed: Mask | None,
        factors: npt.NDArray[np.float64] | None,
    ) -> Hits:
        if ask.only_language and ask.language:
            allowed = self._speakers(ask.language, allowed)
        titled = factors is None or factors[1] > 0
        more = _pairs_of(wishes) if titled else []
        hits = matching.hits(wishes + more, every=ask.partial is False, allowed=allowed, factors=factors)
        if not isinstance(ask.partial, bool) and ask.partial > 0 and len(hits):
            hits = _weighty(matching, wishes, hits, float(ask.partial), allowed, factors)
        if not len(hits):
            return hits
        scores = hits.scores
        whole = fingerprint([wish.group[0] for wish in wishes])
        if titled:
            named = self._titles[hits.rows] == np.uint64(whole)
            scores[named] += _WHOLE_TITLE * float(scores.max())
        if ask.language and not ask.only_language and self._bits.get(ask.language[:2].lower()):
            scores[~self._speak(ask.language, hits.rows)] *= _OTHER_LANGUAGE
        return hits

    def _told(
        self,
        ask: TextAsk,
        matching: Matching,
        words: list[Word],
        wishes: list[Wish],
        hits: Hits,
        corrected: Corrected,
        used: str,
    ) -> TextFound:
        worth = np.maximum(hits.scores, _ABOVE_ALL)
        order = best_first(worth)
        scores = worth[order].astype(np.float32)
        needed = len([wish for wish in wishes if wish.needed])
        groups = [wish.group for wish in wishes if wish.needed]
        return TextFound(
            rows=hits.rows[order],
            scores=scores,
            complete=np.equal(hits.found[order], needed),
            corrections=corrected.corrections,
            corrected=corrected.text,
            used=used,
            matched=partial(_matched, matching, groups),
            missing=partial(_missing, matching, words, used),
        )

    def _understood(self, language: str) -> list[str]:
        asked = [language[:2].lower()] if language else []
        most = [name for name, _ in self._languages.most_common(_LANGUAGES)]
        return list(dict.fromkeys([*asked, *most]))[: _LANGUAGES + 1]

    def _forget(self, row: int) -> None:
        if self._parts.has(row):
            self._length -= float(self._lengths[row])
            self._lengths[row] = 0

    def _norms_now(self) -> npt.NDArray[np.float64]:
        """Say by row how little a word counts because the product is long."""
        if self._norms is None:
            mean = max(self._length / max(len(self), 1), 1.0)
            self._norms = K1 * (1 - B) + (K1 * B / mean) * self._lengths
        return self._norms

    def _speaks(self, known: Cut) -> int:
        bits = 0
        for language in known.languages:
            bits |= 1 << self._bits.setdefault(language, min(len(self._bits) + 1, 63))
        return bits

    def _same_bits(self, saved: SavedIndex, codes: Rows) -> npt.NDArray[np.uint64]:
        """Say which languages products have texts in, by the bits they have here."""
        theirs, ours = saved.spoken[codes], np.zeros(len(codes), np.uint64)
        for at, name in enumerate(saved.languages):
            bit = self._bits.setdefault(name, min(len(self._bits) + 1, 63))
            ours |= ((theirs >> np.uint64(at)) & np.uint64(1)) << np.uint64(bit)
        return ours

    def _speak(self, language: str, rows: Rows) -> Mask:
        bit = self._bits.get(language[:2].lower())
        if bit is None:
            return np.zeros(len(rows), np.bool_)
        speaking: Mask = (self._spoken[rows] >> np.uint64(bit)) & np.uint64(1) == 1
        return speaking

    def _speakers(self, language: str, allowed: Mask | None) -> Mask:
        speakers = self._speak(language, np.arange(self._parts.rows))
        if allowed is not None:
            both = min(len(allowed), len(speakers))
            speakers = speakers[:both] & allowed[:both]
        return speakers


def _wishes(words: list[Word], begun: Mapping[str, tuple[int, ...]]) -> list[Wish]:
    """Wish for every word, twice said twice; of a word that may go on, for those that begin so."""
    counted: Counter[tuple[int, ...]] = Counter()
    for word in words:
        if word.said in begun:
            counted[begun[word.said]] += 1
        else:
            counted.update(word.groups)
    return [Wish(group, float(count)) for group, count in counted.items()]


def _pairs(words: list[Word]) -> list[Wish]:
    return _pairs_of(_wishes(words, {}))


def _pairs_of(wishes: list[Wish]) -> list[Wish]:
    """Wish for neighbours to be neighbours in the title, too."""
    firsts = [wish.group[0] for wish in wishes if wish.needed]
    return [Wish((pair_of(left, right),), _PHRASE, needed=False) for left, right in pairwise(firsts)]


def _factors(weights: Mapping[str, float] | None) -> npt.NDArray[np.float64] | None:
    """Say for every set of fields what a posting keeps of its gain; None when nothing is weighed otherwise."""
    if not weights or all(weight == 1 for weight in weights.values()):
        return None
    factors = np.zeros(256)
    for bits in range(1, 256):
        here = [field for field in range(len(FIELDS)) if bits >> field & 1]
        usual = sum(WEIGHTS[field] for field in here)
        factors[bits] = (
            sum(WEIGHTS[field] * max(weights.get(FIELDS[field], 1.0), 0.0) for field in here) / usual
        )
    return factors


def _weighty(
    matching: Matching,
    wishes: list[Wish],
    hits: Hits,
    share: float,
    allowed: Mask | None,
    factors: npt.NDArray[np.float64] | None,
) -> Hits:
    """Keep the products that have so much of what the words weigh."""
    rarities = [matching.rarity(wish.group) for wish in wishes]
    weights = np.zeros(len(hits))
    for wish, rarity in zip(wishes, rarities, strict=True):
        having = matching.hits([wish], every=True, allowed=allowed, factors=factors).rows
        weights[np.isin(hits.rows, having, assume_unique=True)] += rarity
    return hits.at(weights >= share * sum(rarities) - 1e-9)


def _matched(matching: Matching, groups: list[tuple[int, ...]], rows: Sequence[int]) -> list[Names]:
    where = np.array(rows, np.int64)
    bits = np.zeros(len(where), np.uint8)
    for group in groups:
        bits |= matching.fields_of(where, group)
    said = {
        one: tuple(dict.fromkeys(GROUPS[field] for field in range(len(FIELDS)) if one >> field & 1))
        for one in set(bits.tolist())
    }
    return [said[one] for one in bits.tolist()]


def _missing(matching: Matching, words: list[Word], text: str, rows: Sequence[int]) -> list[Names]:
    where = np.array(rows, np.int64)
    lacking: list[list[str]] = [[] for _ in rows]
    for word in words:
        having = np.ones(len(where), np.bool_)
        for group in word.groups:
            having &= matching.fields_of(where, group) > 0
        for at in np.flatnonzero(~having).tolist():
            lacking[at].append(text[word.start : word.end])
    return list(map(tuple, lacking))
