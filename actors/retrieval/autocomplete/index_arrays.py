"""A completion index as named arrays, as a snapshot stores it. The arrays may be mapped from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.folded_texts import MARGIN, FoldedTexts
from actors.retrieval.autocomplete.grams import NgramIndex
from actors.retrieval.autocomplete.lookup import CompletionIndex
from actors.retrieval.autocomplete.prefixes import BLOCK, PrefixIndex
from actors.retrieval.autocomplete.word_index import WordIndex
from cluster.errors import Fault

Arrays = Mapping[str, npt.NDArray[Any]]


def arrays_from_index(index: CompletionIndex) -> dict[str, npt.NDArray[Any]]:
    """Return every array of an index by its path of fields, as in `words.grams.keys`."""
    return dict(_name_arrays(index, ""))


def index_from_arrays(arrays: Arrays) -> CompletionIndex:
    """Build an index from its arrays and check each of them.

    Errors:
        Fault: an array is missing or damaged
    """
    try:
        # plain arrays: slicing a memmap is slower, because each slice is a memmap, too
        taken = {name: np.asarray(array) for name, array in arrays.items()}
        texts = _texts(taken, "texts.")
        index = CompletionIndex(
            texts=texts,
            prefixes=_prefixes(taken, "prefixes.", texts),
            pairs=_grams(taken, "pairs.", 2, texts),
            triples=_grams(taken, "triples.", 3, texts),
            words=_words(taken, "words.", texts),
            places=taken["places"],
            place_starts=taken["place_starts"],
            pull=taken["pull"],
        )
    except KeyError as error:
        raise Fault(f"snapshot is damaged: an index of completions has no {error}") from error
    _check(_lists(index.place_starts, index.places, len(texts), texts.size), "places")
    _check(index.pull.dtype == np.float32 and index.pull.shape == (len(texts),), "pull")
    _check(bool(np.isfinite(index.pull.sum(dtype=np.float64))), "pull")
    return index


def _name_arrays(thing: Any, prefix: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for field in fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, np.ndarray):
            yield prefix + field.name, value
        elif is_dataclass(value):
            yield from _name_arrays(value, f"{prefix}{field.name}.")


def _texts(taken: Arrays, key: str) -> FoldedTexts:
    codes, starts = taken[key + "codes"], taken[key + "starts"]
    _check(codes.dtype == np.uint16 and codes.ndim == 1 and len(codes) >= MARGIN, key + "codes")
    _check(_in_turn(starts, len(codes) - MARGIN), key + "starts")
    _check(not codes[len(codes) - MARGIN :].any(), key + "codes")
    return FoldedTexts(codes, starts)


def _prefixes(taken: Arrays, key: str, texts: FoldedTexts) -> PrefixIndex:
    made = PrefixIndex(*(taken[key + field.name] for field in fields(PrefixIndex)))
    count = len(made.places)
    _check(_numbers(made.places, texts.size), key + "places")
    _check(_numbers(made.owner, len(texts)) and len(made.owner) == count, key + "owner")
    _check(made.key.dtype == np.uint64 and made.key.shape == (count,), key + "key")
    _check(made.rank.dtype == np.int32 and made.rank.shape == (count,), key + "rank")
    _check(made.best.dtype == np.int32 and made.best.shape == (-(-count // BLOCK),), key + "best")
    return made


def _grams(taken: Arrays, key: str, size: int, texts: FoldedTexts) -> NgramIndex:
    keys, starts, owners = taken[key + "keys"], taken[key + "starts"], taken[key + "texts"]
    _check(keys.dtype == np.uint64 and bool((np.diff(keys.astype(np.int64)) > 0).all()), key + "keys")
    _check(_lists(starts, owners, len(keys), len(texts)), key + "texts")
    return NgramIndex(size, keys, starts, owners)


def _words(taken: Arrays, key: str, texts: FoldedTexts) -> WordIndex:
    vocabulary = _texts(taken, key + "vocabulary.")
    starts, owners = taken[key + "starts"], taken[key + "texts"]
    _check(_lists(starts, owners, len(vocabulary), len(texts)), key + "texts")
    return WordIndex(
        vocabulary,
        _prefixes(taken, key + "prefixes.", vocabulary),
        _grams(taken, key + "grams.", 2, vocabulary),
        starts,
        owners,
    )


def _lists(starts: npt.NDArray[Any], values: npt.NDArray[Any], lists: int, below: int) -> bool:
    return len(starts) == lists + 1 and _in_turn(starts, len(values)) and _numbers(values, below)


def _in_turn(starts: npt.NDArray[Any], last: int) -> bool:
    if starts.ndim != 1 or starts.dtype != np.int64 or not len(starts):
        return False
    return bool(starts[0] == 0 and starts[-1] == last and (np.diff(starts) >= 0).all())


def _numbers(values: npt.NDArray[Any], below: int) -> bool:
    if values.ndim != 1 or values.dtype.kind != "i":
        return False
    return not len(values) or bool(values.min() >= 0 and values.max() < below)


def _check(sound: bool | np.bool_, name: str) -> None:
    if not sound:
        raise Fault(f"snapshot is damaged: an index of completions: {name} does not fit")
