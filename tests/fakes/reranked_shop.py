"""The ring of products with a snapshot whose re-ranker raises products with many events."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.loading.validation import validate_snapshot
from actors.models.reranker import ProductFacts, Reranker
from actors.models.tree_ensemble import TreeArrays, TreeEnsemble
from actors.vectors.snapshot_arrays import ModelState
from jobs.refresh.build.fit import TrainedEngine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import Interactions
from tests.fakes.trained_snapshot import ring_data

RAISED = 3.0
CANDIDATES = 10


def raise_frequent(
    engine: TrainedEngine, candidates: int = CANDIDATES, data: Interactions | None = None
) -> Reranker:
    """Return a tree that raises products with more events than the median; without data, those of the ring."""
    data = ring_data() if data is None else data
    products = ProductFacts.count(data.item, data.at_s, data.n_items)
    parts = tuple(part.name for part in engine.blend.parts)
    arrays = TreeArrays(
        starts=np.array([0, 1]),
        leaf_starts=np.array([0, 2]),
        features=np.array([len(parts) + 1]),
        thresholds=np.array([float(np.median(products.events))]),
        missing_left=np.array([True]),
        left_leaves=np.array([1], np.uint16),
        leaves=np.array([-1.0, RAISED - 1.0]),
    )
    return Reranker(TreeEnsemble(arrays), parts, products, candidates)


def load(folder: Path, engine: TrainedEngine, extras: dict[str, ModelState]) -> LoadedSnapshot:
    """Write a snapshot with extras and load it."""
    manifest = write_model_snapshot(engine, folder, written_at_ms=1, extras=extras)
    return validate_snapshot(Snapshot.open(folder), str(manifest.facts["version"]))
