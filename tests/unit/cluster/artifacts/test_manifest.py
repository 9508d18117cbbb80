"""A manifest: what was written comes back, and no damage passes."""

from __future__ import annotations

from dataclasses import replace

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


def test_fields_of_a_newer_release_are_kept_at_both_levels() -> None:
    newer = replace(
        MANIFEST,
        unknown={"codec": "zstd"},
        files=(replace(MANIFEST.files[0], unknown={"bloom": [1, 2]}),),
    )
    parsed = Manifest.parse(newer.dump(), kind="segments")
    assert parsed == newer
    following = Manifest.parse(replace(parsed, sequence=13).dump(), kind="segments")
    assert (following.unknown, following.files[0].unknown) == ({"codec": "zstd"}, {"bloom": [1, 2]})


def test_a_field_of_a_newer_release_can_not_replace_ours() -> None:
    sly = replace(MANIFEST, unknown={"format": 7, "kind": "snapshot"})
    assert Manifest.parse(sly.dump(), kind="segments") == MANIFEST
