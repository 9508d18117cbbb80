"""The completions of a snapshot: the refresh job writes them, API replicas map them.

One extra of the snapshot contains all fields. A field has an index for each language with other values, and a
plain one for all further languages. For each of the further languages it also has an index without texts of
other languages. If products are locked, each has a variant for the open products and for the most
frequent accesses. Equal indexes are stored once. A product is served from the snapshot as long as its
fingerprint is the same. So the snapshot fits a catalog that has changed since, needs no offset, and never
shows an old text.

    products.blob, products.ends     ids of the products, ascending
    <f>.marks                        uint64, fingerprint of the field of each of them
    <f>.<i>.starts, .holders, .originals.*, .index.*     index i of field f
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.completed_values import field_fingerprint, languages_of, values_of_field
from actors.retrieval.autocomplete.folded_texts import MARGIN, FoldedTexts
from actors.retrieval.autocomplete.lookup import CompletionIndex
from actors.retrieval.autocomplete.ngram_index import NgramIndex
from actors.retrieval.autocomplete.prefix_index import BLOCK, PrefixIndex
from actors.retrieval.autocomplete.text_index import TextIndex
from actors.retrieval.autocomplete.word_index import WordIndex
from actors.retrieval.packed_texts import PackedTexts, has_valid_offsets, load_product_ids
from actors.vectors.snapshot_arrays import Array, ModelState
from actors.vectors.types import Floats, Rows
from cluster.access_tier import access_of
from cluster.errors import Fault

Arrays = Mapping[str, npt.NDArray[Any]]


def arrays_from_index(index: CompletionIndex) -> dict[str, npt.NDArray[Any]]:
    """Return every array of an index by its path of fields, as in `words.grams.keys`.

    Shapes:
        as in the fields of `CompletionIndex` and of its parts
    """
    return dict(_name_arrays(index, ""))


def index_from_arrays(arrays: Arrays) -> CompletionIndex:
    """Build an index from its arrays and check each of them.

    Shapes:
        as `arrays_from_index` returns them
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
    _check_index(_lists(index.place_starts, index.places, len(texts), texts.size), "places")
    _check_index(index.pull.dtype == np.float32 and index.pull.shape == (len(texts),), "pull")
    # One sum shows any NaN or infinity, without an array of booleans.
    _check_index(bool(np.isfinite(index.pull.sum(dtype=np.float64))), "pull")
    return index


def _name_arrays(thing: Any, prefix: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for field in fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, np.ndarray):
            yield prefix + field.name, value
        elif is_dataclass(value):
            yield from _name_arrays(value, f"{prefix}{field.name}.")


def _texts(taken: Arrays, key: str) -> FoldedTexts:
    codes = taken[key + "codes"]
    starts = taken[key + "starts"]
    _check_index(codes.dtype == np.uint16 and codes.ndim == 1 and len(codes) >= MARGIN, key + "codes")
    _check_index(has_valid_offsets(starts, len(codes) - MARGIN), key + "starts")
    _check_index(not codes[len(codes) - MARGIN :].any(), key + "codes")
    return FoldedTexts(codes, starts)


def _prefixes(taken: Arrays, key: str, texts: FoldedTexts) -> PrefixIndex:
    made = PrefixIndex(*(taken[key + field.name] for field in fields(PrefixIndex)))
    count = len(made.places)
    _check_index(_numbers(made.places, texts.size), key + "places")
    _check_index(_numbers(made.owner, len(texts)) and len(made.owner) == count, key + "owner")
    _check_index(made.key.dtype == np.uint64 and made.key.shape == (count,), key + "key")
    _check_index(made.rank.dtype == np.int32 and made.rank.shape == (count,), key + "rank")
    _check_index(made.best.dtype == np.int32 and made.best.shape == (-(-count // BLOCK),), key + "best")
    return made


def _grams(taken: Arrays, key: str, size: int, texts: FoldedTexts) -> NgramIndex:
    keys = taken[key + "keys"]
    starts = taken[key + "starts"]
    owners = taken[key + "texts"]
    _check_index(keys.dtype == np.uint64 and bool((np.diff(keys.astype(np.int64)) > 0).all()), key + "keys")
    _check_index(_lists(starts, owners, len(keys), len(texts)), key + "texts")
    return NgramIndex(size, keys, starts, owners)


def _words(taken: Arrays, key: str, texts: FoldedTexts) -> WordIndex:
    vocabulary = _texts(taken, key + "vocabulary.")
    starts = taken[key + "starts"]
    owners = taken[key + "texts"]
    _check_index(_lists(starts, owners, len(vocabulary), len(texts)), key + "texts")
    return WordIndex(
        vocabulary,
        _prefixes(taken, key + "prefixes.", vocabulary),
        _grams(taken, key + "grams.", 2, vocabulary),
        starts,
        owners,
    )


def _lists(starts: npt.NDArray[Any], values: npt.NDArray[Any], lists: int, below: int) -> bool:
    return len(starts) == lists + 1 and has_valid_offsets(starts, len(values)) and _numbers(values, below)


def _numbers(values: npt.NDArray[Any], below: int) -> bool:
    if values.ndim != 1 or values.dtype.kind != "i":
        return False
    return not len(values) or bool(values.min() >= 0 and values.max() < below)


def _check_index(sound: bool | np.bool_, name: str) -> None:
    if not sound:
        raise Fault(f"snapshot is damaged: an index of completions: {name} does not fit")


COMPLETIONS = "extra-completions"
"Name of the extra."

FORM = 1
MOST_LANGUAGES = 8
"Languages of a field, the most frequent ones, that get an index each."

MOST_ACCESSES = 8
"Accesses of products, the most frequent ones, that get an index each."

IndexVariant = tuple[str, bool, str | None]
"""Language, whether texts of others are left out, and the access of the products, None for all.

The language is empty for all languages without values.
"""


@dataclass(frozen=True, slots=True)
class SavedFieldIndexes:
    """The indexes of one field by language.

    Shapes:
        fingerprints: uint64 [p], by product of the snapshot
    """

    name: str
    fingerprints: npt.NDArray[np.uint64]
    languages: frozenset[str]
    "Languages with values."
    variants: Mapping[IndexVariant, TextIndex]

    def get(self, language: str, only: bool, access: str | None = None) -> TextIndex | None:
        """Return the index of a language; None if the field had too many languages, or products another access."""
        return self.variants.get((language if language in self.languages else "", only, access))


@dataclass(frozen=True, slots=True)
class CompletionSnapshot:
    """The completions of a snapshot, bound to the rows of a catalog.

    Shapes:
        codes: int64 [r], row -> product of the snapshot, -1 for none
    """

    version: str
    fields: Mapping[str, SavedFieldIndexes]
    codes: Rows

    @property
    def has_locked(self) -> bool:
        """Return whether a product was locked when the snapshot was written."""
        return any(access is not None for field in self.fields.values() for *_, access in field.variants)

    @classmethod
    def load(cls, version: str, parts: ModelState, product_ids: Sequence[str]) -> CompletionSnapshot:
        """Load what `save` returned without copying.

        Cost:
            0.2 s for 1,000,000 products, most of it names
        """
        if parts.facts.get("form") != FORM:
            # another release wrote it: this process builds the indexes
            return cls(version, {}, np.full(len(product_ids), -1, np.int64))
        names = load_product_ids(parts, COMPLETIONS)
        fields = {
            facts["name"]: _field(parts, f"f{at}", facts, len(names))
            for at, facts in enumerate(parts.facts["fields"])
        }
        return cls(version, fields, names.codes(product_ids))


def save(
    products: Sequence[Mapping[str, Any]], fields: Sequence[str], popularity: Mapping[str, float]
) -> ModelState:
    """Index fields of products; the same products in any order give the same arrays.

    `popularity` is by product id, 0 or more.

    Cost:
        1,000,000 titles: 25 s, 1.2 GB
    """
    # Sorted, so equal products give equal bytes, and names can be searched.
    ordered = sorted(products, key=lambda product: str(product["product_id"]))
    worth = np.array([popularity.get(product["product_id"], 0.0) for product in ordered], np.float64)
    names = PackedTexts.of(str(product["product_id"]) for product in ordered)
    arrays: dict[str, Array] = {"products.blob": names.blob, "products.ends": names.ends}
    facts = [_saved_field(ordered, name, worth, f"f{at}", arrays) for at, name in enumerate(fields)]
    return ModelState(arrays, {"form": FORM, "fields": facts})


def _saved_field(
    products: Sequence[Mapping[str, Any]], name: str, worth: Floats, key: str, arrays: dict[str, Array]
) -> dict[str, Any]:
    marks = np.array([field_fingerprint(product, name) for product in products], np.uint64)
    arrays[f"{key}.marks"] = marks
    counted = Counter(language for product in products for language in sorted(languages_of(product, name)))
    languages = sorted(counted)
    chosen = sorted(language for language, _ in counted.most_common(MOST_LANGUAGES))
    kept: list[dict[str, Any]] = []
    numbers: dict[tuple[tuple[str, ...], ...], int] = {}
    locks = [access_of(product) for product in products]
    accesses = [access for access, _ in Counter(locks).most_common(MOST_ACCESSES)] if any(locks) else []
    for language, only in [(language, only) for language in ("", *chosen) for only in (False, True)]:
        every = [values_of_field(product, name, language, only) for product in products]
        for access in (None, *accesses):
            values = [
                texts if access in (None, lock) else () for texts, lock in zip(every, locks, strict=True)
            ]
            # Most products have one language, so most variants are equal and are stored once.
            at = numbers.setdefault(tuple(values), len(kept))
            if at == len(kept):
                built = TextIndex.of(values, marks, worth)
                kept.append({"for": []})
                arrays.update({f"{key}.{at}.{part}": array for part, array in _arrays(built)})
            if access is None:
                kept[at]["for"].append([language, only])
            else:
                kept[at].setdefault("access", []).append([language, only, access])
    return {"name": name, "languages": languages, "indexes": kept}


def _arrays(built: TextIndex) -> Iterator[tuple[str, Array]]:
    yield "starts", built.starts
    yield "holders", built.holders
    yield "originals.blob", built.source_texts.blob
    yield "originals.ends", built.source_texts.ends
    for name, array in arrays_from_index(built.index).items():
        yield f"index.{name}", array


def _field(parts: ModelState, key: str, facts: Mapping[str, Any], products: int) -> SavedFieldIndexes:
    marks = np.asarray(parts.array(f"{key}.marks"))
    _check(marks.dtype == np.uint64 and marks.shape == (products,), f"{key}.marks")
    variants: dict[IndexVariant, TextIndex] = {}
    for at, kept in enumerate(facts["indexes"]):
        built = _load_index(parts, f"{key}.{at}.", marks)
        variants |= {(language, bool(only), None): built for language, only in kept["for"]}
        # a separate list, because earlier releases read pairs alone
        variants |= {
            (language, bool(only), access): built for language, only, access in kept.get("access", ())
        }
    return SavedFieldIndexes(facts["name"], marks, frozenset(facts["languages"]), variants)


def _load_index(parts: ModelState, key: str, marks: npt.NDArray[np.uint64]) -> TextIndex:
    mine = {name.removeprefix(key): array for name, array in parts.arrays.items() if name.startswith(key)}
    index_arrays = {
        name.removeprefix("index."): array for name, array in mine.items() if name.startswith("index.")
    }
    try:
        starts = np.asarray(mine["starts"])
        holders = np.asarray(mine["holders"])
        originals = PackedTexts(np.asarray(mine["originals.blob"]), np.asarray(mine["originals.ends"]))
    except KeyError as error:
        raise Fault(f"snapshot is damaged: completions have no {error}", path=COMPLETIONS) from error
    index = index_from_arrays(index_arrays)
    texts = len(index.texts)
    whole = originals.blob.dtype == np.uint8 and has_valid_offsets(originals.ends, len(originals.blob))
    _check(whole and len(originals) == texts, f"{key}originals")
    _check(len(starts) == texts + 1 and has_valid_offsets(starts, len(holders)), f"{key}starts")
    _check(holders.dtype.kind == "i" and holders.ndim == 1, f"{key}holders")
    _check(not len(holders) or (holders.min() >= 0 and holders.max() < len(marks)), f"{key}holders")
    _check(bool((np.diff(starts) > 0).all()), f"{key}starts")
    return TextIndex(index, originals, starts, holders, marks)


def _check(sound: bool | np.bool_, name: str) -> None:
    if not sound:
        raise Fault(f"snapshot is damaged: completions: {name} does not fit", path=COMPLETIONS)
