"""The search index of products: put and remove one product at a time, find at any time. No clock, no threads."""

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
from actors.retrieval.lexical.joined_parts import JoinedPart, JoinedParts, PartCodes
from actors.retrieval.lexical.messages import FIELDS, Names, TextHits, TextQuery
from actors.retrieval.lexical.product_access import IndexPart, ProductAccess
from actors.retrieval.lexical.product_fields import GROUPS, WEIGHTS
from actors.retrieval.lexical.product_languages import ProductLanguages
from actors.retrieval.lexical.product_postings import select_products
from actors.retrieval.lexical.product_terms import analyze_product, bigram_code, hash_terms
from actors.retrieval.lexical.query_terms import QueryWord, analyze_query
from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.retrieval.lexical.spell_correction import CorrectedQuery, SpellCorrector
from actors.retrieval.lexical.spell_dictionary import DictionaryBuild, JoinedVocabulary
from actors.retrieval.lexical.term_matcher import TermGroup, TermHits, TermMatcher, order_best_first
from actors.vectors.types import Mask, Rows, ensure_capacity
from cluster.access_tier import access_of

_LANGUAGES: Final = 4
"Languages in which a query is analyzed: its own and the most frequent ones of the products."
_PHRASE: Final = 0.4
"Weight of two neighbouring words of a title, beside a word with the same idf."
_WHOLE_TITLE: Final = 0.5
"Share of the best score that is added if the query is the whole title."
_OTHER_LANGUAGE: Final = 0.5
"Factor of the score of a product without texts in the language of the query."
# Least score of a hit: sorting as integers needs scores above 0.
_ABOVE_ALL: Final = 1e-9
_MOST_NORMS: Final = 16
"Sets of parts of the index whose norms are in memory."


@dataclass(frozen=True, slots=True)
class RebuiltIndex:
    """What another thread rebuilt: merged segments, spelling dictionaries, or both."""

    merged: Mapping[int, MergedSegment]
    spelling: Mapping[int, DictionaryBuild]
    "Both by code of the access of the products."
    joined: Sequence[tuple[JoinedPart, MergedSegment]]


class SearchIndex:
    """Finds products by words. Not safe for several threads at once; `plan_rebuild` returns work for another one."""

    def __init__(self, seal: int = 128) -> None:
        self._analyzers = Analyzers()
        self._seal = seal
        self._access = ProductAccess()
        self._parts = {0: IndexPart(IndexSegments(seal))}
        "By code of the access of the products; 0 for open ones."
        self._joined = JoinedParts(seal, self._parts)
        self._lengths = np.zeros(0, np.float64)
        self._titles = np.zeros(0, np.uint64)
        self._languages = ProductLanguages()
        self._norms: dict[PartCodes, npt.NDArray[np.float64]] = {}
        "Until a product changes."

    def __len__(self) -> int:
        return sum(part.segments.products for part in self._parts.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays and of the vocabulary, about 200 a word."""
        rows = self._lengths.nbytes + self._titles.nbytes + self._languages.nbytes
        parts = sum(part.segments.nbytes + 200 * len(part.vocabulary) for part in self._parts.values())
        return parts + 2 * rows + self._joined.nbytes

    @property
    def parts(self) -> Mapping[int, IndexPart]:
        """The parts of the index by code of the access of their products."""
        return self._parts

    @property
    def joined_segments(self) -> list[IndexSegments]:
        """The joined copies of parts that queries search."""
        return self._joined.list_ready()

    def put(self, row: int, product: Mapping[str, Any]) -> None:
        """Set a product, old or new; the next query finds it.

        Cost:
            80 us for 100 words; every 128th time 3 ms
        """
        self._delete(row)
        analyzed = analyze_product(row, product, self._analyzers)
        self._lengths = ensure_capacity(self._lengths, row + 1)
        self._titles = ensure_capacity(self._titles, row + 1)
        self._lengths[row] = analyzed.length
        self._titles[row] = analyzed.title
        code = self._access.put(row, access_of(product))
        self._languages.put(row, analyzed.languages, code)
        part = self._part(code)
        part.length += analyzed.length
        part.vocabulary.add(analyzed.words)
        part.segments.put(analyzed.term_vector)
        self._joined.put(code, analyzed.term_vector)
        # The mean length changed, and so all norms.
        self._norms.clear()

    def remove(self, row: int) -> None:
        """Remove a product; the next query does not find it."""
        self._delete(row)
        self._norms.clear()

    def bind_rows(self, saved: SavedIndex, rows: Rows) -> None:
        """Serve some rows from the index of a snapshot.

        Shapes:
            rows: int64 [h], by product of the snapshot, -1 for a product that changed since
        Cost:
            100,000 products: 20 ms; 0.1 s more if the vocabulary is copied
        """
        self._joined.clear()
        codes = np.flatnonzero(rows >= 0)
        taken = rows[codes]
        count = int(taken.max(initial=-1)) + 1
        self._lengths = ensure_capacity(self._lengths, count)
        self._titles = ensure_capacity(self._titles, count)
        # Read before the access of the rows changes: their former parts give up their lengths.
        before = self._access.codes_of(taken)
        for code in np.unique(before).tolist():
            self._part(code).length -= float(self._lengths[taken[before == code]].sum())
        # A vocabulary counts words and not who has them: adding the same snapshot twice would double it.
        is_first = not any(len(part.vocabulary) for part in self._parts.values())
        saved_codes = self._access.bind_rows(saved, codes, taken)
        after = self._access.codes_of(taken)
        self._lengths[taken] = saved.lengths[codes]
        self._titles[taken] = saved.titles[codes]
        self._languages.bind_rows(saved, codes, taken, before, after)
        for row, code in zip(taken[before != after].tolist(), before[before != after].tolist(), strict=True):
            self._part(code).segments.remove(row)
        words = (saved.vocabulary(), *saved.locked_words) if is_first else ()
        for code, counts in zip(saved_codes, words, strict=False):
            self._part(code).vocabulary.load_counts(counts)
        for code in dict.fromkeys(saved_codes):
            self._bind_part(code, saved, np.array(saved_codes, np.uint8)[saved.access_codes] == code, rows)
        self._norms.clear()

    def _bind_part(self, code: int, saved: SavedIndex, has_access: Mask, rows: Rows) -> None:
        """Serve the products of one access from a snapshot; where it has others, its postings are copied."""
        part = self._part(code)
        part_rows = np.where(has_access, rows, -1)
        part.length += float(saved.lengths[part_rows >= 0].sum())
        segment = saved.segment if has_access.all() else select_products(saved.segment, has_access)
        part.segments.bind_rows(segment, part_rows)

    @property
    def needs_rebuild(self) -> bool:
        """Return whether segments should be merged or words be indexed again."""
        return self._joined.needs_rebuild or any(
            part.segments.needs_merge or part.vocabulary.needs_rebuild for part in self._parts.values()
        )

    def plan_rebuild(self, *, every: bool = False) -> Callable[[], RebuiltIndex]:
        """Return a function that merges segments and indexes words in another thread; later changes are kept."""
        merges = {
            code: part.segments.plan_merge(every=every)
            for code, part in self._parts.items()
            if every or part.segments.needs_merge
        }
        words = {
            code: part.vocabulary.plan_rebuild()
            for code, part in self._parts.items()
            if every or part.vocabulary.needs_rebuild
        }
        joined = self._joined.plan_rebuild(every=every)
        return lambda: RebuiltIndex(
            {code: merge() for code, merge in merges.items()},
            {code: build() for code, build in words.items()},
            [(part, merge()) for part, merge in joined],
        )

    def adopt(self, rebuilt: RebuiltIndex) -> None:
        """Serve what `plan_rebuild` rebuilt."""
        for code, merged in rebuilt.merged.items():
            self._parts[code].segments.adopt(merged)
        for code, spelling in rebuilt.spelling.items():
            self._parts[code].vocabulary.adopt(spelling)
        for joined, segment in rebuilt.joined:
            self._joined.adopt(joined, segment)

    def find(self, query: TextQuery, allowed: Mask | None = None) -> TextHits:
        """Find products by words, best first.

        Shapes:
            allowed: bool [n], rows that may be found; rows beyond its end may not
        Cost:
            100,000 products: see tests/benchmarks/search.py
        """
        codes = self._searched_parts(query.tiers)
        languages = self._query_languages(query.language, codes)
        words = analyze_query(query.text, self._analyzers, languages)
        if not words or not codes:
            return TextHits.empty(query.text)
        matcher = self._matcher(codes)
        matcher.look_up([group for word in words for group in word.groups])
        factors = _factors(query.fields)
        anything = partial(matcher.find, all_required=True, allowed=allowed, factors=factors)
        vocabularies = [self._parts[code].vocabulary for code in codes]
        vocabulary = vocabularies[0] if len(codes) == 1 else JoinedVocabulary(vocabularies)
        speller = SpellCorrector(vocabulary, self._analyzers, languages, matcher, anything)
        corrected = speller.correct(query.text, words)
        used = query.text
        if query.correct and corrected.corrections:
            used = corrected.text
            # The matcher looks up missing terms itself, so the corrected words need no second `look_up`.
            words = analyze_query(corrected.text, self._analyzers, languages)
        query_groups = _term_groups(words, corrected.completions)
        hits = self._score_hits(query, matcher, query_groups, allowed, factors, codes)
        return self._build_hits(query, matcher, words, query_groups, hits, corrected, used)

    def rows_with_words(
        self,
        text: str,
        *,
        language: str = "",
        together: bool = False,
        tiers: frozenset[str] | None = None,
        allowed: Mask | None = None,
    ) -> Rows:
        """Find the products that have every word of a text; with `together` also as neighbours in their title.

        With `tiers`, only products that a user with these tiers may read.

        Shapes:
            allowed: bool [n], rows that may be found; returns: int64 [m], ascending
        """
        codes = self._searched_parts(tiers)
        words = analyze_query(text, self._analyzers, self._query_languages(language, codes))
        if not words or not codes:
            return np.zeros(0, np.int64)
        query_groups = _term_groups(words, {})
        if together:
            query_groups += [TermGroup(pair.terms) for pair in _pairs(words)]
        return self._matcher(codes).find(query_groups, all_required=True, allowed=allowed).rows

    def _score_hits(
        self,
        query: TextQuery,
        matcher: TermMatcher,
        query_groups: list[TermGroup],
        allowed: Mask | None,
        factors: npt.NDArray[np.float64] | None,
        codes: PartCodes,
    ) -> TermHits:
        if query.only_language and query.language:
            allowed = self._rows_in_language(query.language, allowed)
        with_titles = factors is None or factors[1] > 0
        bigrams = _title_bigrams(query_groups) if with_titles else []
        hits = matcher.find(
            query_groups + bigrams, all_required=query.partial is False, allowed=allowed, factors=factors
        )
        if not isinstance(query.partial, bool) and query.partial > 0 and len(hits):
            hits = _filter_by_weight(matcher, query_groups, hits, float(query.partial), allowed, factors)
        if not len(hits):
            return hits
        scores = hits.scores
        # The same hash as of the titles of products, so a whole title is one comparison of numbers.
        title = hash_terms([group.terms[0] for group in query_groups])
        if with_titles:
            is_title = self._titles[hits.rows] == np.uint64(title)
            # A share of the best score, because BM25 has no fixed scale.
            scores[is_title] += _WHOLE_TITLE * float(scores.max())
        if query.language and not query.only_language and self._languages.has_products(query.language, codes):
            scores[~self._languages.select(query.language, hits.rows)] *= _OTHER_LANGUAGE
        return hits

    def _build_hits(
        self,
        query: TextQuery,
        matcher: TermMatcher,
        words: list[QueryWord],
        query_groups: list[TermGroup],
        hits: TermHits,
        corrected: CorrectedQuery,
        used: str,
    ) -> TextHits:
        floored = np.maximum(hits.scores, _ABOVE_ALL)
        order = order_best_first(floored)
        scores = floored[order].astype(np.float32)
        # Pairs of a title are not required, and a product without them is complete.
        needed = len([group for group in query_groups if group.required])
        groups = [group.terms for group in query_groups if group.required]
        return TextHits(
            rows=hits.rows[order],
            scores=scores,
            complete=np.equal(hits.group_counts[order], needed),
            corrections=corrected.corrections,
            corrected=corrected.text,
            used=used,
            matched=partial(_matched, matcher, groups),
            missing=partial(_missing, matcher, words, used),
        )

    def _query_languages(self, language: str, codes: PartCodes) -> list[str]:
        requested = [language[:2].lower()] if language else []
        frequent = self._languages.list_frequent(_LANGUAGES, codes)
        return list(dict.fromkeys([*requested, *frequent]))[: _LANGUAGES + 1]

    def _searched_parts(self, tiers: frozenset[str] | None) -> PartCodes:
        """Return the parts with products that a user with these tiers may read; None: all parts with products."""
        return tuple(
            code
            for code, part in self._parts.items()
            if part.segments.products and (tiers is None or self._access.is_readable(code, tiers))
        )

    def _matcher(self, codes: PartCodes) -> TermMatcher:
        parts = [self._parts[code] for code in codes]
        norms = self._norms.get(codes)
        if norms is None:
            products = sum(part.segments.products for part in parts)
            norms = compute_length_norms(self._lengths, sum(part.length for part in parts) / max(products, 1))
            # Cleared whole: each is computed again by one pass over the lengths.
            if len(self._norms) >= _MOST_NORMS:
                self._norms.clear()
            self._norms[codes] = norms
        joined = self._joined.find(codes) if len(codes) > 1 else None
        return TermMatcher([part.segments for part in parts] if joined is None else [joined], norms)

    def _part(self, code: int) -> IndexPart:
        if code not in self._parts:
            self._parts[code] = IndexPart(IndexSegments(self._seal))
        return self._parts[code]

    def _delete(self, row: int) -> None:
        code = self._access.code_of(row)
        part = self._part(code)
        if part.segments.has(row):
            part.length -= float(self._lengths[row])
            part.segments.remove(row)
            self._joined.remove(code, row)
            self._lengths[row] = 0
            self._languages.remove(row, code)
            self._access.remove(row)

    def _rows_in_language(self, language: str, allowed: Mask | None) -> Mask:
        mask = self._languages.select(
            language, np.arange(max(part.segments.rows for part in self._parts.values()))
        )
        return mask if allowed is None else _mark_both(mask, allowed)


def _mark_both(mask: Mask, allowed: Mask) -> Mask:
    both = min(len(allowed), len(mask))
    marked: Mask = mask[:both] & allowed[:both]
    return marked


def _term_groups(words: list[QueryWord], completions: Mapping[str, tuple[int, ...]]) -> list[TermGroup]:
    """Build a group for every word: weighted by how often it occurs; an unfinished word has its completions."""
    counted: Counter[tuple[int, ...]] = Counter()
    for word in words:
        if word.text in completions:
            counted[completions[word.text]] += 1
        else:
            counted.update(word.groups)
    return [TermGroup(group, float(count)) for group, count in counted.items()]


def _pairs(words: list[QueryWord]) -> list[TermGroup]:
    return _title_bigrams(_term_groups(words, {}))


def _title_bigrams(query_groups: list[TermGroup]) -> list[TermGroup]:
    """Build optional groups for words that are neighbours in the query and in a title."""
    firsts = [group.terms[0] for group in query_groups if group.required]
    return [
        TermGroup((bigram_code(left, right),), _PHRASE, required=False) for left, right in pairwise(firsts)
    ]


def _factors(weights: Mapping[str, float] | None) -> npt.NDArray[np.float64] | None:
    """Compute for every set of fields the factor of a posting's score; None if all fields have their usual weight."""
    if not weights or all(weight == 1 for weight in weights.values()):
        return None
    # One entry for each set of eight fields: a posting knows the set, not the counts by field.
    factors = np.zeros(256)
    for bits in range(1, 256):
        in_set = [field for field in range(len(FIELDS)) if bits >> field & 1]
        usual = sum(WEIGHTS[field] for field in in_set)
        factors[bits] = (
            sum(WEIGHTS[field] * max(weights.get(FIELDS[field], 1.0), 0.0) for field in in_set) / usual
        )
    return factors


def _filter_by_weight(
    matcher: TermMatcher,
    query_groups: list[TermGroup],
    hits: TermHits,
    share: float,
    allowed: Mask | None,
    factors: npt.NDArray[np.float64] | None,
) -> TermHits:
    """Keep the products whose words have at least a share of the idf of all words."""
    idfs = [matcher.idf(group.terms) for group in query_groups]
    weights = np.zeros(len(hits))
    for group, idf in zip(query_groups, idfs, strict=True):
        has_word = matcher.find([group], all_required=True, allowed=allowed, factors=factors).rows
        # Rows of hits are unique and ascending, which spares `isin` a sort.
        weights[np.isin(hits.rows, has_word, assume_unique=True)] += idf
    # The tolerance lets all words reach a share of 1 in spite of rounding.
    return hits.filter(weights >= share * sum(idfs) - 1e-9)


def _matched(matcher: TermMatcher, groups: list[tuple[int, ...]], rows: Sequence[int]) -> list[Names]:
    where = np.array(rows, np.int64)
    bits = np.zeros(len(where), np.uint8)
    for group in groups:
        bits |= matcher.find_fields(where, group)
    names = {
        field_bits: tuple(
            dict.fromkeys(GROUPS[field] for field in range(len(FIELDS)) if field_bits >> field & 1)
        )
        for field_bits in set(bits.tolist())
    }
    return [names[field_bits] for field_bits in bits.tolist()]


def _missing(matcher: TermMatcher, words: list[QueryWord], text: str, rows: Sequence[int]) -> list[Names]:
    where = np.array(rows, np.int64)
    missing: list[list[str]] = [[] for _ in rows]
    for word in words:
        has_word = np.ones(len(where), np.bool_)
        for group in word.groups:
            has_word &= matcher.find_fields(where, group) > 0
        for at in np.flatnonzero(~has_word).tolist():
            missing[at].append(text[word.start : word.end])
    return list(map(tuple, missing))
