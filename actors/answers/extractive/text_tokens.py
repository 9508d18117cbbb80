"""Split texts into stems with their places, and compare two stems.

A tokenizer serves one question and caches the words of its texts. It is not safe for several threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from actors.language.analysis import Analyzer
from actors.language.folding import measure_shared_prefix
from actors.language.language_data import load_languages

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|(?:[^\W\d_]\.){2,}|[^\W\d_]+(?:['’][^\W\d_]+)?(?:\d+)?")
SYNONYM_SIMILARITY = 0.8
"Similarity of two words of one family; equal words have 1."
_DERIVED_SIMILARITY = 0.75
_COMPOUND_SIMILARITY = 0.6
_LEAST_ROOT = 5
_LONGEST_ENDING = 5


@dataclass(frozen=True, slots=True)
class TextToken:
    """A content word."""

    text: str
    stem: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Return whether the word is written with a capital, wherever it occurs."""
        return self.text[:1].isupper()

    @property
    def is_number(self) -> bool:
        """Return whether the word is written in digits."""
        return self.text[:1].isdecimal()


class TextTokenizer:
    """Splits texts of one language."""

    def __init__(self, language: str) -> None:
        self._analyzer = Analyzer(language)
        self.language = self._analyzer.language
        data = load_languages().get(self.language)
        self._stems: dict[str, str] = {
            word: "".join(self._analyzer.stems(other))
            for word, other in (data.irregular if data is not None else {}).items()
        }
        self._families = _load_synonyms(self._analyzer.language)

    def stem(self, word: str) -> str:
        """Return the stem of a word, empty for a stop word."""
        cached = self._stems.get(word)
        if cached is None:
            cached = self._stems[word] = "".join(self._analyzer.stems(word))
        return cached

    def tokenize(self, text: str) -> list[TextToken]:
        """Return the content words of a text, in order."""
        results = []
        for match in _WORD.finditer(text):
            word = match[0]
            stem = word if word[0].isdecimal() else self.stem(word)
            if stem:
                results.append(TextToken(word, stem, match.start(), match.end()))
        return results

    def similarity(self, stem: str, other: str) -> float:
        """Return the similarity of two stems: 1 the same, 0 nothing in common."""
        if stem == other:
            return 1.0
        families = self._families.get(stem)
        if families and (others := self._families.get(other)) and not families.isdisjoint(others):
            return SYNONYM_SIMILARITY
        return _letter_similarity(stem, other)

    def best_similarity(self, stem: str, stems: Iterable[str]) -> float:
        """Return the similarity of the most similar of some stems."""
        return max((self.similarity(stem, other) for other in stems), default=0.0)


class SimilarityCache:
    """Caches the similarities of words in texts to the words of a question."""

    def __init__(self, wording: TextTokenizer, stems: Sequence[str]) -> None:
        self._wording = wording
        self._stems = stems
        self._cache: dict[str, tuple[tuple[int, float], ...]] = {}

    def match_stems(self, stems: Iterable[str]) -> list[float]:
        """Return for every word of the question the similarity of the most similar of these stems."""
        best = [0.0] * len(self._stems)
        for stem in stems:
            for at, degree in self.similarities(stem):
                if degree > best[at]:
                    best[at] = degree
        return best

    def similarities(self, stem: str) -> tuple[tuple[int, float], ...]:
        """Return the words of the question that are similar to a stem, as places and degrees."""
        degrees = self._cache.get(stem)
        if degrees is None:
            degrees = self._cache[stem] = self._compute_similarities(stem)
        return degrees

    def _compute_similarities(self, stem: str) -> tuple[tuple[int, float], ...]:
        degrees = (
            (at, self._wording.similarity(question_stem, stem))
            for at, question_stem in enumerate(self._stems)
        )
        return tuple((at, degree) for at, degree in degrees if degree)


@cache
def _load_synonyms(language: str) -> Mapping[str, frozenset[int]]:
    analyzer = Analyzer(language)
    families: dict[str, set[int]] = {}
    data = load_languages().get(language)
    for number, family in enumerate(data.synonyms if data is not None else ()):
        for word in family:
            families.setdefault("".join(analyzer.stems(word)), set()).add(number)
    # Words without a stem would all become synonyms of each other.
    families.pop("", None)
    return MappingProxyType({stem: frozenset(numbers) for stem, numbers in families.items()})


def _letter_similarity(stem: str, other: str) -> float:
    """Compare two stems by their letters: derived from each other, or one a part of the other."""
    short, long = (stem, other) if len(stem) <= len(other) else (other, stem)
    # Short stems share letters by chance.
    if len(short) < _LEAST_ROOT - 1 or not short[0].isalpha():
        return 0.0
    # Three letters first: most pairs end here, before the prefix is counted.
    if short[:3] == long[:3]:
        prefix = measure_shared_prefix(short, long)
        if prefix >= max(_LEAST_ROOT, len(short) - 2) and len(long) - prefix <= _LONGEST_ENDING:
            return _DERIVED_SIMILARITY
    # A part of a compound: `boat` in `lifeboat`.
    if len(short) > _LEAST_ROOT and (long.endswith(short) or long.startswith(short)):
        return _COMPOUND_SIMILARITY
    return 0.0


def select_names(text: str, words: Sequence[TextToken]) -> list[TextToken]:
    """Return the words with a capital that do not only begin a sentence."""
    return [word for word in words if word.is_name and not _starts_sentence(text, word.start)]


def _starts_sentence(text: str, start: int) -> bool:
    before = text[:start].rstrip(" \"'“”‘’«»([¿¡")
    return not before or before[-1] in ".!?…:\n"
