"""An engine with a deployment of its own on a real Ray: the client suite over its handle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from actors.serving.client import RecommenderClient, RemoteRecommenderClient
from cluster.crypto import create_master_key
from cluster.records.engine import application_name
from cluster.store.connect import open_stores
from cluster.store.stores import Stores
from tests.fakes.corner_shop import APP, furnish
from tests.suites.recommender_client import ClientSuite, ids, query
from tests.suites.redis_process import RedisProcess

# importing and stopping Ray warns of its own affairs
pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisProcess]:
    server = RedisProcess()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kiosk")


@pytest.fixture(scope="module")
def serving(redis: RedisProcess, data_dir: Path) -> Iterator[RemoteRecommenderClient]:
    """Ray, Serve and the shop's engine in a place of its own."""
    import ray
    from ray import serve

    from deployments.hosts.app import build_recommender

    assert not ray.is_initialized()
    environment = {
        "KIOSK_REDIS_URL": redis.url,
        "KIOSK_DATA_DIR": str(data_dir),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    ray.init(
        "local",  # not a cluster that somebody else started on this machine
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        log_to_driver=False,
        runtime_env={"env_vars": environment},
    )
    create_master_key(data_dir / "master.key")
    asyncio.run(_furnished(redis.url))
    name = application_name(APP)
    handle = serve.run(build_recommender({"app_id": APP, "replicas_max": 1}), name=name, route_prefix=None)
    yield RemoteRecommenderClient(handle)
    serve.shutdown()
    ray.shutdown()


async def _furnished(url: str) -> None:
    async with open_stores(url, hot_s=5.0, slow_s=10.0) as stores:
        await furnish(stores)


class TestDedicatedDeployment(ClientSuite):
    patience_s = 3.0

    @pytest.fixture
    async def stores(self, redis: RedisProcess) -> AsyncIterator[Stores]:
        async with open_stores(redis.url, hot_s=5.0, slow_s=10.0) as stores:
            yield stores

    @pytest.fixture
    async def client(self, serving: RemoteRecommenderClient) -> RecommenderClient:
        return serving


def replicas_over(redis_url: str) -> list[psutil.Process]:
    """Find this module's replicas: another Ray on the machine may have one of the same name."""
    replicas = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            title = " ".join(process.cmdline())
            if (
                title.startswith("ray::ServeReplica:")
                and process.environ().get("KIOSK_REDIS_URL") == redis_url
            ):
                replicas.append(process)
    return replicas


async def test_a_killed_replica_comes_back_by_itself(
    serving: RemoteRecommenderClient, redis: RedisProcess
) -> None:
    assert ids(await serving.answer(query()))
    for _ in range(100):  # a process changes its title with each call, and is nameless for an instant
        if replicas := replicas_over(redis.url):
            break
        await asyncio.sleep(0.1)
    (replica,) = replicas
    replica.kill()
    for _ in range(150):
        try:
            result = await asyncio.wait_for(serving.answer(query()), 5)
        except Exception:  # noqa: BLE001 whatever Ray says of a replica that is gone
            await asyncio.sleep(0.1)
        else:
            assert ids(result)
            return
    raise AssertionError("the engine did not come back")
