"""Restarts of processes are counted by their roles; a process that nothing replaces is none."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from cluster.local.process_restarts import REPLACED_S, ProcessWatch, list_roles


def test_each_killed_process_that_is_replaced_counts_once() -> None:
    watch = ProcessWatch()
    assert watch.find_restarts({1: "api", 2: "intake", 3: "tracker"}, 0) == []
    assert watch.find_restarts({3: "tracker"}, 2) == []
    assert watch.find_restarts({3: "tracker", 4: "intake"}, 4) == ["intake"]
    assert watch.find_restarts({3: "tracker", 4: "intake", 5: "api"}, 6) == ["api"]
    assert watch.find_restarts({4: "intake", 5: "api", 6: "tracker"}, 8) == ["tracker"]
    assert watch.find_restarts({4: "intake", 5: "api", 6: "tracker"}, 10) == []


def test_replicas_that_come_and_go_with_the_load_do_not_count() -> None:
    watch = ProcessWatch()
    watch.find_restarts({1: "api"}, 0)
    assert watch.find_restarts({1: "api", 2: "api"}, 2) == []
    assert watch.find_restarts({1: "api"}, 4) == []
    assert watch.find_restarts({1: "api", 3: "api"}, 4 + REPLACED_S) == []


def test_a_start_of_the_whole_does_not_count() -> None:
    watch = ProcessWatch()
    watch.find_restarts({1: "api"}, 0)
    watch.reset()
    assert watch.find_restarts({2: "api"}, 2) == []


@pytest.mark.usefixtures("allow_world")
def test_a_role_is_read_from_the_title_of_a_process() -> None:
    code = "import sys, time; sys.stdout.write('up'); sys.stdout.flush(); time.sleep(30)"
    with subprocess.Popen(
        ["ray::IntakeHost", "-c", code], executable=sys.executable, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(2)
        roles = list_roles([psutil.Process(process.pid), psutil.Process()])
        process.kill()
    assert roles == {process.pid: "intake"}
