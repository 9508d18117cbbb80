"""A Redis that is nearly full: what callers write is refused in time, reads go on, and our own work has room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from cluster.clock import SystemClock
from cluster.machine_memory import machine_memory
from cluster.meter import SilentMeter
from cluster.process.redis_memory import WriteGuard, redis_memory_mb, used_memory_share
from cluster.store.connect import OpenStores
from deployments.operations.insight.installation_checks import check_redis_memory
from tests.fakes.asgi import Answer, call
from tests.fakes.request_handler import open_corner
from tests.suites.redis_process import RedisProcess

pytestmark = pytest.mark.redis


class Gauges(SilentMeter):
    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def gauge(self, name: str, value: float, **tags: str) -> None:
        self.seen[name] = value

    def remove_gauge(self, name: str, **tags: str) -> None:
        self.seen.pop(name, None)


async def test_writes_stop_before_redis_is_full_and_nothing_acknowledged_is_lost(
    private_server: RedisProcess, easy_stores: OpenStores
) -> None:
    stores, meter = easy_stores, Gauges()
    corner = await open_corner(clock=SystemClock(), stores=stores)
    guard = WriteGuard(stores.infos, meter)
    corner.handler._gate.why_no_writes = guard.refusal_reason

    async def send(method: str, path: str, body: Any = None) -> Answer:
        return await call(corner.handler, method, path, headers=corner.headers(), json=body)

    await send("POST", "/v1/products", {"data": [{"product_id": "p1"}]})
    await corner.apply()
    used = int((await stores.info("memory"))["used_memory"])
    private_server.say("CONFIG", "SET", "maxmemory", str(used + (4 << 20)))
    private_server.say("CONFIG", "SET", "maxmemory-policy", "noeviction")
    acknowledged, refused = 0, None
    for at in range(20_000):
        if at % 20 == 0:
            await guard.refresh()
        event = {
            "type": "click",
            "user_id": f"u{at}",
            "product_ids": ["p1"],
            "context": {"region": "x" * 300},
        }
        answer = await send("POST", "/v1/interactions", {"data": [event]})
        if answer.status != 200:
            refused = answer
            break
        acknowledged += 1
    assert refused is not None
    assert refused.status == 503
    assert refused.headers["retry-after"] == "10"
    assert refused.json()["message"].startswith("The memory of the store is 9")
    assert 0.9 <= meter.seen["kiosk_redis_memory_share"] < 1
    print(f"\n{acknowledged:,} writes acknowledged below the bound")

    for method, path, body, status in (
        ("GET", "/v1/products/p1", None, 200),
        ("POST", "/v1/recommendation/user_to_products", {"user_id": "u1"}, 200),
        ("POST", "/v1/search/mget", {"product_ids": ["p1"]}, 200),
        ("GET", "/v1/products/_ids", None, 200),
        ("POST", "/v1/products", {"data": [{"product_id": "p2"}]}, 503),
        ("POST", "/v1/ask/questions", {"question": "x"}, 503),
        ("DELETE", "/v1/users/u1", None, 503),
    ):
        assert (await send(method, path, body)).status == status, path
    logged = await stores.changes.read("shop", {"interaction": "0"}, count=100_000, block_ms=0)
    events = [item for change in logged for item in orjson.loads(change.payload)]
    while logged and len(events) < acknowledged:
        logged = await stores.changes.read(
            "shop", {"interaction": logged[-1].offset}, count=100_000, block_ms=0
        )
        events += [item for change in logged for item in orjson.loads(change.payload)]
    assert [item["user_id"] for item in events] == [f"u{at}" for at in range(acknowledged)]
    assert len(await stores.interactions.recent("shop", [f"u:u{acknowledged - 1}"])) == 1

    # Our own work makes room, also when there is none at all.
    private_server.say("CONFIG", "SET", "maxmemory", "1")
    assert await stores.leases.hold("settle", "one", 60_000)
    assert await stores.leases.hold("settle", "one", 60_000)
    last = await stores.changes.last("shop", "interaction")
    assert await stores.changes.compact("shop", "interaction", last, 1) == acknowledged
    assert (await stores.changes.compacted_offsets("shop"))["interaction"] == last
    private_server.say("CONFIG", "SET", "maxmemory", str(used + (16 << 20)))
    await guard.refresh()
    assert (await send("POST", "/v1/interactions", {"data": [{"type": "click"}]})).status == 200


def test_the_bound_comes_from_the_machine_or_its_container(tmp_path: Path) -> None:
    assert redis_memory_mb(700) == 700
    assert redis_memory_mb(0, total=8 << 30) == 2_048
    assert redis_memory_mb(0, total=512 << 20) == 256
    assert redis_memory_mb(0) >= 256
    whole = machine_memory(tmp_path, tmp_path / "none")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_memory(tmp_path, tmp_path / "none") == whole
    (tmp_path / "memory.max").write_text(f"{256 << 20}\n")
    assert machine_memory(tmp_path, tmp_path / "none") == 256 << 20
    inner = tmp_path / "kiosk.slice" / "one.scope"
    inner.mkdir(parents=True)
    (tmp_path / "memory.max").unlink()
    (inner.parent / "memory.max").write_text(f"{128 << 20}\n")
    named = tmp_path / "cgroup"
    named.write_text("0::/kiosk.slice/one.scope\n")
    assert machine_memory(tmp_path, named) == 128 << 20


@pytest.mark.parametrize(
    ("used", "most", "level"), [(10, 100, "ok"), (80, 100, "warning"), (90, 100, "bad"), (10, 0, "warning")]
)
def test_doctor_reports_the_fill_level(used: int, most: int, level: str) -> None:
    memory = {"used_memory": str(used << 20), "maxmemory": str(most << 20)}
    assert check_redis_memory(memory).level == level
    assert used_memory_share(memory) == (used / most if most else 0)
