"""Meaning vectors: the `Embedder` protocol, the built-in one, and which product fields are read.

The built-in embedder needs no training and no model file: every word and every character n-gram is hashed to a
few signed places of the vector (a sparse random projection), frequent words are damped by rule instead
of by corpus statistics. The same text gives the same vector on every machine, for as long as `version` stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import sqrt
from typing import Any, Protocol

import mmh3
import numpy as np
import numpy.typing as npt

from actors.language.folding import grams, tokenize

Vectors = npt.NDArray[np.float32]
"""float32 [n, d], rows of length 1; a text without words has a row of zeros."""

_TITLE_TIMES = 3
_DESCRIPTION_WORDS = 60
_VALUES_PER_ATTRIBUTE = 8
_VALUES_PER_LIST = 200
"Category paths, tags, authors: each costs about 30 us, and a record may have 10,000."
_LONGEST_CUT_WORD = 24
_REMEMBERED_WORDS = 30_000
_GRAM_WEIGHT = 0.9
_FILLER_TEXT = """
a an the of for and or with in on to by from at is are it its this that as be your you our op set pack
der die das und oder mit von zu im am den dem ein eine ist für auf des
le la les de du et ou avec pour un une dans sur au aux en el los las y o con por para una del al
il lo gli e di da per che van het een voor met
"""
_FILLERS = frozenset(tokenize(_FILLER_TEXT))


class Embedder(Protocol):
    """Turns texts into vectors whose inner product is their similarity."""

    @property
    def version(self) -> str:
        """Names the vector space; vectors of different versions can't be compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts.

        Shapes:
            returns: float32 [n, d], rows of length 1 (zeros for a text without words)
        """
        ...


class HashingEmbedder:
    """The embedder that needs no model: hashed words and character n-grams in 128 dimensions."""

    version = "hashing-128-1"
    dimensions = 128

    def __init__(self) -> None:
        self._seen: dict[str, Vectors] = {}

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts.

        Shapes:
            returns: float32 [n, 128], rows of length 1 (zeros for a text without words)
        Cost:
            5 ms for 100 products of 80 words whose words it remembers; 15 us for each new word
        """
        out = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            counts = Counter(tokenize(text))
            if counts:
                vectors = np.array([self._word(word) for word in counts])
                damped = np.array([_weight(word, count) for word, count in counts.items()], np.float32)
                # [words] @ [words, 128]
                out[row] = damped @ vectors
        lengths = np.linalg.norm(out, axis=1, keepdims=True)
        # Rows of length 1; a text without words keeps its zeros.
        out /= np.where(lengths > 0, lengths, 1)
        return out

    def _word(self, word: str) -> Vectors:
        """Return the vector of a word: its features and, with less weight, those of its n-grams."""
        vector = self._seen.get(word)
        if vector is None:
            vector = np.zeros(self.dimensions, np.float32)
            _scatter(vector, word, 1.0)
            if "_" not in word and len(word) <= _LONGEST_CUT_WORD:
                parts = grams(word)
                for part in parts:
                    # 1 / sqrt(grams): independent signs add up like a random walk,
                    # so long words do not outweigh short ones.
                    _scatter(vector, part, _GRAM_WEIGHT / sqrt(len(parts)))
            if len(self._seen) >= _REMEMBERED_WORDS:
                self._seen.clear()
            self._seen[word] = vector
        return vector


def embedding_text(product: Mapping[str, Any]) -> str:
    """Build the text of a product for an embedder; weighty fields are repeated.

    Title thrice; brand, category paths and tags twice, also as one joined word each, so that equal values weigh
    more than shared words; authors, subtitle and string attributes once; the start of the description. Of a list it
    reads the first 200 values.
    """
    return " ".join(_parts(product))


def _parts(product: Mapping[str, Any]) -> Iterator[str]:
    yield from [str(product.get("title") or _translated_title(product))] * _TITLE_TIMES
    yield str(product.get("subtitle") or "")
    brand = str(product.get("brand") or "")
    if brand:
        yield from [brand, _joined("brand", brand)]
    for path in islice(product.get("categories") or (), _VALUES_PER_LIST):
        for depth, level in enumerate(path):
            yield from [str(level), _joined("category", *path[: depth + 1])]
    for tag in islice(product.get("tags") or (), _VALUES_PER_LIST):
        yield from [str(tag), _joined("tag", str(tag))]
    for author in islice(product.get("authors") or (), _VALUES_PER_LIST):
        yield _joined("author", str(author))
    for name in ("type", "color", "material", "size"):
        if product.get(name):
            yield _joined(name, str(product[name]))
    for name, value in (product.get("custom_attributes") or {}).items():
        for item in islice(_scalars(value), _VALUES_PER_ATTRIBUTE):
            yield _joined(name, item)
            yield item
    # Cut by characters before it is split: a description may have any length.
    about = str(product.get("short_description") or product.get("description") or "")
    yield " ".join(about[: _DESCRIPTION_WORDS * 12].split()[:_DESCRIPTION_WORDS])


def _translated_title(product: Mapping[str, Any]) -> str:
    """Return the first title of a product's translations; empty if there is none."""
    titles = (value.get("title") for name, value in product.items() if name.startswith("i18n_"))
    return str(next((title for title in titles if title), ""))


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) <= 80:
            yield value
    elif isinstance(value, bool):
        yield str(value).lower()
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, str) and len(item) <= 80:
                yield item


def _joined(*values: str) -> str:
    return "_".join("".join(tokenize(value)) for value in values)


def _weight(word: str, count: int) -> float:
    """Compute the weight of a word: repeated, very short and filler words weigh less."""
    if word in _FILLERS:
        return 0.15
    damp = 0.4 if len(word) <= 2 else 0.7 if word.isdigit() else 1.0
    # sqrt: the tenth mention of a word tells less than the second.
    return damp * sqrt(count)


def _scatter(vector: Vectors, feature: str, weight: float) -> None:
    """Add a feature to eight signed places; each byte of its hash holds 7 bits of place and one of sign."""
    # Another seed would give another space, and `version` names the space.
    digest = mmh3.hash_bytes(feature, seed=17)[:8]
    for byte in digest:
        # 7 bits for one of 128 places, the eighth for the sign
        vector[byte & 127] += weight if byte & 128 else -weight
