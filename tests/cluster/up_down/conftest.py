"""One installation for the folder, started as a person starts it: a start takes a minute of two cores.

Its files run in the order of their names. The first one sees the first start, the last one leaves it stopped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from tests.cluster.installed import Installed


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    installed = Installed(
        InstallationPaths.from_data_dir(tmp_path_factory.mktemp("kiosk") / "data"), free_ports(1)[0]
    )
    yield installed
    installed.kiosk("down")


@pytest.fixture(scope="session")
def shared_before() -> set[str]:
    return set(os.listdir("/dev/shm"))


@pytest.fixture(scope="session")
def up(installed: Installed, shared_before: set[str]) -> dict[str, Any]:
    """The first start, and what it said."""
    begin = time.monotonic()
    installation: dict[str, Any] = installed.run_json("up", "--port", str(installed.port))
    print(f"\nstart to first good answer: {time.monotonic() - begin:.1f} s")
    return installation
