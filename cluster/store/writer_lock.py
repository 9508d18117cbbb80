"""A lock in Redis for writers of one file, for buckets whose server has no conditional writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import redis
from redis.exceptions import LockError, RedisError

from cluster.errors import Unavailable
from cluster.store import keys

LOCKED_S = 180.0
"Longer than all attempts of one write; a lock of a process that died is free after it."
WAIT_S = 60.0


@contextmanager
def lock_writer(url: str, path: str, *, wait_s: float = WAIT_S) -> Iterator[None]:
    """Exclude other writers of a path of the artifact store.

    Blocks; call it from a thread. A process that stands still for longer than the lock lasts may still write: only
    conditional writes exclude that.

    Errors:
        Unavailable: Redis does not answer, or another process holds the lock for too long
    """
    client = redis.Redis.from_url(url, socket_timeout=5.0, socket_connect_timeout=5.0)
    lock = client.lock(keys.artifact_writer(path), timeout=LOCKED_S, blocking_timeout=wait_s, sleep=0.05)
    try:
        try:
            if not lock.acquire():
                raise Unavailable(f"another process writes {path} for too long", retry_after_s=5)
        except RedisError as error:
            raise Unavailable(
                f"no lock for writing {path}: Redis does not answer", retry_after_s=5
            ) from error
        try:
            yield
        finally:
            with suppress(LockError, RedisError):  # it ends by itself
                lock.release()
    finally:
        client.close()
