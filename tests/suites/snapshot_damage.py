"""Snapshots on a shelf, damaged at random places."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from actors.serving.model_registry import SnapshotLoader
from cluster.errors import KioskError
from tests.fakes.corner_shop import APP


def folder_of(artifacts: Path, version: str) -> Path:
    return artifacts / "snapshots" / APP / "default" / version


def damaged_loads(
    models: SnapshotLoader, folder: Path, version: str, *, cuts: int, flips: int, seed: int
) -> dict[str, int]:
    """Cut files at many places and flip many bits, one damage at a time; count the loads that were refused."""
    rng = np.random.default_rng(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sizes = np.array([path.stat().st_size for path in files], np.float64)
    refused = 0
    for turn in range(cuts + flips):
        # small files are hit as well: half of the damage ignores sizes
        chances = sizes / sizes.sum() if turn % 2 else None
        path = files[int(rng.choice(len(files), p=chances))]
        whole = path.read_bytes()
        if turn < cuts:
            path.write_bytes(whole[: int(rng.integers(0, len(whole)))])
        else:
            hurt = bytearray(whole)
            hurt[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(hurt))
        try:
            models.load(APP, "default", version)
        except KioskError:
            refused += 1
        finally:
            path.write_bytes(whole)
    models.load(APP, "default", version)
    return {"tried": cuts + flips, "refused": refused}
