"""All engines of an app share one text index: each replica takes it from the same snapshot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import permutations

import pytest

from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.serving_model import ServingModel
from actors.retrieval.snapshot_format import SEARCH, save
from actors.serving import model_registry
from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.ids import VERSION_MARK
from cluster.meter import SilentMeter
from cluster.records.engine import Engine
from cluster.store.stores import Stores
from jobs.refresh.build.model_snapshot import write_model_snapshot
from tests.fakes.corner_shop import APP, NOW_MS, upload
from tests.fakes.stores.memory import memory_stores
from tests.fakes.trained_snapshot import open_ring_shop, ring_engine, ring_products
from tests.suites.waiting import until

ENGINES = ("alder", "birch", "default")


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> SnapshotLoader:
    return SnapshotLoader(SnapshotStore(ArtifactStore.open(tmp_path_factory.mktemp("shelf"))))


@pytest.fixture(scope="module")
def versions(loader: SnapshotLoader, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A version for each engine, with an index of texts."""
    published = {}
    for seed, engine_id in enumerate(ENGINES, 6):
        folder = tmp_path_factory.mktemp(engine_id) / "snapshot"
        extras = {SEARCH: save(ring_products(), learn_from=0)}
        write_model_snapshot(ring_engine(seed), folder, written_at_ms=5, extras=extras)
        published[engine_id] = loader._snapshots.publish(APP, engine_id, folder)
    return published


def _models(loader: SnapshotLoader, versions: dict[str, str]) -> dict[str, LoadedSnapshot]:
    return {engine_id: loader.load(APP, engine_id, version) for engine_id, version in versions.items()}


def _adopt(models: dict[str, LoadedSnapshot], *engine_ids: str) -> Recommender:
    shop = open_ring_shop(offset=f"{NOW_MS}-0")
    for engine_id in engine_ids:
        learned = models[engine_id.partition(VERSION_MARK)[0]]
        shop.set_serving_model(engine_id, ServingModel(learned, shop.overlay.catalog.product_ids))
    return shop


def test_the_order_in_which_snapshots_are_adopted_does_not_choose_the_text_index(
    loader: SnapshotLoader, versions: dict[str, str]
) -> None:
    models = _models(loader, versions)
    for order in permutations(("birch", "alder", f"alder{VERSION_MARK}1", f"default{VERSION_MARK}1")):
        assert _adopt(models, *order).overlay.texts.version == versions["alder"]
    for order in permutations(ENGINES):
        assert _adopt(models, *order).overlay.texts.version == versions["default"]


def test_an_engine_that_lost_its_snapshot_holds_the_text_index_no_longer(
    loader: SnapshotLoader, versions: dict[str, str]
) -> None:
    models = _models(loader, versions)
    for engine_id in ("alder", "default"):
        shop = _adopt(models, engine_id)
        shop.set_serving_model(engine_id, None)
        assert shop.text_engine == ""
        shop.set_serving_model("birch", ServingModel(models["birch"], shop.overlay.catalog.product_ids))
        assert shop.overlay.texts.version == versions["birch"]


@pytest.fixture
async def stores() -> Stores:
    stores = memory_stores(SystemClock())
    await upload(stores, ring_products())
    return stores


@pytest.fixture
async def hosts(
    stores: Stores, loader: SnapshotLoader, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[EngineHost]]:
    monkeypatch.setattr(model_registry, "LOOK_S", 0.02)
    hosts = [EngineHost(stores, None, SystemClock(), SilentMeter(), models=loader) for _ in range(3)]
    yield hosts
    for host in hosts:
        await host.close()


async def _ask(host: EngineHost, engine_id: str) -> None:
    answer = await host.answer(UserQuery("user_to_trending", APP, engine_id, rows=1))
    assert isinstance(answer, RecommendationResult), answer


def _texts(hosts: list[EngineHost]) -> set[str]:
    return {follower.recommender.overlay.texts.version for host in hosts for _, follower in host.loaded}


async def test_replicas_whose_requests_name_different_engines_share_one_text_index(
    stores: Stores, hosts: list[EngineHost], versions: dict[str, str]
) -> None:
    for engine_id in ENGINES[:2]:
        engine = Engine(app_id=APP, engine_id=engine_id, snapshot=versions[engine_id])
        await stores.engines.put(engine)
    for host, engine_id in zip(hosts, ("birch", "alder", "default"), strict=True):
        await _ask(host, engine_id)
    assert _texts(hosts) == {versions["alder"]}
    # the default engine takes over wherever it is promoted
    await stores.engines.put(Engine(app_id=APP, engine_id="default", snapshot=versions["default"]))
    await until(lambda: _texts(hosts) == {versions["default"]})


async def test_a_replica_forgets_an_engine_that_was_deleted(
    stores: Stores, hosts: list[EngineHost], versions: dict[str, str]
) -> None:
    await stores.engines.put(Engine(app_id=APP, engine_id="alder", snapshot=versions["alder"]))
    await _ask(hosts[0], "default")
    [(_, follower)] = hosts[0].loaded
    assert follower.recommender.text_engine == "alder"
    await stores.engines.remove(APP, "alder")
    await until(lambda: follower.recommender.text_engine == "")
    assert follower.serving_version("alder") == ""
    assert not follower.is_as_loaded  # so it is renewed
    await stores.engines.put(Engine(app_id=APP, engine_id="birch", snapshot=versions["birch"]))
    await until(lambda: _texts(hosts[:1]) == {versions["birch"]})
