"""The search index in the snapshot of an engine: the refresh job writes it, API replicas map it.

A product is served from the snapshot as long as its fingerprint is the same, so the snapshot fits a catalog that has
changed since. It may have vectors, too: an embedder trained on the products, and their vectors in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt
import orjson

from actors.language import latent_embedder
from actors.language.latent_embedder import LatentEmbedder
from actors.retrieval.lexical import snapshot_format
from actors.retrieval.lexical.product_fields import search_embedding_text
from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.retrieval.packed_texts import PackedTexts, load_product_ids
from actors.vectors.quantization import QuantizedVectors
from actors.vectors.snapshot_arrays import Array, ModelState
from actors.vectors.types import Mask, Rows
from actors.vectors.vocabulary import Vocabulary
from cluster.errors import Fault

SEARCH = "extra-search"
"Name of the extra."

_FEW = 50
"Fewest products that an embedder is trained on."


@dataclass(frozen=True, slots=True)
class SavedProductVectors:
    """Vectors by product of the snapshot, and the embedder for queries."""

    embedder: LatentEmbedder
    vectors: QuantizedVectors
    share: float


@dataclass(frozen=True, slots=True)
class SearchSnapshot:
    """The index, the ids of its products, and their fingerprints.

    Shapes:
        fingerprints: uint64 [h]
    """

    version: str
    names: Vocabulary
    fingerprints: npt.NDArray[np.uint64]
    index: SavedIndex
    meaning: SavedProductVectors | None

    @classmethod
    def load(cls, version: str, parts: ModelState) -> SearchSnapshot | None:
        """Load what `save` returned; None if another release stored it in another form.

        Errors:
            Fault: an array is missing or does not fit the others
        """
        index = snapshot_format.load(parts.arrays, parts.facts)
        if index is None:
            return None
        fingerprints = np.asarray(parts.array("marks"))
        names = load_product_ids(parts, SEARCH)
        if not len(names) == len(fingerprints) == len(index):
            raise Fault("snapshot is damaged: the search index: products do not fit", path=SEARCH)
        return cls(version, names, fingerprints, index, _meaning(parts, len(index)))

    def rows(self, product_ids: Sequence[str], fingerprints: npt.NDArray[np.uint64], present: Mask) -> Rows:
        """Find the row of every unchanged product; -1 for the others, and for those with terms of an earlier release.

        Shapes:
            fingerprints: uint64 [r]; present: bool [r]; returns: int64 [h]
        Cost:
            30 ms for 100,000 products
        """
        codes = self.names.codes(product_ids)
        unchanged = (codes >= 0) & present
        unchanged[unchanged] = self.fingerprints[codes[unchanged]] == fingerprints[unchanged]
        rows = np.full(len(self.fingerprints), -1, np.int64)
        rows[codes[unchanged]] = np.flatnonzero(unchanged)
        rows[self.index.outdated] = -1
        return rows


def product_fingerprint(product: Mapping[str, Any] | None) -> int:
    """Hash the whole record of a product to 64 bits; 0 for none.

    Cost:
        5 us
    """
    if product is None:
        return 0
    data = orjson.dumps(product, option=orjson.OPT_SORT_KEYS)
    return mmh3.hash64(data, 31, signed=False)[0] or 1


def save(products: Sequence[Mapping[str, Any]], *, learn_from: int) -> ModelState:
    """Index products, and train an embedder on `learn_from` of them; 0 for no vectors.

    The same products in any order give the same arrays.

    Cost:
        100,000 products of 60 words: 10 s; an embedder trained on 10,000: 40 s more
    """
    # Sorted, so that equal products give equal arrays.
    ordered = sorted(products, key=lambda product: str(product["product_id"]))
    arrays, facts = snapshot_format.save(ordered)
    names = PackedTexts.of(str(product["product_id"]) for product in ordered)
    stored: dict[str, Array] = {
        **arrays,
        "products.blob": names.blob,
        "products.ends": names.ends,
        "marks": np.array([product_fingerprint(product) for product in ordered], np.uint64),
    }
    if learn_from and len(ordered) >= _FEW:
        step = max(len(ordered) // learn_from, 1)
        embedder = latent_embedder.train_embedder(
            search_embedding_text(product) for product in ordered[::step][:learn_from]
        )
        vectors = QuantizedVectors.of(embedder.embed([search_embedding_text(product) for product in ordered]))
        stored |= {f"meaning.{name}": array for name, array in embedder.arrays().items()}
        stored |= {"meaning.codes": vectors.codes, "meaning.scales": vectors.scales}
        facts["meaning"] = {"version": embedder.version, "share": latent_embedder.SHARE}
    return ModelState(stored, facts)


def _meaning(parts: ModelState, products: int) -> SavedProductVectors | None:
    facts = parts.facts.get("meaning")
    if facts is None:
        return None
    features, projection = (np.asarray(parts.array(f"meaning.{name}")) for name in ("features", "projection"))
    codes, scales = (np.asarray(parts.array(f"meaning.{name}")) for name in ("codes", "scales"))
    width = projection.shape[-1]
    if len(features) != len(projection) or codes.shape != (products, width) or scales.shape != (width,):
        raise Fault("snapshot is damaged: the search index: meaning does not fit", path=SEARCH)
    embedder = LatentEmbedder(features, projection, str(facts["version"]))
    return SavedProductVectors(embedder, QuantizedVectors(codes, scales), float(facts["share"]))
