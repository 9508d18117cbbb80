from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from actors.vectors.compact import CompactVectors
from actors.vectors.types import Matrix


def vectors(count: int, dimensions: int, *, fading: float) -> Matrix:
    """Unit vectors whose later dimensions say less and less."""
    rng = np.random.default_rng(2)
    made = rng.standard_normal((count, dimensions)).astype(np.float32) * fading ** np.arange(dimensions)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


@pytest.mark.parametrize(("count", "fading"), [(40, 0.97), (3_000, 0.97), (3_000, 1.0)])
def test_search_equals_a_full_comparison(count: int, fading: float) -> None:
    stored = vectors(count, 160, fading=fading)
    compact = CompactVectors.of(stored)
    allowed = np.arange(count) % 4 != 0
    for query in stored[:20]:
        exact = stored @ query
        rows, scores = compact.search(query, 10)
        assert np.allclose(scores, np.sort(exact)[::-1][:10], atol=0.01)
        masked, _ = compact.search(query, 10, allowed)
        assert allowed[masked].all()
        assert exact[masked].min() >= np.sort(exact[allowed])[::-1][9] - 0.01
        assert len(rows) == len(masked) == 10


def test_few_or_no_vectors_are_no_special_case() -> None:
    stored = vectors(3, 16, fading=1.0)
    rows, _ = CompactVectors.of(stored).search(stored[1], 100)
    assert rows.tolist()[0] == 1
    assert len(rows) == 3
    assert len(CompactVectors.of(stored).search(stored[1], 5, np.zeros(3, bool))[0]) == 0
    assert len(CompactVectors.of(np.zeros((0, 16), np.float32)).search(stored[1], 5)[0]) == 0


def test_a_saved_scan_is_mapped_back(tmp_path: Path) -> None:
    stored = vectors(2_000, 160, fading=0.97)
    compact = CompactVectors.of(stored)
    assert compact.save_scan(tmp_path / "scan.faiss")
    opened = CompactVectors.open(compact.codes, compact.scales, tmp_path / "scan.faiss")
    for query in stored[:5]:
        assert opened.search(query, 20)[0].tolist() == compact.search(query, 20)[0].tolist()
    assert not CompactVectors.of(stored[:10]).save_scan(tmp_path / "none.faiss")
