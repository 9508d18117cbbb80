"""The terms of a product: its own texts analyzed in its language, translations in theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import pack
from typing import Any, Final

import mmh3

from actors.language.analysis import Analyzer, Analyzers, split_words, term_code
from actors.language.folding import fold
from actors.retrieval.lexical.product_fields import WEIGHTS, read_texts, read_translations
from actors.retrieval.lexical.product_postings import PAIR, TermVector

_TITLE: Final = 0
# Terms of one product: uploads decide the length of texts.
_MOST_TERMS: Final = 6_000
_GUESSED_FROM: Final = 300
_MASK: Final = (1 << 64) - 1
# 2^64 / golden ratio, and the second prime of xxHash64: odd, with well mixed bits.
_LEFT = 0x9E3779B97F4A7C15
_RIGHT = 0xC2B2AE3D27D4EB4F


@dataclass(frozen=True, slots=True)
class AnalyzedProduct:
    """A product as the index stores it."""

    term_vector: TermVector
    length: int
    "Number of terms, those of the title twice."
    title: int
    "Fingerprint of the whole title."
    languages: tuple[str, ...]
    "The language of the product first, then those of translations."
    words: list[str]
    "All words in lower case, with repetitions."


def analyze_product(row: int, product: Mapping[str, Any], analyzers: Analyzers) -> AnalyzedProduct:
    """Analyze a product.

    A word of a translation counts only if no earlier text has it, so that a name counts once, not once a language.

    Cost:
        60 us for 100 words that the analyzer remembers
    """
    main_texts = list(read_texts(product))
    language = _language_of(product, main_texts, analyzers)
    texts = _Texts()
    if main_texts:
        texts.add(main_texts, analyzers.get(language))
    title = hash_terms(texts.title)
    languages = [language] if main_texts else []
    length = texts.length
    for other, record in read_translations(product):
        texts_of_language = list(read_texts(record))
        if texts_of_language:
            languages.append(other)
            texts.add_new(texts_of_language, analyzers.get(other))
            title = title or hash_terms(texts.title)
            length = length or texts.length
    return AnalyzedProduct(
        TermVector(row, texts.codes, texts.fields),
        length,
        title,
        tuple(dict.fromkeys(languages)),
        texts.words,
    )


def hash_terms(codes: Sequence[int]) -> int:
    """Hash a sequence of terms; 0 for none."""
    return (mmh3.hash64(pack(f"<{len(codes)}Q", *codes), 13, signed=False)[0] or 1) if codes else 0


def bigram_code(left: int, right: int) -> int:
    """Combine two neighbouring terms into one."""
    # Two odd factors, so that "red bag" and "bag red" differ; 0 is no term.
    return ((left * _LEFT) ^ (right * _RIGHT)) & _MASK or 1


class _Texts:
    def __init__(self) -> None:
        self.codes: list[int] = []
        self.fields: list[int] = []
        self.words: list[str] = []
        self.title: list[int] = []
        self.length = 0

    def add(self, texts: Sequence[tuple[int, str]], analyzer: Analyzer) -> None:
        for field, text in texts:
            words = split_words(text)
            codes = analyzer.terms_of(words)[: _MOST_TERMS - len(self.codes)]
            self.words += words
            self._add_codes(field, codes)
            self.length += WEIGHTS[field] * len(codes)
            if field == _TITLE:
                self._add_title(words, codes, analyzer)

    def add_new(self, texts: Sequence[tuple[int, str]], analyzer: Analyzer) -> None:
        codes = set(self.codes)
        untranslated_length = self.length
        for field, text in texts:
            words = split_words(text)
            every = analyzer.terms_of(words)
            # Names and numbers are the same in every language, and must not count again for each translation.
            fresh = [code for code in every if code not in codes][: max(_MOST_TERMS - len(self.codes), 0)]
            self.words += words
            self._add_codes(field, fresh)
            self.length += WEIGHTS[field] * len(fresh)
            if field == _TITLE:
                self._add_title(words, every, analyzer)
        if untranslated_length:
            # the length of a product is the length of its untranslated texts
            self.length = untranslated_length

    def _add_codes(self, field: int, codes: Sequence[int]) -> None:
        self.codes += codes
        self.fields += [field] * len(codes)

    def _add_title(self, words: Sequence[str], codes: Sequence[int], analyzer: Analyzer) -> None:
        """Add the bigrams of a title, and its stop words: only titles are found by them."""
        self.title = list(codes)
        more = [((left * _LEFT) ^ (right * _RIGHT)) & _MASK or 1 for left, right in pairwise(codes)]
        more += [term_code(fold(word)) for word in words if word in analyzer.stop]
        self._add_codes(PAIR, more)


def _language_of(
    product: Mapping[str, Any], main_texts: Sequence[tuple[int, str]], analyzers: Analyzers
) -> str:
    stored = product.get("language")
    if isinstance(stored, str) and len(stored) >= 2:
        return stored[:2].lower()
    return analyzers.detect_language(" ".join(text for _, text in main_texts)[:_GUESSED_FROM])
