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
from actors.retrieval.lexical.bm25 import compute_length_norms
from actors.retrieval.lexical.index_segments import IndexSegments, MergedSegment
from actors.retrieval.lexical.product_fields import GROUPS, WEIGHTS
from actors.retrieval.lexical.product_terms import AnalyzedProduct, bigram_code, fingerprint
from actors.retrieval.lexical.product_terms import analyze_product as cut_product
from actors.retrieval.lexical.query_terms import QueryWord, analyze_query
from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.retrieval.lexical.spell_correction import CorrectedQuery, SpellCorrector
from actors.retrieval.lexical.spell_dictionary import DictionaryBuild, ProductVocabulary
from actors.retrieval.lexical.term_matcher import TermGroup, TermHits, TermMatcher, order_best_first
from actors.retrieval.lexical.text_query import FIELDS, Names, TextHits, TextQuery
from actors.vectors.types import Mask, Rows, ensure_capacity

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
class RebuiltIndex:
    """What was made in another thread."""

    merged: MergedSegment | None
    spelling: DictionaryBuild | None


class SearchIndex:
    """Products by their words. Not safe for several threads at once; `rebuilding` gives work for another one."""

    def __init__(self, seal: int = 128) -> None:
        self._analyzers = Analyzers()
        self._parts = IndexSegments(seal)
        self._vocabulary = ProductVocabulary()
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
        self._delete(row)
        known = cut_product(row, product, self._analyzers)
        self._lengths = ensure_capacity(self._lengths, row + 1)
        self._titles = ensure_capacity(self._titles, row + 1)
        self._spoken = ensure_capacity(self._spoken, row + 1)
        self._lengths[row] = known.length
        self._titles[row] = known.title
        self._spoken[row] = self._language_bits(known)
        self._length += known.length
        self._languages.update(known.languages[:1])
        self._vocabulary.add(known.words)
        self._parts.put(known.term_vector)
        self._norms = None

    def remove(self, row: int) -> None:
        """Take a product out; the next question doesn't find it."""
        self._delete(row)
        self._parts.remove(row)
        self._norms = None

    def bind_rows(self, saved: SavedIndex, rows: Rows) -> None:
        """Let an index that was made elsewhere speak for rows whose products are as it has them.

        Shapes:
            rows: int64 [h], by product of that index, -1 for those that are not
        Cost:
            100,000 products: 20 ms, with a vocabulary that has to be taken over 0.1 s more
        """
        codes = np.flatnonzero(rows >= 0)
        taken = rows[codes]
        count = int(taken.max(initial=-1)) + 1
        self._lengths = ensure_capacity(self._lengths, count)
        self._titles = ensure_capacity(self._titles, count)
        self._spoken = ensure_capacity(self._spoken, count)
        self._length += float((saved.lengths[codes] - self._lengths[taken]).sum())
        self._lengths[taken], self._titles[taken] = saved.lengths[codes], saved.titles[codes]
        self._spoken[taken] = self._remap_language_bits(saved, codes)
        own = np.bincount(saved.main_language[codes], minlength=256).tolist()
        self._languages.update({name: own[at] for at, name in enumerate(saved.languages) if own[at]})
        if not len(self._vocabulary):
            self._vocabulary.load_counts(saved.vocabulary())
        self._parts.bind_rows(saved.segment, rows)
        self._norms = None

    @property
    def needs_rebuild(self) -> bool:
        """Did so much change that parts should be merged or words be indexed again?"""
        return self._parts.needs_merge or self._vocabulary.needs_rebuild

    def plan_rebuild(self, *, every: bool = False) -> Callable[[], RebuiltIndex]:
        """Give the work of putting the index in order, for another thread; what changes meanwhile is kept."""
        parts = self._parts.plan_merge(every=every) if every or self._parts.needs_merge else None
        words = self._vocabulary.plan_rebuild() if every or self._vocabulary.needs_rebuild else None
        return lambda: RebuiltIndex(parts() if parts else None, words() if words else None)

    def adopt(self, rebuilt: RebuiltIndex) -> None:
        """Let what was put in order serve."""
        if rebuilt.merged is not None:
            self._parts.adopt(rebuilt.merged)
        if rebuilt.spelling is not None:
            self._vocabulary.adopt(rebuilt.spelling)

    # --- questions ------------------------------------------------------------------------------------------

    def find(self, ask: TextQuery, allowed: Mask | None = None) -> TextHits:
        """Find products by words, best first.

        Shapes:
            allowed: bool [n], rows that may be found; rows beyond its end may not
        Cost:
            100,000 products: see tests/benchmarks/search.py
        """
        languages = self._query_languages(ask.language)
        words = analyze_query(ask.text, self._analyzers, languages)
        if not words or not len(self):
            return TextHits.empty(ask.text)
        matching = TermMatcher(self._parts, self._length_norms())
        matching.look_up([group for word in words for group in word.groups])
        factors = _factors(ask.fields)
        anything = partial(matching.find, all_required=True, allowed=allowed, factors=factors)
        speller = SpellCorrector(self._vocabulary, self._analyzers, languages, matching, anything)
        corrected = speller.correct(ask.text, words)
        used = ask.text
        if ask.correct and corrected.corrections:
            used, words = corrected.text, analyze_query(corrected.text, self._analyzers, languages)
        wishes = _term_groups(words, corrected.completions)
        hits = self._score_hits(ask, matching, wishes, allowed, factors)
        return self._build_hits(ask, matching, words, wishes, hits, corrected, used)

    def rows_with_words(self, text: str, *, language: str = "", together: bool = False) -> Rows:
        """Find the products that have every word of a text; with `together` as neighbours in their title.

        Shapes:
            returns: int64 [m], ascending
        """
        words = analyze_query(text, self._analyzers, self._query_languages(language))
        if not words or not len(self):
            return np.zeros(0, np.int64)
        wishes = _term_groups(words, {})
        if together:
            wishes += [TermGroup(pair.terms) for pair in _pairs(words)]
        return (
            TermMatcher(self._parts, self._length_norms()).find(wishes, all_required=True, allowed=None).rows
        )

    # --- how ------------------------------------------------------------------------------------------------

    def _score_hits(
        self,
        ask: TextQuery,
        matching: TermMatcher,
        wishes: list[TermGroup],
        allowed: Mask | None,
        factors: npt.NDArray[np.float64] | None,
    ) -> TermHits:
        if ask.only_language and ask.language:
            allowed = self._rows_in_language(ask.language, allowed)
        titled = factors is None or factors[1] > 0
        more = _title_bigrams(wishes) if titled else []
        hits = matching.find(
            wishes + more, all_required=ask.partial is False, allowed=allowed, factors=factors
        )
        if not isinstance(ask.partial, bool) and ask.partial > 0 and len(hits):
            hits = _filter_by_weight(matching, wishes, hits, float(ask.partial), allowed, factors)
        if not len(hits):
            return hits
        scores = hits.scores
        whole = fingerprint([wish.terms[0] for wish in wishes])
        if titled:
            named = self._titles[hits.rows] == np.uint64(whole)
            scores[named] += _WHOLE_TITLE * float(scores.max())
        if ask.language and not ask.only_language and self._bits.get(ask.language[:2].lower()):
            scores[~self._add_language_rows(ask.language, hits.rows)] *= _OTHER_LANGUAGE
        return hits

    def _build_hits(
        self,
        ask: TextQuery,
        matching: TermMatcher,
        words: list[QueryWord],
        wishes: list[TermGroup],
        hits: TermHits,
        corrected: CorrectedQuery,
        used: str,
    ) -> TextHits:
        worth = np.maximum(hits.scores, _ABOVE_ALL)
        order = order_best_first(worth)
        scores = worth[order].astype(np.float32)
        needed = len([wish for wish in wishes if wish.required])
        groups = [wish.terms for wish in wishes if wish.required]
        return TextHits(
            rows=hits.rows[order],
            scores=scores,
            complete=np.equal(hits.group_counts[order], needed),
            corrections=corrected.corrections,
            corrected=corrected.text,
            used=used,
            matched=partial(_matched, matching, groups),
            missing=partial(_missing, matching, words, used),
        )

    def _query_languages(self, language: str) -> list[str]:
        asked = [language[:2].lower()] if language else []
        most = [name for name, _ in self._languages.most_common(_LANGUAGES)]
        return list(dict.fromkeys([*asked, *most]))[: _LANGUAGES + 1]

    def _delete(self, row: int) -> None:
        if self._parts.has(row):
            self._length -= float(self._lengths[row])
            self._lengths[row] = 0

    def _length_norms(self) -> npt.NDArray[np.float64]:
        """Say by row how little a word counts because the product is long."""
        if self._norms is None:
            self._norms = compute_length_norms(self._lengths, self._length / max(len(self), 1))
        return self._norms

    def _language_bits(self, known: AnalyzedProduct) -> int:
        bits = 0
        for language in known.languages:
            bits |= 1 << self._bits.setdefault(language, min(len(self._bits) + 1, 63))
        return bits

    def _remap_language_bits(self, saved: SavedIndex, codes: Rows) -> npt.NDArray[np.uint64]:
        """Say which languages products have texts in, by the bits they have here."""
        theirs, ours = saved.language_bits[codes], np.zeros(len(codes), np.uint64)
        for at, name in enumerate(saved.languages):
            bit = self._bits.setdefault(name, min(len(self._bits) + 1, 63))
            ours |= ((theirs >> np.uint64(at)) & np.uint64(1)) << np.uint64(bit)
        return ours

    def _add_language_rows(self, language: str, rows: Rows) -> Mask:
        bit = self._bits.get(language[:2].lower())
        if bit is None:
            return np.zeros(len(rows), np.bool_)
        speaking: Mask = (self._spoken[rows] >> np.uint64(bit)) & np.uint64(1) == 1
        return speaking

    def _rows_in_language(self, language: str, allowed: Mask | None) -> Mask:
        speakers = self._add_language_rows(language, np.arange(self._parts.rows))
        if allowed is not None:
            both = min(len(allowed), len(speakers))
            speakers = speakers[:both] & allowed[:both]
        return speakers


def _term_groups(words: list[QueryWord], begun: Mapping[str, tuple[int, ...]]) -> list[TermGroup]:
    """Wish for every word, twice said twice; of a word that may go on, for those that begin so."""
    counted: Counter[tuple[int, ...]] = Counter()
    for word in words:
        if word.text in begun:
            counted[begun[word.text]] += 1
        else:
            counted.update(word.groups)
    return [TermGroup(group, float(count)) for group, count in counted.items()]


def _pairs(words: list[QueryWord]) -> list[TermGroup]:
    return _title_bigrams(_term_groups(words, {}))


def _title_bigrams(wishes: list[TermGroup]) -> list[TermGroup]:
    """Wish for neighbours to be neighbours in the title, too."""
    firsts = [wish.terms[0] for wish in wishes if wish.required]
    return [
        TermGroup((bigram_code(left, right),), _PHRASE, required=False) for left, right in pairwise(firsts)
    ]


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


def _filter_by_weight(
    matching: TermMatcher,
    wishes: list[TermGroup],
    hits: TermHits,
    share: float,
    allowed: Mask | None,
    factors: npt.NDArray[np.float64] | None,
) -> TermHits:
    """Keep the products that have so much of what the words weigh."""
    idfs = [matching.idf(wish.terms) for wish in wishes]
    weights = np.zeros(len(hits))
    for wish, idf in zip(wishes, idfs, strict=True):
        having = matching.find([wish], all_required=True, allowed=allowed, factors=factors).rows
        weights[np.isin(hits.rows, having, assume_unique=True)] += idf
    return hits.filter(weights >= share * sum(idfs) - 1e-9)


def _matched(matching: TermMatcher, groups: list[tuple[int, ...]], rows: Sequence[int]) -> list[Names]:
    where = np.array(rows, np.int64)
    bits = np.zeros(len(where), np.uint8)
    for group in groups:
        bits |= matching.find_fields(where, group)
    said = {
        one: tuple(dict.fromkeys(GROUPS[field] for field in range(len(FIELDS)) if one >> field & 1))
        for one in set(bits.tolist())
    }
    return [said[one] for one in bits.tolist()]


def _missing(matching: TermMatcher, words: list[QueryWord], text: str, rows: Sequence[int]) -> list[Names]:
    where = np.array(rows, np.int64)
    lacking: list[list[str]] = [[] for _ in rows]
    for word in words:
        having = np.ones(len(where), np.bool_)
        for group in word.groups:
            having &= matching.find_fields(where, group) > 0
        for at in np.flatnonzero(~having).tolist():
            lacking[at].append(text[word.start : word.end])
    return list(map(tuple, lacking))
