"""Vectors with one byte for each dimension: a fast scan of the leading dimensions, then a full comparison of the best.

Large sets can have sketches. The search then scans these, unless a mask leaves few vectors.

    codes    int8 [n, d]     each dimension scaled so that its largest value is 127
    scales   float32 [d]     the value of one step

The leading dimensions must have most of the variance: true for singular vectors, and for other embeddings after a
rotation to their principal axes. Faiss compares integers, so the scan uses a rounded query and the full comparison the
exact one. All arrays can be mapped from disk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from actors.vectors.row_selection import best_rows
from actors.vectors.types import Mask, Matrix, Rows, Scores, Vector

# Sketches: four bits for every two dimensions, for a fast scan of all vectors.
#
# A product quantizer rounds each pair of dimensions to the nearest of 16 points, learned from a sample. Faiss
# compares 32 vectors at once with tables in registers. The result is approximate: the caller requests several times
# more candidates than it needs, and compares these in full.
#
# Source: fast scan of product quantizers (André, Kermarrec, Le Scouarnec 2015)


LEAST = 2_500
"Below this number of vectors, comparing bytes takes 0.1 ms at most."
_LEARNED_FROM = 20_000
_AT_ONCE = 32_768


class Sketches:
    """Approximate vectors; immutable, safe for several threads."""

    def __init__(self, index: Any) -> None:
        # one thread for all of faiss: replicas share the cores
        faiss.omp_set_num_threads(1)
        self._index = index
        self.dimensions = int(index.d)

    @classmethod
    def of(cls, codes: npt.NDArray[np.int8], scales: Vector, dimensions: int) -> Sketches:
        """Build sketches of the leading dimensions, an even number of them.

        Shapes:
            codes: int8 [n, d]
            scales: float32 [d]
        Cost:
            200,000 x 192: 15 s, one thread
        """
        faiss.omp_set_num_threads(1)
        kept = scales[:dimensions]
        index = faiss.IndexPQFastScan(dimensions, dimensions // 2, 4, faiss.METRIC_INNER_PRODUCT)
        step = max(1, len(codes) // _LEARNED_FROM)
        index.train(codes[::step, :dimensions] * kept)
        for start in range(0, len(codes), _AT_ONCE):
            index.add(codes[start : start + _AT_ONCE, :dimensions] * kept)
        return cls(index)

    @classmethod
    def from_arrays(cls, points: Matrix, codes: npt.NDArray[np.uint8]) -> Sketches:
        """Build sketches from the arrays of `learn_sketches`.

        Shapes:
            points: float32 [d / 2, 16, 2]
            codes: uint8 [n, d / 4]
        Errors:
            ValueError: the arrays have other shapes or types
        Cost:
            1,000,000 x 64: 0.05 s
        """
        pairs = len(points)
        # faiss reads both arrays without a check
        if points.shape != (pairs, 16, 2) or codes.ndim != 2 or 2 * codes.shape[1] != pairs:
            raise ValueError(f"sketches of the shapes {points.shape} and {codes.shape} do not fit together")
        if points.dtype != np.float32 or codes.dtype != np.uint8:
            raise ValueError(f"sketches are {points.dtype} and {codes.dtype}, not float32 and uint8")
        plain: Any = faiss.IndexPQ(2 * pairs, pairs, 4, faiss.METRIC_INNER_PRODUCT)
        faiss.copy_array_to_vector(np.ravel(points), plain.pq.centroids)
        faiss.copy_array_to_vector(np.ravel(codes), plain.codes)
        plain.ntotal = len(codes)
        plain.is_trained = True
        return cls(faiss.IndexPQFastScan(plain))

    @classmethod
    def open(cls, path: Path) -> Sketches:
        """Read sketches from a file. The caller has verified it."""
        return cls(faiss.read_index(str(path)))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def nbytes(self) -> int:
        return len(self) * self.dimensions // 4

    def save(self, path: Path) -> None:
        faiss.write_index(self._index, str(path))

    def candidates(self, query: Vector, count: int) -> tuple[Rows, Scores]:
        """Return rows that are probably among the nearest, and their approximate products with the query.

        Shapes:
            query: float32 [d]; only the leading dimensions are used
            returns: int64 [m] and float32 [m], m <= count
        Cost:
            0.25 ms for 500 of 200,000 x 192
        """
        leading = np.ascontiguousarray(query[None, : self.dimensions])
        products, numbers = self._index.search(leading, count)
        rows: Rows = numbers[0]
        scores: Scores = products[0]
        if rows[-1] >= 0:
            return rows, scores
        is_row = rows >= 0
        return rows[is_row], scores[is_row]


def learn_sketches(vectors: Matrix) -> tuple[Matrix, npt.NDArray[np.uint8]]:
    """Return the arrays from which `Sketches.from_arrays` builds sketches; equal vectors give equal arrays.

    Shapes:
        vectors: float32 [n, d], d a multiple of 4
        returns: float32 [d / 2, 16, 2], the points, and uint8 [n, d / 4], the nearest points of each vector
    Cost:
        1,000,000 x 64: 1.3 s of processor time, one thread
    """
    faiss.omp_set_num_threads(1)
    dimensions = vectors.shape[1]
    index = faiss.IndexPQ(dimensions, dimensions // 2, 4, faiss.METRIC_INNER_PRODUCT)
    index.train(np.ascontiguousarray(vectors[:: max(1, len(vectors) // _LEARNED_FROM)]))
    for start in range(0, len(vectors), _AT_ONCE):
        index.add(np.ascontiguousarray(vectors[start : start + _AT_ONCE]))
    points = faiss.vector_to_array(index.pq.centroids).reshape(dimensions // 2, 16, 2)
    return points, faiss.vector_to_array(index.codes).reshape(len(vectors), dimensions // 4)


_WIDTHS = (64, 96, 128, 192)
_ENERGY_SHARE = 0.95
"Share of the squared length that the scanned dimensions must have; if too many are needed, all are scanned."
_MORE = 5
"Candidates of the scan for each requested row."
_DEVIATIONS = 2.0
"Standard deviations by which the candidates of each of several sets exceed its share."
_NEARLY_ALL = 0.9
_SPARE = 1.25
"Share of vectors that a mask must leave for a search by sketches, and the factor of extra candidates then."
_FEW = 512
"Up to this number, all vectors are compared in full."

Codes8 = npt.NDArray[np.int8]
"""int8 [n, d]."""


class QuantizedVectors:
    """An immutable set of vectors; safe for several threads."""

    def __init__(
        self, codes: Codes8, scales: Vector, scan: Any = None, sketches: Sketches | None = None
    ) -> None:
        # one thread for all of faiss: replicas share the cores
        faiss.omp_set_num_threads(1)
        self.codes = codes
        self.scales = scales
        self._scan = build_scan(codes, scales) if scan is None and len(codes) > _FEW else scan
        self._sketches = sketches

    @classmethod
    def of(cls, vectors: Matrix) -> QuantizedVectors:
        """Return the vectors rounded to bytes.

        Shapes:
            vectors: float32 [n, d]
        """
        scales = np.abs(vectors).max(axis=0, initial=0.0).astype(np.float32) / np.float32(127)
        # A dimension of zeros would divide by 0.
        scales = np.where(scales > 0, scales, np.float32(1))
        return cls(np.rint(vectors / scales).astype(np.int8), scales)

    @classmethod
    def open(
        cls, codes: Codes8, scales: Vector, scan_file: Path | None, sketch_file: Path | None = None
    ) -> QuantizedVectors:
        """Open vectors from mapped arrays and files of scan and sketches. The caller has verified the files.

        Shapes:
            codes: int8 [n, d]
            scales: float32 [d]
        """
        if scan_file is None:
            return cls(codes, scales)
        scan = faiss.read_index(str(scan_file), faiss.IO_FLAG_MMAP_IFC)
        return cls(codes, scales, scan, None if sketch_file is None else Sketches.open(sketch_file))

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """Return the memory of codes, scan and sketches, in bytes."""
        sketched = 0 if self._sketches is None else self._sketches.nbytes
        return (
            int(self.codes.nbytes) + (0 if self._scan is None else len(self) * int(self._scan.d)) + sketched
        )

    @property
    def is_sketched(self) -> bool:
        """Tell whether a search without a mask uses sketches: faster, and not quite exact."""
        return self._sketches is not None

    def with_sketches(self, *, least: int = LEAST) -> QuantizedVectors:
        """Return the same vectors with sketches if they are at least `least`, else this object."""
        if self._scan is None or len(self) < least or int(self._scan.d) % 2:
            return self
        sketches = Sketches.of(self.codes, self.scales, int(self._scan.d))
        return QuantizedVectors(self.codes, self.scales, self._scan, sketches)

    def save_sketches(self, path: Path) -> bool:
        """Write the sketches to a file; return False when there are none."""
        if self._sketches is None:
            return False
        self._sketches.save(path)
        return True

    def save_scan(self, path: Path) -> bool:
        """Write the scan to a file; return False when there is none."""
        if self._scan is None:
            return False
        faiss.write_index(self._scan, str(path))
        return True

    def matrix(self) -> Matrix:
        """Return all vectors as floats.

        Shapes:
            returns: float32 [n, d]
        """
        return self.codes * self.scales

    def score(self, query: Vector, rows: Rows) -> Scores:
        """Return the exact products of a query with some rows.

        Shapes:
            query: float32 [d]
            rows: int64 [m]
            returns: float32 [m]
        """
        # `take` needs half the time of indexing
        scores: Scores = self.codes.take(rows, axis=0).astype(np.float32) @ (query * self.scales)
        return scores

    def search(self, query: Vector, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """Return the k nearest rows, within a mask if given.

        Shapes:
            query: float32 [d]
            allowed: bool [n]
            returns: int64 [m] and float32 [m], best first, m <= k
        Cost:
            2.6 ms for 200,000 x 192, one thread; with sketches 0.3 ms (tests/benchmarks/retrieval.py)
        """
        # Five times as many candidates, which are compared in full: approximate search, exact scores.
        count = _MORE * k
        estimated = self._estimate_by_sketches(query, count, allowed)
        if estimated is not None:
            rows = estimated[0]
        elif self._is_few(count):
            rows = self._list_rows(allowed)
        else:
            rows = np.sort(self._estimate_by_scan(query, count, allowed)[0])
        scores = self.score(query, rows)
        top = best_rows(scores, k)
        return rows[top], scores[top]

    def estimate(self, query: Vector, count: int, allowed: Mask | None) -> tuple[Rows, Scores]:
        """Return rows that are probably the nearest, and approximate products of the query with them.

        Shapes:
            query: float32 [d]
            allowed: bool [n]
            returns: int64 [m] and float32 [m], in any order; all rows if they are few
        """
        estimated = self._estimate_by_sketches(query, count, allowed)
        if estimated is not None:
            return estimated
        if self._is_few(count):
            rows = self._list_rows(allowed)
            return rows, self.score(query, rows)
        return self._estimate_by_scan(query, count, allowed)

    def _is_few(self, count: int) -> bool:
        return self._scan is None or len(self) <= count

    def _list_rows(self, allowed: Mask | None) -> Rows:
        return np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)

    def _estimate_by_sketches(
        self, query: Vector, count: int, allowed: Mask | None
    ) -> tuple[Rows, Scores] | None:
        """Return candidates by sketches; None without sketches, or if the mask excludes too many rows."""
        if self._sketches is None:
            return None
        if allowed is None:
            return self._sketches.candidates(query, count)
        missing = len(allowed) - int(np.count_nonzero(allowed))
        if missing > (1 - _NEARLY_ALL) * len(allowed):
            return None
        rows, scores = self._sketches.candidates(query, int(count * _SPARE))
        inside = allowed[rows]
        rows = rows[inside]
        return (rows, scores[inside]) if len(rows) >= count else None

    def _estimate_by_scan(self, query: Vector, count: int, allowed: Mask | None) -> tuple[Rows, Scores]:
        scanned = (query * self.scales)[: self._scan.d]
        largest = float(np.abs(scanned).max(initial=0.0)) or 1.0
        # faiss compares integers, so the query is scaled to the range of a signed byte.
        whole = np.rint(scanned * np.float32(127 / largest))
        parameters = None
        if allowed is not None:
            # faiss keeps a pointer only: `bits` must live until the search returns.
            bits = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(len(allowed), faiss.swig_ptr(bits))
            parameters = faiss.SearchParameters()
            parameters.sel = selector
        products, rows = self._scan.search(whole[None, :], count, params=parameters)
        is_row = rows[0] >= 0
        return rows[0][is_row], products[0][is_row] * np.float32(largest / 127)


def search_parts(
    parts: Sequence[tuple[QuantizedVectors, Mask | None]], query: Vector, k: int
) -> list[tuple[Rows, Scores]]:
    """Return the nearest rows of each of several sets; the k nearest of all are among them.

    The sets together get as many candidates as one set of their size, so they cost little more.

    Shapes:
        parts: vectors, and the mask of the allowed ones, bool [n]
        query: float32 [d]
        returns: int64 [m] and float32 [m] for each set
    """
    if len(parts) == 1:
        vectors, allowed = parts[0]
        return [vectors.search(query, k, allowed)]
    count = _MORE * k
    total = sum(len(vectors) for vectors, _ in parts)
    expected = [_expect_candidates(count, len(vectors), total) for vectors, _ in parts]
    estimates = [
        vectors.estimate(query, most, allowed)
        for (vectors, allowed), most in zip(parts, expected, strict=True)
    ]
    floor = _find_floor(estimates, count)
    repeated = False
    for at, (vectors, allowed) in enumerate(parts):
        rows, scores = estimates[at]
        # All candidates of a set are above the floor: there may be more behind them.
        if expected[at] <= len(rows) < min(count, len(vectors)) and scores.min() > floor:
            estimates[at] = vectors.estimate(query, count, allowed)
            repeated = True
    if repeated:
        floor = _find_floor(estimates, count)
    results = []
    for (vectors, _), (rows, scores) in zip(parts, estimates, strict=True):
        nearest = np.sort(rows[scores >= floor])
        results.append((nearest, vectors.score(query, nearest)))
    return results


def _expect_candidates(count: int, size: int, total: int) -> int:
    """Return how many of the best `count` of all sets a set of this size is likely to have, at most."""
    # A large set gets all: it may well have them, and searching it twice would cost much.
    if 2 * size >= total:
        return count
    expected = count * size / total
    return min(count, math.ceil(expected + _DEVIATIONS * math.sqrt(expected)))


def _find_floor(estimates: Sequence[tuple[Rows, Scores]], count: int) -> float:
    """Return the score of the last of the best `count` of all sets; -inf if there are fewer."""
    scores = np.concatenate([scores for _, scores in estimates])
    if len(scores) <= count:
        return -math.inf
    return float(np.partition(scores, len(scores) - count)[len(scores) - count])


def build_scan(codes: Codes8, scales: Vector) -> Any:
    """Return an index of the leading dimensions.

    Shapes:
        codes: int8 [n, d]
        scales: float32 [d]
        returns: faiss index over [n, leading]
    """
    leading = codes[:, : _count_leading(codes, scales)]
    kind = faiss.ScalarQuantizer.QT_8bit_direct_signed
    index = faiss.IndexScalarQuantizer(leading.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
    index.is_trained = True
    for start in range(0, len(leading), 65_536):
        # the codes of this kind are the values plus 128
        part = leading[start : start + 65_536].astype(np.int16) + 128
        index.add_sa_codes(np.ascontiguousarray(part, np.uint8))
    return index


def _count_leading(codes: Codes8, scales: Vector) -> int:
    """Return how many dimensions have most of the variance in an even sample of the vectors."""
    sample = codes[:: max(1, len(codes) // 2_000)].astype(np.float32) * scales
    energy = np.cumsum(np.square(sample).sum(axis=0))
    return next(
        (
            width
            for width in _WIDTHS
            if width < len(energy) and energy[width - 1] >= _ENERGY_SHARE * energy[-1]
        ),
        len(energy),
    )
