"""A first start beside ten processes that only compute: it takes longer, says how far it is, and succeeds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.process.installation_processes import list_processes
from tests.suites.busy_machine import busy_machine

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
BURNERS = 10
STAGES = ("starting Redis", "starting Ray", "starting the API replicas", "waiting for the first good answer")


def test_a_first_start_on_a_busy_machine_succeeds_and_reports_progress(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))}
    environment = {**clean, "KIOSK_DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(ROOT)}

    def kiosk(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "deployments.cli", *words]
        return subprocess.run(
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=800, check=False
        )

    try:
        with busy_machine(BURNERS):
            began = time.monotonic()
            started = kiosk("up", "--json", "--port", str(free_ports(1)[0]))
            took_s = time.monotonic() - began
            print(f"\nstart beside {BURNERS} burners: {took_s:.0f} s\n{started.stderr}")
            assert started.returncode == 0, started.stderr
            assert json.loads(started.stdout)["ready"] is True
            status = json.loads(kiosk("status", "--json").stdout)
        assert [part for part in status["parts"] if not part["ok"]] == []
        steps = re.findall(r"^ +(\d+\.\d) s  (.+)$", started.stderr, re.MULTILINE)
        assert [stage for stage in STAGES if any(words.startswith(stage) for _, words in steps)] == list(
            STAGES
        )
        assert [float(seconds) for seconds, _ in steps] == sorted(float(seconds) for seconds, _ in steps)
    finally:
        assert kiosk("down").returncode == 0
    assert list_processes(InstallationPaths.from_data_dir(tmp_path / "data")) == []
