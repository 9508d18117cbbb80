"""A manifest: what was written comes back, and no damage passes."""

from __future__ import annotations

import pytest

from cluster.artifacts import manifest as module
from cluster.artifacts.manifest import FileEntry, Manifest
from cluster.errors import Fault

MANIFEST = Manifest(
    kind="segments",
    sequence=12,
    written_at_ms=1_700_000_000_000,
    facts={"app_id": "shop", "offsets": {"product": "17-0"}},
    files=(FileEntry("a.parquet", 10, "ab" * 32, 3, {"noun": "product", "run": 4}),),
    retired=("b.parquet",),
)


def test_what_is_dumped_is_parsed() -> None:
    assert Manifest.parse(MANIFEST.dump(), kind="segments") == MANIFEST


def test_every_single_flipped_bit_is_refused() -> None:
    data = MANIFEST.dump()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Fault):
            Manifest.parse(bytes(flipped), kind="segments")


def test_every_truncation_and_an_empty_file_are_refused() -> None:
    data = MANIFEST.dump()
    for length in range(len(data)):
        with pytest.raises(Fault):
            Manifest.parse(data[:length], kind="segments")


def test_another_kind_is_refused() -> None:
    with pytest.raises(Fault, match="kind"):
        Manifest.parse(MANIFEST.dump(), kind="snapshot")


def test_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMAT", 2)
    data = MANIFEST.dump()
    monkeypatch.setattr(module, "FORMAT", 1)
    with pytest.raises(Fault, match="format 2"):
        Manifest.parse(data, kind="segments")
