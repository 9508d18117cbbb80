"""The built-in trained embedder: TF-IDF of words and of their character n-grams, reduced by a truncated SVD.

It is trained on an app's own corpus, needs no model file and no library beyond numpy and scipy, and the same texts
and seed give the same vectors. A word's vector is the sum of its own feature and, evenly weighted, those of its
n-grams, so words that were never seen before still get one.

    features     uint64 [f]      hashes of words and n-grams, sorted
    projection   float16 [f, d]  right singular vectors, times the idf of the feature

Source: latent semantic analysis (Deerwester et al. 1990); randomised range finder (Halko, Martinsson, Tropp 2011)
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from actors.language.folding import grams, tokenize
from actors.language.hashing_embedder import Vectors

DIMENSIONS = 192
SHARE = 0.2
"Weight of its vectors beside BM25, measured on public data sets (tests/benchmarks/retrieval.py)."

_FEATURES = 60_000
_LEAST_TEXTS = 2
_SEED = 20_240_501
_ROUNDS = 4
_SPARE = 16
_TINY = 1e-9
_LONGEST_CUT_WORD = 24
_REMEMBERED_WORDS = 20_000
_REMEMBERED_IN_BULK = 150_000
_GRAM_SIZES = (3, 4)
_WORD_SEED = 31
_GRAM_SEED = 37


class LatentEmbedder:
    """Embeds with the projection that `train_embedder` computed; arrays may be mapped."""

    is_slow = False
    bend = 0.5
    "Exponent of BM25 scores in a blend, measured likewise."

    def __init__(
        self,
        features: npt.NDArray[np.uint64],
        projection: npt.NDArray[np.float16],
        version: str = "",
        *,
        remember: int = _REMEMBERED_WORDS,
    ) -> None:
        self.features = features
        self.projection = projection
        self.dimensions = int(projection.shape[1])
        self.version = version or _version(features, projection)
        self._remember = remember
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        self._vectors: Vectors = np.zeros((0, self.dimensions), np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts.

        Shapes:
            returns: float32 [n, d], rows of length 1 (zeros for a text without known words)
        Cost:
            60 us for a question, 0.1 ms for a passage, for words that it remembers
        """
        counted = [Counter(tokenize(text)) for text in texts]
        with self._lock:  # a host's readers and its writer share one embedder
            self._add_words(counted)
            places = self._places
            vectors = self._vectors
        out = np.zeros((len(texts), self.dimensions), np.float32)
        for row, counts in enumerate(counted):
            if counts:
                # tf = 1 + log(count)
                weights = np.array([1 + math.log(count) for count in counts.values()], np.float32)
                # [words] @ [words, d]
                out[row] = weights @ vectors[[places[word] for word in counts]]
        lengths = np.linalg.norm(out, axis=1, keepdims=True)
        out /= np.where(lengths > 0, lengths, 1)
        return out

    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the arrays that a snapshot stores.

        Shapes:
            features uint64 [f], sorted; projection float32 [f, d]
        """
        return {"features": self.features, "projection": self.projection}

    def _add_words(self, counted: Sequence[Mapping[str, int]]) -> None:
        """Compute the vectors of new words; if there are too many, drop the older ones."""
        fresh = {word for counts in counted for word in counts if word not in self._places}
        if not fresh:
            return
        # All at once: keeping the most used would cost at every lookup.
        if len(self._places) + len(fresh) > self._remember:
            self._places = {}
            self._vectors = np.zeros((0, self.dimensions), np.float32)
            fresh = {word for counts in counted for word in counts}
        words = sorted(fresh)
        first_new = len(self._places)
        end = first_new + len(words)
        # Doubled, so that single new words do not copy the array each time.
        if end > len(self._vectors):
            larger = np.zeros((max(end, 2 * first_new, 256), self.dimensions), np.float32)
            larger[:first_new] = self._vectors[:first_new]
            self._vectors = larger
        self._vectors[first_new:end] = self._word_vectors(words)
        self._places.update(zip(words, range(first_new, end), strict=True))

    def _word_vectors(self, words: Sequence[str]) -> Vectors:
        codes, weights, owners = _features_of(words)
        # Place in the sorted features, or where it would stand; past the end means unknown.
        places = np.searchsorted(self.features, codes)
        places[places == len(self.features)] = 0
        is_learned = self.features[places] == codes if len(self.features) else np.zeros(len(codes), bool)
        # Only the used rows of the projection become float32.
        used, columns = np.unique(places[is_learned], return_inverse=True)
        matrix = sp.csr_matrix(
            (weights[is_learned], (owners[is_learned], columns)), (len(words), len(used)), np.float32
        )
        # [words, used] @ [used, d]
        made: Vectors = matrix @ self.projection[used].astype(np.float32)
        return np.asarray(made, np.float32)


def train_embedder(
    texts: Iterable[str], *, dimensions: int = DIMENSIONS, features: int = _FEATURES, seed: int = _SEED
) -> LatentEmbedder:
    """Train an embedder on texts of about a passage each; 20,000 are enough.

    Cost:
        20,000 passages: about 40 s on one core, 0.6 GB
    """
    counted = [Counter(tokenize(text)) for text in texts]
    vocabulary = sorted({word for counts in counted for word in counts})
    places = {word: at for at, word in enumerate(vocabulary)}
    codes, weights, owners = _features_of(vocabulary)
    every, columns = np.unique(codes, return_inverse=True)
    word_features = sp.csr_matrix((weights, (owners, columns)), (len(vocabulary), len(every)), np.float32)
    text_words = _text_words(counted, places)
    idf, kept = _compute_idf(text_words, word_features, features)
    # [words, kept], each feature times its idf
    scaled = (word_features[:, kept] @ sp.diags(idf[kept])).astype(np.float32)
    # [texts, words] @ [words, kept]
    matrix = (text_words @ scaled).tocsr()
    # Rows of length 1, so that long texts do not decide the directions.
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix = sp.diags((1 / np.maximum(lengths, 1e-9)).astype(np.float32)) @ matrix
    right = _right_vectors(matrix, dimensions, seed)
    # Times the idf once more: a word's features then need no weight of their own.
    projection = (right * idf[kept][:, None]).astype(np.float16)
    return LatentEmbedder(every[kept], projection, remember=_REMEMBERED_IN_BULK)


def _features_of(
    words: Sequence[str],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return the features of words as flat arrays: hash, weight and the number of the word."""
    codes: list[int] = []
    weights: list[float] = []
    counts: list[int] = []
    for word in words:
        parts = grams(word, _GRAM_SIZES) if len(word) <= _LONGEST_CUT_WORD else []
        codes.append(mmh3.hash64(word.encode("utf-8", "surrogatepass"), _WORD_SEED, signed=False)[0])
        codes += [
            mmh3.hash64(part.encode("utf-8", "surrogatepass"), _GRAM_SEED, signed=False)[0] for part in parts
        ]
        # 1 / sqrt(n-grams): together they weigh as much as the word itself.
        weights += [1.0, *(1 / math.sqrt(len(parts)) for _ in parts)]
        counts.append(1 + len(parts))
    owners = np.repeat(np.arange(len(counts)), counts)
    return np.array(codes, np.uint64), np.array(weights, np.float32), owners


def _text_words(counted: Sequence[Mapping[str, int]], places: Mapping[str, int]) -> Any:
    sizes = [len(counts) for counts in counted]
    columns = np.array([places[word] for counts in counted for word in counts], np.int64)
    values = np.array([1 + math.log(count) for counts in counted for count in counts.values()], np.float32)
    # int64 [n + 1], the row pointers of CSR
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return sp.csr_matrix((values, columns, starts), (len(counted), len(places)), np.float32)


def _compute_idf(
    text_words: Any, word_features: Any, most: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
    """Return the inverse document frequency of every feature, and the features to keep: frequent and not unique."""
    present = text_words.copy()
    holds = word_features.copy()
    present.data[:] = 1
    holds.data[:] = 1
    counts = np.zeros(word_features.shape[1], np.int64)
    # In pieces: the whole product of texts and features would not fit.
    for start in range(0, present.shape[0], 1_000):
        part = (present[start : start + 1_000] @ holds).tocsr()
        counts += np.bincount(part.indices, minlength=len(counts))
    count = text_words.shape[0]
    # idf = log((1 + n) / (1 + df)) + 1
    idf = (np.log((1 + count) / (1 + counts)) + 1).astype(np.float32)
    often = np.argsort(-counts, kind="stable")[:most]
    kept = np.sort(often[counts[often] >= min(_LEAST_TEXTS, count)])
    return idf, kept


def _right_vectors(matrix: Any, dimensions: int, seed: int) -> npt.NDArray[np.float32]:
    """Compute the right singular vectors of a sparse matrix, the largest first; missing ones are 0."""
    if not matrix.nnz:
        return np.zeros((matrix.shape[1], dimensions), np.float32)
    rank = min(dimensions, min(matrix.shape))
    # Some columns more than the rank make the random range more precise.
    width = min(rank + _SPARE, min(matrix.shape))
    rng = np.random.default_rng(seed)
    basis = matrix @ rng.standard_normal((matrix.shape[1], width), dtype=np.float32)
    for _ in range(_ROUNDS):
        # Orthogonal again in each round, or all columns would turn to the first singular vector.
        basis, _ = np.linalg.qr(basis)
        # (M M^T) Y: each round raises the ratio of large to small singular values.
        basis = matrix @ (matrix.T @ basis)
    basis, _ = np.linalg.qr(basis)
    # In float64, as squaring halves the digits.
    small = (matrix.T @ basis).astype(np.float64)
    # eigenvectors of the small square matrix: tens of times faster than an SVD of the long one
    squares, turns = np.linalg.eigh(small.T @ small)
    # Directions that are only rounding would be divided by nearly 0.
    leading = [at for at in np.argsort(-squares)[:rank].tolist() if squares[at] > _TINY * squares.max()]
    right = (small @ turns[:, leading] / np.sqrt(squares[leading])).T.astype(np.float32)
    # the sign of a singular vector is free: fix it, so that equal corpora give equal vectors
    signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(axis=1)])
    out = np.zeros((matrix.shape[1], dimensions), np.float32)
    out[:, : len(right)] = (right * signs[:, None]).T
    return out


def _version(features: npt.NDArray[np.uint64], projection: npt.NDArray[np.float16]) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(features).tobytes())
    digest.update(np.ascontiguousarray(projection).tobytes())
    return f"latent-{projection.shape[1]}-{digest.hexdigest()[:12]}"
