"""Starting and stopping again and again leaves nothing behind. `KIOSK_CYCLES` says how often; 20 by default."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.process.installation_processes import list_processes

pytestmark = [pytest.mark.drill, pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(3600)]
ROOT = Path(__file__).resolve().parents[2]


def test_cycles_leave_no_process_socket_segment_or_file(tmp_path: Path) -> None:
    places, port = InstallationPaths.from_data_dir(tmp_path / "data"), free_ports(1)[0]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))},
        "KIOSK_DATA_DIR": str(places.data_dir),
    }

    def kiosk(*words: str) -> str:
        command = [sys.executable, "-m", "deployments.cli", *words, "--json"]
        return subprocess.run(
            command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True, timeout=240
        ).stdout

    cycles = int(os.environ.get("KIOSK_CYCLES", "20"))
    before = _traces(places)
    files_after_first: set[str] = set()
    starts, stops = [], []
    for cycle in range(cycles):
        begin = time.monotonic()
        assert json.loads(kiosk("up", "--port", str(port)))["ready"] is True
        starts.append(time.monotonic() - begin)
        begin = time.monotonic()
        kiosk("down")
        stops.append(time.monotonic() - begin)
        assert list_processes(places) == []
        assert _traces(places) == before
        files = {
            str(path.relative_to(places.data_dir)) for path in places.data_dir.rglob("*") if path.is_file()
        }
        files = {name for name in files if not name.startswith("shelf/")}
        files_after_first = files_after_first or files
        assert files == files_after_first, f"cycle {cycle}"
    print(
        f"\nR14: {cycles} cycles, start {min(starts):.1f} to {max(starts):.1f} s, "
        f"stop {min(stops):.1f} to {max(stops):.1f} s, nothing left"
    )


def _traces(places: InstallationPaths) -> dict[str, set[str]]:
    """Everything outside the data directory that a start could leave; other programs' traces are not ours."""
    mark = places.mark
    temp = {name for name in os.listdir("/tmp") if mark in name or name in ("ray", "haproxy-serve")}
    sockets = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if mark in line}
    return {"temp": temp, "shared memory": set(os.listdir("/dev/shm")), "sockets": sockets}
