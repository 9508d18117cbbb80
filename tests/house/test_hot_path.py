"""One recommendation stays short: few files, few calls, one cache of the engine's record, one chain of answers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.benchmarks.hot_path import HotPath, count_calls
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores

MOST_FILES = 49
"With stores in memory. With Redis three files more: the recent list, the client and the multiplexer."
MOST_CALLS = 210


async def test_one_recommendation_touches_few_files(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        path = await HotPath.open(tmp_path, stack)
        calls = await count_calls(path)
    assert len(calls) <= MOST_FILES, sorted(calls)
    assert calls.total() <= MOST_CALLS, calls


async def test_router_host_and_model_registry_read_the_record_of_an_engine_once(tmp_path: Path) -> None:
    stores = memory_stores(StillClock())
    reads: list[str] = []
    engines: Any = stores.engines
    read_all = engines.all

    async def read_counted(app_id: str) -> Any:
        reads.append(app_id)
        return await read_all(app_id)

    async def read_one(*names: str) -> Any:
        raise AssertionError(f"a second cache reads the engine {names}")

    async with AsyncExitStack() as stack:
        path = await HotPath.open(tmp_path, stack, stores)
        engines.all, engines.get = read_counted, read_one
        for _ in range(3):
            await path.answer()
    assert reads == ["shop"]
