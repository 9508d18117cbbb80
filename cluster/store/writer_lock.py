"""A lease in Redis for writers of one file, for buckets whose server has no conditional writes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cluster.errors import KioskError, Unavailable
from cluster.ids import new_request_id
from cluster.store.connect import open_stores

LOCKED_S = 180.0
"Longer than all attempts of one write; the lease of a process that died ends after it."
WAIT_S = 60.0
_POLL_S = 0.05


@contextmanager
def lock_writer(url: str, path: str, *, wait_s: float = WAIT_S) -> Iterator[None]:
    """Exclude other writers of a path of the artifact store.

    Blocks; call it from a thread without an event loop. A process that pauses for longer than the lease may
    still write: only conditional writes exclude that.

    Errors:
        Unavailable: Redis does not answer, or another process holds the lease for too long
    """
    owner = new_request_id()
    # One loop for each step, because a connection belongs to its loop and the caller's thread has none.
    asyncio.run(_acquire(url, path, owner, wait_s))
    try:
        yield
    finally:
        with suppress(KioskError):  # it ends by itself
            asyncio.run(_release(url, path, owner))


async def _acquire(url: str, path: str, owner: str, wait_s: float) -> None:
    until_s = time.monotonic() + wait_s
    async with open_stores(url, slow_s=5.0, is_serving=False) as stores:
        while not await stores.leases.hold(_lease(path), owner, round(LOCKED_S * 1000)):
            if time.monotonic() >= until_s:
                raise Unavailable(f"another process writes {path} for too long", retry_after_s=5)
            await asyncio.sleep(_POLL_S)


async def _release(url: str, path: str, owner: str) -> None:
    async with open_stores(url, slow_s=5.0, is_serving=False) as stores:
        await stores.leases.release(_lease(path), owner)


def _lease(path: str) -> str:
    return f"artifact:{path}"
