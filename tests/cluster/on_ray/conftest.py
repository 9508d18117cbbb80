"""One small Ray for the folder, for tests that start actors and tasks of ours on it; it ends after the last of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package")
def local_ray() -> Iterator[None]:
    """A small Ray of this machine, unless the session has one already."""
    import ray

    if ray.is_initialized():
        yield
        return
    # "local": otherwise Ray joins a cluster that `ray start` left a note of on this machine, alive or not
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    yield
    ray.shutdown()
