"""Opening the stores of this installation in any process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from cluster.admin.schema import check_schema
from cluster.errors import Fault
from cluster.settings import Settings
from cluster.store.connect import OpenStores, open_stores

T = TypeVar("T")

ADMIN_S = 10.0
"Deadline of administrators' calls in seconds: the server may still be loading."


def connect(settings: Settings | None = None, *, slow_s: float = 2.0, is_serving: bool = False) -> OpenStores:
    """Open the stores named by the environment or by the data directory of this installation.

    `is_serving` means that requests wait for these stores.

    Errors:
        Fault: neither names a Redis
    """
    address = (Settings() if settings is None else settings).redis_address
    if address is None:
        raise Fault("nobody said where Redis is: neither KIOSK_REDIS_URL nor redis.url in the data directory")
    return open_stores(address, slow_s=slow_s, is_serving=is_serving)


def open_actor_stores() -> OpenStores:
    """Open the stores in an actor's own process; actors receive this function instead of an address with a password.

    Whoever awaits or enters the stores gets the error of `check_schema` if this release can't read the data.
    """
    return replace(connect(), check=check_schema)


def open_serving_stores() -> OpenStores:
    """Open the stores in an actor for which requests wait; see `open_actor_stores`."""
    return replace(connect(is_serving=True), check=check_schema)


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result, even inside a running event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # A running loop can't run another one, so a thread with a loop of its own waits for the result.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
