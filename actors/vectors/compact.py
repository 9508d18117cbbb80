"""Vectors in a byte a dimension: a quick scan over the leading dimensions, then all dimensions of the few that lead.

Many vectors may have sketches as well: then those are scanned, unless a mask leaves few of them.

    codes    int8 [n, d]     each dimension scaled so that its largest value is 127
    scales   float32 [d]     what a step is worth

The leading dimensions must hold most of what vectors say: true of singular vectors, and of any other embedding
after a rotation to its principal axes. Faiss compares whole numbers here, so the query is rounded for the scan
and taken as it is for the rest. Everything can be mapped from disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from actors.vectors.sketches import LEAST, Sketches
from actors.vectors.top import best_rows
from actors.vectors.types import Mask, Matrix, Rows, Scores, Vector

_WIDTHS = (64, 96, 128, 192)
_ENERGY_SHARE = 0.95
"Share of the length of vectors that the scanned dimensions hold; when too many were needed, all are scanned."
_MORE = 5
"How many times more than wanted the scan brings to the exact comparison."
_NEARLY_ALL, _SPARE = 0.9, 1.25
"Share of vectors that a mask must leave for sketches to be used, and how many more candidates are named then."
_FEW = 512
"Up to here everything is compared in full."

Codes8 = npt.NDArray[np.int8]
"""int8 [n, d]."""


class CompactVectors:
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
    def of(cls, vectors: Matrix) -> CompactVectors:
        """Round vectors.

        Shapes:
            vectors: float32 [n, d]
        """
        scales = np.abs(vectors).max(axis=0, initial=0.0).astype(np.float32) / np.float32(127)
        scales = np.where(scales > 0, scales, np.float32(1))
        return cls(np.rint(vectors / scales).astype(np.int8), scales)

    @classmethod
    def open(
        cls, codes: Codes8, scales: Vector, scan_file: Path | None, sketch_file: Path | None = None
    ) -> CompactVectors:
        """Take mapped arrays, map the scan and read the sketches; the caller has verified the files."""
        if scan_file is None:
            return cls(codes, scales)
        scan = faiss.read_index(str(scan_file), faiss.IO_FLAG_MMAP_IFC)
        return cls(codes, scales, scan, None if sketch_file is None else Sketches.open(sketch_file))

    def __len__(self) -> int:
        """Count vectors."""
        return len(self.codes)

    @property
    def nbytes(self) -> int:
        """Bytes of codes, scan and sketches."""
        sketched = 0 if self._sketches is None else self._sketches.nbytes
        return (
            int(self.codes.nbytes) + (0 if self._scan is None else len(self) * int(self._scan.d)) + sketched
        )

    @property
    def is_sketched(self) -> bool:
        """Is a search without a mask quick, and nearly instead of quite exact?"""
        return self._sketches is not None

    def with_sketches(self, *, least: int = LEAST) -> CompactVectors:
        """Give the same vectors with sketches, when there are enough of them to be worth it."""
        if self._scan is None or len(self) < least or int(self._scan.d) % 2:
            return self
        sketches = Sketches.of(self.codes, self.scales, int(self._scan.d))
        return CompactVectors(self.codes, self.scales, self._scan, sketches)

    def save_sketches(self, path: Path) -> bool:
        """Write the sketches to a file; False when there are none."""
        if self._sketches is None:
            return False
        self._sketches.save(path)
        return True

    def save_scan(self, path: Path) -> bool:
        """Write the scan to a file; False when these are too few to have one."""
        if self._scan is None:
            return False
        faiss.write_index(self._scan, str(path))
        return True

    def matrix(self) -> Matrix:
        """All vectors as floats.

        Shapes:
            returns: float32 [n, d]
        """
        return self.codes * self.scales

    def score(self, query: Vector, rows: Rows) -> Scores:
        """Compare a query with some rows in full.

        Shapes:
            query: float32 [d]
            rows: int64 [m]
            returns: float32 [m]
        """
        # one row at a time into one block: half the time of picking with an index
        found: Scores = self.codes.take(rows, axis=0).astype(np.float32) @ (query * self.scales)
        return found

    def search(self, query: Vector, k: int, allowed: Mask | None = None) -> tuple[Rows, Scores]:
        """Find the k nearest, within a mask when one is given.

        Shapes:
            query: float32 [d]
            allowed: bool [n]
            returns: int64 [m] and float32 [m], best first, m <= k
        Cost:
            2.6 ms for 200,000 x 192, one thread; with sketches 0.3 ms (tests/benchmarks/retrieval.py)
        """
        rows = self._sketch_candidates(query, _MORE * k, allowed)
        if rows is None:
            rows = self._candidates(query, _MORE * k, allowed)
        scores = self.score(query, rows)
        top = best_rows(scores, k)
        return rows[top], scores[top]

    def _sketch_candidates(self, query: Vector, count: int, allowed: Mask | None) -> Rows | None:
        """Candidates by sketches; None without sketches, or when a mask leaves out so many that it must be exact."""
        if self._sketches is None:
            return None
        if allowed is None:
            return self._sketches.candidates(query, count)
        missing = len(allowed) - int(np.count_nonzero(allowed))
        if missing > (1 - _NEARLY_ALL) * len(allowed):
            return None
        rows = self._sketches.candidates(query, int(count * _SPARE))
        rows = rows[allowed[rows]]
        return rows if len(rows) >= count else None

    def _candidates(self, query: Vector, count: int, allowed: Mask | None) -> Rows:
        if self._scan is None or len(self) <= count:
            return np.arange(len(self)) if allowed is None else np.flatnonzero(allowed)
        scanned = (query * self.scales)[: self._scan.d]
        largest = float(np.abs(scanned).max(initial=0.0)) or 1.0
        whole = np.rint(scanned * np.float32(127 / largest))
        parameters = None
        if allowed is not None:
            bits = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(len(allowed), faiss.swig_ptr(bits))
            parameters = faiss.SearchParameters()
            parameters.sel = selector
        rows: Rows = self._scan.search(whole[None, :], count, params=parameters)[1][0]
        return np.sort(rows[rows >= 0])


def build_scan(codes: Codes8, scales: Vector) -> Any:
    """Index the leading dimensions.

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
    """How many dimensions hold most of what an even sample of the vectors says."""
    sample = codes[:: max(1, len(codes) // 2_000)].astype(np.float32) * scales
    held = np.cumsum(np.square(sample).sum(axis=0))
    return next(
        (width for width in _WIDTHS if width < len(held) and held[width - 1] >= _ENERGY_SHARE * held[-1]),
        len(held),
    )
