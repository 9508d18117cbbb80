"""Text to index terms: stop words are left out, stems are folded and hashed, by language.

A term is a number (64 bits of a hash of the stem), so that indexes of millions of words need no strings. Stemming
comes before folding, because the stemmers need accents.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import mmh3
import Stemmer

from actors.language.folding import fold
from actors.language.stopwords import STOP_WORDS
from actors.language.tokens import tokenize

ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "es": "spanish", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian",
    "ne": "nepali", "nl": "dutch", "no": "norwegian", "nb": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
    "yi": "yiddish",
}  # fmt: skip
"Language -> stemmer. Any other language is indexed by whole words."

_SPLIT = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W_]+(?:['’][^\W_]+)?")
"Abbreviations with dots (`U.S.`) stay together."
_CLITIC = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m))$")
_ELISION = re.compile(r"^(?:[cdjlmnst]|qu|dell|all|nell|sull|un)'")
_REMEMBERED = 400_000
_LONGEST_WORD = 64


class Analyzer:
    """Turns texts of one language into terms. Remembers words; not safe for several threads at once."""

    def __init__(self, language: str = "en") -> None:
        self.language = language[:2].lower()
        algorithm = ALGORITHMS.get(self.language)
        # `_known` remembers whole words, so the cache of the stemmer is off
        self._stem = Stemmer.Stemmer(algorithm, 0).stemWord if algorithm else str
        self.stop = STOP_WORDS.get(self.language, frozenset())
        self._known = _TermCache(self._analyze)

    def terms(self, text: str) -> list[int]:
        """Return the terms of a text in order, with repetitions.

        Units:
            a term is a number of 64 bits, never 0
        Cost:
            35 us for 150 words that it remembers
        """
        return self.terms_of(split_words(text))

    def terms_of(self, words: Iterable[str]) -> list[int]:
        """Return the terms of words that `split_words` returned."""
        return list(chain.from_iterable(map(self._known.__getitem__, words)))

    def stems(self, text: str) -> list[str]:
        """Return the stems of a text before hashing, for explanations."""
        return [stem for word in _SPLIT.findall(text.lower()) for stem in self._stems(word)]

    def _analyze(self, word: str) -> tuple[int, ...]:
        return tuple(term_code(stem) for stem in self._stems(word))

    def _stems(self, word: str) -> list[str]:
        if "." in word:
            return [fold(word.replace(".", ""))]
        if "'" in word or "’" in word:
            word = word.replace("’", "'")
            bare = _ELISION.sub("", _CLITIC.sub("", word))
            return (
                [] if word in self.stop else [stem for part in bare.split("'") for stem in self._stems(part)]
            )
        word = unicodedata.normalize("NFC", word)[:_LONGEST_WORD]
        if not word or word in self.stop:
            return []
        return [self._stemmed(piece) for piece in ([word] if word.isascii() else _split_word(word))]

    def _stemmed(self, word: str) -> str:
        return fold(self._stem(word)) or word


class _TermCache(dict[str, tuple[int, ...]]):
    """Words and their terms; a missing word is analyzed."""

    def __init__(self, analyze: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._analyze = analyze

    def __missing__(self, word: str) -> tuple[int, ...]:
        codes = self._analyze(word)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[word] = codes
        return codes


class Analyzers:
    """Analyzers by language, built on first use."""

    def __init__(self) -> None:
        self._by_language: dict[str, Analyzer] = {}

    def get(self, language: str) -> Analyzer:
        """Return the analyzer of a language; languages without a stemmer share one."""
        short = language[:2].lower()
        key = short if short in ALGORITHMS else ""
        found = self._by_language.get(key)
        if found is None:
            found = self._by_language[key] = Analyzer(key)
        return found

    def detect_language(self, text: str) -> str:
        """Guess the language with most stop words in a text; `en` among equals."""
        words = _SPLIT.findall(text.lower())
        best, most = "en", sum(word in STOP_WORDS["en"] for word in words)
        for language, stop in STOP_WORDS.items():
            count = sum(word in stop for word in words)
            if count > most:
                best, most = language, count
        return best

    def query_terms(self, text: str, languages: Sequence[str]) -> list[tuple[int, ...]]:
        """Return for each word of a query its different terms in some languages.

        The stop words are those of the language with most stop words in the query; among equals the first one.
        """
        analyzers = [self.get(language) for language in languages] or [self.get("")]
        words = _SPLIT.findall(text.lower())
        main = max(analyzers, key=lambda analyzer: sum(word in analyzer.stop for word in words))
        found: list[tuple[int, ...]] = []
        for word in words:
            if main.terms(word):
                codes = dict.fromkeys(code for analyzer in analyzers for code in analyzer.terms(word))
                found.append(tuple(codes))
        return found


def split_words(text: str) -> list[str]:
    """Split a text into words in lower case."""
    return _SPLIT.findall(text.lower())


def split_words_with_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a text in lower case, and where each begins and ends."""
    for found in _SPLIT.finditer(text):
        yield found.group().lower(), found.start(), found.end()


def term_code(stem: str) -> int:
    """Hash a stem to 64 bits, never 0."""
    return mmh3.hash64(stem.encode("utf-8", "surrogatepass"), 11, signed=False)[0] or 1


def _split_word(word: str) -> list[str]:
    """Split a word of a script without blanks into pairs; others keep their accents for the stemmer."""
    pieces = tokenize(word)
    return pieces if len(pieces) > 1 else [word]
