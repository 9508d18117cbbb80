"""Who writes the artifact store or Redis names no code: learner classes come from the installation's own list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.models.loading.allowed_learners import ALLOWED
from actors.models.loading.snapshot import Snapshot, version_of
from actors.models.loading.snapshot_models import build_allowed_learner
from actors.models.loading.validation import validate_snapshot
from actors.serving.model_registry import SnapshotLoader
from actors.vectors.snapshot_arrays import ModelState
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Invalid
from tests.fakes.corner_shop import APP
from tests.fakes.trained_snapshot import build_ring_snapshot


class Quiet:
    """A learner class that says when it is made."""

    made: list[dict[str, Any]] = []  # noqa: RUF012 - a counter for the test

    def __init__(self, **config: Any) -> None:
        Quiet.made.append(config)

    def train(self, data: Any, rng: np.random.Generator) -> Any:
        raise AssertionError

    def load(self, parts: ModelState) -> Any:
        return parts


def crafted(folder: Path, learner: str, config: dict[str, Any]) -> str:
    """Let a snapshot's manifest name another learner for a part; every checksum fits."""
    manifest = Manifest.parse((folder / "manifest.json").read_bytes(), kind="snapshot")
    facts = {**manifest.facts, "recipe": {**manifest.facts["recipe"]}}
    facts["recipe"]["parts"] = {**facts["recipe"]["parts"], "rules": {"learner": learner, "config": config}}
    facts["parts"] = [
        {**kept, "learner": learner} if kept["name"] == "rules" else kept for kept in facts["parts"]
    ]
    facts.pop("version")
    version = version_of(facts, manifest.files)
    following = replace(manifest, facts={**facts, "version": version})
    (folder / "manifest.json").write_bytes(following.dump())
    return version


@pytest.mark.usefixtures("allow_world")
@pytest.mark.parametrize("learner", ["subprocess:run", "subprocess:check_call"])
def test_a_manifest_that_names_a_function_runs_no_command(tmp_path: Path, learner: str) -> None:
    folder, _ = build_ring_snapshot(tmp_path / "s")
    ran = tmp_path / "ran"
    version = crafted(folder, learner, {"args": ["touch", str(ran)]})
    with pytest.raises(Invalid, match=f"not allowed .* kiosk learners allow {learner}"):
        validate_snapshot(Snapshot.open(folder), version)
    assert not ran.exists()


def test_the_same_from_the_shelf_is_refused_by_whoever_serves(tmp_path: Path) -> None:
    folder, _ = build_ring_snapshot(tmp_path / "s")
    version = crafted(folder, "tests.unit.actors.models.loading.test_allowed_learners:Quiet", {"loud": True})
    place = tmp_path / "shelf" / "snapshots" / APP / "default" / version
    place.parent.mkdir(parents=True)
    folder.rename(place)
    with pytest.raises(Invalid, match="not allowed"):
        SnapshotLoader(SnapshotStore(ArtifactStore.open(tmp_path / "shelf"))).load(APP, "default", version)
    assert Quiet.made == []


def test_nothing_is_imported_that_is_not_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loud_learner.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Invalid, match="not allowed"):
        build_allowed_learner("loud_learner:Thing", {})
    assert not (tmp_path / "imported").exists()


@pytest.mark.usefixtures("allow_world")
def test_what_is_no_class_with_the_methods_is_not_called_even_when_it_is_allowed(
    tmp_path: Path, allow_learners: Callable[..., None]
) -> None:
    ran = tmp_path / "ran"
    for learner, config in (
        ("subprocess:run", {"args": ["touch", str(ran)]}),
        ("subprocess:Popen", {"args": ["touch", str(ran)]}),
        ("pathlib:Path.touch", {}),
    ):
        allow_learners(learner)
        with pytest.raises(Invalid, match=f"learner {learner} "):
            build_allowed_learner(learner, config)
    assert not ran.exists()


def test_an_allowed_class_is_made_with_its_config(allow_learners: Callable[..., None]) -> None:
    learner = f"{__name__}:Quiet"
    allow_learners(learner)
    assert type(build_allowed_learner(learner, {"order": 2})).__name__ == "Quiet"


def test_a_recipe_is_refused_before_anything_of_it_is_done(allow_learners: Callable[..., None]) -> None:
    recipe = {"parts": {"mine": {"learner": "shop.markov:Markov"}, "rules": {"learner": "rules"}}}
    with pytest.raises(Invalid, match=r"kiosk learners allow shop\.markov:Markov"):
        ALLOWED.check_recipe(recipe)
    allow_learners("shop.markov:Markov")
    ALLOWED.check_recipe(recipe)
    for odd in ({}, {"parts": None}, {"parts": {"x": 1}}, {"parts": {"x": {"learner": 3}}}):
        ALLOWED.check_recipe(odd)
