"""Drills run against one real installation per module; they take minutes and run on purpose only."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.benchmarks import stack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a drill unless it says it is quick."""
    for item in items:
        if "drills" in item.path.parts:
            item.add_marker(pytest.mark.drill)


@pytest.fixture(scope="module")
def installation() -> Iterator[stack.Stack]:
    """A fresh installation on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with stack.kiosk(port) as running:
        yield running
