from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cluster.artifacts.erasure_log import ErasureLog
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.artifacts.storage.node_cache import NodeCache
from cluster.errors import Conflict, Fault, NotFound, Unavailable
from cluster.store.stores import Stores
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.data.dataset import interactions_from_segments
from jobs.refresh.evaluation.evaluate import EvaluationResult
from jobs.refresh.evaluation.gate import POPULARITY, SERVING, check_gate, check_reranker
from jobs.refresh.evaluation.report_models import EvaluationReport
from jobs.refresh.evaluation.report_store import ReportStore
from jobs.refresh.evaluation.reports import report_comparison, report_evaluation
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.promotion import is_compared, promote_version, roll_back_version
from tests.fakes import generated_market
from tests.fakes.bucket import Bucket
from tests.fakes.newest_plan import plan_on_newest
from tests.fakes.stores.memory import memory_stores

APP, ENGINE = generated_market.APP, "default"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three snapshots by version, as folders."""
    data = interactions_from_segments(generated_market.table(600, 60, 30, topics=3))
    folders = {}
    for seed in (1, 2, 3):
        recipe = load_recipe_file("fast").with_changes({"seed": seed})
        folder = tmp_path_factory.mktemp("built") / "snapshot"
        manifest = write_model_snapshot(
            train_engine(plan_on_newest(recipe, data).recipe, data), folder, written_at_ms=seed
        )
        folders[str(manifest.facts["version"])] = folder
    return folders


@pytest.fixture
async def stores() -> Stores:
    stores = memory_stores()
    await generated_market.open_market(stores)
    return stores


@pytest.fixture
def artifacts(tmp_path: Path, built: dict[str, Path]) -> ArtifactStore:
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    for folder in built.values():
        SnapshotStore(artifacts).publish(APP, ENGINE, folder)
    return artifacts


def examination(values: list[float]) -> EvaluationResult:
    figures = {"ndcg@10": np.array(values)}
    shown = np.ones(4, np.bool_)
    return EvaluationResult("by time", 10, figures, np.arange(len(values)), shown, 4)


def a_report(
    change: float, against: str = SERVING, version: str = "old", users: int = 200
) -> EvaluationReport:
    rng = np.random.default_rng(1)
    before = rng.random(users) * 0.5
    ours, other = examination((before + change).tolist()), examination(before.tolist())
    report = report_evaluation(ours, rng)
    beside = {against: report_comparison(other, ours, "ndcg@10", rng, version=version)}
    return report.model_copy(update={"beside": beside})


async def serving(stores: Stores) -> str:
    engine = await stores.engines.get(APP, ENGINE)
    assert engine is not None
    return engine.snapshot


def test_only_what_is_certainly_worse_is_refused() -> None:
    assert not check_gate(a_report(-0.05)).allowed
    assert "certainly worse" in check_gate(a_report(-0.05)).sentence
    assert check_gate(a_report(0.05)).sentence.startswith("certainly better")
    assert check_gate(a_report(0.0)).sentence.startswith("not certainly worse")
    assert not check_gate(a_report(-0.05, POPULARITY)).allowed
    assert check_gate(EvaluationReport()).allowed


def test_what_serves_decides_before_popularity() -> None:
    worse, better = a_report(-0.05, SERVING), a_report(0.05, POPULARITY)
    assert not check_gate(EvaluationReport(beside={**better.beside, **worse.beside})).allowed


@pytest.mark.parametrize("change", [-0.05, 0.05])
def test_few_users_make_no_verdict_certain(change: float) -> None:
    decision = check_gate(a_report(change, users=29))
    assert decision.allowed
    assert decision.sentence.startswith("too few users to be certain, 30 are necessary: ndcg@10")
    assert "29 users" in decision.sentence
    assert check_gate(a_report(change, users=30)).allowed == (change > 0)


def test_sessions_of_one_person_are_one_user_of_the_gate() -> None:
    rng = np.random.default_rng(1)
    before = rng.random(60)
    ours, other = (
        replace(examination(values.tolist()), people=np.zeros(60, np.int64))
        for values in (before - 0.05, before)
    )
    comparison = report_comparison(other, ours, "ndcg@10", rng)
    assert (comparison.users, comparison.high < 0) == (1, True)
    assert check_gate(EvaluationReport(beside={SERVING: comparison})).allowed


@pytest.mark.parametrize(
    ("people", "users", "allowed", "sentence"),
    [
        (30, 30, False, "certainly worse for later interactions"),
        (30, 29, True, "certainly better"),
        (29, 30, False, "too few people to be certain, 30 are necessary"),
    ],
)
def test_few_people_decide_nothing_about_a_reranker(
    people: int, users: int, allowed: bool, sentence: str
) -> None:
    later = {"before": 0.2, "after": 0.3, "low": 0.1, "high": 0.1, "lists": 500, "people": people}
    interactions = a_report(-0.05, users=users).beside[SERVING].to_dict()
    decision = check_reranker({"later_days": later, "interactions": interactions})
    assert (decision.allowed, decision.sentence[: len(sentence)]) == (allowed, sentence)


async def test_a_worse_snapshot_is_refused_unless_somebody_gives_a_reason(
    stores: Stores, artifacts: ArtifactStore, built: dict[str, Path]
) -> None:
    first, other, _ = built
    await promote_version(stores, artifacts, APP, ENGINE, first, now_ms=1, by="ada")
    ReportStore(artifacts).put(
        APP, ENGINE, other, a_report(-0.05, version=first).model_copy(update={"run_id": "r7"})
    )
    with pytest.raises(Conflict, match=r"was not promoted, it is certainly worse.*--force"):
        await promote_version(stores, artifacts, APP, ENGINE, other, now_ms=2, by="ada")
    assert await serving(stores) == first
    entry = await promote_version(
        stores, artifacts, APP, ENGINE, other, now_ms=3, by="ada", force="autumn range"
    )
    assert (entry.forced, entry.reason, entry.run_id, entry.before) == (True, "autumn range", "r7", first)
    assert await serving(stores) == other
    history = await stores.promotions.history(APP, ENGINE)
    assert [(change.version, change.forced) for change in history] == [(other, True), (first, False)]


async def test_the_reason_for_serving_what_erased_people_taught_is_in_the_history(
    stores: Stores, artifacts: ArtifactStore, built: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    version = next(iter(built))
    monkeypatch.setattr(SegmentStore, "erasures", lambda self, app_id: ErasureLog(1))
    with pytest.raises(Conflict, match="people who were erased since"):
        await promote_version(stores, artifacts, APP, ENGINE, version, now_ms=1, by="ada")
    entry = await promote_version(
        stores, artifacts, APP, ENGINE, version, now_ms=2, by="ada", force="retrained tonight"
    )
    assert (entry.forced, entry.reason) == (True, "retrained tonight")


async def test_what_is_not_there_or_serves_already_is_not_promoted(
    stores: Stores, artifacts: ArtifactStore, built: dict[str, Path]
) -> None:
    first = next(iter(built))
    with pytest.raises(NotFound, match="has no snapshot nope"):
        await promote_version(stores, artifacts, APP, ENGINE, "nope", now_ms=1, by="")
    with pytest.raises(NotFound, match="has no engine gone"):
        await promote_version(stores, artifacts, APP, "gone", first, now_ms=1, by="")
    await promote_version(stores, artifacts, APP, ENGINE, first, now_ms=1, by="")
    with pytest.raises(Conflict, match=r"serves .* already"):
        await promote_version(stores, artifacts, APP, ENGINE, first, now_ms=1, by="")


async def test_rolling_back_goes_back_step_by_step(
    stores: Stores, artifacts: ArtifactStore, built: dict[str, Path]
) -> None:
    first, other, third = built
    for at, version in enumerate((first, other, third)):
        await promote_version(stores, artifacts, APP, ENGINE, version, now_ms=at, by="")
    entry = await roll_back_version(stores, artifacts, APP, ENGINE, now_ms=5, by="ada")
    assert (entry.version, entry.before, entry.kind) == (other, third, "rolled_back")
    assert (await roll_back_version(stores, artifacts, APP, ENGINE, now_ms=6, by="ada")).version == first
    assert (await roll_back_version(stores, artifacts, APP, ENGINE, now_ms=7, by="ada")).version == ""
    with pytest.raises(Conflict, match="nothing to go back to"):
        await roll_back_version(stores, artifacts, APP, ENGINE, now_ms=8, by="ada")
    assert (
        await roll_back_version(stores, artifacts, APP, ENGINE, now_ms=9, by="ada", to=third)
    ).version == third
    assert len(await stores.promotions.history(APP, ENGINE)) == 7


async def test_what_is_gone_from_the_shelf_is_passed_over(
    stores: Stores, artifacts: ArtifactStore, built: dict[str, Path]
) -> None:
    first, other, third = built
    for at, version in enumerate((first, other, third)):
        await promote_version(stores, artifacts, APP, ENGINE, version, now_ms=at, by="")
    SnapshotStore(artifacts).remove(APP, ENGINE, other)
    assert (await roll_back_version(stores, artifacts, APP, ENGINE, now_ms=5, by="")).version == first
    with pytest.raises(NotFound, match="no snapshot"):
        await roll_back_version(stores, artifacts, APP, ENGINE, now_ms=6, by="", to=other)


def test_a_comparison_counts_as_long_as_the_same_serves() -> None:
    assert is_compared(a_report(0.1, version="v1"), "v1")
    assert not is_compared(a_report(0.1, version="v1"), "v2")
    assert not is_compared(None, "v1")
    assert is_compared(a_report(0.1, POPULARITY), "")


def test_published_twice_is_published_once(artifacts: ArtifactStore, built: dict[str, Path]) -> None:
    snapshots = SnapshotStore(artifacts)
    before = snapshots.versions(APP, ENGINE)
    for folder in built.values():
        snapshots.publish(APP, ENGINE, folder)
    assert snapshots.versions(APP, ENGINE) == before
    assert {first.version for first in before} == set(built)


def test_a_version_is_resolved_by_its_prefix(artifacts: ArtifactStore, built: dict[str, Path]) -> None:
    snapshots = SnapshotStore(artifacts)
    for folder in built.values():
        snapshots.publish(APP, ENGINE, folder)
    for version in built:
        assert snapshots.find_version(APP, ENGINE, version) == version
        assert snapshots.find_version(APP, ENGINE, version[:12]) == version
    with pytest.raises(Conflict, match="snapshots begin with"):
        snapshots.find_version(APP, ENGINE, "")
    with pytest.raises(NotFound, match="has no snapshot nothing"):
        snapshots.find_version(APP, ENGINE, "nothing")


def test_a_folder_that_was_damaged_is_not_published(tmp_path: Path, built: dict[str, Path]) -> None:
    import shutil

    version, folder = next(iter(built.items()))
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    victim = next(copy.rglob("*.npy"))
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(bytes(data))
    snapshots = SnapshotStore(ArtifactStore.open(tmp_path / "shelf"))
    with pytest.raises(Fault, match="built snapshot is damaged"):
        snapshots.publish(APP, ENGINE, copy)
    assert not snapshots.has(APP, ENGINE, version)


def in_bucket(folder: Path, bucket: Bucket) -> SnapshotStore:
    cache = NodeCache(folder / "cache", 1 << 30, reserve_bytes=0)
    return SnapshotStore(
        ArtifactStore(bucket.filesystem(), "kiosk", local=False, cache=cache, sleep=lambda _: None)
    )


def test_from_an_object_store_a_version_is_fetched_once_and_whole(
    tmp_path: Path, built: dict[str, Path]
) -> None:
    bucket = Bucket()
    snapshots = in_bucket(tmp_path, bucket)
    version, folder = next(iter(built.items()))
    assert snapshots.publish(APP, ENGINE, folder) == version
    reads: list[str] = []
    bucket.fault = lambda verb, path: reads.append(path) if verb == "read" else None
    place, _ = snapshots.fetch(APP, ENGINE, version)
    assert place.parent == tmp_path / "cache"
    first = len(reads)
    assert snapshots.fetch(APP, ENGINE, version)[0] == place
    assert len(reads) == first + 1  # the manifest alone
    with pytest.raises(NotFound, match="has no snapshot"):
        snapshots.fetch(APP, ENGINE, "0" * 16)


def test_a_failure_to_store_a_version_is_reported(tmp_path: Path, built: dict[str, Path]) -> None:
    snapshots = in_bucket(tmp_path, Bucket())
    version, folder = next(iter(built.items()))
    snapshots.publish(APP, ENGINE, folder)
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(Unavailable, match="can't be kept here"):
        snapshots.fetch(APP, ENGINE, version)


def test_old_versions_go_and_those_to_keep_stay(artifacts: ArtifactStore, built: dict[str, Path]) -> None:
    snapshots = SnapshotStore(artifacts)
    oldest, *_ = snapshots.versions(APP, ENGINE)
    artifacts.write(f"snapshots/{APP}/{ENGINE}/unfinished/x.npy", b"x")
    gone = snapshots.tidy(APP, ENGINE, keep=[oldest.version], newest=1, older_than_ms=2**62)
    assert len(gone) == 1
    left = [first.version for first in snapshots.versions(APP, ENGINE)]
    assert len(left) == 2
    assert oldest.version in left
    assert not any("unfinished" in entry.path for entry in artifacts.entries("snapshots"))


async def test_what_learned_with_shipped_code_is_not_promoted_without_a_reason(
    stores: Stores, tmp_path: Path
) -> None:
    """The processes that serve can't import that code: the engine would go on with what it served before."""
    data = interactions_from_segments(generated_market.table(600, 60, 30, topics=3))
    engine = train_engine(plan_on_newest(load_recipe_file("fast"), data).recipe, data)
    manifest = write_model_snapshot(
        engine, tmp_path / "one", written_at_ms=1, origin=SnapshotOrigin(code="a" * 64)
    )
    artifacts, version = ArtifactStore.open(tmp_path / "shelf"), str(manifest.facts["version"])
    SnapshotStore(artifacts).publish(APP, ENGINE, tmp_path / "one")
    with pytest.raises(Conflict, match=r"--working-dir shipped .* train again without --working-dir"):
        await promote_version(stores, artifacts, APP, ENGINE, version, now_ms=1, by="a test")
    assert await serving(stores) == ""
    entry = await promote_version(
        stores, artifacts, APP, ENGINE, version, now_ms=1, by="a test", force="it is installed"
    )
    assert (entry.forced, entry.reason) == (True, "it is installed")
