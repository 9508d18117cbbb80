"""Drills run against one real installation per module; they take minutes and run on purpose only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cluster.process.free_ports import free_ports
from tests.benchmarks import stack
from tests.drills.bounds import MISSED, OF_THE_TEXT, Bounds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a drill unless it says it is quick."""
    for item in items:
        if "drills" in item.path.parts:
            item.add_marker(pytest.mark.drill)


@pytest.fixture(scope="module")
def installation() -> Iterator[stack.Stack]:
    """A fresh installation on a free port."""
    with stack.kiosk(free_ports(1)[0]) as running:
        yield running


@pytest.fixture
def bounds(record_property: Callable[[str, object], None]) -> Bounds:
    """Where a drill says what became of the text's bounds."""
    return Bounds(record_property)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every bound of the text that was missed, whether or not its drill passed."""
    reports = [report for some in terminalreporter.stats.values() for report in some]
    lines = {
        line: None
        for report in reports
        for name, line in getattr(report, "user_properties", ())
        if name == OF_THE_TEXT
    }
    missed = [line for line in lines if line.endswith(MISSED)]
    if lines:
        terminalreporter.section(f"bounds of the text: {len(lines) - len(missed)} kept, {len(missed)} missed")
    for line in missed:
        terminalreporter.line(line)
