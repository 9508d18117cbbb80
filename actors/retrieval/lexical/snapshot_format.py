"""The product index in a snapshot: the refresh job writes it, API replicas map it and bind it to the rows of a catalog.

terms, starts, rows, counts, fields, owned     an `IndexSegment`; its rows are the products in the order given
lengths, titles, spoken, own                   by product: see `SavedIndex` (spoken: bits, own: main language)
words.blob, words.ends, words.counts           the vocabulary of open products, in alphabetical order
access                                         by product: number of its access in the facts; absent: all are open
words.1.blob, ...                              the vocabulary of the products of access 1, and so on
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from actors.language.analysis import Analyzers, find_former_terms
from actors.retrieval.lexical.product_postings import (
    IndexSegment,
    TermVector,
    build_segment,
    empty_segment,
    merge_segments,
)
from actors.retrieval.lexical.product_terms import analyze_product
from actors.retrieval.packed_texts import PackedTexts
from actors.vectors.types import Rows
from cluster.access_tier import MOST_TIERS, access_of
from cluster.errors import Fault

Arrays = Mapping[str, npt.NDArray[Any]]

FORM: Final = "products-2"
"Changes whenever texts are analyzed, weighted or stored in another way; other forms are not read."
_FORMER_FORM: Final = "products-1"
"The form of releases up to 0.2.0: it differs in English words with accents alone, so most products are read."

_AT_ONCE: Final = 4_096
_MOST_WORDS: Final = 400_000
# Below 64: one bit each in a number.
_MOST_LANGUAGES: Final = 60
_NO_LANGUAGE: Final = 255
_EXCESS: Final = MOST_TIERS + 1
"Number that all accesses beyond the first 64 share."
_KINDS: Final = {"terms": "u8", "starts": "i8", "rows": "u4", "counts": "u1", "fields": "u1", "owned": "u4"}


@dataclass(frozen=True, slots=True)
class SavedIndex:
    """The index of a snapshot's products.

    Shapes:
        lengths: float64 [h], terms; titles: uint64 [h], fingerprint of each title; language_bits: uint64 [h], a bit
        for each of the languages; main_language: uint8 [h], number of the product's language, 255 for none
    """

    segment: IndexSegment
    lengths: npt.NDArray[np.float64]
    titles: npt.NDArray[np.uint64]
    language_bits: npt.NDArray[np.uint64]
    main_language: npt.NDArray[np.uint8]
    languages: tuple[str, ...]
    words: PackedTexts
    counts: npt.NDArray[np.int64]
    accesses: tuple[str, ...] = ("",)
    "The first is that of open products."
    access_codes: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    locked_words: tuple[dict[str, int], ...] = ()
    "By access after the first."
    outdated: Rows = field(default_factory=lambda: np.zeros(0, np.int64))
    "int64 [m], products with terms of an earlier release: they are not served from here."

    def __len__(self) -> int:
        return len(self.lengths)

    def vocabulary(self) -> dict[str, int]:
        """Return words of open products, and how often they occur."""
        return dict(zip(self.words, self.counts.tolist(), strict=True))


def save(products: Sequence[Mapping[str, Any]]) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Index products and return arrays and facts; equal products give equal arrays.

    Shapes:
        lengths, titles, spoken and own have one entry for each product, in the given order
    Cost:
        100,000 products of 60 words: 10 s
    """
    analyzers = Analyzers()
    segments = []
    texts = list[TermVector]()
    lengths = np.zeros(len(products), np.float64)
    titles = np.zeros(len(products), np.uint64)
    language_bits = np.zeros(len(products), np.uint64)
    main_language = np.full(len(products), _NO_LANGUAGE, np.uint8)
    languages: dict[str, int] = {}
    accesses = {"": 0}
    access_codes = np.zeros(len(products), np.uint8)
    words = [Counter[str]()]
    for row, product in enumerate(products):
        analyzed = analyze_product(row, product, analyzers)
        texts.append(analyzed.term_vector)
        # Python evaluates `len` before `setdefault` adds the access: a new one gets the next code.
        access_codes[row] = code = accesses.setdefault(access_of(product), min(len(accesses), _EXCESS))
        if code == len(words):
            words.append(Counter())
        words[code].update(analyzed.words)
        lengths[row] = analyzed.length
        titles[row] = analyzed.title
        numbers = [languages.setdefault(name, len(languages)) for name in analyzed.languages]
        numbers = [number for number in numbers if number < _MOST_LANGUAGES]
        language_bits[row] = sum(1 << number for number in set(numbers))
        main_language[row] = numbers[0] if numbers else _NO_LANGUAGE
        if len(texts) == _AT_ONCE:
            segments.append(build_segment(texts))
            texts = []
    segments.append(build_segment(texts))
    owner = (np.arange(len(products)) // _AT_ONCE).astype(np.int32)
    # Built in parts and merged, so that not all terms are sorted at once.
    segment = merge_segments(dict(enumerate(segments)), owner) if len(products) else empty_segment()
    arrays: dict[str, npt.NDArray[Any]] = {
        **segment.arrays(),
        "lengths": lengths,
        "titles": titles,
        "spoken": language_bits,
        "own": main_language,
        **_word_arrays("words", words[0]),
    }
    facts: dict[str, Any] = {"form": FORM, "languages": list(languages)[:_MOST_LANGUAGES]}
    if len(words) > 1:
        arrays["access"] = access_codes
        facts["accesses"] = list(accesses)[: len(words)]
        for code, locked in enumerate(words[1:], 1):
            arrays.update(_word_arrays(f"words.{code}", locked))
    return arrays, facts


def _word_arrays(name: str, words: Counter[str]) -> dict[str, npt.NDArray[Any]]:
    # Sorted by word: `most_common` orders equal counts by their first occurrence.
    kept = dict(sorted(words.most_common(_MOST_WORDS)))
    texts = PackedTexts.of(kept)
    counts = np.array(list(kept.values()), np.int64)
    return {f"{name}.blob": texts.blob, f"{name}.ends": texts.ends, f"{name}.counts": counts}


def load(arrays: Arrays, facts: Mapping[str, Any]) -> SavedIndex | None:
    """Load what `save` returned without copying; None if another release stored it in another form.

    Shapes:
        as `save` returns them
    Errors:
        Fault: an array is missing or does not fit the others
    """
    if facts.get("form") not in (FORM, _FORMER_FORM):
        return None
    try:
        taken = {name: np.asarray(arrays[name]) for name in _KINDS}
        lengths, titles, language_bits, main_language = (
            np.asarray(arrays[name]) for name in ("lengths", "titles", "spoken", "own")
        )
        words, counts = _load_words(arrays, "words")
        accesses = tuple(map(str, facts.get("accesses", ("",))))
        locked = [_load_words(arrays, f"words.{code}") for code in range(1, len(accesses))]
        access_codes = np.asarray(arrays["access"]) if locked else np.zeros(len(lengths), np.uint8)
    except KeyError as error:
        raise Fault(f"snapshot is damaged: the search index has no {error}") from error
    for name, kind in _KINDS.items():
        _check(taken[name].dtype == np.dtype(kind) and taken[name].ndim == 1, name)
    segment = IndexSegment(**taken)
    products = len(lengths)
    postings = len(segment.rows)
    _check(
        len(segment.starts) == len(segment.terms) + 1 and bool((np.diff(segment.starts) > 0).all()), "starts"
    )
    _check(int(segment.starts[0]) == 0 and int(segment.starts[-1]) == postings, "starts")
    _check(len(segment.counts) == len(segment.fields) == postings, "counts")
    _check(not postings or int(segment.rows.max()) < products, "rows")
    _check(
        len(segment.owned) == len(titles) == len(language_bits) == len(main_language) == products, "products"
    )
    for texts, occurrences in ((words, counts), *locked):
        _check(len(occurrences) == len(texts) and int(texts.ends[-1]) == len(texts.blob), "words")
    is_coded = len(access_codes) == products and int(access_codes.max(initial=0)) < len(accesses)
    _check(is_coded and access_codes.dtype == np.uint8, "access")
    languages = tuple(map(str, facts.get("languages", ())))
    index = SavedIndex(
        segment,
        lengths,
        titles,
        language_bits,
        main_language,
        languages,
        words,
        counts,
        accesses,
        access_codes,
        tuple(dict(zip(texts, each.tolist(), strict=True)) for texts, each in locked),
    )
    return index if facts["form"] == FORM else replace(index, outdated=_find_outdated(index))


def _find_outdated(index: SavedIndex) -> Rows:
    """Return the English products of the former form that have a word with accents whose term has changed.

    Shapes:
        returns: int64 [m], ascending
    """
    # Most vocabularies have few words with accents; without any, nothing is read word by word.
    is_ascii = not len(index.words.blob) or int(index.words.blob.max()) < 128
    words = [*(() if is_ascii else index.words), *chain.from_iterable(index.locked_words)]
    terms = np.sort(np.array(find_former_terms(words), np.uint64))
    if not len(terms) or "en" not in index.languages:
        return np.zeros(0, np.int64)
    spans = index.segment.find_spans(terms)
    rows = np.unique(
        np.concatenate([index.segment.rows[:0], *(index.segment.rows[a:b] for _, a, b in spans)])
    )
    bit = np.uint64(1 << index.languages.index("en"))
    outdated: Rows = rows[(index.language_bits[rows] & bit) != 0].astype(np.int64)
    return outdated


def _load_words(arrays: Arrays, name: str) -> tuple[PackedTexts, npt.NDArray[np.int64]]:
    texts = PackedTexts(np.asarray(arrays[f"{name}.blob"]), np.asarray(arrays[f"{name}.ends"]))
    return texts, np.asarray(arrays[f"{name}.counts"])


def _check(is_sound: bool | np.bool_, name: str) -> None:
    if not is_sound:
        raise Fault(f"snapshot is damaged: the search index: {name} does not fit")
