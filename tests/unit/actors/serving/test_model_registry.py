"""Snapshots change under a host that answers: adopted, refused, gone back to."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.serving import app_follower as follower_module
from actors.serving import model_registry as champions_module
from actors.serving.host import EngineHost
from actors.serving.model_registry import MOST_PINNED, ModelRegistry, SnapshotLoader
from cluster.artifacts.file_verification import sha256_of_file
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Fault, NotFound
from cluster.ids import VERSION_MARK
from cluster.meter import SilentMeter
from cluster.records.engine import Engine
from cluster.records.interaction import RecentEvent
from cluster.store.refreshing_cache import EngineRecordsCache
from cluster.store.stores import Stores
from tests.fakes.corner_shop import APP, NOW_MS, product_change, upload
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import build_ring_snapshot, name, publish_ring_snapshot, ring_products
from tests.suites.manual_clock import ManualClock
from tests.suites.snapshot_damage import damaged_loads, folder_of
from tests.suites.waiting import until

QUERY = UserQuery(
    "user_to_products",
    APP,
    "default",
    rows=3,
    simulated=(RecentEvent("click", (name(7),), NOW_MS), RecentEvent("click", (name(6),), NOW_MS - 60_000)),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A folder of artifacts with two versions of one engine."""
    root = tmp_path_factory.mktemp("shelf")
    snapshots = SnapshotStore(ArtifactStore.open(root / "shelf"))
    first = publish_ring_snapshot(snapshots, root / "one", APP, seed=6)
    second = publish_ring_snapshot(snapshots, root / "two", APP, seed=7)
    return root / "shelf", first, second


@pytest.fixture
def artifact_folder(trained: tuple[Path, str, str], tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    shutil.copytree(trained[0], tmp_path / "shelf")
    return tmp_path / "shelf"


@pytest.fixture
def models(artifact_folder: Path, tmp_path: Path) -> SnapshotLoader:
    return SnapshotLoader(SnapshotStore(ArtifactStore.open(artifact_folder)))


@pytest.fixture
def stores() -> Stores:
    return memory_stores(SystemClock())


class Refusals(SilentMeter):
    """Counts snapshots that were refused."""

    def __init__(self) -> None:
        self.refused = 0.0
        self.alarms: dict[str, float] = {}
        "Engine -> value of the gauge."

    def gauge(self, name: str, value: float, **tags: str) -> None:
        if name == "kiosk_snapshot_refused":
            self.alarms[tags["engine"]] = value

    def remove_gauge(self, name: str, **tags: str) -> None:
        if name == "kiosk_snapshot_refused":
            self.alarms.pop(tags["engine"], None)

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        if name == "kiosk_snapshots_refused_total":
            self.refused += by


@pytest.fixture
def meter() -> Refusals:
    return Refusals()


@pytest.fixture
async def host(
    stores: Stores, models: SnapshotLoader, meter: Refusals, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EngineHost]:
    monkeypatch.setattr(champions_module, "LOOK_S", 0.02)
    await upload(stores, ring_products())
    host = EngineHost(stores, None, SystemClock(), meter, models=models)
    yield host
    await host.close()


async def serve(stores: Stores, version: str, engine_id: str = "default") -> None:
    """Point an engine to a version, as promoting does."""
    engine = await stores.engines.get(APP, engine_id) or Engine(app_id=APP, engine_id=engine_id)
    await stores.engines.put(engine.model_copy(update={"snapshot": version}))


async def answered(host: EngineHost, query: UserQuery = QUERY) -> RecommendationResult:
    result = await host.answer(query)
    assert isinstance(result, RecommendationResult), result
    return result


async def first_of(host: EngineHost, query: UserQuery = QUERY) -> str:
    product_id: str = (await answered(host, query)).products[0]["product_id"]
    return product_id


async def list_ids(host: EngineHost, query: UserQuery) -> list[str]:
    return [product["product_id"] for product in (await answered(host, query)).products]


async def serving(host: EngineHost, engine_id: str = "default") -> str:
    return (await host._followers.get(APP)).serving_version(engine_id)


# --- what serves ------------------------------------------------------------------------------------------------------


async def test_the_first_answer_comes_from_the_snapshot_that_serves(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str]
) -> None:
    await serve(stores, trained[1])
    assert await first_of(host) == name(8)
    assert await serving(host) == trained[1]


async def test_a_promotion_and_its_way_back_need_no_restart(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str]
) -> None:
    assert await first_of(host) != name(8)
    for version in (trained[1], trained[2], trained[1], ""):
        await serve(stores, version)

        async def done(version: str = version) -> bool:
            await answered(host)
            return await serving(host) == version

        await until(done)
        assert (await first_of(host) == name(8)) is bool(version)


async def test_each_engine_of_an_app_follows_its_record(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str]
) -> None:
    await serve(stores, trained[1])
    await serve(stores, "", "plain")
    assert await first_of(host) == name(8)
    assert await first_of(host, replace(QUERY, engine_id="plain")) != name(8)


@pytest.mark.parametrize("is_requested", [False, True], ids=["the serving version", "a requested version"])
async def test_a_snapshot_stays_when_the_app_is_loaded_anew(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str], is_requested: bool
) -> None:
    await serve(stores, "" if is_requested else trained[1])
    query = replace(QUERY, snapshot=trained[1]) if is_requested else QUERY
    await answered(host, query)
    follower = await host._followers.get(APP)
    follower._recommender = await follower._load()
    assert await first_of(host, query) == name(8)


async def test_a_requested_version_answers_beside_the_serving_version(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str]
) -> None:
    await serve(stores, "")
    plain = await first_of(host)
    assert plain != name(8)
    assert await first_of(host, replace(QUERY, snapshot=trained[1])) == name(8)
    assert (await first_of(host), await serving(host)) == (plain, "")
    await serve(stores, trained[2])
    assert await first_of(host, replace(QUERY, snapshot=trained[1])) == name(8)


async def test_a_version_is_loaded_in_the_background_and_counts_in_the_memory(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str]
) -> None:
    await serve(stores, trained[1])
    await answered(host)
    follower = await host._followers.get(APP)
    before, registry = follower.nbytes, follower.model_registry
    assert registry.find_loaded("default", "") == "default"
    assert registry.find_loaded("default", trained[1]) == "default"
    assert registry.find_loaded("default", trained[2]) is None
    await until(lambda: registry.find_loaded("default", trained[2]) is not None)
    assert follower.nbytes > before
    name_of_second = registry.find_loaded("default", trained[2])
    assert name_of_second is not None
    assert follower.serving_version(name_of_second) == trained[2]
    assert registry.find_loaded("plain", "") is None
    await until(lambda: registry.find_loaded("plain", "") == "plain")


async def test_a_version_that_was_refused_is_not_loaded_for_each_query(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str], meter: Refusals
) -> None:
    await serve(stores, trained[1])
    await answered(host)
    registry = (await host._followers.get(APP)).model_registry
    assert registry.find_loaded("default", "nothing") is None
    await until(lambda: meter.refused == 1)
    for _ in range(10):
        assert registry.find_loaded("default", "nothing") is None
        await asyncio.sleep(0)
    assert meter.refused == 1
    assert await first_of(host) == name(8)


async def test_who_asks_for_a_version_that_is_not_there_gets_what_serves(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str], meter: Refusals
) -> None:
    await serve(stores, trained[1])
    for _ in range(3):
        assert await first_of(host, replace(QUERY, snapshot="nothing")) == name(8)
    assert meter.refused == 1


# --- what is refused --------------------------------------------------------------------------------------------------


async def test_a_damaged_snapshot_is_refused_and_the_one_that_serves_goes_on(
    host: EngineHost, stores: Stores, artifact_folder: Path, trained: tuple[Path, str, str], meter: Refusals
) -> None:
    _, good, bad = trained
    await serve(stores, good)
    assert await first_of(host) == name(8)
    weights = folder_of(artifact_folder, bad) / "rules" / "weights.npy"
    weights.write_bytes(weights.read_bytes()[:-3])
    await serve(stores, bad)

    async def refused() -> bool:
        await answered(host)
        return meter.refused > 0

    await until(refused)
    assert await first_of(host) == name(8)
    assert await serving(host) == good
    assert meter.refused == 1, "it is not tried again and again"
    assert meter.alarms == {"default": 1}
    await serve(stores, good)  # what serves anyway, so nothing is loaded

    async def alarm_ended() -> bool:
        await answered(host)
        return meter.alarms == {"default": 0}

    await until(alarm_ended)
    await host.close()
    assert meter.alarms == {}, "no gauge outlives what it measured"


async def test_the_alarm_of_an_engine_ends_with_the_engine(
    host: EngineHost, stores: Stores, meter: Refusals
) -> None:
    await serve(stores, "0123456789abcdef")
    await answered(host)
    assert meter.alarms == {"default": 1}
    await stores.engines.remove(APP, "default")

    async def alarm_ended() -> bool:
        return meter.alarms == {"default": 0}

    await until(alarm_ended)


async def test_a_version_that_is_not_there_is_refused_and_the_live_parts_serve(
    host: EngineHost, stores: Stores, meter: Refusals
) -> None:
    await serve(stores, "0123456789abcdef")
    assert (await answered(host)).products
    assert meter.refused == 1


def test_a_version_under_another_name_is_refused(
    models: SnapshotLoader, artifact_folder: Path, trained: tuple[Path, str, str]
) -> None:
    _, first, second = trained
    shutil.rmtree(folder_of(artifact_folder, first))
    shutil.copytree(folder_of(artifact_folder, second), folder_of(artifact_folder, first))
    with pytest.raises(Fault, match=f"it is version {second}, {first} was asked for"):
        models.load(APP, "default", first)
    with pytest.raises(NotFound):
        models.load(APP, "default", "never")


Damage = Callable[[Path], None]


def _array(path: str, change: Callable[[Any], Any]) -> Damage:
    """Replace an array by another one; the manifest vouches for it, so only its form can tell."""

    def damage(folder: Path) -> None:
        file = folder / path
        np.save(file, change(np.load(file)))
        manifest = Manifest.parse((folder / "manifest.json").read_bytes(), kind="snapshot")
        kept = np.load(file)
        entries = tuple(
            replace(
                entry,
                size=file.stat().st_size,
                sha256=sha256_of_file(file),
                facts={"dtype": str(kept.dtype), "shape": list(kept.shape)},
            )
            if entry.name == path
            else entry
            for entry in manifest.files
        )
        vouch(folder, replace(manifest, files=entries))

    return damage


def vouch(folder: Path, manifest: Manifest) -> None:
    """Write a manifest that fits its files and calls itself as it was called."""
    (folder / "manifest.json").write_bytes(manifest.dump())


@pytest.mark.parametrize(
    "damage",
    [
        _array("rules/weights.npy", lambda array: array.astype(np.float64)),
        _array("rules/weights.npy", lambda array: array[:-1]),
        _array("rules/weights.npy", lambda array: np.where(np.arange(len(array)) == 3, np.nan, array)),
        _array("rules/items.npy", lambda array: array + 25),
        _array("rules/items.npy", lambda array: array.astype(np.float32)),
        _array("rules/starts.npy", lambda array: array[::-1].copy()),
        _array("sessions/item_sessions.npy", lambda array: array - 1),
        _array("trend/scores.npy", lambda array: array.reshape(1, -1)),
        _array("trend/scores.npy", lambda array: -array),
    ],
    ids=["dtype", "short", "nan", "out of range", "no index", "backwards", "negative", "shape", "below 0"],
)
def test_arrays_of_another_form_are_refused_even_when_the_manifest_vouches_for_them(
    models: SnapshotLoader,
    artifact_folder: Path,
    trained: tuple[Path, str, str],
    damage: Damage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version = trained[1]
    damage(folder_of(artifact_folder, version))
    with pytest.raises(Fault, match="its version does not fit its contents"):
        models.load(APP, "default", version)
    # and without that proof by what the array is
    monkeypatch.setattr("actors.models.loading.validation.version_of", lambda *_: version)
    with pytest.raises(Fault, match=r"snapshot is damaged: (rules|sessions|trend)"):
        models.load(APP, "default", version)


@pytest.mark.parametrize("every", [29])
def test_whatever_is_cut_or_flipped_is_refused(
    models: SnapshotLoader, artifact_folder: Path, trained: tuple[Path, str, str], every: int
) -> None:
    """A part of what the drill does in full."""
    counts = damaged_loads(
        models, folder_of(artifact_folder, trained[1]), trained[1], cuts=10, flips=40, seed=every
    )
    assert counts == {"tried": 50, "refused": 50}


def test_a_snapshot_of_this_test_is_small_enough_to_be_damaged_often(tmp_path: Path) -> None:
    folder, _ = build_ring_snapshot(tmp_path / "s")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 200_000
    assert json.loads((folder / "manifest.json").read_bytes())["manifest"]["kind"] == "snapshot"


class RegistryScene:
    """A registry over real snapshots, and what it lets serve."""

    def __init__(self, stores: Stores, models: SnapshotLoader, meter: SilentMeter | None = None) -> None:
        self.models: dict[str, ServingModel] = {}
        self.clock = ManualClock(NOW_MS)
        self.registry = ModelRegistry(
            APP, EngineRecordsCache(stores.engines, self.clock), models,
            lambda engine_id: self.models[engine_id].version if engine_id in self.models else "",
            lambda _: {}, self._adopt, self.clock, meter or SilentMeter(),
        )  # fmt: skip

    async def _adopt(self, engine_id: str, learned: LoadedSnapshot | None) -> None:
        self.models.pop(engine_id, None)
        if learned is not None:
            self.models[engine_id] = ServingModel(learned, [name(at) for at in range(3)])


async def test_a_version_that_only_an_experiment_named_is_let_go_when_nobody_asks_for_it(
    stores: Stores, models: SnapshotLoader, trained: tuple[Path, str, str]
) -> None:
    _, first, second = trained
    shop = RegistryScene(stores, models)
    registry, loaded, clock = shop.registry, shop.models, shop.clock
    await serve(stores, first)
    await registry.ensure_loaded("default")
    pinned = await registry.hold_version("default", second)
    assert loaded[pinned].version == second
    clock.advance(599_000)
    assert await registry.hold_version("default", second) == pinned
    clock.advance(599_000)
    await registry.refresh()
    assert set(loaded) == {"default", pinned}, "it was asked for meanwhile"
    clock.advance(2_000)
    await registry.refresh()
    assert set(loaded) == {"default"}
    assert await registry.hold_version("default", second) == pinned, "an experiment may begin again"
    assert loaded[pinned].version == second


async def test_an_engine_whose_record_could_not_be_read_is_loaded_by_the_next_request(
    stores: Stores, models: SnapshotLoader, trained: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = RegistryScene(stores, models)
    await serve(stores, trained[1])

    async def fail(*_: object) -> Engine:
        raise Fault("the record is damaged")

    with monkeypatch.context() as patch:
        patch.setattr(EngineRecordsCache, "read_engine", fail)
        with pytest.raises(Fault, match="damaged"):
            await shop.registry.ensure_loaded("default")
    await shop.registry.ensure_loaded("default")
    assert shop.models["default"].version == trained[1]


def load_in_other_rows(recommender: Recommender) -> Recommender:
    """Return the state as a new load may have it: the same products and offsets, other rows, no snapshots."""
    loaded = Recommender(HashingEmbedder())
    loaded.apply(product_change(ring_products()[::-1], recommender.overlay.offsets["product"]))
    return loaded


async def test_a_version_is_bound_again_when_a_renewal_replaces_the_state_meanwhile(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await serve(stores, trained[1])
    query = replace(QUERY, snapshot=trained[2], rows=10)
    expected = await list_ids(host, query)
    follower = await host._followers.get(APP)
    await follower.model_registry._release_version(f"default{VERSION_MARK}{trained[2]}")
    renewed: list[Recommender] = []

    def bind(learned: LoadedSnapshot, product_ids: list[str]) -> ServingModel:
        model = ServingModel(learned, product_ids)
        if not renewed:
            renewed.append(load_in_other_rows(follower.recommender))
            follower._replace(renewed[0])
        return model

    monkeypatch.setattr(follower_module, "ServingModel", bind)
    assert await list_ids(host, query) == expected
    assert follower.recommender is renewed[0]


async def test_a_pinned_version_that_a_new_state_lacks_serves_again(
    host: EngineHost, stores: Stores, trained: tuple[Path, str, str]
) -> None:
    await serve(stores, trained[1])
    query = replace(QUERY, snapshot=trained[2], rows=10)
    expected = await list_ids(host, query)
    follower = await host._followers.get(APP)
    follower._replace(load_in_other_rows(follower.recommender))
    await until(lambda: follower.model_registry.is_version_loaded("default", trained[2]))
    assert await list_ids(host, query) == expected


class SameSnapshot:
    """A loader that has one snapshot under every version."""

    def __init__(self, models: SnapshotLoader, version: str) -> None:
        self._learned = models.load(APP, "default", version)
        self.loads: list[str] = []

    def load(self, app_id: str, engine_id: str, version: str) -> LoadedSnapshot:
        self.loads.append(version)
        snapshot = self._learned.snapshot
        manifest = replace(snapshot.manifest, facts={**snapshot.manifest.facts, "version": version})
        return replace(self._learned, snapshot=replace(snapshot, manifest=manifest))


@pytest.fixture
def same(models: SnapshotLoader, trained: tuple[Path, str, str]) -> SameSnapshot:
    return SameSnapshot(models, trained[1])


async def test_no_more_versions_than_the_bound_are_loaded_and_the_serving_one_answers_instead(
    stores: Stores, same: SameSnapshot, meter: Refusals
) -> None:
    shop = RegistryScene(stores, cast(SnapshotLoader, same), meter)
    versions = [f"v-{at}" for at in range(MOST_PINNED)]
    names = [await shop.registry.hold_version("default", version) for version in versions]
    assert [shop.models[name].version for name in names] == versions
    for _ in range(5):
        assert await shop.registry.hold_version("default", "one-more") == "default"
    assert same.loads == versions
    assert len(shop.models) == MOST_PINNED
    assert meter.refused == 1, "told once, not for each query"
    assert meter.alarms == {}
    assert await shop.registry.hold_version("default", "v-0") == names[0], "versions in use stay"


async def test_a_version_that_nobody_used_lately_makes_room_for_another_one(
    stores: Stores, same: SameSnapshot
) -> None:
    shop = RegistryScene(stores, cast(SnapshotLoader, same))
    names = [await shop.registry.hold_version("default", f"v-{at}") for at in range(MOST_PINNED)]
    shop.clock.advance(31_000)
    for at in range(1, MOST_PINNED):
        await shop.registry.hold_version("default", f"v-{at}")
    pinned = await shop.registry.hold_version("default", "one-more")
    assert shop.models[pinned].version == "one-more"
    assert names[0] not in shop.models
    assert len(shop.models) == MOST_PINNED
    assert await shop.registry.hold_version("default", "v-0") == "default", "all others are in use"


async def test_a_version_that_is_requested_while_another_one_is_released_stays(
    stores: Stores, same: SameSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = RegistryScene(stores, cast(SnapshotLoader, same))
    registry, release = shop.registry, shop.registry._release_version
    names = [await registry.hold_version("default", f"v-{at}") for at in range(MOST_PINNED)]
    shop.clock.advance(601_000)

    async def release_slowly(pinned: str) -> None:
        await release(pinned)
        if pinned == names[0]:
            assert await registry.hold_version("default", "v-1") == names[1]
            assert await registry.hold_version("default", "new") != "default"
            assert await registry.hold_version("default", "newer") != "default", "it takes the place of v-2"

    monkeypatch.setattr(registry, "_release_version", release_slowly)
    await registry.ensure_loaded("default")
    await registry.refresh()
    assert sorted(model.version for model in shop.models.values()) == ["new", "newer", "v-1"]


async def test_an_engine_that_changes_often_displaces_nothing_that_serves(
    stores: Stores, same: SameSnapshot
) -> None:
    shop = RegistryScene(stores, cast(SnapshotLoader, same))
    await serve(stores, "quiet", "other")
    await shop.registry.ensure_loaded("other")
    pinned = await shop.registry.hold_version("other", "held")
    await shop.registry.ensure_loaded("default")
    for at in range(12):
        await serve(stores, f"v-{at}")
        await shop.registry.refresh()
    bound = {engine_id: model.version for engine_id, model in shop.registry.bind_to_catalog([name(0)])}
    assert bound == {"other": "quiet", "default": "v-11", pinned: "held"}
    await serve(stores, "v-10")
    await shop.registry.refresh()
    assert same.loads.count("v-10") == 1, "what served before stays loaded"
