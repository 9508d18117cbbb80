"""A product cut into terms: its own texts in its language, translations in theirs."""

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
_MOST_TERMS: Final = 6_000
_GUESSED_FROM: Final = 300
_MASK: Final = (1 << 64) - 1
_LEFT, _RIGHT = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F


@dataclass(frozen=True, slots=True)
class AnalyzedProduct:
    """A product as it is indexed."""

    term_vector: TermVector
    length: int
    "Terms, those of the title twice."
    title: int
    "Stands for the whole title."
    languages: tuple[str, ...]
    "Its own first."
    words: list[str]
    "As they stand, in lower case, repeated ones repeated."


def analyze_product(row: int, product: Mapping[str, Any], analyzers: Analyzers) -> AnalyzedProduct:
    """Cut a product into terms.

    A word of a translation counts only when no earlier text has it, so that a name is not counted once a language.

    Cost:
        60 us for 100 words that were seen before
    """
    own = list(read_texts(product))
    language = _language_of(product, own, analyzers)
    texts = _Texts()
    if own:
        texts.add(own, analyzers.get(language))
    title = fingerprint(texts.title)
    languages = [language] if own else []
    length = texts.length
    for other, record in read_translations(product):
        further = list(read_texts(record))
        if further:
            languages.append(other)
            texts.add_new(further, analyzers.get(other))
            title, length = title or fingerprint(texts.title), length or texts.length
    return AnalyzedProduct(
        TermVector(row, texts.codes, texts.fields),
        length,
        title,
        tuple(dict.fromkeys(languages)),
        texts.words,
    )


def fingerprint(codes: Sequence[int]) -> int:
    """Make one number of terms in their order; 0 for none."""
    return (mmh3.hash64(pack(f"<{len(codes)}Q", *codes), 13, signed=False)[0] or 1) if codes else 0


def bigram_code(left: int, right: int) -> int:
    """Make one term of two neighbours."""
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
            self._take(field, codes)
            self.length += WEIGHTS[field] * len(codes)
            if field == _TITLE:
                self._entitle(words, codes, analyzer)

    def add_new(self, texts: Sequence[tuple[int, str]], analyzer: Analyzer) -> None:
        known = set(self.codes)
        counted = self.length
        for field, text in texts:
            words = split_words(text)
            every = analyzer.terms_of(words)
            fresh = [code for code in every if code not in known][: max(_MOST_TERMS - len(self.codes), 0)]
            self.words += words
            self._take(field, fresh)
            self.length += WEIGHTS[field] * len(fresh)
            if field == _TITLE:
                self._entitle(words, every, analyzer)
        if counted:
            # a product is as long as its own texts
            self.length = counted

    def _take(self, field: int, codes: Sequence[int]) -> None:
        self.codes += codes
        self.fields += [field] * len(codes)

    def _entitle(self, words: Sequence[str], codes: Sequence[int], analyzer: Analyzer) -> None:
        """Note neighbours in the title, and its small words, which only titles are found by."""
        self.title = list(codes)
        more = [((left * _LEFT) ^ (right * _RIGHT)) & _MASK or 1 for left, right in pairwise(codes)]
        more += [term_code(fold(word)) for word in words if word in analyzer.stop]
        self._take(PAIR, more)


def _language_of(product: Mapping[str, Any], own: Sequence[tuple[int, str]], analyzers: Analyzers) -> str:
    told = product.get("language")
    if isinstance(told, str) and len(told) >= 2:
        return told[:2].lower()
    return analyzers.detect_language(" ".join(text for _, text in own)[:_GUESSED_FROM])
