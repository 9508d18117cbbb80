"""Text to index terms: words cut, stop words left out, stems folded and hashed; by language.

A term is a number (64 bits of a hash of the stem), so that indexes of millions of words need no strings. Stemming
comes before folding, because the stemmers know accents.
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
    """Cuts texts of one language into terms. Remembers words; not safe for several threads at once."""

    def __init__(self, language: str = "en") -> None:
        self.language = language[:2].lower()
        algorithm = ALGORITHMS.get(self.language)
        # our own memory of whole words is the cache
        self._stem = Stemmer.Stemmer(algorithm, 0).stemWord if algorithm else str
        self.stop = STOP_WORDS.get(self.language, frozenset())
        self._known = _TermCache(self._learn)

    def terms(self, text: str) -> list[int]:
        """Cut a text into terms, in order, repeated ones repeated.

        Units:
            a term is a number of 64 bits, never 0
        Cost:
            35 us for 150 words that were seen before
        """
        return self.terms_of(split_words(text))

    def terms_of(self, words: Iterable[str]) -> list[int]:
        """Turn words, cut by `said`, into terms."""
        return list(chain.from_iterable(map(self._known.__getitem__, words)))

    def stems(self, text: str) -> list[str]:
        """Cut a text into the stems that are hashed; for those who want to read them."""
        return [stem for word in _SPLIT.findall(text.lower()) for stem in self._stems(word)]

    def _learn(self, word: str) -> tuple[int, ...]:
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
        return [self._stemmed(piece) for piece in ([word] if word.isascii() else _cut(word))]

    def _stemmed(self, word: str) -> str:
        return fold(self._stem(word)) or word


class _TermCache(dict[str, tuple[int, ...]]):
    """Words and their terms; a new word is learned when it is asked for."""

    def __init__(self, learn: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._learn = learn

    def __missing__(self, word: str) -> tuple[int, ...]:
        codes = self._learn(word)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[word] = codes
        return codes


class Analyzers:
    """Analyzers by language, made when first needed."""

    def __init__(self) -> None:
        self._made: dict[str, Analyzer] = {}

    def get(self, language: str) -> Analyzer:
        """Find the analyzer of a language; one that has no stemmer shares the plain one."""
        short = language[:2].lower()
        key = short if short in ALGORITHMS else ""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Analyzer(key)
        return found

    def detect_language(self, text: str) -> str:
        """Guess a language by its small words; `en` when nothing speaks for another."""
        said = _SPLIT.findall(text.lower())
        best, most = "en", sum(word in STOP_WORDS["en"] for word in said)
        for language, stop in STOP_WORDS.items():
            count = sum(word in stop for word in said)
            if count > most:
                best, most = language, count
        return best

    def query_terms(self, text: str, languages: Sequence[str]) -> list[tuple[int, ...]]:
        """Cut a question into words, each as its different terms in some languages.

        Which words say nothing is told by the language most of them belong to; among equals the first one.
        """
        asked = [self.get(language) for language in languages] or [self.get("")]
        said = _SPLIT.findall(text.lower())
        own = max(asked, key=lambda analyzer: sum(word in analyzer.stop for word in said))
        cut: list[tuple[int, ...]] = []
        for word in said:
            if own.terms(word):
                codes = dict.fromkeys(code for analyzer in asked for code in analyzer.terms(word))
                cut.append(tuple(codes))
        return cut


def split_words(text: str) -> list[str]:
    """Cut a text into words as they stand, in lower case."""
    return _SPLIT.findall(text.lower())


def split_words_with_spans(text: str) -> Iterator[tuple[str, int, int]]:
    """Cut a text into words in lower case, and say where each begins and ends."""
    for found in _SPLIT.finditer(text):
        yield found.group().lower(), found.start(), found.end()


def term_code(stem: str) -> int:
    """Give a stem its number."""
    return mmh3.hash64(stem.encode("utf-8", "surrogatepass"), 11, signed=False)[0] or 1


def _cut(word: str) -> list[str]:
    """Keep accents for the stemmer; scripts without blanks are cut into pairs."""
    pieces = tokenize(word)
    return pieces if len(pieces) > 1 else [word]
