"""A run that trains a transformer: it shows the epochs, continues after a kill, and ends with the same version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from actors.models.loading.snapshot import Snapshot
from actors.models.loading.validation import validate_snapshot
from actors.vectors.snapshot_arrays import ModelState
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Invalid
from cluster.records.run import Run
from jobs.refresh.learners import protocol
from jobs.refresh.learners import transformer as transformer_module
from jobs.refresh.recipe import load_recipe_file, parse_recipe
from jobs.refresh.runs.checkpoint import CheckpointStore
from jobs.refresh.runs.estimate import estimate_from_size
from jobs.refresh.runs.run_attempt import RunAttempt, TrainingContext
from jobs.refresh.runs.workload import DataSize
from tests.fakes import generated_market
from tests.fakes.run_stages import run_stages

RECIPE = {
    "name": "small",
    "parts": {
        "transformer": {
            "learner": "transformer", "dimensions": 16, "events": 10, "batch_events": 500, "epochs": 3,
        },
        "trend": {"learner": "popularity"},
    },
    "blend": {"weights": "auto", "start": {"transformer": 1.0}},
    "validation": {"protocol": "leave_last_out", "folds": 1},
    "completions": None,
    "search": None,
}  # fmt: skip


class Killed(Exception):
    """The process ended."""


class Attempt:
    """One attempt at a run, which is killed after some epochs."""

    def __init__(self, bench: TrainingContext, epochs: int | None = None) -> None:
        self.epochs: list[str] = []
        self._most = epochs
        run = Run(app_id=generated_market.APP, engine_id="default", run_id="one", recipe=RECIPE, created_at=5)
        self.attempt = RunAttempt(run, bench, self._say)

    def run(self) -> str:
        return str(run_stages(self.attempt)["version"])

    def _say(self, what: str, share: float) -> None:
        if ": epoch" in what:
            self.epochs.append(what)
            if self._most is not None and len(self.epochs) > self._most:
                raise Killed


def bench_in(folder: Path) -> TrainingContext:
    artifacts = ArtifactStore.open(folder / "shelf")
    segments = SegmentStore(artifacts)
    generated_market.settle(segments, generated_market.table(1_500, 100, 40))
    return TrainingContext(artifacts, segments, folder / "scratch", "release")


def test_a_run_that_is_killed_twice_ends_with_the_version_of_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax")
    monkeypatch.setattr(transformer_module, "_STORE_INTERVAL_S", 0.0)
    undisturbed = Attempt(bench_in(tmp_path / "a"))
    version = undisturbed.run()
    assert len(undisturbed.epochs) == 9  # on validation, for the evaluation, and on all data
    assert undisturbed.epochs[0].startswith("train transformer for validation: epoch 1, NDCG ")
    bench = bench_in(tmp_path / "b")
    for epochs in (2, 3):
        with pytest.raises(Killed):
            Attempt(bench, epochs).run()
    last = Attempt(bench)
    assert last.run() == version
    assert len(last.epochs) == 9 - 2 - 3
    folder, _ = SnapshotStore(bench.artifacts).fetch(generated_market.APP, "default", version)
    learned = validate_snapshot(Snapshot.open(folder), version)
    assert "transformer" in [part.name for part in learned.blend.parts]
    assert len(learned.snapshot.manifest.facts["parts"][0]["facts"]["training"]["curve"]) == 3
    last.attempt.clean_up()
    assert not CheckpointStore(bench.artifacts, generated_market.APP, "one").clear()


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    checkpoints = CheckpointStore(artifacts, "shop", "one")
    assert checkpoints.get_state("long") is None
    state = ModelState({"a/b": np.arange(3), "c": np.ones((2, 2), np.float32)}, {"epoch": 2})
    checkpoints.put_state("long", state)
    again = checkpoints.get_state("long")
    assert again is not None
    assert again.facts == state.facts
    for name, array in state.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
    artifacts.write("runs/shop/one/long.npz", b"damaged")
    assert checkpoints.get_state("long") is None


def test_a_run_without_jax_fails_before_it_reads_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "find_spec", lambda name: None)
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    bench = TrainingContext(artifacts, SegmentStore(artifacts), tmp_path / "scratch", "release")
    with pytest.raises(Invalid, match=r"kiosk\[sequence\]"):
        Attempt(bench).run()


def test_the_estimate_counts_the_transformer() -> None:
    size = DataSize(1_000_000, 100_000, 20_000)
    deep, default = (estimate_from_size(load_recipe_file(name), size) for name in ("deep", "default"))
    assert deep.seconds > default.seconds
    assert deep.memory < 6 << 30
    assert "transformer" in [cost.part for cost in deep.costs]
    large = estimate_from_size(load_recipe_file("deep"), DataSize(1_000_000, 100_000, 1_000_000))
    (part,) = (cost for cost in large.costs if cost.part == "transformer")
    assert part.memory < 4 << 30
    assert part.seconds < 1.3 * sum(cost.seconds for cost in deep.costs if cost.part == "transformer")
    parse_recipe(RECIPE)
